"""Data and limits: what was trained on, with which versions, and what the numbers do not show."""

from typing import Any

from brodmann.data.sources.table import SPLITS
from brodmann.reporting.blocks import Code, Fold, Items, Section, Table, Words
from brodmann.reporting.record import Record, Study
from brodmann.text import counted, parameters, percent


def section(study: Study) -> Section | None:
    if not study.runs:
        return None
    blocks: list[Any] = []
    first, *others = study.runs
    blocks += views(first)
    blocks.append(Items(limits(study), "What these numbers do not show"))
    for run in others:
        blocks.append(Fold(f"The same for {run.name}", views(run)))
    return Section("data", "Data, versions, limits", blocks)


def views(run: Record) -> list[Any]:
    start = next(iter(run.entries("start")), {})
    rows = []
    for task, facts in run.provenance.get("data", {}).items():
        sizes = facts.get("sizes", {})
        cut = start.get("tasks", {}).get(task, {}).get("truncated")
        if cut is None:
            cut = run.validation.get(task, {}).get("truncated")
        source = facts.get("source") or "–"
        rows.append(
            (
                task,
                source + (" (generated)" if facts.get("generated") else ""),
                *(f"{sizes[s]:,}" if s in sizes else "–" for s in SPLITS),
                "–" if cut is None else f"{percent(cut)} %",
                "–" if (hard := facts.get("difficulty")) is None else f"{hard:.2f}",
            )
        )
    columns = ("task", "source", "train", "validation", "test", "texts cut", "difficulty")
    caption = (
        "Examples of each split, the share of texts cut at max_length, and how hard a "
        "classification looks from its data alone (classes, their imbalance, word overlap, variety "
        "of words; more is harder)."
    )
    blocks: list[Any] = [Table(columns, rows, caption)]
    notes = [
        (f"{task}: {note}" if not note.startswith(task) else note, "")
        for task, facts in run.provenance.get("data", {}).items()
        for note in facts.get("notes", [])
    ]
    if notes:
        blocks.append(Items(notes, "Notes on the data"))
    blocks.append(Words(_origin(run), "note"))
    blocks.append(Code(run.config_text.strip(), "Configuration"))
    return blocks


def _origin(run: Record) -> str:
    sittings = run.provenance.get("sittings", [])
    words = [f"Seed {run.provenance.get('seed', '?')}"]
    if "total" in run.parameters:
        words.append(parameters(run.parameters))
    if sittings:
        last = sittings[-1]
        words.append(f"began {sittings[0]['started']}")
        words.append(", ".join(f"{name} {v}" for name, v in last["versions"].items()))
        words.append(f"{last['processor'] or last['platform']}, {counted(last['cores'], 'core')}")
        if "precision" in last:
            words.append(f"computed in {last['precision']}")
        if last.get("git"):
            changed = " with local changes" if last["git"]["changed"] else ""
            words.append(f"commit {last['git']['commit'][:12]}{changed}")
        if len(sittings) > 1:
            words.append(f"written in {len(sittings)} sessions")
    words.append(f"configuration {run.provenance.get('fingerprint', '?')[:12]}")
    return " · ".join(words)


def limits(study: Study) -> list[tuple[str, str]]:
    found = [
        (
            "Intervals are over validation examples of one trained model.",
            "another seed is another model: compare several seeds before believing a small gap",
        ),
        (
            "Importance is measured on training examples, D on validation examples.",
            "both describe this model, not the tasks as such",
        ),
    ]
    kept = {run.settings.get("training", {}).get("keep", "best") for run in study.runs}
    if "best" in kept:
        found.append(
            (
                "The model kept is the one with the best validation score.",
                "so validation scores are slightly optimistic; test scores are not",
            )
        )
    return found
