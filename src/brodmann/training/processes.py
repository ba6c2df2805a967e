"""One process or several: the Accelerate set-up that works, and what they tell each other."""

import contextlib
import importlib
import importlib.util
import os
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import distributed

from brodmann.errors import InputError, did_you_mean

TRACKERS = {"tensorboard": "tensorboard", "wandb": "wandb"}  # name → the package that it needs


def accelerator() -> Any:
    """Without `cpu=True` on a machine with no GPU, every process would believe it is alone."""
    from accelerate import Accelerator, DistributedDataParallelKwargs

    asked = int(os.environ.get("WORLD_SIZE", "1"))
    try:
        made = Accelerator(
            cpu=not torch.cuda.is_available(),
            # A batch of one task leaves the other tasks' heads without gradients.
            kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)],
        )
    except ValueError as error:  # what torchrun sets is there only in part
        raise InputError(f"{asked} processes were asked for, but {error}") from None
    if asked != made.num_processes:
        raise InputError(
            f"WORLD_SIZE is {asked} but {made.num_processes} process(es) joined: start with "
            "torchrun --nproc_per_node N -m brodmann train CONFIG"
        )
    return made


def refuse_sharding(made: Any, what: str) -> None:
    """A head's rows can be told apart only where parameters are whole."""
    if str(made.distributed_type).rpartition(".")[2] in ("FSDP", "DEEPSPEED", "MEGATRON_LM"):
        raise InputError(
            f"{what}: parameters are split over processes ({made.distributed_type}), so a head's "
            "own rows cannot be held still: use data parallel training (torchrun)"
        )


@contextlib.contextmanager
def together() -> Iterator[None]:
    """Processes find each other at the beginning, where there are several, wait for each other at
    the end and take leave: one that just exits may abort in the threads of its group while the
    others still need it."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        # Comes with transformers at some time. Where it comes after the group it keeps hold of it,
        # so that the group's threads outlive its end and abort the process now and then.
        importlib.import_module("torch._dynamo")
        accelerator()
    try:
        yield
        wait()
    finally:
        if distributed.is_available() and distributed.is_initialized():
            distributed.destroy_process_group()


def wait() -> None:
    """For all processes to come here: what the main one has written is there for everybody."""
    if distributed.is_available() and distributed.is_initialized():
        distributed.barrier()


def is_main() -> bool:
    """Whether this process writes and prints (known before anything is set up)."""
    return int(os.environ.get("RANK", "0")) == 0


def agreed(values: Sequence[float], device: torch.device, world: int) -> list[float]:
    """The largest of each value over all processes: they must stop together or not at all."""
    if world == 1:
        return list(values)
    tensor = torch.tensor(values, dtype=torch.float64, device=device)
    distributed.all_reduce(tensor, op=distributed.ReduceOp.MAX)
    return [float(value) for value in tensor]


def everyones(state: Any, world: int) -> list[Any]:
    """What each process has, on all of them."""
    if world == 1:
        return [state]
    gathered: list[Any] = [None] * world
    distributed.all_gather_object(gathered, state)
    return gathered


def check_trackers(trackers: Sequence[str]) -> None:
    for name in trackers:
        if name not in TRACKERS:
            raise InputError(f"unknown tracker '{name}'{did_you_mean(name, TRACKERS)}")
        if importlib.util.find_spec(TRACKERS[name]) is None:
            raise InputError(f"tracker '{name}' is not installed: pip install {TRACKERS[name]}")


@contextlib.contextmanager
def tracking(trackers: Sequence[str], folder: str, settings: dict[str, Any]) -> Iterator[Any]:
    """A function `log(values, step)` that writes to the trackers asked for, or to none."""
    if not trackers:
        yield lambda values, step: None
        return
    from accelerate import Accelerator

    check_trackers(trackers)
    logger = Accelerator(
        cpu=not torch.cuda.is_available(), log_with=list(trackers), project_dir=folder
    )
    plain = {k: v for k, v in settings.items() if isinstance(v, int | float | str | bool)}
    logger.init_trackers("brodmann", config=plain)
    try:
        yield lambda values, step: logger.log(values, step=step)
    finally:
        logger.end_training()
