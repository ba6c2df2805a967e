"""Tags beside the right ones: entities found, missed, spurious, of another type or other bounds.

An entity is found if its words and its type are right, as entity F1 counts it. One with the right
words and another type is a confusion of two types. One that overlaps a right one is both missed and
spurious for the scores, and a mistake of bounds in words.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from brodmann.data.judging import NOTHING, Case, Judged, excerpt, unknown
from brodmann.data.metrics import Prediction
from brodmann.data.tag_schemes import entities
from brodmann.data.tasks import Example, TaskSpec
from brodmann.text import listed

Entity = tuple[str, int, int]  # type, first and last word
Pair = tuple[Entity | None, Entity | None]  # a right entity, and the one given in its place

TYPE, BOUNDS, BOTH = "another type", "other bounds", "another type and other bounds"
MISSED, SPURIOUS = "missed", "spurious"
SHOWN = 5  # entities or words of one example


def judge(predictions: Sequence[Prediction], examples: Sequence[Example], spec: TaskSpec) -> Judged:
    """One unit per entity or, if tags mark none, per word."""
    if spec.scheme == "entities":
        return _judge_entities(predictions, examples, spec)
    answers = [[spec.label_places[tag] for tag in found["tags"]] for found in predictions]
    rows = np.repeat(np.arange(len(examples)), [len(tags) for tags in answers])
    truth = np.concatenate([example["tags"] for example in examples]).astype(np.int64)
    answer = np.concatenate(answers).astype(np.int64)
    return Judged(
        unit="word",
        names=spec.label_list,
        example=rows,
        truth=truth,
        answer=answer,
        wrong=np.bincount(rows, truth != answer, minlength=len(examples)),
        sure=unknown(len(examples)),  # predictions have no probabilities of single tags
        certainty=unknown(len(examples)),
    )


def _judge_entities(
    predictions: Sequence[Prediction], examples: Sequence[Example], spec: TaskSpec
) -> Judged:
    names = tuple(dict.fromkeys(tag[2:] for tag in spec.label_list if tag != "O"))
    places = {name: place for place, name in enumerate(names)}
    sure, certainty = unknown(len(examples)), unknown(len(examples))
    wrong = np.zeros(len(examples))
    counted: list[tuple[int, int, int]] = []
    sorts: Counter[str] = Counter()
    for row, (found, one) in enumerate(zip(predictions, examples, strict=True)):
        pairs = paired(_tags(one, spec), found["tags"])
        counted += [(row, *unit) for pair in pairs for unit in units(pair, places)]
        mistakes = [pair for pair in pairs if sort_of(pair)]
        sorts.update(map(sort_of, mistakes))
        wrong[row] = len(mistakes)
        scores = {(e["label"], e["first"], e["last"]): e["score"] for e in found["entities"]}
        certainty[row] = min(scores.values(), default=np.nan)
        sure[row] = max((scores[e] for _, e in mistakes if e is not None), default=np.nan)
    example, truth, answer = np.array(counted, np.int64).reshape(-1, 3).T
    most = dict(sorts.most_common())
    return Judged("entity", names, example, truth, answer, wrong, sure, certainty, most)


def case(prediction: Prediction, example: Example, spec: TaskSpec, text: str) -> Case:
    """The entities or words that differ or, if none does, all entities; `text` is their sentence.

    The words are counted from 1.
    """
    truth, answer = _tags(example, spec), list(prediction["tags"])
    if spec.scheme != "entities":
        places = [place for place, tag in enumerate(truth) if tag != answer[place]]
        sides = [[(tags[place], place, place) for place in places] for tags in (truth, answer)]
    else:
        pairs = paired(truth, answer)
        pairs = [pair for pair in pairs if sort_of(pair)] or pairs
        sides = [[one for pair in pairs if (one := pair[side]) is not None] for side in (0, 1)]
    plain = [listed([_counted(one) for one in side], SHOWN) or "nothing" for side in sides]
    quoted = [
        listed([_quoted(one, example["tokens"]) for one in side], SHOWN) or "nothing"
        for side in sides
    ]
    first = min((one[1] for side in sides for one in side), default=0)
    return Case(plain[0], plain[1], excerpt(text, _letter(example, first)), (quoted[0], quoted[1]))


def _tags(example: Example, spec: TaskSpec) -> list[str]:
    return [spec.label_list[tag] for tag in example["tags"]]


def _counted(one: Entity) -> str:
    label, first, last = one
    words = f"word {first + 1}" if first == last else f"words {first + 1}–{last + 1}"
    return f"{label} ({words})"


def _quoted(one: Entity, tokens: Sequence[str]) -> str:
    label, first, last = one
    return f"{label} “{excerpt(' '.join(tokens[first : last + 1]), letters=60)}”"


def _letter(example: Mapping[str, list[str]], word: int) -> int:
    """Where a word begins in the sentence."""
    if "spans" in example:
        return int(example["spans"][word][0])
    return sum(len(token) + 1 for token in example["tokens"][:word])


def paired(truth: Sequence[str], answer: Sequence[str]) -> list[Pair]:
    """Each right entity with the one that was given in its place, in the order of the words."""
    right, given = entities(truth), entities(answer)
    pairs: list[Pair] = [(one, one) for one in right if one in given]
    left = [one for one in given if one not in right]
    for one in (one for one in right if one not in given):
        near = [other for other in left if other[1] <= one[2] and one[1] <= other[2]]
        # The nearest: the same words, else the same type, else the first that overlaps.
        best = max(near, key=lambda o: (o[1:] == one[1:], o[0] == one[0]), default=None)
        if best is not None:
            left.remove(best)
        pairs.append((one, best))
    pairs += [(None, one) for one in left]
    return sorted(pairs, key=lambda pair: next(one for one in pair if one is not None)[1])


def sort_of(pair: Pair) -> str:
    """The sort of mistake in words; empty if there is none."""
    right, given = pair
    if right is None or given is None:
        return SPURIOUS if right is None else MISSED
    if right == given:
        return ""
    if right[1:] == given[1:]:
        return TYPE
    return BOUNDS if right[0] == given[0] else BOTH


def units(pair: Pair, places: dict[str, int]) -> list[tuple[int, int]]:
    """(right, given) type of what is counted: other bounds are one missed and one spurious."""
    right, given = (NOTHING if one is None else places[one[0]] for one in pair)
    if sort_of(pair) in (BOUNDS, BOTH):
        return [(right, NOTHING), (NOTHING, given)]
    return [(right, given)]
