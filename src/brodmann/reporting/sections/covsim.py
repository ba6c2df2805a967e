"""How the tasks' inputs relate (CovSim), and whether those that are alike gain by sharing
(Pilault et al. 2021, Figure 6)."""

from typing import Any

from brodmann.reporting.blocks import Matrix, Scatter, Section, Words
from brodmann.reporting.findings import single_differences
from brodmann.reporting.record import Study


def section(study: Study) -> Section | None:
    run = next((run for run in study.runs if "covsim" in run.measures), None)
    if run is None:
        return None
    found = run.measures["covsim"]
    text = (
        "CovSim compares the covariance of two tasks' texts as the first layer receives them. It "
        "is not a cosine: a task with itself stays below 1."
    )
    matrix = found["covsim"]
    most = max(max(row) for row in matrix) or 1.0
    blocks: list[Any] = [
        Words(text),
        Matrix(
            found["tasks"],
            found["tasks"],
            matrix,
            f"CovSim (%) of {found['examples']:,} texts a task at most, in {run.name}.",
            [[value / most for value in row] for row in matrix],
        ),
    ]
    gains = single_differences(study.comparison)
    points = [
        (mean, 100 * gains[task][0], task)
        for task, mean in zip(found["tasks"], found["mean"], strict=True)
        if task in gains
    ]
    if len(points) > 1:
        blocks.append(
            Scatter(
                points,
                "CovSim with the other tasks (mean)",
                "gain by sharing (points)",
                "Does a task gain more from tasks whose inputs are like its own? Score gain of "
                "multi-task over single-task training against CovSim.",
            )
        )
    return Section("relations", "How the tasks' inputs relate", blocks)
