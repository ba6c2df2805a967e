"""Result of training: each task's last training loss beside the loss of guessing."""

from pathlib import Path

from brodmann.config import Config
from brodmann.data.guessing import guessing_loss
from brodmann.data.sampling.samplers import SAMPLERS
from brodmann.data.tasks import Task
from brodmann.files import read_log

LAST = 0.1  # share of the steps whose mean is the last loss


def training_losses(
    folder: Path, config: Config, tasks: list[Task]
) -> dict[str, tuple[float, float]]:
    """(mean training loss over the last tenth of the steps, loss of guessing) by task.

    A student learns another loss, and a sampler that chooses examples trains on the hardest ones:
    neither can be compared with guessing.
    """
    if config.distill is not None or SAMPLERS[config.training.sampling].by_example:
        return {}
    entries = [entry for entry in read_log(folder / "log.jsonl") if "loss" in entry]
    last = max((entry["step"] for entry in entries), default=0)
    found = {}
    for task in tasks:
        guessing = guessing_loss(task)
        own = [entry for entry in entries if task.name in entry["loss"]]
        late = [entry for entry in own if entry["step"] > (1 - LAST) * last] or own[-1:]
        if guessing is None or not late or not task.spec.weight:
            continue
        mean = sum(entry["loss"][task.name] for entry in late) / len(late)
        found[task.name] = (mean / task.spec.weight, guessing)
    return found
