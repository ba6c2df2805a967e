"""What a model gets wrong, task by task: `Mistakes`."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from brodmann.errors import InputError, did_you_mean
from brodmann.files import Document, read_json, write_json
from brodmann.results.frames import need_pandas
from brodmann.results.inline import table
from brodmann.text import NOTHING, counted, percent

if TYPE_CHECKING:
    import pandas

MISTAKES = "mistakes.json"  # of a run folder

Part = Literal["mistakes", "uncertain", "suspects", "labels", "confusions"]
CASES = ("mistakes", "uncertain", "suspects")  # parts that list examples
FORM: dict[str, type | tuple[type, ...]] = {
    "kind": str,
    "unit": str,
    "examples": int,
    "wrong": (int, type(None)),
    "numbers": (dict, type(None)),
    "matrix": (dict, type(None)),
    "sorts": dict,
    "suspects_in_all": (int, type(None)),
    "confusions_in_all": int,
    "labels_in_all": int,
    **dict.fromkeys((*CASES, "labels", "confusions"), list),
}


CASE = frozenset(("row", "truth", "answer", "wrong", "sure", "certainty"))
KEYS: dict[str, AbstractSet[str]] = {  # of each entry of a list, or of a document
    **dict.fromkeys(CASES, CASE),
    "labels": {"label", "precision", "recall", "f1", "support", "given"},
    "confusions": {"truth", "answer", "count"},
    "matrix": {"labels", "counts", "shown", "of"},
    "numbers": {"mean_absolute_error", "median_absolute_error", "fifths"},
}


@dataclass(repr=False)
class Mistakes:
    """Mistakes on the validation examples of each task, scores of labels, suspected label errors.

    `tasks` has one document per task. Its lists are cut; `…_in_all` and `wrong` count everything.
    A row is the place of an example in its split, counted from 0.
    """

    tasks: dict[str, Document]

    def without_texts(self) -> "Mistakes":
        """The same with rows, labels and numbers alone."""
        bare = {
            task: {
                **found,
                **{part: [_without(case, "texts") for case in found[part]] for part in CASES},
            }
            for task, found in self.tasks.items()
        }
        return Mistakes(bare)

    def rows(self, part: Part = "mistakes") -> list[Document]:
        """One dict per listed example, label or confusion of all tasks."""
        if part not in get_args(Part):
            raise InputError(f"mistakes: no part '{part}'{did_you_mean(part, get_args(Part))}")
        of_part = _case_row if part in CASES else _label_row if part == "labels" else dict
        return [
            {"task": task, **of_part(entry)}
            for task, found in self.tasks.items()
            for entry in found[part]
        ]

    def to_frame(self, part: Part = "mistakes") -> "pandas.DataFrame":
        """A pandas table of one part.

        "mistakes" (the most confident ones first), "uncertain" (the least certain answers),
        "suspects" (suspected label errors), "labels" (their scores) or "confusions".
        """
        found: pandas.DataFrame = need_pandas().DataFrame(self.rows(part))
        return found

    def __repr__(self) -> str:
        words = [f"{task} {_summary(found)}" for task, found in self.tasks.items()]
        return f"Mistakes({'; '.join(words)})"

    def _repr_html_(self) -> str:
        columns = ["task", "wrong", "examples", "% wrong", "suspected labels"]
        rows = []
        for task, found in self.tasks.items():
            wrong, examples = found["wrong"], found["examples"]
            share = NOTHING if wrong is None else percent(wrong / examples)
            numbers = (NOTHING if wrong is None else f"{wrong:,}", f"{examples:,}", share)
            suspects = found["suspects_in_all"]
            rows.append([task, *numbers, NOTHING if suspects is None else f"{suspects:,}"])
        return table(columns, rows, "to_frame() lists the mistakes, to_frame('labels') the labels")

    def save(self, path: str | Path) -> None:
        write_json(Path(path), {"tasks": self.tasks})

    @classmethod
    def load(cls, path: str | Path) -> "Mistakes":
        tasks = read_json(Path(path), tasks=dict)["tasks"]
        for found in tasks.values():
            if not _is_whole(found):
                raise InputError(f"{path}: damaged: `brodmann evaluate` writes it again")
        return cls(tasks)


def _is_whole(found: Any) -> bool:
    """Whether a document has everything that pages and tables read."""
    if not isinstance(found, dict) or not FORM.keys() <= found.keys():
        return False
    if not all(isinstance(found[key], form) for key, form in FORM.items()):
        return False
    for name, keys in KEYS.items():
        entries = found[name] if isinstance(found[name], list) else [found[name]]
        for entry in entries:
            if entry is not None and not (isinstance(entry, dict) and keys <= entry.keys()):
                return False
    return True


def _summary(found: dict[str, Any]) -> str:
    if found["wrong"] is None:
        return f"is off by {found['numbers']['mean_absolute_error']:.3g} on average"
    return f"{found['wrong']:,} of {counted(found['examples'], 'example')}"


def _without(case: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in case.items() if name != key}


def _case_row(case: dict[str, Any]) -> dict[str, Any]:
    """A listed example with its text, if it is known, and the answers in the words of the text."""
    return {**_without(case, "texts"), **case.get("texts", {})}


def _label_row(entry: dict[str, Any]) -> dict[str, Any]:
    """Scores of a label with both ends of their intervals."""
    row: dict[str, Any] = {"label": entry["label"]}
    for name in ("precision", "recall", "f1"):
        value, low, high = entry[name] or (None, None, None)
        row |= {name: value, f"{name}_low": low, f"{name}_high": high}
    return {**row, "support": entry["support"], "given": entry["given"]}
