"""The rules of a task: everything that was fitted after training, and the answers it leads to.

A model without rules answers by its plain outputs. With rules,

1. outputs are divided by the temperature;
2. labels, entities and "no answer" are decided by thresholds;
3. every answer says how usual its text is among those of the task (`in_domain`, a p-value);
4. on request, an unusual text gets no answer (`abstain`), and a class comes with the set of labels,
   a number with the interval, that contains the right one with a given probability (`coverage`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from brodmann.data.answering.conformal import reach
from brodmann.data.answering.domain import Domain
from brodmann.data.answering.temperature import tempered
from brodmann.data.encoding import Encoded
from brodmann.data.kinds import KINDS
from brodmann.data.tasks import Example, TaskSpec
from brodmann.errors import InputError
from brodmann.files import Array

if TYPE_CHECKING:
    from brodmann.data.answering.reader import Reading

Answer = dict[str, Any]
HOW_TO_FIT = "`brodmann calibrate RUN`, or bm.calibrate(model, tasks), fits them"


@dataclass
class Rules:
    """What was fitted for one task."""

    temperature: float  # 1: as trained
    thresholds: dict[str, float] = field(default_factory=dict)
    surprises: Array | None = None  # of held-out answers, in rising order
    domain: Domain | None = None


@dataclass(frozen=True)
class Wishes:
    """How careful answers have to be."""

    abstain: float | None = None  # no answer to texts that are more unusual than this
    coverage: float | None = None  # a set or interval that is right this often


PLAIN = Wishes()


def check_wishes(wishes: Wishes, specs: Mapping[str, TaskSpec], rules: Mapping[str, Rules]) -> None:
    """Raise InputError for impossible levels, or if the tasks lack the rules that they need."""
    if wishes.abstain is not None:
        _check_level("abstain", wishes.abstain, "a level between 0 and 1, such as 0.05")
        for name in specs:
            if name not in rules or rules[name].domain is None:
                raise InputError(
                    f"abstain: nothing is known about the usual texts of task '{name}': "
                    f"{HOW_TO_FIT}"
                )
    if wishes.coverage is not None:
        _check_level("coverage", wishes.coverage, "a share between 0 and 1, such as 0.9")
        able = {name for name, spec in specs.items() if KINDS[spec.kind].region is not None}
        if not able:
            kinds = " and ".join(sorted({spec.kind for spec in specs.values()}))
            raise InputError(
                f"coverage: answers of {kinds} have no sets: they exist for classification, choice "
                "and regression"
            )
        for name in specs:
            if name in able and (name not in rules or rules[name].surprises is None):
                raise InputError(
                    f"coverage: the answers of task '{name}' were never compared with held-out "
                    f"ones: {HOW_TO_FIT}"
                )


def _check_level(name: str, level: float, expected: str) -> None:
    is_number = isinstance(level, int | float | np.number) and not isinstance(level, bool)
    if not is_number or not 0 < level < 1:
        shown = f"{level:g}" if is_number else repr(level)
        raise InputError(f"{name} = {shown}: expected {expected}")


def answer_by(
    rules: Rules | None,
    reading: "Reading",
    encoded: Encoded,
    examples: Sequence[Example],
    spec: TaskSpec,
    wishes: Wishes = PLAIN,
) -> list[Answer]:
    """One answer per example."""
    kind = KINDS[spec.kind]
    if rules is None:
        return kind.predict(reading.outputs, encoded, examples, spec)
    outputs = tempered(reading.outputs, rules.temperature)
    answers = kind.predict(outputs, encoded, examples, spec, rules.thresholds)
    if wishes.coverage is not None and rules.surprises is not None and kind.region is not None:
        furthest = reach(rules.surprises, wishes.coverage)
        answers = [answer | kind.region(answer, furthest, spec) for answer in answers]
    if rules.domain is not None:
        usual = rules.domain.p_values(by_example(reading.states, encoded, len(examples)))
        pairs = zip(answers, usual, strict=True)
        answers = [_judged(answer, float(p), wishes.abstain) for answer, p in pairs]
    return answers


def by_example(states: Array, encoded: Encoded, count: int) -> Array:
    """The state of each example's first item; a long text has several."""
    if len(states) == count:
        return states
    firsts = np.unique(encoded.item_example, return_index=True)[1]
    return np.asarray(states[firsts])


def _judged(answer: Answer, usual: float, level: float | None) -> Answer:
    """The answer with its p-value; emptied if the text is too unusual for one."""
    if level is None or usual >= level:
        return {**answer, "in_domain": usual}
    kept = {"tokens": answer["tokens"]} if "tokens" in answer else {}
    emptied = dict.fromkeys(name for name in answer if name not in kept)
    return {**kept, **emptied, "in_domain": usual, "abstained": True}
