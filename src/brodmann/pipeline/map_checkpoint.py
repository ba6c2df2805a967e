"""Map the heads of any classifier of transformers on a labelled file; no training of ours.

A checkpoint (folder or hub id) and a table with texts and labels → `importance.json`,
`pruning-curve.json` and a page with the atlas.
"""

from pathlib import Path
from typing import Any

from brodmann.data.sources.readers import read_file
from brodmann.errors import InputError
from brodmann.files import write_json
from brodmann.measuring.batch_outcomes import BatchOutcomes, BatchTask
from brodmann.measuring.importance import head_importance
from brodmann.measuring.pruning_curve import SHARES, pruning_curve
from brodmann.models.labelled_batches import Columns, labelled_batches
from brodmann.results import HeadScores
from brodmann.training.events import Report

FILE = "importance.json"
CURVE = "pruning-curve.json"
DRAWS = 3  # random choices of heads for every share of the curve


def map_checkpoint(
    name: str,
    data: Path,
    folder: Path,
    report: Report,
    *,
    columns: Columns,
    examples: int | None = 1000,
    seed: int = 0,
    device: str = "auto",
) -> HeadScores:
    """Measure importance and the pruning curve of a checkpoint, and write them to `folder`."""
    from brodmann.models.backbone.classifiers import load_classifier
    from brodmann.models.heads.probes import drawn

    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file, expected a folder to write to")
    table = read_file(data)
    for column in columns.names():
        if column not in table.columns():
            raise InputError(
                f"{data}: no column '{column}', found {', '.join(table.columns())}: "
                "name them with --text, --pair and --label"
            )
    model, tokenizer = load_classifier(name, device)
    rows = [table.rows[int(place)] for place in drawn(len(table.rows), examples, seed)]
    try:
        batches = labelled_batches(model, tokenizer, rows, columns)
    except InputError as error:
        raise InputError(f"{data}: {error}") from None
    task = BatchTask(data.stem, batches)
    total = len(rows) * (1 + len(SHARES) * (1 + DRAWS))
    report("measuring starts", {"what": "mapping heads", "examples": len(rows) + total})

    def progress(items: int) -> None:
        report("measuring goes on", {"items": items})

    scores = head_importance(model, {task.name: batches}, progress=progress)
    scores.settings |= {"model": name, "data": data.name, "examples": len(rows), "seed": seed}
    scores.save(folder / FILE)
    measured = BatchOutcomes(model, [task], None, "float32", progress)
    curve = pruning_curve(measured, scores, draws=DRAWS, seed=seed)
    write_json(folder / CURVE, {"model": name, "data": data.name, **curve})
    _write_page(name, folder, scores, curve)
    report("map", {"scores": scores, "file": folder / FILE, "alpha": 0.3})
    report("pruning curve", {"result": curve, "file": folder / CURVE})
    report("report", {"file": folder / "report.html"})
    return scores


def _write_page(name: str, folder: Path, scores: HeadScores, curve: dict[str, Any]) -> None:
    from brodmann.files import write_text
    from brodmann.reporting.html import page
    from brodmann.reporting.record import Record, Study
    from brodmann.reporting.sections import atlas, pruning

    record = Record(Path(name).name, {}, "", {}, scores=scores, measures={"pruning-curve": curve})
    study = Study(record.name, [record])
    layers, heads = scores.shape
    subtitle = f"{next(iter(curve['tasks']))} · {layers} layers × {heads} heads"
    made = [make(study) for make in (atlas.section, pruning.section)]
    write_text(folder / "report.html", page(study.title, subtitle, [s for s in made if s]))
