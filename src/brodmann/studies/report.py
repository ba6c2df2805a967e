"""The last stage: write `report.html` and `figures/*.svg` from run folders. Nothing is measured.

Reads a run, several runs (which are then compared), or the folder of a comparison, a grid or a
transfer study. No torch is loaded.
"""

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

from brodmann.errors import InputError
from brodmann.files import read_json, write_bytes, write_text
from brodmann.reporting.html import page
from brodmann.reporting.record import Record, Study, read_record
from brodmann.reporting.sections import sections
from brodmann.results import USUAL_ALPHA
from brodmann.text import counted
from brodmann.training.events import Report, silent

FILE = "report.html"
MARK = b'<meta name="generator" content="Brodmann">'  # in the head of every page
STUDIES = ("comparison.json", "grid.json", "transfer.json")


def report_on(
    folders: list[Path], report: Report, *, to: Path | None = None, texts: bool = True
) -> Path:
    """Write the page and the figures beside it; return the page's path.

    Without `texts`, no example is quoted, whatever the runs' settings allow.
    """
    study = read_study(folders, report)
    if not texts:
        hide_texts(study)
    parts = sections(study)
    if [part.name for part in parts] in ([], ["data"]) or _nothing_done(study):
        raise InputError(f"{folders[0]}: nothing to report yet: `brodmann run` it first")
    place = (to or folders[0] / FILE).resolve()
    if place.is_dir():
        place = place / FILE
    if to is not None:
        check_page(place)
    figures = "figures" if to is None else f"{place.stem}-figures"
    write_text(place, page(study.title, subtitle(study), parts))
    write_figures(study, place.parent / figures)
    report("report", {"file": place})
    return place


def hide_texts(study: Study) -> None:
    for run in study.runs:
        run.hide_texts()


def check_page(place: Path) -> None:
    """Raise InputError unless the file is new or an older page of ours."""
    if not place.exists():
        return
    if not place.is_file() or MARK not in place.read_bytes()[:2000]:
        raise InputError(f"{place}: already exists and is not a Brodmann report: name another file")


def write_figures(study: Study, folder: Path) -> None:
    """Draw the first run's map and dissociation as figures for a paper."""
    from brodmann.reporting.figures import plot, save

    run = study.first
    if run is None or (run.scores is None and run.dissociation is None):
        return
    alpha = run.dissociation.alpha if run.dissociation else USUAL_ALPHA
    for name, result in (("heads", run.scores), ("dissociation", run.dissociation)):
        if result is not None:
            picture = io.BytesIO()
            save(plot(result, alpha=alpha), picture)
            write_bytes(folder / f"{name}.svg", picture.getvalue())


def _nothing_done(study: Study) -> bool:
    return bool(study.runs) and not any(
        run.log or run.splits or run.scores or run.measures for run in study.runs
    )


def read_study(folders: list[Path], report: Report) -> Study:
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"{folder}: no such folder, expected a run or a study")
    first = folders[0]
    is_study = any((first / name).is_file() for name in STUDIES)
    if len(folders) == 1 and (is_study or not (first / "config.toml").is_file()):
        return _read_study_folder(first)
    grids = [folder for folder in folders if _is_grid(folder)]
    if len(grids) > 1:
        raise InputError(f"{grids[1]}: a second grid: expected at most one beside the runs")
    folders = [folder for folder in folders if folder not in grids]
    runs = [read_record(folder) for folder in folders]
    names = [run.name for run in runs]
    for run, folder in zip(runs, folders, strict=True):
        if names.count(run.name) > 1:  # a repeated name would hide a run
            run.name = str(folder)
    study = Study(" · ".join(run.name for run in runs), runs)
    if grids:
        study.grid = read_json(grids[0] / "grid.json")
    if len(folders) > 1:
        study.comparison = _compared(folders, study, report)
    return study


def _is_grid(folder: Path) -> bool:
    """Whether the folder holds a grid rather than a single run."""
    return (folder / "grid.json").is_file() and not (folder / "config.toml").is_file()


def _read_study_folder(folder: Path) -> Study:
    found = {name: read_json(folder / name) for name in STUDIES if (folder / name).is_file()}
    if not found:
        raise InputError(
            f"{folder}: neither a run (config.toml) nor a finished study ({', '.join(STUDIES)}); "
            "for an unfinished study, name its runs, with --out"
        )
    comparison = found.get("comparison.json")
    return Study(
        folder.resolve().name,
        [] if comparison is None else _arm_runs(folder, comparison),
        comparison,
        found.get("grid.json"),
        found.get("transfer.json"),
    )


def _arm_runs(folder: Path, comparison: dict[str, Any]) -> list[Record]:
    """The first seed of each arm, baseline first; single encoders have no map."""
    arms = comparison["arms"]
    order = sorted(arms, key=lambda arm: arm != comparison["baseline"])
    found = []
    for arm in order:
        place = folder / arms[arm]["runs"][0]
        if place.is_dir():
            found.append(replace(read_record(place), arm=arm))
    return found


def _compared(folders: list[Path], study: Study, report: Report) -> dict[str, Any] | None:
    """Compare the runs if possible; otherwise note the reason."""
    from brodmann.studies.compare import compare_runs, grouped

    try:
        arms = grouped(folders)
        if len(arms) < 2:
            study.notes.append("The runs differ only in their seed: there is nothing to compare.")
            return None
        result = compare_runs(arms, silent)
    except InputError as error:
        study.notes.append(f"The runs could not be compared: {error}")
        report("note", {"text": f"not compared: {error}"})
        return None
    for run, folder in zip(study.runs, folders, strict=True):
        run.arm = next(arm for arm, members in arms.items() if folder in members)
    return result


def subtitle(study: Study) -> str:
    run = study.first
    if run is None:
        return ""
    adaptation = run.measures.get("adaptation", {})
    model = run.settings.get("model") or adaptation  # an adapted run uses its start's model
    old = len(adaptation.get("old", {}).get("before", ()))
    kind = "new task" if adaptation else "task"
    words = [counted(len(run.tasks), kind) + (f" beside {counted(old, 'old one')}" if old else "")]
    if "backbone" in model:
        words.append(f"{model['backbone']} ({model.get('architecture', 'shared')})")
    if run.scores is not None:
        words.append(f"{run.scores.shape[0]} layers × {run.scores.shape[1]} heads")
    if "seed" in run.provenance:
        words.append(f"seed {run.provenance['seed']}")
    sittings = run.provenance.get("sittings")
    if sittings:
        words.append(sittings[-1]["started"][:10])
    return " · ".join(words)
