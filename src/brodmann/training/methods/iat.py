r"""IAT, importance-aware training: in the last steps, a task moves only its own important heads.

After $\lfloor (1-\delta) \cdot \mathrm{steps} \rfloor$ optimizer steps of ordinary training, the
importance of every head is measured for every task on training examples. $M_i$ keeps the
$\lfloor \alpha \cdot \mathrm{heads} \rfloor$ most important heads of task $i$, over all layers
together, and from then on a batch of task $i$ updates, inside attention, only the rows of
$W^Q, W^K, W^V$ (with their biases) and the columns of $W^O$ that belong to those heads. Everything
outside attention trains as before. $\alpha = 1$ or $\delta = 0$ is plain training, to the bit;
with $\alpha = 0$ no task moves any head in the last steps.

Reference: Li et al. 2023, "Interpreting and Exploiting Functional Specialization in Multi-Head
Attention under Multi-task Learning", §4.2.
Departures: a head that a step does not select does not move at all in that step: no gradient, no
momentum, no weight decay, and its optimizer moments stay (`strict=False` only zeroes its gradients,
as the published code does, and the optimizer still moves it); $W^O$ is masked, too
(`projections="qkv"` leaves it unmasked, as the published code does). Dropout is on again after the
measurement, and none of its gradients reach the next step.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from brodmann.data.batches import Batch
from brodmann.data.tasks import Task
from brodmann.errors import InputError
from brodmann.files import Array
from brodmann.models.backbone.anatomy import anatomy_of, bare_models, head_shape
from brodmann.models.encoders import ARCHITECTURES, names_with
from brodmann.models.heads.gates import head_gates
from brodmann.models.heads.measure import importance
from brodmann.models.heads.probes import example_probes
from brodmann.models.heads.removal import check_apart, check_removable, prune_heads
from brodmann.models.heads.slices import HeadSlices, gate_slices, group_size, head_slices
from brodmann.models.heads.trained_gates import gone_heads
from brodmann.results import Head, HeadScores, share_of
from brodmann.training import processes
from brodmann.training.method_settings import IAT
from brodmann.training.methods import Method, Setup
from brodmann.training.output_heads import fitted_heads

MOMENTS = ("exp_avg", "exp_avg_sq", "momentum_buffer")  # of AdamW, of SGD
FROZEN = "specialize: all attention is frozen, so no head can be trained"
ALL_TASKS = "all tasks"  # with `prune`, all tasks share one choice of heads


def check_trained_heads(settings: IAT, architecture: str, freeze: float | str, gates: str) -> None:
    """Raise InputError if the model's settings leave no head that could move."""
    if settings.is_plain or settings.variant == "prune" or gates == "trained":
        return
    reason = ARCHITECTURES[architecture].heads_stay
    if reason:
        raise InputError(f"specialize: {reason}: use {names_with('trains_heads')}")
    if freeze in ("encoder", 1):
        raise InputError(FROZEN)


def check_specialization(model: Any, settings: IAT) -> None:
    """Raise InputError before the first step if this model cannot be specialized."""
    if settings.is_plain:
        return
    check_trained_heads(settings, model.settings.architecture, 0.0, model.settings.gates)
    for bare in bare_models(model):
        anatomy_of(bare)
        if settings.variant == "prune":
            check_removable(bare, [])
    if settings.variant == "prune":
        check_apart(bare_models(model))
    elif not _some_head_trains(model, settings):
        raise InputError(FROZEN)
    total = int(np.prod(head_shape(bare_models(model)[0])))
    if settings.alpha > 0 and share_of(settings.alpha, total) < 1:
        raise InputError(f"alpha = {settings.alpha} of {total} heads is less than one head")


def _some_head_trains(model: Any, settings: IAT) -> bool:
    free = None if model.gates is None else model.gates.free
    return (free is not None and free.requires_grad) or any(
        slices.parameter.requires_grad
        for bare in bare_models(model)
        for slices in head_slices(bare, settings.projections)
    )


class Specialization(Method):
    """One run's choice of heads, and the masks that keep the others unchanged."""

    name = "specialize"
    preparing = "choosing the heads"

    def __init__(self, model: Any, settings: IAT, steps: int, **measuring: Any) -> None:
        self.model, self.settings = model, settings
        self.measuring = measuring  # seed, batch_size and precision of the measurement
        self.begins: int = settings.switch(steps)
        check_specialization(model, settings)
        self.heads: dict[str, list[Head]] | None = None  # None before the switch
        self.task = ""  # the task whose batch is being read
        self._parts: list[_Part] = []
        self._gates = contextlib.ExitStack()

    def identity(self, *, shared_steps: bool) -> dict[str, Any]:
        return {} if shared_steps else {"specialize": self.settings.model_dump()}

    def is_active(self) -> bool:
        return self.heads is not None

    def splits_batches(self) -> bool:
        """Once heads are chosen: they specialize one task at a time."""
        return self.heads is not None

    def switch(self, tasks: Sequence[Task]) -> dict[str, Any]:
        self.install(self.choose(tasks, **self.measuring))
        return {"heads": self.heads}

    def begun(self) -> str:
        assert self.heads is not None
        counts = sorted({len(heads) for heads in self.heads.values()})
        shown = ", ".join(str(count) for count in counts)
        return f"training follows the map: {shown} heads per task"

    @contextlib.contextmanager
    def reading(self, batch: Batch) -> Iterator[None]:
        self.task = batch.parts[0].task
        yield

    def state(self) -> Any:
        return self.heads

    def restore(self, state: Any) -> None:
        self.install(state)

    def choose(
        self, tasks: Sequence[Task], *, seed: int, batch_size: int, precision: str
    ) -> dict[str, list[Head]]:
        """Choose the heads of every task, by the settings' variant."""
        settings = self.settings
        bare = bare_models(self.model)[0]
        names = tuple(task.name for task in tasks)
        if settings.alpha == 0:  # nothing to measure: no head is chosen
            return {name: [] for name in names}
        values = np.zeros((len(names), *head_shape(bare)))
        how: dict[str, Any] = {"batch_size": batch_size, "precision": precision}
        if settings.variant != "random":
            with self._trained_heads(tasks, seed, how):
                for place, task in enumerate(tasks):
                    probes = example_probes(
                        self.model, task, "train", settings.examples, seed, **how
                    )
                    values[place] = importance(self.model, probes)
        scores = HeadScores(names, values, removed=tuple(gone_heads(self.model)))
        if settings.variant == "prune":
            least = scores.least(settings.alpha, group=group_size(bare))
            check_removable(bare, least)
            return {ALL_TASKS: least}
        if settings.variant == "random":
            return {
                name: scores.random(settings.alpha, seed * 1000 + place)
                for place, name in enumerate(names)
            }
        return {name: scores.top(settings.alpha, name) for name in names}

    def _trained_heads(self, tasks: Sequence[Task], seed: int, how: dict[str, Any]) -> Any:
        """Fit the output heads if the measurement precedes the first step: they are random then."""
        if self.begins > 0 or not self.settings.fitted:
            return contextlib.nullcontext()
        return fitted_heads(self.model, tasks, examples=self.settings.examples, seed=seed, **how)

    def install(self, heads: Mapping[str, Sequence[Sequence[int]]]) -> None:
        """Restrict training to these heads from now on; a resumed run takes the checkpoint's."""
        self.heads = {name: [(int(a), int(b)) for a, b in chosen] for name, chosen in heads.items()}
        if self.settings.variant == "prune":
            self._gates.enter_context(head_gates(self.model, off=self.heads[ALL_TASKS]))
            return
        found: dict[int, tuple[HeadSlices, dict[str, Array]]] = {}
        for bare in bare_models(self.model):
            readers = [
                name
                for name in self.heads
                if self.model.encoder.backbone_of(name).base_model is bare
            ]
            masks = {name: _mask(self.heads[name], head_shape(bare)) for name in readers}
            for slices in head_slices(bare, self.settings.projections):
                if slices.parameter.requires_grad:
                    _, known = found.setdefault(id(slices.parameter), (slices, {}))
                    known |= masks  # paths of one encoder share layers
        free = None if self.model.gates is None else self.model.gates.free
        if free is not None and free.requires_grad:  # a head's gate moves with it
            shape = head_shape(bare_models(self.model)[0])
            masks = {name: _mask(chosen, shape) for name, chosen in self.heads.items()}
            found[id(free)] = (gate_slices(free, shape), masks)
        self._parts = [_Part(self, slices, masks) for slices, masks in found.values()]

    @contextlib.contextmanager
    def around_step(self, tasks: Sequence[str], optimizer: torch.optim.Optimizer) -> Iterator[None]:
        """Keep everything that no batch of the step selected unchanged."""
        parts = self._parts if self.settings.strict else []
        kept = [part.keep(tasks, optimizer) for part in parts]
        yield
        for part, values in zip(parts, kept, strict=True):
            part.put_back(values, optimizer)

    def close(self) -> None:
        for part in self._parts:
            part.hook.remove()
        self._parts = []
        self._gates.close()

    def finish(self) -> None:
        """Remove pruned heads permanently."""
        if self.settings.variant == "prune" and self.heads is not None:
            prune_heads(self.model, self.heads[ALL_TASKS])


class _Part:
    """One parameter: zeroes the gradients of heads that the batch's task has not chosen."""

    def __init__(
        self, owner: Specialization, slices: HeadSlices, masks: Mapping[str, Array]
    ) -> None:
        self.parameter, self.dimension = slices.parameter, slices.dimension
        device = self.parameter.device
        self.moves = {
            name: torch.from_numpy(slices.chosen(mask)).to(device) for name, mask in masks.items()
        }
        leaf: Any = self.parameter  # torch's own method has no types
        self.hook = leaf.register_hook(lambda gradient: self._masked(gradient, owner.task))

    def _masked(self, gradient: Tensor, task: str) -> Tensor:
        still = ~self.moves[task]
        if gradient.dim() == 2:
            still = still[:, None] if self.dimension == 0 else still[None, :]
        return gradient.masked_fill(still, 0.0)

    def keep(self, tasks: Sequence[str], optimizer: torch.optim.Optimizer) -> list[Any]:
        """Copy what must not move: (tensor, indices, values) of the weight and its moments."""
        if self.parameter.grad is None:  # no batch of this step reads it: the optimizer skips it
            return []
        moving = [self.moves[task] for task in dict.fromkeys(tasks) if task in self.moves]
        still = ~torch.stack(moving).any(dim=0)
        places = still.nonzero().flatten()
        if not len(places):
            return []
        return [
            (name, places, tensor.index_select(self.dimension, places))
            for name, tensor in self._tensors(optimizer).items()
        ]

    def put_back(self, kept: list[Any], optimizer: torch.optim.Optimizer) -> None:
        if not kept:
            return
        before = {name: values for name, _, values in kept}
        places = kept[0][1]
        for name, tensor in self._tensors(optimizer).items():
            if name in before:
                tensor.index_copy_(self.dimension, places, before[name])
            else:  # created by this step: clear what decay wrote for unmoved heads
                tensor.index_fill_(self.dimension, places, 0.0)

    def _tensors(self, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
        """The weight, and its moments if there are any."""
        state = optimizer.state.get(self.parameter, {})
        moments = {name: state[name] for name in MOMENTS if state.get(name) is not None}
        return {"weight": self.parameter.data, **moments}


def _mask(heads: Sequence[Head], shape: tuple[int, int]) -> Array:
    mask = np.zeros(shape, dtype=bool)
    for head in heads:
        mask[head] = True
    return mask


def make(setup: Setup) -> Specialization | None:
    settings, options = setup.options.specialize, setup.options
    if settings is None or settings.is_plain:
        return None
    processes.refuse_sharding(setup.accelerator, "specialize")
    return Specialization(
        setup.model,
        settings,
        setup.steps,
        seed=options.seed,
        batch_size=options.evaluation_batch_size,
        precision=options.precision,
    )
