"""Whether an encoder that knows its task uses that knowledge: scores with tasks swapped."""

from brodmann.reporting.blocks import Section, Table, Words
from brodmann.reporting.record import Study
from brodmann.text import capital, conditioning, percent, points


def section(study: Study) -> Section | None:
    blocks: list[Words | Table] = []
    for run in study.runs:
        worth = run.conditioning
        if worth is None:
            continue
        name = f"{run.name}: " if len(study.runs) > 1 else ""
        blocks.append(Words(f"{name}{capital(conditioning(worth))}."))
        rows = [
            (
                task,
                percent(run.validation[task]["score"]),
                percent(sum(values) / len(values)),
                points(worth["lost"][task]),
            )
            for task, values in worth["exchanged"].items()
            if task in run.validation
        ]
        caption = (
            "Validation scores as trained, and with the encoder told that the text belongs to "
            f"another task (mean over {len(next(iter(worth['exchanged'].values())))} swaps). "
            "Each task keeps its own output head."
        )
        blocks.append(Table(("task", "own task", "another task", "lost"), rows, caption))
    return Section("conditioning", "Is the conditioning used?", blocks) if blocks else None
