"""Token labelling: one tag per word (entities, parts of speech).

Words are joined by single spaces and tokenised as ordinary text, so that this task reads the same
ids as a classification of the same text; pieces find their word by character position. The first
piece of a word carries its tag. Long texts are read in overlapping windows; every word counts in
the first window that has it. Loss: mean cross-entropy over the tagged words of an item.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from brodmann.data import tag_mistakes
from brodmann.data.answering.decisions import TRIED_SHARES, USUAL, Decisions, softmax
from brodmann.data.encoding import IGNORED, Encoded, Tokenizer, flatten, in_pieces
from brodmann.data.judging import Case, Judged
from brodmann.data.metrics import Metric, Prediction, of_tags
from brodmann.data.sampling import entropy as entropies
from brodmann.data.tag_schemes import bio_labels, entities, to_bio
from brodmann.data.tasks import (
    Example,
    TaskSpec,
    is_text,
    label_index,
    label_name,
    label_names,
    listed,
    scalar_label,
)
from brodmann.errors import InputError
from brodmann.files import Array

if TYPE_CHECKING:
    from torch import Tensor

HEAD = "tokens"
REQUIRED = ("tokens", "tags")
OPTIONAL = ()
TARGETS = ("tags",)
METRICS: dict[str, Metric] = {
    "accuracy": of_tags.accuracy,
    "macro_f1": of_tags.macro_f1,
    "entity_f1": of_tags.entity_f1,
    "entity_precision": of_tags.entity_precision,
    "entity_recall": of_tags.entity_recall,
}
WEIGHTED_CLASSES = True

ENTITY = "entity"  # name of the threshold


def read(row: Mapping[str, Any], spec: TaskSpec, labelled: bool) -> Example:
    words = listed(row["tokens"], "tokens", None)
    if not words:
        raise InputError("tokens: expected at least one word, found none")
    for word in words:
        odd = word is None or isinstance(word, list | dict | bytes) or word == ""
        if odd or not is_text(str(word)):
            raise InputError(f"tokens: expected words, found {word!r:.60}")
    example: Example = {"tokens": [str(word) for word in words]}
    if "spans" in row:  # the words' positions in the raw text
        example["spans"] = row["spans"]
        example["text"] = row["text"]
    if labelled:
        tags = [scalar_label(tag, "tags") for tag in listed(row["tags"], "tags", None)]
        if len(tags) != len(words):
            raise InputError(
                f"{len(words)} tokens but {len(tags)} tags, expected one tag per token"
            )
        example["tags"] = tags
        if spec.tag_scheme:
            example["tags"] = to_bio([tag_name(tag, spec) for tag in tags], spec.tag_scheme)
    return example


def tag_name(tag: Any, spec: TaskSpec) -> str:
    """A tag as a name, if the data gives its index among the task's labels."""
    if spec.labels is None or label_name(tag) in spec.labels:
        return label_name(tag)
    return spec.labels[label_index(tag, spec)]


def settle(spec: TaskSpec, splits: Mapping[str, Sequence[Example]]) -> TaskSpec:
    if spec.labels is not None:
        spec = replace(spec, labels=_tag_names(spec.labels, spec, splits))
    labels = spec.labels or _with_outside_first(
        label_names(
            tag for examples in splits.values() for example in examples for tag in example["tags"]
        )
    )
    if len(labels) < 2:
        raise InputError(
            f"task '{spec.name}': every word has the tag '{labels[0]}', expected at least two"
        )
    marked = [label for label in labels if label != "O"]
    entity = bool(marked) and all(label[:2] in ("B-", "I-") for label in marked)
    return replace(spec, labels=labels, scheme="entities" if entity else "words")


def _tag_names(
    labels: tuple[str, ...], spec: TaskSpec, splits: Mapping[str, Sequence[Example]]
) -> tuple[str, ...]:
    """The BIO tags that given labels stand for; character spans are labelled without B- and I-."""
    if "O" not in labels and any("spans" in one for found in splits.values() for one in found):
        return bio_labels(f"B-{label}" for label in labels)
    return bio_labels(labels) if spec.tag_scheme else labels


def _with_outside_first(labels: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(labels, key=lambda label: (label != "O", label[2:], label)))


def target(example: Example, spec: TaskSpec) -> Example:
    return {**example, "tags": [label_index(tag, spec) for tag in example["tags"]]}


def as_row(example: Example, spec: TaskSpec) -> Example:
    tags = [spec.label_list[tag] for tag in example["tags"]]
    if "spans" not in example:
        return {**example, "tags": tags}
    places = example["spans"]
    marked = [
        {"start": places[first][0], "end": places[last][1], "label": label}
        for label, first, last in entities(tags)
    ]
    return {"tokens": example["text"], "tags": marked}


def strata(examples: Sequence[Example], spec: TaskSpec) -> list[Any]:
    """Whether anything is tagged: enough to give both sides examples of each sort."""
    return [any(tag not in ("O", 0, "0") for tag in example["tags"]) for example in examples]


def primary(spec: TaskSpec) -> str:
    return "entity_f1" if of_tags.has_entities(spec) else "accuracy"


def outputs(spec: TaskSpec) -> int:
    return len(spec.label_list)


def encode(
    examples: Sequence[Example], spec: TaskSpec, tokenizer: Tokenizer, max_length: int, stride: int
) -> Encoded:
    return in_pieces(
        examples,
        lambda example: len(token_text(example)),
        lambda few: _encode_few(few, tokenizer, max_length, stride),
    )


def _encode_few(
    examples: Sequence[Example], tokenizer: Tokenizer, max_length: int, stride: int
) -> Encoded:
    texts, ends = [], []
    for example in examples:
        texts.append(token_text(example))
        if "spans" in example:
            ends.append(np.array([end for _, end in example["spans"]]))
        else:
            ends.append(np.cumsum([len(word) + 1 for word in example["tokens"]]) - 1)
    room = max_length - tokenizer.num_special_tokens_to_add()
    windows = tokenizer(
        texts,
        truncation=True,
        max_length=max_length,
        stride=min(stride, room // 2),  # a window must move on
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        return_special_tokens_mask=True,
        return_attention_mask=False,
    )
    of_example = np.array(windows["overflow_to_sample_mapping"], dtype=np.int64)
    ids, starts = flatten(windows["input_ids"])
    types = flatten(windows["token_type_ids"], np.uint8)[0] if "token_type_ids" in windows else None
    words = np.full(len(ids), -1, dtype=np.int32)  # the word whose tag is read at this token
    labelled = all("tags" in example for example in examples)
    tags = np.full(len(ids), IGNORED, dtype=np.int64) if labelled else None
    seen = 0  # words of the current example that an earlier window already has
    for row, index in enumerate(of_example):
        if row == 0 or of_example[row - 1] != index:
            seen = 0
        offsets = np.array(windows["offset_mapping"][row])
        real = (np.array(windows["special_tokens_mask"][row]) == 0) & (offsets[:, 1] > 0)
        # A piece belongs to the word that contains its last character (byte-level pieces may begin
        # with the preceding space).
        word = np.searchsorted(ends[index], offsets[:, 1] - 1, side="right")
        first = real & (word >= seen) & (word < len(ends[index]))
        first[1:] &= ~(real[:-1] & (word[1:] == word[:-1]))
        places = np.flatnonzero(first)
        words[starts[row] + places] = word[places]
        if tags is not None:
            tags[starts[row] + places] = np.array(examples[index]["tags"])[word[places]]
        if len(places):
            seen = int(word[places[-1]]) + 1
    encoded = Encoded(ids, starts, np.arange(len(starts)), of_example, 0, types)
    encoded.places["word"] = words
    if tags is not None:
        encoded.labels["tags"] = tags
    return encoded


def token_text(example: Example) -> str:
    """The text that the encoder reads: the raw text if it is known, else the words joined."""
    return str(example["text"]) if "spans" in example else " ".join(example["tokens"])


def loss(logits: "Tensor", labels: dict[str, "Tensor"], spec: TaskSpec) -> "Tensor":
    """Mean cross-entropy over tagged words; `logits` is (item, token, tag)."""
    from torch.nn import functional

    tags = labels["tags"]
    weight = None if spec.class_weights is None else logits.new_tensor(spec.class_weights).float()
    losses = functional.cross_entropy(
        logits.float().transpose(1, 2), tags, weight, ignore_index=IGNORED, reduction="none"
    )
    counted = (tags != IGNORED).sum(dim=1).clamp(min=1)
    return losses.sum(dim=1) / counted


def entropy(logits: "Tensor", real: "Tensor") -> tuple["Tensor", "Tensor"]:
    """Mean entropy over the real tokens."""
    each = entropies.of_choices(logits) * real
    found = each.sum(dim=-1) / real.sum(dim=-1).clamp(min=1)
    return found, entropies.uniform(found, logits.shape[-1])


def predict(
    outputs: Sequence[Array],
    encoded: Encoded,
    examples: Sequence[Example],
    spec: TaskSpec,
    thresholds: Mapping[str, float] = USUAL,
) -> list[dict[str, Any]]:
    # A word without any piece (a lone control character) is outside any entity.
    outside = "O" if "O" in spec.label_list else spec.label_list[0]
    tags = [[outside] * len(example["tokens"]) for example in examples]
    scores = [[1.0] * len(example["tokens"]) for example in examples]
    for item, logits in enumerate(outputs):
        start, example = int(encoded.starts[item]), int(encoded.item_example[item])
        words = encoded.places["word"][start : start + len(logits)]
        for place in np.flatnonzero(words >= 0):
            probabilities = softmax(logits[place])
            best = int(probabilities.argmax())
            tags[example][words[place]] = spec.label_list[best]
            scores[example][words[place]] = float(probabilities[best])
    predictions: list[dict[str, Any]] = []
    for example_tags, example_scores, read_example in zip(tags, scores, examples, strict=True):
        _drop_unsure(example_tags, example_scores, thresholds.get(ENTITY, 0.0), outside)
        prediction: dict[str, Any] = {"tokens": read_example["tokens"], "tags": example_tags}
        if spec.scheme == "entities":
            prediction["entities"] = _named(example_tags, example_scores, read_example)
        predictions.append(prediction)
    return predictions


def _drop_unsure(tags: list[str], scores: list[float], threshold: float, outside: str) -> None:
    """Give the words of entities below the threshold the tag of other words."""
    if threshold > 0:
        for _, first, last in entities(tags):
            if min(scores[first : last + 1]) < threshold:
                tags[first : last + 1] = [outside] * (last + 1 - first)


def threshold_grids(spec: TaskSpec) -> dict[str, list[float]]:
    """How probable an entity has to be: its least probable tag."""
    named = spec.scheme == "entities" and "O" in spec.label_list
    return {ENTITY: [0.0, *TRIED_SHARES]} if named else {}


def decisions(outputs: Sequence[Array], encoded: Encoded) -> Decisions:
    """The tag of every word."""
    tags = encoded.labels["tags"]
    counted = tags != IGNORED
    rows = np.repeat(np.arange(encoded.items), np.diff(encoded.starts))
    return Decisions(
        np.concatenate(list(outputs))[counted], tags[counted], encoded.item_example[rows][counted]
    )


surprises = None
region = None


def _named(tags: list[str], scores: list[float], example: Example) -> list[dict[str, Any]]:
    """Entities with text, score, words and, for raw text, characters."""
    found = []
    for label, first, last in entities(tags):
        entity = {
            "label": label,
            "text": " ".join(example["tokens"][first : last + 1]),
            "score": min(scores[first : last + 1]),
            "first": first,
            "last": last,
        }
        if "spans" in example:
            start, end = example["spans"][first][0], example["spans"][last][1]
            entity |= {"text": example["text"][start:end], "start": start, "end": end}
        found.append(entity)
    return found


def judge(predictions: Sequence[Prediction], examples: Sequence[Example], spec: TaskSpec) -> Judged:
    return tag_mistakes.judge(predictions, examples, spec)


def case(prediction: Prediction, example: Example, spec: TaskSpec) -> Case:
    return tag_mistakes.case(prediction, example, spec, token_text(example))


def trivial(
    train: Sequence[Example], examples: Sequence[Example], spec: TaskSpec
) -> list[dict[str, Any]]:
    """The most common tag for every word (for entities: none)."""
    counts: Counter[int] = Counter(_all_tags(train))
    tag = spec.label_list[counts.most_common(1)[0][0]]
    return [{"tags": [tag] * len(example["tokens"])} for example in examples]


def _all_tags(examples: Sequence[Example]) -> Iterable[int]:
    return (tag for example in examples for tag in example["tags"])
