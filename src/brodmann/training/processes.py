"""One process or several: set up Accelerate, and exchange values between processes."""

import contextlib
import importlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import distributed

from brodmann.errors import InputError
from brodmann.models.backbone.devices import choose_device


def accelerator(device: torch.device) -> Any:
    """Set up Accelerate, which connects processes; a process alone places its model itself.

    On the CPU, processes find each other only with `cpu=True`. Accelerate keeps the first choice of
    a process for good, so it does not choose for a process alone: the next model may run elsewhere.
    """
    from accelerate import Accelerator, DistributedDataParallelKwargs
    from accelerate.state import AcceleratorState

    asked = int(os.environ.get("WORLD_SIZE", "1"))
    # Accelerate refuses another choice than that of whoever used it first in this process.
    begun = bool(AcceleratorState._shared_state)
    alone = asked == 1 and not begun
    try:
        made = Accelerator(
            cpu=alone or (asked > 1 and device.type == "cpu"),
            device_placement=asked > 1,
            # A batch of one task leaves the other tasks' heads without gradients.
            kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)],
        )
    except ValueError as error:  # only some of torchrun's variables are set
        raise InputError(f"{asked} processes were asked for, but {error}") from None
    if asked != made.num_processes:
        raise InputError(
            f"WORLD_SIZE is {asked} but {made.num_processes} process(es) joined: start with "
            "torchrun --nproc_per_node N -m brodmann train CONFIG"
        )
    return made


def refuse_sharding(made: Any, what: str) -> None:
    """Reject sharding: a head's rows can only be told apart in whole parameters."""
    if str(made.distributed_type).rpartition(".")[2] in ("FSDP", "DEEPSPEED", "MEGATRON_LM"):
        raise InputError(
            f"{what}: parameters are split over processes ({made.distributed_type}), so a head's "
            "own rows cannot be held still: use data parallel training (torchrun)"
        )


@contextlib.contextmanager
def together(device: str = "auto") -> Iterator[None]:
    """Connect the processes, if there are several, and disconnect them together at the end.

    A process that simply exits may abort in its group's threads while the others still need it.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        # transformers imports it sooner or later. Imported after the group exists, it keeps a
        # reference, so that the group's threads outlive it and sometimes abort the process.
        importlib.import_module("torch._dynamo")
        accelerator(choose_device(device))
    try:
        yield
        wait()
    finally:
        if distributed.is_available() and distributed.is_initialized():
            distributed.destroy_process_group()


def wait() -> None:
    """Wait until all processes get here, so that they can all read what the main one wrote."""
    if distributed.is_available() and distributed.is_initialized():
        distributed.barrier()


def is_main() -> bool:
    """Whether this process writes and prints (known before any set-up)."""
    return int(os.environ.get("RANK", "0")) == 0


def agreed(values: Sequence[float], device: torch.device, world: int) -> list[float]:
    """The maximum of each value over all processes: they must stop together or not at all."""
    if world == 1:
        return list(values)
    tensor = torch.tensor(values, dtype=torch.float64, device=device)
    distributed.all_reduce(tensor, op=distributed.ReduceOp.MAX)
    return [float(value) for value in tensor]


def everyones(state: Any, world: int) -> list[Any]:
    """The state of each process, gathered on all of them."""
    if world == 1:
        return [state]
    gathered: list[Any] = [None] * world
    distributed.all_gather_object(gathered, state)
    return gathered
