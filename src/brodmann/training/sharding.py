"""Training with parameters, gradients and moments split over the processes (FSDP, `fully_shard`).

Every process holds 1/n of each; a layer's weights are gathered only while the layer computes. The
given model stays an ordinary one: its weights are released while its split copy trains and are
restored to evaluate, to save and at the end, so that evaluation, checkpoints and the saved model
use the same code and the same files as without sharding.

Accelerate's own FSDP silently becomes data parallel training without a GPU, so torch's
`fully_shard` is called directly, on a mesh of all processes (gloo on CPUs).
"""

import contextlib
import copy
from collections import defaultdict
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from brodmann.data.batches import Batch
from brodmann.data.sampling.samplers import SAMPLERS
from brodmann.errors import InputError
from brodmann.models.backbone.anatomy import layers_of
from brodmann.models.backbone.checkpointing import is_checkpointing
from brodmann.models.encoders import ARCHITECTURES
from brodmann.models.multitask import MultiTaskModel, Outputs
from brodmann.training.settings import Options


def check_sharding(
    *,
    architecture: str,
    gates: bool,
    specialized: bool,
    aggregation: str | None,
    sampling: str,
    distillation: bool,
    gradient_checkpointing: bool,
    world: int,
) -> None:
    """Raise InputError for every combination that has not been shown to work."""
    refused = {
        f'architecture = "{architecture}"': not ARCHITECTURES[architecture].is_shared,
        "gates of the model": gates,
        "specialize": specialized,
        "aggregation": aggregation is not None,
        f'sampling = "{sampling}"': SAMPLERS[sampling].by_example,
        "distillation": distillation,
        "gradient_checkpointing": gradient_checkpointing,
    }
    for what, wrong in refused.items():
        if wrong:
            raise InputError(
                f"sharding: cannot be combined with {what}: use data parallel training"
            )
    if world < 2:
        raise InputError(
            "sharding needs several processes: torchrun --nproc_per_node N -m brodmann train CONFIG"
        )


def check_sharded_model(
    model: MultiTaskModel, options: Options, world: int, *, wrapped: bool
) -> None:
    check_sharding(
        architecture=model.settings.architecture,
        gates=bool(model.settings.gates),
        specialized=options.specialize is not None,
        aggregation=options.aggregation,
        sampling=options.sampling,
        distillation=wrapped,
        gradient_checkpointing=any(is_checkpointing(m) for m in model.bare_models()),
        world=world,
    )


class _Losses(nn.Module):
    """Computes losses as tensors: `fully_shard` finds its hooks by the tensors a module returns."""

    def __init__(self, model: MultiTaskModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Batch) -> list[Tensor]:
        return [losses.clone() for losses in self.model(batch).losses]


class Shards:
    """The split copy that trains in place of a model."""

    def __init__(self, model: MultiTaskModel, device: torch.device, world: int) -> None:
        self.whole_model = model
        mesh = init_device_mesh(device.type, (world,))
        self.split = copy.deepcopy(model)
        for backbone in self.split.bare_models():
            for layer in layers_of(backbone):
                fully_shard(layer, mesh=mesh)
        self.module: Any = fully_shard(_Losses(self.split), mesh=mesh)
        self._let_go()

    def __call__(self, batch: Batch) -> Outputs:
        return Outputs([], self.module(batch))

    @contextlib.contextmanager
    def whole(
        self, optimizer: Any, *, moments_too: bool = True, back: bool = False
    ) -> Iterator[tuple[nn.Module, Any]]:
        """Yield the ordinary model with all weights, and all moments by its parameters.

        Every process must call this; the first one, which saves, keeps the moments. With `back`,
        changes made inside the block are split again.
        """
        self.gather()
        parameters = dict(self.whole_model.named_parameters())
        moments: Any = SimpleNamespace(state=defaultdict(dict))
        for name, part in self.split.named_parameters() if moments_too else ():
            for moment, value in sorted(optimizer.state.get(part, {}).items()):  # the same order
                found = _all_of(value)
                if distributed.get_rank() == 0:
                    moments.state[parameters[name]][moment] = found
        try:
            yield self.whole_model, moments
            if back:
                self._split_again(optimizer, moments)
        finally:
            self._let_go()

    def gather(self) -> None:
        """Copy all weights back to the ordinary model."""
        mine = dict(self.whole_model.named_parameters())
        with torch.no_grad():
            for name, part in self.split.named_parameters():
                mine[name].data = _all_of(part).clone()
            buffers = dict(self.split.named_buffers())
            for name, buffer in self.whole_model.named_buffers():
                buffer.copy_(buffers[name])

    def _split_again(self, optimizer: Any, moments: Any) -> None:
        mine = dict(self.whole_model.named_parameters())
        with torch.no_grad():
            for name, part in self.split.named_parameters():
                part.copy_(_like(mine[name].data, part))
                for moment, value in moments.state.get(mine[name], {}).items():
                    same = value.shape == mine[name].shape and value.dim() > 0
                    optimizer.state[part][moment] = _like(value, part) if same else value

    def _let_go(self) -> None:
        for parameter in self.whole_model.parameters():
            parameter.data = torch.empty(0, dtype=parameter.dtype, device=parameter.device)


def _all_of(value: Any) -> Any:
    return value.full_tensor().detach() if isinstance(value, DTensor) else value


def _like(value: Tensor, part: Any) -> DTensor:
    """This process's share of a tensor that all processes have.

    Nothing is sent (`src_data_rank`), so processes may call this in different orders.
    """
    mesh, places = part.device_mesh, part.placements
    return distribute_tensor(value.to(part.device), mesh, places, src_data_rank=None)
