"""Span extraction: the answer to a question is a span of a context, or missing.

A context longer than the encoder allows is read in overlapping windows; each window is one item,
and an example is the question with all its windows. If the answer is not in a window (or nowhere),
the target is the first token. Loss: mean of the cross-entropies of the first and the last token.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from brodmann.data.answering.decisions import TRIED_MARGINS, USUAL, Decisions, filled
from brodmann.data.encoding import Encoded, Tokenizer, flatten, in_pieces
from brodmann.data.judging import Case, Judged, excerpt
from brodmann.data.metrics import Metric, Prediction, of_words
from brodmann.data.sampling import entropy as entropies
from brodmann.data.tasks import Example, TaskSpec, one_text
from brodmann.errors import InputError
from brodmann.files import Array

if TYPE_CHECKING:
    from torch import Tensor

HEAD = "span"
REQUIRED = ("question", "context", "answer")
OPTIONAL = ("answer_start", "aliases")
TARGETS = ("answer", "answer_start", "aliases")
METRICS: dict[str, Metric] = {"f1": of_words.span_f1, "exact_match": of_words.span_exact_match}
WEIGHTED_CLASSES = False

LONGEST_ANSWER = 30  # tokens, as in SQuAD's evaluation since BERT
NO_ANSWER = "no_answer"  # name of the threshold


def read(row: Mapping[str, Any], spec: TaskSpec, labelled: bool) -> Example:
    context = one_text(row, "context")
    example: Example = {"question": one_text(row, "question"), "context": context}
    if labelled:
        example["answers"] = _answers(row, context)
        if row.get("aliases"):
            if not all(isinstance(alias, str) for alias in row["aliases"]):
                raise InputError(f"aliases: expected a list of texts, found {row['aliases']!r:.60}")
            example["aliases"] = list(row["aliases"])
    return example


def _answers(row: Mapping[str, Any], context: str) -> list[tuple[str, int]]:
    """Every right answer with its position; an empty list if the context has none."""
    answer, start = row["answer"], row.get("answer_start")
    if isinstance(answer, Mapping):  # the hub's form: {"text": [...], "answer_start": [...]}
        if "text" not in answer:
            raise InputError(
                f"answer: expected the key 'text', found {', '.join(map(str, answer))}"
            )
        texts = answer["text"] if isinstance(answer["text"], list) else [answer["text"]]
        starts = answer.get("answer_start", [None] * len(texts))
        starts = starts if isinstance(starts, list) else [starts]
    elif isinstance(answer, list):
        texts, starts = answer, start if isinstance(start, list) else [None] * len(answer)
    else:
        texts, starts = ([] if answer in (None, "") else [answer]), [start]
    if len(texts) > len(starts):
        raise InputError(f"answer: {len(texts)} texts but {len(starts)} starts")
    return [_placed(t, s, context) for t, s in zip(texts, starts, strict=False)]


def _placed(text: Any, start: Any, context: str) -> tuple[str, int]:
    if not isinstance(text, str) or not text:
        raise InputError(f"answer: expected a text, found {text!r:.60}")
    if start in (None, ""):
        place = context.find(text)
        if place < 0:
            raise InputError(f"answer: {text!r:.60} is not in its context")
        return text, place
    try:
        place = int(start)
        if place != float(start):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"answer_start: expected a whole number, found {start!r:.60}") from None
    if place < 0 or context[place : place + len(text)] != text:
        found = context[max(place, 0) : max(place, 0) + len(text)]
        raise InputError(
            f"answer: {text!r:.60} is not in its context at character {place} "
            f"(there: {found!r:.60})"
        )
    return text, place


def settle(spec: TaskSpec, splits: Mapping[str, Sequence[Example]]) -> TaskSpec:
    answered = [bool(example["answers"]) for example in splits["train"]]
    if not any(answered):
        raise InputError(f"task '{spec.name}': no training example has an answer")
    return replace(spec, unanswerable=not all(answered))


def target(example: Example, spec: TaskSpec) -> Example:
    return example


def as_row(example: Example, spec: TaskSpec) -> Example:
    row = {role: value for role, value in example.items() if role != "answers"}
    texts, starts = zip(*example["answers"], strict=True) if example["answers"] else ((), ())
    return {**row, "answer": {"text": list(texts), "answer_start": list(starts)}}


def strata(examples: Sequence[Example], spec: TaskSpec) -> list[Any]:
    return [bool(example["answers"]) for example in examples]


def primary(spec: TaskSpec) -> str:
    return "f1"


def outputs(spec: TaskSpec) -> int:
    return 2


def encode(
    examples: Sequence[Example], spec: TaskSpec, tokenizer: Tokenizer, max_length: int, stride: int
) -> Encoded:
    return in_pieces(
        examples,
        lambda example: len(example["question"]) + len(example["context"]),
        lambda few: _encode_few(few, tokenizer, max_length, stride),
    )


def _encode_few(
    examples: Sequence[Example], tokenizer: Tokenizer, max_length: int, stride: int
) -> Encoded:
    # A question may take half of the window; the rest is for its context.
    questions = _short_questions([e["question"] for e in examples], tokenizer, max_length // 2)
    room = max_length - max_length // 2 - tokenizer.num_special_tokens_to_add(pair=True)
    windows = tokenizer(
        questions,
        [example["context"] for example in examples],
        truncation="only_second",
        max_length=max_length,
        stride=min(stride, room // 2),  # each window must advance
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        return_attention_mask=False,
    )
    of_example = np.array(windows["overflow_to_sample_mapping"], dtype=np.int64)
    ids, starts = flatten(windows["input_ids"])
    types = flatten(windows["token_type_ids"], np.uint8)[0] if "token_type_ids" in windows else None
    places = np.full((len(ids), 2), -1, dtype=np.int32)  # -1: not a token of the context
    for row, offsets in enumerate(windows["offset_mapping"]):
        context = np.array([segment == 1 for segment in windows.sequence_ids(row)])
        places[starts[row] : starts[row + 1]][context] = np.array(offsets, np.int32)[context]
    encoded = Encoded(ids, starts, np.arange(len(starts)), of_example, 0, types)
    encoded.places["characters"] = places
    if all("answers" in example for example in examples):
        ends = [
            _window_target(places[starts[row] : starts[row + 1]], examples[of_example[row]])
            for row in range(len(of_example))
        ]
        encoded.labels["first"] = np.array([first for first, _ in ends], np.int64)
        encoded.labels["last"] = np.array([last for _, last in ends], np.int64)
    return encoded


def _short_questions(questions: list[str], tokenizer: Tokenizer, limit: int) -> list[str]:
    """Questions cut to `limit` tokens."""
    encoded = tokenizer(
        questions, add_special_tokens=False, return_offsets_mapping=True, verbose=False
    )
    return [
        question if len(offsets) <= limit else question[: offsets[limit - 1][1]]
        for question, offsets in zip(questions, encoded["offset_mapping"], strict=True)
    ]


def _window_target(places: Array, example: Example) -> tuple[int, int]:
    """First and last token of the first answer that is completely in this window; else token 0."""
    for text, start in example["answers"]:
        end = start + len(text)
        inside = (places[:, 0] < end) & (places[:, 1] > start) & (places[:, 0] >= 0)
        if not inside.any():
            continue
        first, last = int(inside.argmax()), int(len(inside) - 1 - inside[::-1].argmax())
        if places[first, 0] <= start and places[last, 1] >= end:
            return first, last
    return 0, 0


def loss(logits: "Tensor", labels: dict[str, "Tensor"], spec: TaskSpec) -> "Tensor":
    """Mean cross-entropy of both ends; `logits` is (item, token, 2), padding is -inf."""
    from torch.nn import functional

    first, last = logits.float().unbind(dim=-1)
    return (
        functional.cross_entropy(first, labels["first"], reduction="none")
        + functional.cross_entropy(last, labels["last"], reduction="none")
    ) / 2


def entropy(logits: "Tensor", real: "Tensor") -> tuple["Tensor", "Tensor"]:
    """Mean entropy of the first and last position, each among the real tokens."""
    found = entropies.of_choices(logits.transpose(1, 2), real[:, None]).mean(dim=-1)
    return found, entropies.uniform(found, real.sum(dim=-1))


def predict(
    outputs: Sequence[Array],
    encoded: Encoded,
    examples: Sequence[Example],
    spec: TaskSpec,
    thresholds: Mapping[str, float] = USUAL,
) -> list[dict[str, Any]]:
    """The best span over all windows, or none if "no answer" scores higher in every window.

    It has to score higher by the threshold `no_answer`, 0 if not given.
    """
    margin = thresholds.get(NO_ANSWER, 0.0)
    best: list[tuple[float, float, int, int]] = [(-np.inf, 0.0, -1, -1)] * len(examples)
    absent = np.full(len(examples), np.inf)
    for item, logits in enumerate(outputs):
        example = int(encoded.item_example[item])
        start = encoded.starts[item]
        places = encoded.places["characters"][start : start + len(logits)]
        value, first, last = _best_span(logits, places[:, 0] >= 0)
        norm = _logsumexp(logits[:, 0]) + _logsumexp(logits[:, 1])
        # The context lacks the answer only if every window says so: the smallest margin counts.
        absent[example] = min(absent[example], logits[0].sum() - norm)
        if value - norm > best[example][0]:
            probability = float(np.exp(value - norm))
            ends = int(places[first, 0]), int(places[last, 1])
            best[example] = (value - norm, probability, *ends)
    predictions = []
    for index, (value, probability, start, end) in enumerate(best):
        if start < 0 or (spec.unanswerable and absent[index] - value > margin):
            predictions.append(
                {"answer": "", "score": float(np.exp(absent[index])), "start": None, "end": None}
            )
        else:
            text = examples[index]["context"][start:end]
            predictions.append({"answer": text, "score": probability, "start": start, "end": end})
    return predictions


def threshold_grids(spec: TaskSpec) -> dict[str, list[float]]:
    """By how much "no answer" has to score higher (logarithms of probabilities)."""
    return {NO_ANSWER: [0.0, *TRIED_MARGINS]} if spec.unanswerable else {}


def decisions(outputs: Sequence[Array], encoded: Encoded) -> Decisions:
    """Both ends of every window."""
    ends = filled([logits[:, end] for logits in outputs for end in (0, 1)])
    right = np.stack([encoded.labels["first"], encoded.labels["last"]], axis=1).ravel()
    return Decisions(ends, right, np.repeat(encoded.item_example, 2))


surprises = None
region = None


def _best_span(logits: Array, allowed: Array) -> tuple[float, int, int]:
    """argmax of first[i] + last[j] over i <= j < i + LONGEST_ANSWER inside the context."""
    first = np.where(allowed, logits[:, 0], -np.inf)
    last = np.where(allowed, logits[:, 1], -np.inf)
    best = (-np.inf, 0, 0)
    for length in range(min(LONGEST_ANSWER, len(first))):
        together = first[: len(first) - length] + last[length:]
        place = int(together.argmax())
        if together[place] > best[0]:
            best = (float(together[place]), place, place + length)
    return best


def _logsumexp(values: Array) -> float:
    top = values.max()
    return float(top + np.log(np.exp(values - top).sum()))


def judge(predictions: Sequence[Prediction], examples: Sequence[Example], spec: TaskSpec) -> Judged:
    """Wrong is what has no exact match; labels only say whether there is an answer."""
    hit = METRICS["exact_match"].outcomes(predictions, examples, spec)[:, 0] > 0
    partial = METRICS["f1"].outcomes(predictions, examples, spec)[:, 0] > 0
    there = np.array([not example["answers"] for example in examples], np.int64)
    given = np.array([not found["answer"] for found in predictions], np.int64)
    sorts = np.where(partial, "too little or too much", "another place")
    sorts = np.where(there > given, "answered where there is no answer", sorts)
    sorts = np.where(there < given, "answer missed", sorts)
    score = np.array([found["score"] for found in predictions], np.float64)
    rows = np.arange(len(examples) if spec.unanswerable else 0)
    return Judged(
        unit="question",
        names=("an answer", "no answer") if spec.unanswerable else (),
        example=rows,
        truth=there[: len(rows)],
        answer=given[: len(rows)],
        wrong=(~hit).astype(float),
        sure=score,
        certainty=score,
        sorts=dict(Counter(sorts[~hit].tolist()).most_common()),
    )


def case(prediction: Prediction, example: Example, spec: TaskSpec) -> Case:
    answers = example["answers"]
    right = answers[0][0] if answers else ""
    place = answers[0][1] if answers else prediction["start"] or 0
    words = ["an answer" if text else "no answer" for text in (right, prediction["answer"])]
    quoted = [excerpt(text) or "no answer" for text in (right, prediction["answer"])]
    text = f"{excerpt(example['question'])} | {excerpt(example['context'], place)}"
    return Case(words[0], words[1], text, (quoted[0], quoted[1]))


def trivial(
    train: Sequence[Example], examples: Sequence[Example], spec: TaskSpec
) -> list[dict[str, Any]]:
    """Answer nothing, which is correct only if the context has no answer."""
    return [{"answer": ""} for _ in examples]
