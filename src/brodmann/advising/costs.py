"""What fits the budget: a few measured steps, the cost of every training, epochs and seeds.

Speed is measured once and stored, so that later sessions count on the same numbers: a larger budget
continues the same sequence of trainings, and no decision looks at the clock.
"""

import json
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brodmann.advising.arrangements import CellKey
from brodmann.advising.data_parts import CHOOSING, REPORTING
from brodmann.advising.kinship import relate_all
from brodmann.config import Config
from brodmann.data.tasks import Task
from brodmann.errors import InputError
from brodmann.files import digest, read_json, write_json
from brodmann.text import counted, duration
from brodmann.training.events import Report, silent

SPEED = "speed.json"
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
EPOCHS = (20, 16, 12, 10, 8, 6, 5, 4, 3, 2)
MOST_SEEDS = 5
FEWEST_EPOCHS = 3  # fewer are only planned if a second seed is given up, too
ENOUGH = 2000  # training examples: fewer are only planned if a second seed is given up, too
MOSTS: tuple[int | None, ...] = (None, 8000, 4000, 2000, 1000, 500)  # examples to train on
FOR_SEARCH, FOR_BASE = 0.8, 0.55  # shares of the budget: all trials; alone and together
FACTORS = {"model.architecture": 1.3, "training.sampling": 1.05, "specialize.delta": 1.4}
PROBE = "probe"  # the linear probe, as a change of settings


def seconds_of(budget: str | float) -> float:
    """Seconds of a budget such as "30m", "1h30m" or a number of seconds.

    >>> seconds_of("1h30m")
    5400.0
    """
    if isinstance(budget, int | float) and not isinstance(budget, bool):
        found = float(budget)
    else:
        text = str(budget).strip().lower()
        parts = re.findall(r"(\d+(?:\.\d+)?)([smhd])", text)
        whole = "".join(number + unit for number, unit in parts)
        found = sum(float(n) * UNITS[u] for n, u in parts) if whole == text else 0.0
    if not 0 < found < float("inf"):
        raise InputError(f"budget = {budget!r}: expected a time such as 30m, 2h or 1h30m")
    return found


@dataclass(frozen=True)
class Speed:
    """Measured costs of reading and training, and the tokens of every task."""

    trained: float  # seconds per padded token
    read: float
    overhead: float  # seconds to load and save a model
    width: int  # of the encoder's states
    tokens: dict[str, dict[str, int]]  # task → split → padded tokens per pass
    sizes: dict[str, int]  # task → training examples

    def seconds(self, cell: CellKey, epochs: int, most: int | None = None) -> float:
        """Estimated seconds of one training with its evaluations, on at most so many examples."""
        tokens = [self.tokens[name] for name in cell.group]
        train = sum(
            self.tokens[name]["train"] * used_share(cell.share, self.sizes[name], most)
            for name in cell.group
        )
        choosing = sum(own[CHOOSING] for own in tokens)
        judged = choosing + sum(own[REPORTING] for own in tokens)
        if PROBE in cell.settings:
            return 2 * self.overhead + (train + judged) * self.read + len(tokens) * self.overhead
        factor = 1.0
        for key, more in FACTORS.items():
            factor *= more if key in cell.settings else 1.0
        training = epochs * train * self.trained * factor + choosing * self.read
        return 2 * self.overhead + training + judged * self.read


def used_share(share: float, size: int, most: int | None) -> float:
    """The share of a task's training examples that a training uses.

    >>> used_share(0.5, 1000, None), used_share(0.5, 1000, 400)
    (0.5, 0.2)
    """
    return share if most is None else share * min(1.0, most / size)


def measure_speed(
    config: Config, tasks: Sequence[Task], folder: Path, report: Report
) -> tuple[Speed, dict[str, Any]]:
    """The stored speed and relations, or those of the pretrained model and some of its steps."""
    path, measured_on = folder / SPEED, setup_of(config, tasks)
    if path.is_file():
        known = read_json(path, speed=dict, relations=dict)
        if known.get("setup") == measured_on:
            return Speed(**known["speed"]), known["relations"]
    from brodmann.pipeline.train import build_model
    from brodmann.studies.plan.measuring_run import costs_of
    from brodmann.training.step_costs import split_tokens

    report("stage", {"text": f"loading {config.model.backbone}"})
    build_model(config, list(tasks))  # imports what the second one needs, too
    began = time.monotonic()
    model = build_model(config, list(tasks))
    overhead = max(0.2, time.monotonic() - began)
    report("stage", {"text": "relating the tasks by words and representations"})
    relations = relate_all(model, tasks, config.seed) if len(tasks) > 1 else {}
    report("stage", {"text": "measuring the speed of a few steps"})
    size = config.training.batch_size
    tokens = {
        task.name: {
            split: split_tokens(model.encode(task.spec, examples), size)
            for split, examples in task.splits.items()
        }
        for task in tasks
    }
    found = costs_of(config, model, list(tasks), silent)
    speed = Speed(
        trained=_rounded(found.seconds_of_training / max(found.tokens, 1)),
        read=_rounded(found.seconds_per_token_read),
        overhead=_rounded(overhead),
        width=int(model.config.hidden_size),
        tokens=tokens,
        sizes={task.name: len(task.splits["train"]) for task in tasks},
    )
    write_json(path, {"speed": vars(speed), "relations": relations, "setup": measured_on})
    return speed, relations


def setup_of(config: Config, tasks: Sequence[Task]) -> str:
    """What a measured speed, and a plan, are for: another model or other data need new ones."""
    names = [task.fingerprint() for task in tasks]
    return digest([config.model.model_dump(), config.training.batch_size, names])


def _rounded(value: float) -> float:
    return float(f"{value:.2g}")


@dataclass(frozen=True)
class Plan:
    """Epochs, seeds, training examples per task, and seconds that the trials may take."""

    budget: float
    epochs: int
    seeds: int
    base: float  # seconds of the probe, and of alone and together for one seed
    most: int | None = None  # training examples per task; None: all

    def document(self) -> dict[str, Any]:
        return {**vars(self), "for_search": FOR_SEARCH * self.budget}


def make_plan(
    speed: Speed,
    names: Sequence[str],
    budget: float,
    epochs: Sequence[int] = EPOCHS,
    mosts: Sequence[int | None] = MOSTS,
) -> Plan:
    """Choose examples, epochs and seeds that fit; InputError if none do.

    A large file is tried on fewer examples before a second seed is given up; a small one is not.
    """
    largest = max(speed.sizes[name] for name in names)
    mosts = [most for most in mosts if most is None or most < largest] or [None]
    fewest = min(FEWEST_EPOCHS, max(epochs))
    costs = {
        (most, count): _base(speed, names, count, most)
        for most in mosts
        for count in sorted(epochs, reverse=True)
    }
    for seeds in (2, 1):
        for (most, count), (probe, pair) in costs.items():
            enough = seeds == 1 or (count >= fewest and (most or ENOUGH) >= ENOUGH)
            if enough and probe + seeds * pair <= FOR_BASE * budget:
                return Plan(budget, count, _seeds(probe, pair, budget), probe + pair, most)
    probe, pair = costs[mosts[-1], min(epochs)]
    if probe + pair > FOR_SEARCH * budget:
        raise InputError(
            f"budget = {duration(budget)}: the smallest plan (a probe, each task alone, all "
            f"together, {counted(min(epochs), 'epoch')}, one seed) takes about "
            f"{duration(probe + pair)} on this machine: give at least "
            f"{duration((probe + pair) / FOR_SEARCH * 1.05)}, or fewer files"
        )
    return Plan(budget, min(epochs), 1, probe + pair, mosts[-1])


def _seeds(probe: float, pair: float, budget: float) -> int:
    seeds = 1
    while seeds < MOST_SEEDS and probe + 1.6 * (seeds + 1) * pair <= FOR_SEARCH * budget:
        seeds += 1
    return seeds


def _base(speed: Speed, names: Sequence[str], epochs: int, most: int | None) -> tuple[float, float]:
    """Seconds of the probe, and of one seed of every task alone and of all together."""
    group = tuple(names)
    single = sum(speed.seconds(CellKey((name,)), epochs, most) for name in names)
    together = speed.seconds(CellKey(group), epochs, most) if len(names) > 1 else 0.0
    return speed.seconds(probe_of(names), epochs, most), single + together


def probe_of(names: Sequence[str]) -> CellKey:
    """A linear probe of each task on the frozen encoder, in one training."""
    return CellKey(tuple(names), json.dumps({PROBE: True}))


class Purse:
    """Seconds spent, as estimated: the same in every session, whatever the clock says."""

    def __init__(self, plan: Plan, speed: Speed) -> None:
        self.plan, self.speed = plan, speed
        self.paid: dict[CellKey, float] = {}

    @property
    def spent(self) -> float:
        return sum(self.paid.values())

    def affords(self, cells: Iterable[CellKey], share: float = FOR_SEARCH) -> bool:
        """Whether the cells that are not paid for yet fit into a share of the budget."""
        new = {cell for cell in cells if cell not in self.paid}
        more = sum(self.speed.seconds(cell, self.plan.epochs, self.plan.most) for cell in new)
        return self.spent + more <= share * self.plan.budget

    def pay(self, cell: CellKey) -> float:
        if cell not in self.paid:
            self.paid[cell] = self.speed.seconds(cell, self.plan.epochs, self.plan.most)
        return self.paid[cell]
