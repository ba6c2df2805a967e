"""What the labelled rows show before any training: sizes, language, repeats, leaks, labels.

Two tasks are duplicates if most texts of the smaller one are in the other and their labels agree up
to other names. Agreement is counted on texts, so that another order of rows hides nothing.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import median
from typing import Any

import numpy as np

from brodmann.advising.data_parts import CHOOSING, REPORTING, Parts, text_key
from brodmann.data.kinds import KINDS
from brodmann.data.tasks import Example, Task
from brodmann.files import digest

SAME_TEXTS = 0.5  # share of the smaller task's texts, from which two tasks are compared
SAME_LABELS = 0.95  # agreement of the labels of common texts, from which they are duplicates
RARE = 10  # training examples of a label: fewer are worth a note
UNBALANCED = 0.9  # share of the most frequent label, from which it is worth a note
FREQUENT = {  # words that a text of some length has in this language and hardly in another
    "en": "the of and to is that it was for with",
    "de": "der die und das ist nicht ein mit den auf",
    "fr": "le la les et des est une dans que pas",
    "es": "el la los que en una por con del las",
    "it": "il di che la per una con non sono della",
    "nl": "de het een van en dat niet is op te",
    "pt": "que não uma para com os do da em por",
}
SCRIPTS = {
    "Cyrillic": ("\u0400", "\u04ff"),
    "Greek": ("\u0370", "\u03ff"),
    "Arabic": ("\u0600", "\u06ff"),
    "Hebrew": ("\u0590", "\u05ff"),
    "Devanagari": ("\u0900", "\u097f"),
    "Hangul": ("\uac00", "\ud7af"),
    "Kana": ("\u3040", "\u30ff"),
    "Han": ("\u4e00", "\u9fff"),
}


def examine_tasks(parts: Parts) -> dict[str, Any]:
    """Facts per task, pairs of tasks that share texts, and duplicates (copy → original)."""
    tasks = {task.name: _facts(task, parts.left_out.get(task.name, 0)) for task in parts.tasks}
    targets = {task.name: _targets_by_text(task) for task in parts.tasks}
    pairs = [
        found
        for one, other in combinations(parts.tasks, 2)
        if (found := _common_texts(one, other, targets[one.name], targets[other.name])) is not None
    ]
    copies: dict[str, str] = {}
    for pair in pairs:
        if pair["duplicate"] and pair["tasks"][0] not in copies:
            copies[pair["tasks"][1]] = pair["tasks"][0]
    return {"tasks": tasks, "pairs": pairs, "copies": copies}


def _facts(task: Task, left_out: int) -> dict[str, Any]:
    every = [example for examples in task.splits.values() for example in examples]
    texts = Counter(text_key(example) for example in every)
    counts = _label_counts(task)
    return {
        "kind": task.spec.kind,
        "examples": {
            "train": len(task.splits["train"]),
            "choose": len(task.splits[CHOOSING]),
            "report": len(task.splits[REPORTING]),
        },
        "language": language_of(list(texts)[:2000]),
        "words": int(median(len(key.split()) for key in texts)),
        "labels": counts,
        "notes": _notes(task, every, texts, counts, left_out),
    }


def _notes(
    task: Task,
    every: Sequence[Example],
    texts: Mapping[str, int],
    counts: Mapping[str, int],
    left_out: int,
) -> list[str]:
    found = []
    whole = Counter(digest(_inputs(task, example)) for example in every)
    repeated = sum(count - 1 for count in whole.values())
    if repeated:
        found.append(f"{repeated:,} of {len(every):,} rows repeat an input")
    if doubted := _contradictions(task, every):
        found.append(f"{doubted:,} inputs have different labels in different rows")
    if left_out:
        found.append(f"{left_out:,} rows left out: their text is in another split or held-out set")
    rare = [name for name, count in counts.items() if count < RARE]
    if rare:
        names = ", ".join(f"'{name:.30}'" for name in rare[:3]) + (", …" if len(rare) > 3 else "")
        found.append(
            f"{len(rare)} of {len(counts)} labels have fewer than {RARE} examples: {names}"
        )
    total = sum(counts.values())
    if task.spec.kind == "classification" and max(counts.values()) > UNBALANCED * total:
        name = max(counts, key=lambda one: counts[one])
        found.append(f"{100 * counts[name] / total:.0f} % of its examples have the label '{name}'")
    return found


def _label_counts(task: Task) -> dict[str, int]:
    """Training examples (for tags: words) per label; empty for kinds without labels."""
    spec, train = task.spec, task.splits["train"]
    if spec.kind == "classification":
        places = Counter(example["label"] for example in train)
    elif spec.kind == "multilabel":
        sums = np.array([example["label"] for example in train]).sum(axis=0)
        return {name: int(count) for name, count in zip(spec.label_list, sums, strict=True)}
    elif spec.kind == "tokens":
        places = Counter(tag for example in train for tag in example["tags"])
    else:
        return {}
    return {name: places[place] for place, name in enumerate(spec.label_list)}


def _inputs(task: Task, example: Example) -> dict[str, Any]:
    targets = (*KINDS[task.spec.kind].TARGETS, "answers", "right")
    return {key: value for key, value in example.items() if key not in targets}


def _target(task: Task, example: Example) -> str:
    inputs = _inputs(task, example)
    return digest({key: value for key, value in example.items() if key not in inputs})


def _contradictions(task: Task, every: Sequence[Example]) -> int:
    if task.spec.kind in ("span", "regression"):  # several answers and near values are usual
        return 0
    found: dict[str, set[str]] = defaultdict(set)
    for example in every:
        found[digest(_inputs(task, example))].add(_target(task, example))
    return sum(len(targets) > 1 for targets in found.values())


def _common_texts(one: Task, other: Task, *tables: Mapping[str, str]) -> dict[str, Any] | None:
    """How many texts two tasks share, and whether their labels agree there."""
    common = sorted(set(tables[0]) & set(tables[1]))
    share = len(common) / min(len(tables[0]), len(tables[1]))
    if not common:
        return None
    agreement = None
    if one.spec.kind == other.spec.kind:
        pairs = [(tables[0][key], tables[1][key]) for key in common]
        agreement = min(_mapped(pairs), _mapped([(b, a) for a, b in pairs]))
    same = share >= SAME_TEXTS and agreement is not None and agreement >= SAME_LABELS
    return {
        "tasks": [one.name, other.name],
        "common": len(common),
        "share": share,
        "agreement": agreement,
        "duplicate": bool(same and len({tables[0][key] for key in common}) > 1),
    }


def _targets_by_text(task: Task) -> dict[str, str]:
    every = [example for examples in task.splits.values() for example in examples]
    return {digest(_texts(task, example)): _target(task, example) for example in every}


def _texts(task: Task, example: Example) -> list[str]:
    found = []
    for value in _inputs(task, example).values():
        text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
        found.append(" ".join(text.casefold().split()))
    return sorted(found)


def _mapped(pairs: Sequence[tuple[str, str]]) -> float:
    """Share of the pairs that the best renaming of the first labels explains."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for a, b in pairs:
        counts[a][b] += 1
    return sum(max(own.values()) for own in counts.values()) / len(pairs)


def language_of(texts: Sequence[str]) -> str:
    """The language that the most frequent words suggest, a script, or "unknown"."""
    letters = [c for text in texts[:300] for c in text if c.isalpha()]
    if not letters:
        return "unknown"
    for name, (first, last) in SCRIPTS.items():
        if sum(first <= c <= last for c in letters) > 0.4 * len(letters):
            return name
    words = Counter(word for text in texts for word in text.split())
    total = sum(words.values())
    shares = {
        language: sum(words[word] for word in listed.split()) / total
        for language, listed in FREQUENT.items()
    }
    best = max(shares, key=lambda language: shares[language])
    rest = max(share for language, share in shares.items() if language != best)
    return best if shares[best] > 0.04 and shares[best] > 1.3 * rest else "unknown"
