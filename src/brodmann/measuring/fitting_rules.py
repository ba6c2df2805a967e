"""Fit the rules by which a trained model answers, and say how good they are.

Everything is fitted on validation examples, which the training did not see; the domain of a task is
fitted on training texts and compared with validation texts. Numbers that would be too good on the
examples that chose them come from five parts: fitted on four, measured on the fifth. A test split
with labels, which fits nothing, is measured once more with the finished rules.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from brodmann.analysis.statistics import rank_auc
from brodmann.data.answering.conformal import p_values, reach, thinned
from brodmann.data.answering.decisions import Decisions
from brodmann.data.answering.domain import Domain, fit_domain
from brodmann.data.answering.inputs import fits, plain_inputs, read_inputs
from brodmann.data.answering.reader import Reading
from brodmann.data.answering.rules import Rules, by_example
from brodmann.data.answering.temperature import fit_temperature, honesty, tempered
from brodmann.data.answering.thresholds import PARTS, fit_thresholds, parts_of
from brodmann.data.encoding import Encoded
from brodmann.data.kinds import KINDS, every_score, metric_of
from brodmann.data.sources.table import SPLITS
from brodmann.data.tasks import Example, Task, TaskSpec
from brodmann.files import Array
from brodmann.measuring.measuring_settings import CalibrationSettings
from brodmann.models.evaluation import Progress
from brodmann.models.model_settings import EVALUATION_BATCH
from brodmann.models.multitask import MultiTaskModel
from brodmann.models.predicting import read_tasks

OTHER_TEXTS = 100  # of each other task, to see whether a task recognises them
LEVEL = 0.05  # of abstaining, in reports
COVERAGE = 0.9  # of sets and intervals, in reports


class _Measured:
    """A model and how it reads; every reading goes through `read`."""

    def __init__(
        self, model: MultiTaskModel, batch_size: int, precision: str, progress: Progress | None
    ) -> None:
        self.model, self.batch_size = model, batch_size
        self.precision, self.progress = precision, progress

    def read(self, name: str, examples: Sequence[Example]) -> tuple[Reading, Encoded]:
        encoded = self.model.encode(self.model.spec(name), examples, cache=False)
        found = read_tasks(
            self.model,
            encoded,
            [name],
            batch_size=self.batch_size,
            precision=self.precision,
            progress=self.progress,
        )
        return found[name], encoded

    def states(self, name: str, examples: Sequence[Example]) -> Array:
        if not examples:
            return np.zeros((0, int(self.model.config.hidden_size)), np.float32)
        reading, encoded = self.read(name, examples)
        return by_example(reading.states, encoded, len(examples))


def fit_rules(
    model: MultiTaskModel,
    tasks: Sequence[Task],
    *,
    examples: int = CalibrationSettings().examples,
    batch_size: int = EVALUATION_BATCH,
    precision: str = "float32",
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Give the model rules for every task with a validation split; return how good they are."""
    measured = _Measured(model, batch_size, precision, progress)
    judged = [task for task in tasks if task.splits.get("validation")]
    report = {}
    for task in judged:
        held = some(task.splits["validation"], examples)
        reading, encoded = measured.read(task.name, held)
        rules, found = _fit_task(task, reading, encoded, held)
        train = some(task.splits["train"], examples)
        others = _texts_of_others(measured.model.spec(task.name), judged, "train", examples)
        rules.domain = fit_domain(
            measured.states(task.name, train),
            measured.states(task.name, [text for texts in others.values() for text in texts]),
            by_example(reading.states, encoded, len(held)),
        )
        model.rules[task.name] = rules
        report[task.name] = found
    for task in judged:
        found = report[task.name]
        found["own_texts"] = _refused_by_the_rest(model.rules[task.name].domain)
        found["other_tasks"] = _recognised(measured, task, judged)
        if test := task.splits.get("test"):
            found["test"] = _tested(measured, task, some(test, examples))
    return report


def some(examples: Sequence[Example], count: int) -> list[Example]:
    """At most `count` examples, always the same ones, in their order."""
    if len(examples) <= count:
        return list(examples)
    chosen = np.random.default_rng(0).permutation(len(examples))[:count]
    return [examples[place] for place in np.sort(chosen)]


def texts_read(tasks: Sequence[Task], examples: int) -> int:
    """How many texts `fit_rules` reads at most, for a progress bar."""
    sizes = [task.sizes for task in tasks if task.splits.get("validation")]
    own = sum(min(size.get(split, 0), examples) for size in sizes for split in SPLITS)
    return own + len(sizes) * (examples + OTHER_TEXTS * (len(sizes) - 1)) * (len(sizes) > 1)


def _fit_task(
    task: Task, reading: Reading, encoded: Encoded, held: Sequence[Example]
) -> tuple[Rules, dict[str, Any]]:
    """Temperature, thresholds and conformal scores with what they change."""
    spec, kind = task.spec, KINDS[task.spec.kind]
    rules, found = Rules(temperature=1.0), {"examples": len(held), "metric": spec.metric}
    if kind.decisions is not None:
        decisions = kind.decisions(reading.outputs, encoded)
        rules.temperature = fit_temperature(decisions)
        found |= {"temperature": rules.temperature, "before": honesty(decisions)}
        found["after"] = honesty(decisions, _cross_fitted(decisions, len(held)))
    outputs = tempered(reading.outputs, rules.temperature)
    chosen = fit_thresholds(outputs, encoded, held, spec)
    rules.thresholds = chosen.thresholds
    if chosen.usual is not None:
        found["thresholds"] = {
            "chosen": chosen.thresholds,
            "usual_score": chosen.usual,
            "score": chosen.score,
        }
    if kind.surprises is not None and kind.region is not None:
        answers = kind.predict(outputs, encoded, held, spec, rules.thresholds)
        surprises = kind.surprises(answers, held, spec)
        rules.surprises = thinned(surprises)
        found["regions"] = _coverage(surprises, answers, kind.region, task)
    return rules, found


def _cross_fitted(decisions: Decisions, count: int) -> Array:
    """One temperature per decision, fitted on the examples of the other four parts."""
    part = parts_of(count)
    fitted = np.array([fit_temperature(decisions.of(part != number)) for number in range(PARTS)])
    return np.asarray(fitted[part[decisions.example]])


def _coverage(
    surprises: Array, answers: Sequence[Mapping[str, Any]], region: Any, task: Task
) -> dict[str, Any]:
    """How often sets fitted on four parts hold the right answer of the fifth, and their size."""
    part = parts_of(len(surprises))
    ends = [reach(np.sort(surprises[part != number]), COVERAGE) for number in range(PARTS)]
    inside = np.array([s <= ends[p] for s, p in zip(surprises, part, strict=True)])
    sizes = [
        _size(region(answer, ends[p], task.spec)) for answer, p in zip(answers, part, strict=True)
    ]
    size = float(np.mean(sizes))
    return {
        "coverage": COVERAGE,
        "covered": float(inside.mean()),
        "size": size if np.isfinite(size) else None,  # an interval without an end
    }


def _size(found: Mapping[str, Any]) -> float:
    """Number of labels in a set, or the length of an interval."""
    if "set" in found:
        return float(len(found["set"]))
    low, high = found["interval"]
    return np.inf if low is None else float(high - low)


def _refused_by_the_rest(domain: Domain | None) -> dict[str, Any]:
    """The share of own texts refused at the level when four parts judge the fifth."""
    assert domain is not None
    scores, part = domain.held_out, parts_of(len(domain.held_out))
    refused = [
        (p_values(scores[part != number], scores[part == number]) < LEVEL).sum()
        for number in range(PARTS)
    ]
    return {"level": LEVEL, "refused": float(sum(refused) / len(scores))}


def _recognised(measured: _Measured, task: Task, tasks: Sequence[Task]) -> dict[str, Any]:
    """Per other task whose texts it can read: how well the domain tells them from its own."""
    spec = measured.model.spec(task.name)
    domain = measured.model.rules[task.name].domain
    assert domain is not None
    found = {}
    count = OTHER_TEXTS * (len(tasks) - 1)
    for other, texts in _texts_of_others(spec, tasks, "validation", count).items():
        states = measured.states(task.name, texts)
        found[other] = {
            "auroc": rank_auc(domain.held_out, domain.scores(states)),
            "refused": float((domain.p_values(states) < LEVEL).mean()),
        }
    return found


def _texts_of_others(
    spec: TaskSpec, tasks: Sequence[Task], split: str, count: int
) -> dict[str, list[Example]]:
    """About `count` texts of the other tasks, as far as this one can read them, by task."""
    others = [task for task in tasks if task.name != spec.name]
    found = {}
    for other in others:
        inputs = plain_inputs(some(other.splits[split], max(1, count // len(others))))
        if readable := [text for text in inputs if fits(spec, text)]:
            found[other.name] = read_inputs(spec, readable)
    return found


def _tested(measured: _Measured, task: Task, examples: Sequence[Example]) -> dict[str, Any]:
    """The finished rules on examples that fitted nothing."""
    spec, kind = measured.model.spec(task.name), KINDS[task.spec.kind]
    rules = measured.model.rules[task.name]
    reading, encoded = measured.read(task.name, examples)
    outputs = tempered(reading.outputs, rules.temperature)
    answers = kind.predict(outputs, encoded, examples, spec, rules.thresholds)
    assert rules.domain is not None
    usual = rules.domain.p_values(by_example(reading.states, encoded, len(examples)))
    found: dict[str, Any] = {
        "examples": len(examples),
        "score": every_score(answers, examples, spec)[spec.metric],
        "refused": float((usual < LEVEL).mean()),
    }
    if rules.thresholds:
        plain = kind.predict(reading.outputs, encoded, examples, spec)
        found["usual_score"] = metric_of(spec).score(plain, examples, spec)
    if kind.decisions is not None:
        decisions = kind.decisions(reading.outputs, encoded)
        found |= {"before": honesty(decisions), "after": honesty(decisions, rules.temperature)}
    if kind.surprises is not None and rules.surprises is not None:
        surprises = kind.surprises(answers, examples, spec)
        found["covered"] = float((surprises <= reach(rules.surprises, COVERAGE)).mean())
    return found
