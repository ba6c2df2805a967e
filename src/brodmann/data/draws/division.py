"""Divide: hold out a validation set from the training examples if a task has none.

`data/draws/holdout.py` decides which rows of a table are held out.
"""

from typing import Any

from brodmann.data.draws.holdout import HeldOut, hold_out
from brodmann.data.resolving import Request
from brodmann.data.sources.table_rows import Split
from brodmann.data.tasks import TEXT_COLUMNS, Example
from brodmann.errors import InputError
from brodmann.files import digest
from brodmann.text import counted


def divide(
    splits: dict[str, Split], request: Request, held_out: HeldOut, seed: int, notes: list[str]
) -> dict[str, Split]:
    """The splits with a validation set, and a note on how the training examples were divided."""
    if "validation" in splits:
        return splits
    task, whole = request.name, splits["train"]
    held = _held_lines(whole, request, held_out, seed)
    train, validation = _divide_rows(whole, held, task)
    train, left_out = _without_inputs_of(validation, train, (*request.kind.TARGETS, "answers"))
    if left_out > len(train.rows):
        raise InputError(
            f"task '{task}': no validation set can be held out: {left_out:,} of "
            f"{len(whole.rows):,} examples have an input that is also in it (the rows differ in "
            "columns that the task does not read): set a 'validation' file"
        )
    notes.append(
        f"{task}: no validation split: {len(validation.rows):,} of {len(whole.rows):,} "
        f"training examples held out (stratified, seed {seed})"
    )
    if left_out:
        text = (
            f"{left_out:,} training examples left out because their input is held out in other rows"
        )
        notes.append(f"{task}: {text}")
    return {**splits, "train": train, "validation": validation}


def _held_lines(whole: Split, request: Request, held_out: HeldOut, seed: int) -> set[Any]:
    """Held-out lines of the table: the same for every task over it."""
    root, share = whole.table.root or whole.table, request.description.validation_share
    sets = {
        whole.table.lines[row]: example["set"]
        for row, example in zip(whole.rows, whole.examples, strict=True)
        if "set" in example
    }
    if sets:  # sets stay whole, whatever their rows' texts
        return hold_out(root, share, seed, sets)
    return held_out.rows(root, share, seed, request.name)


def _divide_rows(split: Split, held: set[Any], task: str) -> tuple[Split, Split]:
    """Split into (train, validation)."""
    out = [i for i, row in enumerate(split.rows) if split.table.lines[row] in held]
    kept = sorted(set(range(len(split.rows))) - set(out))
    if not kept or not out:
        texts = {tuple(str(one.get(column)) for column in TEXT_COLUMNS) for one in split.examples}
        alike = f" with {len(texts)} different texts" if len(texts) < len(split.rows) else ""
        raise InputError(
            f"task '{task}': {counted(len(split.rows), 'example')}{alike} "
            f"{'is' if len(split.rows) == 1 else 'are'} too few to hold out a "
            "validation set: provide more, or set a 'validation' file"
        )
    return split.only(kept), split.only(out)


def _without_inputs_of(
    validation: Split, train: Split, targets: tuple[str, ...]
) -> tuple[Split, int]:
    """The training examples whose input is not held out, and the number left out.

    Rows are divided by the longest text of the table; a task that does not read that column may
    find one input in several rows.
    """

    def key(example: Example) -> str:
        own = {k: v for k, v in example.items() if k not in targets}
        return digest(example.get("set", example.get("parallel", own)))

    judged = {key(example) for example in validation.examples}
    kept = [i for i, example in enumerate(train.examples) if key(example) not in judged]
    return train.only(kept), len(train.rows) - len(kept)
