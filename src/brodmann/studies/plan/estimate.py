"""Estimate runs that cannot be tried here, from the catalogue's sizes and a model's shape.

Nothing is loaded or trained. Examples are the datasets' official sizes (or a task's `limit`),
tokens the mean lengths of `data/lengths.toml` (a task that is not in it is assumed to have its full
length, and named), parameters are counted on a model without weights, and operations are

    forward per token = 2 · (parameters of the layers it goes through) + 4 · layers · length · width
    training          = forward + gradients of activations + gradients of what trains

each of the three costing as much as a forward pass. Padding is not counted: batches of similar
lengths have little (`brodmann plan` of a configuration that can be tried counts it exactly).
"""

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from brodmann.config import Config, MetaSection, TransferSection
from brodmann.data import catalogue
from brodmann.data.sampling.samplers import SAMPLERS
from brodmann.errors import InputError
from brodmann.measuring.importance import passes
from brodmann.measuring.measuring_settings import TRANSFER_BATCH, TRANSFER_STEPS
from brodmann.models.backbone.sizes import Shape, encoder_counts
from brodmann.models.encoders import ARCHITECTURES
from brodmann.pipeline.dissociate import planned_passes
from brodmann.studies.cells import task_name
from brodmann.studies.plan.measuring_run import evaluations_of
from brodmann.training.defaults import choose_epochs
from brodmann.training.few_shot import LARGEST_BATCH

SPLIT_OF_OWN = 0.1  # share of the training data held out if a task has no validation split


@dataclass(frozen=True)
class Sized:
    """The sizes of a task, without its data."""

    name: str
    kind: str
    group: str
    train: int
    validation: int
    tokens: float  # per example, at the run's maximal length
    assumed: bool  # whether the length is only the largest possible


@dataclass(frozen=True)
class RunEstimate:
    """Costs of one run, stage by stage, in operations."""

    label: str
    fingerprint: str
    steps: int
    tokens: float  # trained on
    parameters: int
    activated: int
    operations: dict[str, float]
    memory: float  # bytes
    first_steps: float = 0.0  # training operations that another run has already done
    assumed: tuple[str, ...] = field(default=())

    @property
    def total(self) -> float:
        return sum(self.operations.values())


def estimate_run(label: str, config: Config, *, heads: bool, share: float = 1.0) -> RunEstimate:
    """Estimate one run; `share` is the part that it trains itself if others did its first steps."""
    length = config.model.max_length
    tasks = [sized(task, length) for task in config.tasks]
    shape = Shape.of(config.model.backbone)
    total, activated, layers = encoder_counts(
        shape, config.model.architecture, config.model.parameters, tasks, length
    )
    training = config.training
    examples = sum(task.train for task in tasks)
    an_epoch = -(-examples // (training.batch_size * training.accumulation))
    steps = an_epoch * choose_epochs(training.epochs, an_epoch)
    if training.max_steps is not None:
        steps = min(steps, training.max_steps)
    seen = steps * training.batch_size * training.accumulation
    tokens = seen * sum(t.train * t.tokens for t in tasks) / examples
    reading = 2 * layers + 4 * shape.layers * _mean_length(tasks, length) * shape.width
    trained = tokens * reading * (1 + _backward(config))
    if SAMPLERS[training.sampling].by_example:  # a batch of every task is read to choose from
        trained += tokens * reading * len(tasks)
    evaluations = evaluations_of(config, steps, an_epoch)
    judged = sum(task.validation * task.tokens for task in tasks)
    operations = {
        "training": (trained + evaluations * judged * reading) * share,
        "evaluation": judged * reading,
    }
    if heads:
        wanted = config.map.examples
        mapped = sum(
            (task.train if wanted is None else min(task.train, wanted)) * task.tokens
            for task in tasks
        )
        repeated = passes(config.map.estimator, shape.layers * shape.heads)
        operations["map of heads"] = 2 * mapped * reading * repeated
        if len(tasks) > 1:
            repeated = planned_passes(config, len(tasks))
            operations["dissociation"] = judged * reading * repeated
    return RunEstimate(
        label=label,
        fingerprint=config.fingerprint(),
        steps=round(steps * share),
        tokens=tokens * share,
        parameters=total,
        activated=activated,
        operations=operations,
        memory=16.0 * total + _activations(shape, training.batch_size, length),
        first_steps=(trained + evaluations * judged * reading) * (1 - share),
        assumed=tuple(task.name for task in tasks if task.assumed),
    )


@dataclass(frozen=True)
class Trainings:
    """Many short trainings: their number and, per stage, the tokens that they learn from and those
    that they only read."""

    count: int
    learnt: dict[str, float]
    read: dict[str, float]

    def cost(self, learning: float, reading: float) -> dict[str, float]:
        """Cost per stage, at these costs per token."""
        stages = dict.fromkeys([*self.learnt, *self.read])
        return {
            stage: learning * self.learnt.get(stage, 0.0) + reading * self.read.get(stage, 0.0)
            for stage in stages
        }


Tokens = Callable[[Sized, int], float]  # tokens per example of a task at a batch size


def mean_tokens(task: Sized, batch: int) -> float:
    """Mean tokens without padding, which could only be counted on the data."""
    return task.tokens


def few_shot(
    section: TransferSection, tasks: Sequence[Sized], tokens: Tokens = mean_tokens
) -> Trainings:
    """[transfer]: every start learns every task, with every number of examples, many times."""
    seeds = section.seeds
    amounts: list[float] = [*section.examples]
    each = seeds if isinstance(seeds, list) else [seeds] * (len(amounts) + len(section.shares))
    count, learnt, read = 0, 0.0, 0.0
    for task in tasks:
        sizes = amounts + [share * task.train for share in section.shares]
        for size, repeated in zip(sizes, each, strict=True):
            trainings = repeated * len(section.starts)
            count += trainings
            batch = min(LARGEST_BATCH, max(1, int(size)))
            learnt += trainings * size * section.epochs * tokens(task, batch)
            read += trainings * task.validation * task.tokens
    return Trainings(count, {"transfer": learnt}, {"transfer": read})


def meta_learning(
    section: MetaSection, tasks: Sequence[Sized], tokens: Tokens = mean_tokens
) -> Trainings:
    """[meta]: the starts of each seed, and their tests on unseen pairs."""
    named = {task.name: task for task in tasks}
    kept = {*section.unseen, section.tuning}
    seen = [task for task in tasks if task.name not in kept]
    each = sum(tokens(task, section.support) for task in seen) / len(seen)  # uniform draws
    # Every pair's support set in every inner step, then its query set.
    a_step = section.pairs * (section.inner_steps * section.support + section.query)
    trained = section.seeds * section.steps * a_step * each
    learnt = {"meta-training": trained}
    if "multitask" in section.against:
        learnt["plain training"] = trained
    starts = 1 + len(section.against)
    learnt["unseen pairs"] = read = 0.0
    times = section.seeds * section.draws * starts
    for task in (named[name] for name in section.unseen):
        for shots in section.shots:
            learnt["unseen pairs"] += times * shots * section.curve[-1] * tokens(task, shots)
            read += times * len(section.curve) * task.validation * task.tokens
    if section.tuning is not None:
        task, shots = named[section.tuning], max(section.shots)
        times = starts * len(section.rates) * section.draws
        learnt["unseen pairs"] += times * shots * section.curve[-1] * tokens(task, shots)
        read += times * task.validation * task.tokens
    return Trainings((len(learnt) - 1) * section.seeds, learnt, {"unseen pairs": read})


def tournament(tasks: Sequence[Sized]) -> Trainings:
    """Trainings for `ahp`: a few steps from every task's encoder to every other task."""
    others = len(tasks) - 1
    learnt = sum(task.tokens * TRANSFER_STEPS * TRANSFER_BATCH * others for task in tasks)
    return Trainings(len(tasks) * others, {"tournament": learnt}, {})


def starts_scored(known: int) -> int:
    """Number of starts for a new task: each of the model's own, and two random ones."""
    return known + 2


def operations_of(trainings: Trainings, config: Config) -> float:
    """Operations of the configuration's own backbone, by formula."""
    length = config.model.max_length
    shape = Shape.of(config.model.backbone)
    tasks = [sized(task, length) for task in config.tasks]
    reading = 2 * shape.matrices + 4 * shape.layers * _mean_length(tasks, length) * shape.width
    return sum(trainings.cost(reading * (1 + _backward(config)), reading).values())


def sized(task: Any, length: int) -> Sized:
    """A task's official sizes, or its limit if it has one."""
    name = task_name(task)
    entry, language = _entry(task)
    limit = {} if isinstance(task, str) or task.limit is None else task.limit
    limits = {"train": limit} if isinstance(limit, int) else limit
    train = entry.train_size(language) or 0
    judged = entry.sizes.get("validation", 0)
    if not judged and (not train or _judged_on_test(task)):
        judged = entry.sizes.get("test", 0)
    if not (train and judged):  # one split has to be divided
        judged, train = round((train or judged) * SPLIT_OF_OWN), train or judged
    sizes = {"train": train, "validation": judged}
    sizes = {
        split: min(size or limits.get(split, 0), limits.get(split, size))
        for split, size in sizes.items()
    }
    if not sizes["train"]:
        raise InputError(f"task '{name}': the catalogue does not say how many training rows it has")
    known = _lengths().get(entry.named(language)) or _lengths().get(entry.name)
    cut = next((cut for cut in (128, 256, 512) if cut >= length), 512)
    texts = 1 if isinstance(task, str) or task.pair_of is None else 2
    tokens = texts * min(known[str(cut)], float(length)) if known else float(length)
    return Sized(name, entry.kind, entry.group, **sizes, tokens=tokens, assumed=known is None)


def _judged_on_test(task: Any) -> bool:
    """Whether its description uses the test split for validation."""
    if isinstance(task, str):
        return False
    inner = task.pair_of if isinstance(task.pair_of, dict) else {}
    splits = task.splits or inner.get("splits") or {}
    return task.validation is not None or "validation" in splits


def _entry(task: Any) -> tuple[catalogue.Entry, str]:
    """Find the task by its name in the catalogue, or by the folder of its files."""
    use = task if isinstance(task, str) else task.use or task.pair_of
    if isinstance(use, dict):
        use = use.get("use")
    if isinstance(use, str):
        entry, languages = catalogue.find(use)
        return entry, languages[0]
    path = str(task.data or task.train or "")
    folder = path.partition("/")[0]
    for entry in catalogue.entries().values():
        if folder and folder in (entry.folder, entry.name.rpartition("/")[2]):
            return entry, entry.languages[0]
    raise InputError(
        f"task '{task_name(task)}': not in the catalogue: its size is not known before it is read"
    )


@cache
def _lengths() -> dict[str, dict[str, float]]:
    text = resources.files("brodmann.data").joinpath("lengths.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _mean_length(tasks: Sequence[Sized], length: int) -> float:
    """Mean length of a window over training examples: what a token attends to."""
    total = sum(task.train for task in tasks)
    return sum(task.train * min(task.tokens, length) for task in tasks) / total


def _backward(config: Config) -> float:
    """Cost of gradients of activations and weights, in forward passes: frozen layers save both,
    unless something below them trains."""
    section = config.model
    architecture = ARCHITECTURES[section.architecture]
    return architecture.backward_passes(section.freeze, section.parameters)


def _activations(shape: Shape, batch: int, length: int) -> float:
    """Bytes of activations for the backward pass (Korthikanti et al. 2022, eq. 2, doubled)."""
    a_token = 34 * shape.width + 5 * shape.heads * length
    return 2.0 * batch * length * shape.layers * a_token
