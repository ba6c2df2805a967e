"""Compare an exported package with the model that it was made of.

Every task is compared on up to `MOST` examples of its validation split, or, where these are not at
hand, on random texts. Both must read the same token ids. Compared are the outputs (logits) and the
answers that follow from them: their scores, with a paired bootstrap interval of the loss, and the
share that changed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from brodmann.data.answering.answer_columns import answer_of
from brodmann.data.answering.reader import Reader, Reading
from brodmann.data.answering.rules import Answer, answer_by
from brodmann.data.encoding import Encoded, one_row_an_example
from brodmann.data.kinds import metric_of
from brodmann.data.tasks import Example, Task, TaskSpec
from brodmann.errors import InputError, note
from brodmann.files import Array
from brodmann.measuring.points_lost import points_lost
from brodmann.runtime.onnx_reader import OnnxReader

if TYPE_CHECKING:
    from brodmann.models.multitask import MultiTaskModel
    from brodmann.models.predicting import TorchReader

MOST = 1000  # validation examples per task
RANDOM_TEXTS = 16
BATCH = 32
CLOSE = 1e-4  # largest allowed difference of outputs, in their own size if that is above 1
SAME_VALUE = 0.01  # of the standard deviation: nearer numbers are the same answer


@dataclass
class Trial:
    """Texts of one task, and what the model computes for them."""

    spec: TaskSpec
    encoded: Encoded
    examples: list[Example]  # without labels unless `judged`
    reading: Reading
    judged: bool


def make_trials(model: "MultiTaskModel", tasks: Iterable[Task]) -> list[Trial]:
    """One trial per task of the model; `tasks` have the validation examples that are known."""
    from brodmann.models.predicting import TorchReader

    given = {task.name: task for task in tasks}
    reader = TorchReader(model)
    return [_trial(reader, spec, given.get(spec.name)) for spec in model.specs.values()]


def _trial(reader: "TorchReader", spec: TaskSpec, task: Task | None) -> Trial:
    examples = [] if task is None else task.splits.get("validation", [])
    if task is not None and (task.spec.kind, task.spec.labels) != (spec.kind, spec.labels):
        note(f"task '{spec.name}': its data has other labels than the model: not scored")
        examples = []
    if examples:
        chosen = np.random.default_rng(0).permutation(len(examples))[:MOST]
        kept = [examples[place] for place in sorted(chosen)]
        encoded = reader.encode(spec, kept)
    else:
        kept = _random_texts(reader.model)
        length = reader.model.settings.max_length
        encoded = one_row_an_example(reader.model.tokenizer, kept, length)
    reading = reader.read(encoded, [spec.name], batch_size=BATCH)[spec.name]
    return Trial(spec, encoded, kept, reading, judged=bool(examples))


def _random_texts(model: "MultiTaskModel") -> list[Example]:
    """Texts of random tokens, from short ones to some that are cut."""
    generator = np.random.default_rng(0)
    size, longest = int(model.config.vocab_size), model.settings.max_length
    lengths = np.linspace(2, longest + 2, RANDOM_TEXTS).astype(int)
    rows = [generator.integers(0, size, length).tolist() for length in lengths]
    return [{"text": model.tokenizer.decode(row, skip_special_tokens=True)} for row in rows]


def check_same_ids(reader: OnnxReader, trials: Sequence[Trial]) -> None:
    """Raise InputError unless the package reads the texts as the model does."""
    for trial in trials:
        if trial.judged:
            found = reader.encode(trial.spec, trial.examples)
        else:
            length = reader.description.max_length
            found = one_row_an_example(reader.tokenizer, trial.examples, length)
        same = [
            np.array_equal(getattr(found, name), getattr(trial.encoded, name))
            for name in ("ids", "starts", "item_rows", "item_example")
        ]
        same += [np.array_equal(found.places[k], v) for k, v in trial.encoded.places.items()]
        if not all(same):
            raise InputError(
                f"task '{trial.spec.name}': tokenizer.json alone reads texts differently from the "
                "model's tokenizer: not written"
            )


def compare(trial: Trial, reader: Reader, model_rules: Mapping[str, Any]) -> dict[str, Any]:
    """What one task's answers lose by being computed by `reader` instead of the model."""
    spec = trial.spec
    found = reader.read(trial.encoded, [spec.name], batch_size=BATCH)[spec.name]
    entry: dict[str, Any] = {
        "compared_on": "validation" if trial.judged else "random texts",
        "examples": len(trial.examples),
        "largest_difference": _furthest(trial.reading.outputs, found.outputs),
        "agrees": _agree(trial.reading, found),
    }
    if not trial.judged:
        return entry
    rules = model_rules.get(spec.name)
    before, after = (
        answer_by(rules, reading, trial.encoded, trial.examples, spec)
        for reading in (trial.reading, found)
    )
    return entry | _scores(before, after, trial)


def _furthest(one: Sequence[Array], other: Sequence[Array]) -> float:
    return max(float(np.abs(a - b).max(initial=0.0)) for a, b in zip(one, other, strict=True))


def _agree(one: Reading, other: Reading) -> bool:
    """Whether outputs and states are the same up to rounding."""
    pairs = [*zip(one.outputs, other.outputs, strict=True), (one.states, other.states)]
    return all(
        float(np.abs(a - b).max(initial=0.0)) <= CLOSE * max(1.0, float(np.abs(a).max(initial=0.0)))
        for a, b in pairs
    )


def _scores(before: list[Answer], after: list[Answer], trial: Trial) -> dict[str, Any]:
    spec, metric = trial.spec, metric_of(trial.spec)
    ours, theirs = (metric.outcomes(found, trial.examples, spec) for found in (before, after))
    lost = points_lost(spec, ours, theirs)
    changed = [not _same(a, b, spec) for a, b in zip(before, after, strict=True)]
    return {
        "metric": spec.metric,
        "torch": lost.before,
        "export": lost.after,
        "points_lost": lost.points,
        "interval": list(lost.interval),
        "changed": float(np.mean(changed)),
    }


def _same(one: Answer, other: Answer, spec: TaskSpec) -> bool:
    """Whether two answers say the same, whatever their probabilities."""
    ours, theirs = answer_of(one, spec), answer_of(other, spec)
    if isinstance(ours, float):
        return bool(abs(ours - theirs) <= SAME_VALUE * spec.target_scale)
    if isinstance(ours, list):
        return _without_scores(ours) == _without_scores(theirs)
    return bool(ours == theirs)


def _without_scores(found: list[Any]) -> list[Any]:
    return [
        {key: value for key, value in one.items() if key != "score"}
        if isinstance(one, Mapping)
        else one
        for one in found
    ]
