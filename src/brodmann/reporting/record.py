"""Read run folders for a report: files only, no torch, nothing measured."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from brodmann.analysis.dissociation import clearly_learnt
from brodmann.data.kinds import lower_is_better
from brodmann.data.schema import read_settings
from brodmann.errors import InputError
from brodmann.files import read_json, read_log
from brodmann.measuring.relations import names_of
from brodmann.results import Dissociation, HeadScores, Mistakes
from brodmann.results.of_mistakes import MISTAKES
from brodmann.text import counted

UNSEEN = "not shown because notes may quote texts"

# Files of further stages, each with a section of its own.
MEASURES: tuple[str, ...] = ("covsim", "adaptation", "similarity", "meta")
MEASURES += ("attention-maps", "pruning-curve", "explained", "calibration", "compression")
MEASURES += tuple(f"relevance-{by}" for by in (*names_of("trainings"), *names_of("data")))


@dataclass
class Record:
    """One run; missing parts are None or empty."""

    name: str
    settings: dict[str, Any]
    config_text: str
    provenance: dict[str, Any]
    log: list[dict[str, Any]] = field(default_factory=list)
    splits: dict[str, Any] = field(default_factory=dict)  # split → task → scores
    parameters: dict[str, int] = field(default_factory=dict)
    scores: HeadScores | None = None
    dissociation: Dissociation | None = None
    measures: dict[str, Any] = field(default_factory=dict)  # further measurements, by file
    gates: list[list[float]] | None = None  # the model's own, (layer, head)
    conditioning: dict[str, Any] | None = None  # scores with tasks swapped
    mistakes: Mistakes | None = None
    arm: str = ""  # of the comparison it is part of

    @property
    def tasks(self) -> list[str]:
        return list(self.provenance.get("data", {}))

    @property
    def validation(self) -> dict[str, Any]:
        return dict(self.splits.get("validation", {}))

    @property
    def d_of_other_map(self) -> bool:
        """Whether the heads were mapped again after dissociation was measured."""
        found = self.dissociation
        return found is not None and self.scores is not None and not found.is_of(self.scores)

    def hide_texts(self) -> None:
        """Drop everything that quotes an example."""
        self.measures.pop("explained", None)
        if self.mistakes is not None:
            self.mistakes = self.mistakes.without_texts()
        for facts in self.provenance.get("data", {}).values():
            if facts.get("notes"):
                facts["notes"] = [f"{counted(len(facts['notes']), 'note')} on the data, {UNSEEN}"]

    def entries(self, key: str) -> list[dict[str, Any]]:
        """Lines of the log that have this key."""
        return [entry for entry in self.log if key in entry]


@dataclass
class Study:
    """The subject of one report: a run, several, or a whole comparison or grid."""

    title: str
    runs: list[Record]
    comparison: dict[str, Any] | None = None
    grid: dict[str, Any] | None = None
    transfer: dict[str, Any] | None = None
    notes: list[str] = field(default_factory=list)  # what could not be shown, and why

    @property
    def first(self) -> Record | None:
        return self.runs[0] if self.runs else None


def read_record(folder: Path) -> Record:
    config = folder / "config.toml"
    if not config.is_file():
        raise InputError(f"{folder}: not a run (config.toml is missing)")
    settings = read_settings(config)
    metrics = _read(folder / "metrics.json")
    try:
        for results in metrics.get("splits", {}).values():
            for entry in results.values():
                float(entry["score"]), str(entry["metric"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{folder / 'metrics.json'}: damaged ({error!r})") from None
    scores, dissociation = folder / "importance.json", folder / "dissociation.json"
    mistakes = folder / MISTAKES
    record = Record(
        name=folder.resolve().name,
        settings=settings,
        config_text=config.read_text(encoding="utf-8"),
        provenance=_provenance(folder / "provenance.json"),
        log=read_log(folder / "log.jsonl"),
        splits=metrics.get("splits", {}),
        parameters=metrics.get("parameters", {}),
        gates=metrics.get("gates") or _read(folder / "meta.json").get("gates"),
        conditioning=metrics.get("conditioning"),
        scores=HeadScores.load(scores) if scores.is_file() else None,
        dissociation=Dissociation.load(dissociation) if dissociation.is_file() else None,
        mistakes=Mistakes.load(mistakes) if mistakes.is_file() else None,
        measures={
            name: read_json(folder / f"{name}.json")
            for name in MEASURES
            if (folder / f"{name}.json").is_file()
        },
    )
    _judge_again(record)
    if not settings.get("report", {}).get("texts", True):
        record.hide_texts()
    return record


def _judge_again(record: Record) -> None:
    """Clear tasks that older runs called hardly trained although their intervals say otherwise."""
    for task, entry in record.splits.get("validation", {}).items():
        ends, trivial = entry.get("interval"), entry.get("trivial")
        if trivial is None or not clearly_learnt(
            ends, trivial, lower=lower_is_better(entry["metric"])
        ):
            continue
        entry.pop("undertrained", None)
        if record.dissociation is not None:
            record.dissociation.undertrained.pop(task, None)


def _provenance(path: Path) -> dict[str, Any]:
    found = _read(path, data=dict)
    return _read(path, sittings=list) if "sittings" in found else found


def _read(path: Path, **expected: type) -> dict[str, Any]:
    return read_json(path, **expected) if path.is_file() else {}
