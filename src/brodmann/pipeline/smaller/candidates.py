"""Candidates for a smaller model: made from one measurement of the large one, tried on tasks."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from brodmann.analysis.mask_search import Choice, choose
from brodmann.data.encoding import Encoded
from brodmann.data.kinds import metric_of
from brodmann.data.tasks import Example, Task
from brodmann.errors import InputError
from brodmann.files import Array
from brodmann.measuring.block_times import BlockTimes, measure_block_times
from brodmann.measuring.points_lost import Loss, points_lost
from brodmann.training.events import Report

if TYPE_CHECKING:
    from brodmann.models.multitask import MultiTaskModel
    from brodmann.models.smaller.elimination import Emptying
    from brodmann.models.smaller.sensitivity import Sensitivity
    from brodmann.models.smaller.units import Block

EXAMPLES = 512  # per task, for gradients and moments
TOKENS = 128  # of a text that is timed
Progress = Callable[[int], None]


@dataclass(frozen=True)
class Conditions:
    """How a compression measures, where it stores what it needs again, and whom it tells."""

    report: Report
    batch_size: int
    precision: str
    seed: int
    folder: Path | None  # of what an interrupted search needs; None: nothing is stored

    @property
    def options(self) -> dict[str, Any]:
        return {"batch_size": self.batch_size, "precision": self.precision}

    def say(self, text: str) -> None:
        self.report("stage", {"text": text})

    def reading(self, what: str, examples: int) -> Progress:
        """Begin a bar; the function takes the number of examples just read."""
        self.report("measuring starts", {"what": what, "examples": examples})
        return lambda items: self.report("measuring goes on", {"items": items})


@dataclass
class Survey:
    """All that is known of a model before anything is cut."""

    model: "MultiTaskModel"
    blocks: Sequence["Block"]
    sensitivity: "Sensitivity"
    paths: Sequence["Emptying"]
    times: BlockTimes
    parameters: int
    matters: Array  # (task,) a loss's scale, so that all tasks' predictions are alike

    def costs(self, unit: str) -> tuple[list[Array], float]:
        """What each size of each block costs, and the rest: in milliseconds or parameters."""
        if unit == "latency":
            return list(self.times.times), self.times.rest
        each = [weights_of(self.model, block) for block in self.blocks]
        costs = [one * sizes for one, sizes in zip(each, self.times.options, strict=True)]
        return costs, self.parameters - sum(float(of_block[0]) for of_block in costs)

    def choose(self, unit: str, share: float, matters: Array) -> Choice | None:
        """The sizes with which a model takes this share of its time or parameters."""
        costs, rest = self.costs(unit)
        whole = sum(float(of_block[0]) for of_block in costs) + rest
        losses = [path.losses for path in self.paths]
        return choose(losses, costs, share * whole - rest, self.matters * matters)

    def predicted(self, choice: Choice) -> float:
        """The share of its time that a model of these sizes is expected to take."""
        left = sum(float(of[at]) for of, at in zip(self.times.times, choice.places, strict=True))
        return (left + self.times.rest) / self.times.whole

    def make(self, choice: Choice) -> "MultiTaskModel":
        """The smaller model: repaired, and cut."""
        from brodmann.models.smaller.elimination import weighted_moments
        from brodmann.models.smaller.repair import repair
        from brodmann.models.smaller.units import cut

        kept = [path.kept[place] for path, place in zip(self.paths, choice.places, strict=True)]
        small = copy.deepcopy(self.model)
        moments = weighted_moments(self.sensitivity, self.matters * choice.weights)
        repair(small, self.blocks, kept, moments)
        cut(small, self.blocks, kept)
        return small


def weights_of(model: Any, block: "Block") -> float:
    """Parameters that go with one unit, in all the encoders of a model."""
    from brodmann.models.backbone.anatomy import bare_models, head_slots
    from brodmann.models.backbone.feed_forward import feed_forwards

    total = 0
    for bare in bare_models(model):
        output = bare.get_submodule(block.output)
        total += output.get_parameter("weight").numel()
        if block.heads:
            slot = next(s for s in head_slots(bare) if s.part.output == block.output)
            total += sum(bare.get_parameter(one.path).numel() for one in slot.part.projections)
        else:
            found = next(f for f in feed_forwards(bare) if f.output == block.output)
            total += sum(
                parameter.numel()
                for path in found.inputs
                for parameter in bare.get_submodule(path).parameters()
            )
    return total / block.units


def survey(
    model: "MultiTaskModel",
    tasks: Sequence[Task],
    conditions: Conditions,
    times: BlockTimes | None = None,
) -> Survey:
    """Measure a model: sensitivity of its units on training examples, and times of its blocks."""
    from brodmann.models.heads.probes import example_probes
    from brodmann.models.smaller.elimination import eliminate, weighted_moments
    from brodmann.models.smaller.sensitivity import measure_sensitivity
    from brodmann.models.smaller.units import blocks_of

    blocks = blocks_of(model)
    if not blocks:
        kind = model.config.model_type
        raise InputError(f"{kind}: has neither heads nor neurons that could be cut")
    if times is None:
        conditions.say("timing blocks of every size")
        times = measure_block_times(model, blocks, tokens=TOKENS)
    probes = {
        task.name: example_probes(
            model, task, "train", EXAMPLES, conditions.seed, **conditions.options
        )
        for task in tasks
    }
    read = sum(min(EXAMPLES, len(task.splits["train"])) for task in tasks)
    counter = conditions.reading("measuring what units do", read)
    found = measure_sensitivity(model, blocks, probes, counter)
    matters = np.array([1.0 / of_task for of_task in _weights(found)])
    moments = weighted_moments(found, matters)
    conditions.say("finding what each block can spare")
    paths = [
        eliminate(model, blocks, number, sizes, found, moments)
        for number, sizes in enumerate(times.options)
    ]
    counts = model.parameter_counts()["total"]
    return Survey(model, blocks, found, paths, times, counts, matters)


def _weights(sensitivity: "Sensitivity") -> list[float]:
    """Each task's gradients, summed over blocks and tokens: tasks differ in the size of a loss."""
    return [
        sum(float(one[-1, -1]) for of_bare in moments if of_bare for one in of_bare) or 1.0
        for moments in sensitivity.moments.values()
    ]


@dataclass
class Judge:
    """Held-out examples of every task, and what the large model answers."""

    tasks: Sequence[Task]
    examples: Mapping[str, Sequence[Example]]
    encoded: dict[str, Encoded]
    before: dict[str, Array]  # outcomes
    conditions: Conditions

    def counter(self, what: str) -> Progress:
        """A bar over all examples."""
        return self.conditions.reading(what, sum(map(len, self.examples.values())))

    def outcomes(
        self, model: "MultiTaskModel", progress: Progress | None = None, *, anew: bool = False
    ) -> dict[str, Array]:
        """What a model's answers contribute to each score; `anew`: it has another vocabulary."""
        from brodmann.models.evaluation import evaluate_task

        found = {}
        for task in self.tasks:
            examples = self.examples[task.name]
            encoded = model.encode(task.spec, examples) if anew else self.encoded[task.name]
            answers = evaluate_task(
                model,
                task.name,
                encoded,
                examples,
                **self.conditions.options,
                progress=progress,
            ).predictions
            found[task.name] = metric_of(task.spec).outcomes(answers, examples, task.spec)
        return found

    def losses(self, after: Mapping[str, Array]) -> dict[str, Loss]:
        return {
            task.name: points_lost(task.spec, self.before[task.name], after[task.name])
            for task in self.tasks
        }


def make_judge(
    model: "MultiTaskModel",
    tasks: Sequence[Task],
    examples: Mapping[str, Sequence[Example]],
    conditions: Conditions,
) -> Judge:
    """Let the large model answer these examples, for comparisons with smaller ones."""
    encoded = {task.name: model.encode(task.spec, examples[task.name]) for task in tasks}
    found = Judge(tasks, examples, encoded, {}, conditions)
    found.before = found.outcomes(model, found.counter("scoring the whole model"))
    return found
