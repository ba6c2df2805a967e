"""Notes on what looks wrong with a task's data, or an error if nothing can be learnt.

Pure functions on specifications and examples. They read the examples once and compare hashes, so
that 200,000 of them take a second or two.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from brodmann.data.tasks import TEXT_COLUMNS, Example, TaskSpec, label_name
from brodmann.errors import InputError
from brodmann.files import Array
from brodmann.text import short

FEW = 10  # examples: fewer are a trial, not worth a note
SHARED, SHARED_SHARE = 3, 0.01  # examples of a split that are also in train, and their share
WHOLE_NUMBERS, DECIMALS = 20, 5  # numeric labels: with more values they are not classes
CONTRADICTORY, SEVERAL = 0.001, 0.2  # share of texts with two labels: worth a note; intended
IDENTIFIERS = 0.9  # share of texts that are one "word" with a digit
IDENTIFIER = re.compile(r"\S*\d\S*")
PREFIXED = re.compile(r"([BIOESLU])([^\w\s]|_)(\w.*)|(\w.*)([^\w\s]|_)([BIOESLU])", re.IGNORECASE)

Splits = Mapping[str, Sequence[Example]]


def check_learnable(spec: TaskSpec, examples: Sequence[Example]) -> None:
    """Raise InputError if no model could learn anything from `examples`, before any division."""
    count = len(examples)
    inputs = {_input(example) for example in examples}
    if count >= FEW and len(inputs) == 1:
        raise InputError(
            f"task '{spec.name}': all {count:,} examples have the same input "
            f"({_shown(next(iter(inputs)))}), so nothing can be learnt: check {_columns(spec)}"
        )
    if spec.kind != "classification" or count < FEW:
        return
    labels = Counter(label_name(example["label"]) for example in examples)
    if len(labels) == count:
        first = ", ".join(f"'{name}'" for name in list(labels)[:2])
        numbers = all(map(_is_number, labels))
        hint = ' (they are numbers: use kind = "regression")' if numbers else ""
        raise InputError(
            f"task '{spec.name}': each of its {count:,} examples has a label of its own ({first}, "
            f"…), so nothing can be learnt: is '{spec.columns['label']}' the right column?{hint}"
        )


def suspicions(spec: TaskSpec, splits: Splits) -> list[str]:
    """Notes on a whole task, each beginning with its name."""
    found = [sentence for check in CHECKS for sentence in check(spec, splits)]
    return [f"{spec.name}: {sentence}" for sentence in found]


def shared_examples(spec: TaskSpec, splits: Splits) -> list[str]:
    """Note validation and test examples that are also trained on."""
    trained = {_input(example) for example in splits["train"]}
    found = []
    for split, examples in splits.items():
        if split == "train":
            continue
        count = sum(_input(example) in trained for example in examples)
        if count == len(examples):
            instead = "or leave it out to hold out a tenth" if split == "validation" else ""
            found.append(
                f"every one of its {count:,} {split} examples is also a training example, so their "
                f"scores say nothing about new texts: name another {split} file {instead}".strip()
            )
        elif count >= SHARED and count >= SHARED_SHARE * len(examples):
            found.append(
                f"{count:,} of its {len(examples):,} {split} examples "
                f"({100 * count / len(examples):.0f} %) are also training examples: scores are "
                "better than on new texts"
            )
    return found


def rare_labels(spec: TaskSpec, splits: Splits) -> list[str]:
    """Note labels with too few training examples, or none."""
    counts = _label_counts(spec, splits["train"])
    if counts is None:
        return []
    found = []
    once = int((counts == 1).sum())
    if spec.kind == "classification" and len(counts) > FEW and 2 * once > len(counts):
        found.append(
            f"{once:,} of its {len(counts):,} labels have one training example only: is "
            f"'{spec.columns['label']}' the right column?"
        )
    for split, examples in splits.items():
        there = _label_counts(spec, examples)
        if split == "train" or there is None:
            continue
        new = [spec.label_list[i] for i in np.flatnonzero((there > 0) & (counts == 0))]
        if new and spec.kind == "classification" and len(new) == int((there > 0).sum()):
            known = [spec.label_list[i] for i in np.flatnonzero(counts)]
            raise InputError(
                f"task '{spec.name}': no label of {split} ({_few(new)}) occurs in train "
                f"({_few(known)}): use the same labels in both files"
            )
        if new:
            word = "label occurs" if len(new) == 1 else "labels occur"
            found.append(f"{len(new):,} {word} in {split} but not in train: {_few(new)}")
    return found


def numbers_as_classes(spec: TaskSpec, splits: Splits) -> list[str]:
    """Note numeric labels of a classification that may be a quantity."""
    if spec.kind != "classification" or not all(map(_is_number, spec.label_list)):
        return []
    decimals = any("." in name for name in spec.label_list)
    count = len(spec.label_list)
    if count <= (DECIMALS if decimals else WHOLE_NUMBERS):
        return []
    return [
        f'its {count:,} labels are all numbers: kind = "regression" learns them as values, '
        '"classification" as classes without an order'
    ]


def labels_alike(spec: TaskSpec, splits: Splits) -> list[str]:
    """Note labels that are probably the same."""
    if spec.labels is None:
        return []
    groups = defaultdict(list)
    for name in spec.labels:
        groups["".join(name.casefold().split())].append(name)
    alike = [group for group in groups.values() if len(group) > 1]
    if not alike:
        return []
    more = f" ({len(alike) - 1:,} more such {'pair' if len(alike) == 2 else 'pairs'})"
    more = more if len(alike) > 1 else ""
    names = " and ".join(f"'{name}'" for name in alike[0])
    return [f"the labels {names} differ only in case or spaces but count as different ones{more}"]


def contradictions(spec: TaskSpec, splits: Splits) -> list[str]:
    """Note texts that have different labels."""
    if spec.kind != "classification":
        return []
    labels: dict[Any, set[int]] = defaultdict(set)
    for example in splits["train"]:
        labels[_input(example)].add(example["label"])
    several = [text for text, found in labels.items() if len(found) > 1]
    if not several or len(several) < CONTRADICTORY * len(labels):
        return []
    word = "text has" if len(several) == 1 else "texts have"
    hint = ""
    if len(several) > SEVERAL * len(labels):
        hint = ': if a text may have several labels, use kind = "multilabel", one row per text'
    return [
        f"{len(several):,} training {word} more than one label (for example "
        f"{_shown(several[0])}){hint}"
    ]


def identifiers(spec: TaskSpec, splits: Splits) -> list[str]:
    """Note a column of numbers or codes that is read as text."""
    found = []
    for role in ("text", "text_pair", "question", "context"):
        texts = [example[role] for example in splits["train"] if role in example]
        if role not in spec.columns or len(texts) < FEW:
            continue
        codes = [text for text in texts if IDENTIFIER.fullmatch(text)]
        if len(codes) >= IDENTIFIERS * len(texts) and len(set(codes)) >= IDENTIFIERS * len(codes):
            found.append(
                f"{_columns(spec, role)} looks like identifiers ({_few(codes, 2)}): is "
                f"it the right one for '{role}'?"
            )
    return found


def odd_tags(spec: TaskSpec, splits: Splits) -> list[str]:
    """Note tags that look like entities in an unknown notation."""
    if spec.kind != "tokens" or spec.scheme != "words":
        return []
    marked = [name for name in spec.label_list if name != "O"]
    prefixes = {name[0] for name in marked if name[1:2] == "-"}
    if prefixes and all(name[1:2] == "-" for name in marked):
        if prefixes <= set("BIES"):
            return [
                f'tags such as {_few(marked, 2)} are BIOES: set tag_scheme = "bioes" to score '
                "entities (now: accuracy of words)"
            ]
        names = ", ".join(f"{prefix}-" for prefix in sorted(prefixes - set("BI")))
        return [
            f"tags with {names} follow no known scheme, so words are scored by accuracy: write "
            "B-X and I-X to score entities"
        ]
    looks = [name for name in marked if PREFIXED.fullmatch(name)]
    if looks and 2 * len(looks) >= len(marked):
        odd = [name for name in marked if name[:2] not in ("B-", "I-")]
        return [
            f"tags such as {_few(odd, 2)} follow no known scheme, so words are scored by accuracy: "
            "write B-X and I-X to score entities"
        ]
    if "O" in spec.label_list:
        return [
            f"tags such as {_few(marked, 2)} have no B- or I- before them, so words are scored by "
            "accuracy: write B-X and I-X to score entities"
        ]
    return []


CHECKS: tuple[Callable[[TaskSpec, Splits], list[str]], ...] = (
    shared_examples,
    rare_labels,
    numbers_as_classes,
    labels_alike,
    contradictions,
    identifiers,
    odd_tags,
)


def _input(example: Example) -> Any:
    """The inputs of an example, for comparison with others."""
    values = [example[role] for role in TEXT_COLUMNS if role in example]
    return tuple(tuple(value) if isinstance(value, list) else value for value in values)


def _label_counts(spec: TaskSpec, examples: Sequence[Example]) -> Array | None:
    """Number of examples (for tags: words) per label; None for kinds without labels."""
    if spec.kind == "multilabel":
        return np.asarray(np.array([example["label"] for example in examples]).sum(axis=0))
    if spec.kind == "classification":
        labels = [example["label"] for example in examples]
    elif spec.kind == "tokens":
        labels = list(chain.from_iterable(example["tags"] for example in examples))
    else:
        return None
    return np.bincount(labels, minlength=len(spec.label_list))


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return "_" not in name and name.strip("+-.0123456789eE") == ""


def _columns(spec: TaskSpec, *roles: str) -> str:
    names = [spec.columns[role] for role in roles or TEXT_COLUMNS if role in spec.columns]
    single = [
        name for column in names for name in ([column] if isinstance(column, str) else column)
    ]
    listed = " and ".join(f"'{name}'" for name in single)
    return f"the column{'' if len(single) == 1 else 's'} {listed}"


def _few(names: Sequence[str], most: int = 3) -> str:
    shown = ", ".join(f"'{_short(name)}'" for name in names[:most])
    return shown + (", …" if len(names) > most else "")


def _shown(inputs: Any) -> str:
    """The first of an example's inputs, shortened."""
    first = inputs[0]
    return f"'{_short(first if isinstance(first, str) else ' '.join(first))}'"


def _short(text: str) -> str:
    return short(" ".join(text.split()), 40)
