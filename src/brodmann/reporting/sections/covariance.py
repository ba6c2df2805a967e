"""How the tasks' inputs relate (CovSim), and whether tasks with similar inputs gain by sharing
(Pilault et al. 2021, Figure 6)."""

from typing import Any

from brodmann.reporting.blocks import Block, Matrix, Scatter, Section, Words
from brodmann.reporting.gains import gains, runs_by_arm
from brodmann.reporting.record import Study


def section(study: Study) -> Section | None:
    run = next((run for run in study.runs if "covsim" in run.measures), None)
    if run is None:
        return None
    found = run.measures["covsim"]
    blocks = similarity(found, f", in {run.name}")
    if len(points := gain_points(study)) > 1:
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


def similarity(found: dict[str, Any], where: str = "") -> list[Block]:
    """CovSim of every pair of tasks."""
    matrix = found["covsim"]
    most = max(max(row) for row in matrix) or 1.0
    return [
        Words(
            "CovSim compares the covariance of two tasks' texts as the first layer receives them. "
            "It is not a cosine: even a task compared with itself scores below 1."
        ),
        Matrix(
            found["tasks"],
            found["tasks"],
            matrix,
            f"CovSim (%) of at most {found['examples']:,} texts per task{where}.",
            [[value / most for value in row] for row in matrix],
        ),
    ]


def gain_points(study: Study) -> list[tuple[float, float, str]]:
    """(CovSim, gain in points, task) for each way of training with CovSim, except single-task.

    If there are several ways, each label adds the way to the task's name.
    """
    measured = {
        arm: (run.measures["covsim"], found)
        for arm, run in runs_by_arm(study, "covsim").items()
        if (found := gains(study, arm))
    }
    return [
        (mean, 100 * found[task], task if len(measured) == 1 else f"{task} ({arm})")
        for arm, (similarity, found) in measured.items()
        for task, mean in zip(similarity["tasks"], similarity["mean"], strict=True)
        if task in found
    ]
