"""Search, choice and verdict over simulated trainings whose true gains are known."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from brodmann.advising.arrangements import CellKey
from brodmann.advising.cell_runs import Bench
from brodmann.advising.choosing import choose, signals
from brodmann.advising.costs import Plan, Purse, Speed
from brodmann.advising.data_parts import Parts
from brodmann.advising.trying import Search
from brodmann.advising.verdicts import judge
from brodmann.config import Config
from brodmann.data.tasks import Task, TaskSpec
from brodmann.errors import RunError
from brodmann.files import Array
from brodmann.training.events import silent

NAMES = ["a", "b", "c", "d"]
EXAMPLES = 1000


class Simulated(Bench):
    """Trainings whose accuracy is 70 %, plus what the other tasks in the group bring."""

    effects: dict[tuple[str, str], float]
    failing: str
    luck: float  # of the choosing part alone, which the reporting part does not share
    trained: list[CellKey]

    def run(self, cell: CellKey) -> Path:
        self.purse.pay(cell)
        if cell not in self.trained:
            self.trained.append(cell)
        if self.failing and self.failing in cell.changes:
            raise RunError("does not work")
        return Path()

    def choosing(self, cell: CellKey, task: str) -> Array:
        return self._drawn(cell, task, 0)

    def reporting(self, cell: CellKey, task: str) -> Array:
        return self._drawn(cell, task, 1)

    def trivial(self, task: str, part: str) -> Array:
        return np.arange(EXAMPLES)[:, None] % 2 * 1.0

    def _drawn(self, cell: CellKey, task: str, part: int) -> Array:
        accuracy = 0.5 if task == "d" else 0.7
        accuracy += sum(self.effects.get((other, task), 0.0) for other in cell.group)
        if len(cell.group) > 1 and part == 0:
            accuracy += self.luck
        easy = np.random.default_rng([part, NAMES.index(task)]).random(EXAMPLES)
        own = np.random.default_rng([part, cell.seed, len(cell.group), NAMES.index(task)])
        return (0.7 * easy + 0.3 * own.random(EXAMPLES) < accuracy).astype(float)[:, None]


def simulated(
    tmp_path: Path,
    effects: dict[tuple[str, str], float],
    *,
    budget: float = 1e5,
    seeds: int = 2,
    failing: str = "",
    luck: float = 0.0,
) -> Simulated:
    tasks = [
        Task(TaskSpec(n, "classification", labels=("x", "y"), metric="accuracy"), {}) for n in NAMES
    ]
    tokens = {n: {"train": 1000, "validation": 300, "test": 300} for n in NAMES}
    speed = Speed(1e-3, 1e-4, 0.5, 384, tokens, dict.fromkeys(NAMES, 100))
    bench = Simulated(
        Config(name="x", tasks=["builtin/topic"]),
        tmp_path,
        Parts(tasks, []),
        Purse(Plan(budget, 3, seeds, 1.0), speed),
        silent,
    )
    bench.effects, bench.failing, bench.luck, bench.trained = effects, failing, luck, []
    return bench


def searched(bench: Simulated, tmp_path: Path) -> Search:
    search = Search(bench, NAMES[:3], [["a", "b"], ["c"]])
    search.run(tmp_path / "optuna.journal")
    return search


def test_tasks_without_a_signal_are_told_apart(tmp_path: Path) -> None:
    found = signals(simulated(tmp_path, {}), NAMES)
    assert [found[name].present for name in NAMES] == [True, True, True, False]


def test_a_harmful_task_is_left_alone_and_the_helpful_ones_share(tmp_path: Path) -> None:
    effects = {("a", "b"): 0.05, ("b", "a"): 0.05, ("c", "a"): -0.2, ("c", "b"): -0.2}
    bench = simulated(tmp_path, effects)
    choice = choose(searched(bench, tmp_path).attempts, NAMES[:3], 2)
    final, verdict = judge(bench, choice, tmp_path)
    assert final.shared == (("a", "b"),) and set(final.apart) == {"c"}
    for gain in verdict["gains"].values():
        assert gain["low"] <= 0.05 / 0.7 <= gain["high"]  # 0.7: the share of the common draw
        assert gain["verdict"] == "gains"


def test_if_everything_loses_each_task_stays_alone(tmp_path: Path) -> None:
    effects = {(one, other): -0.1 for one in NAMES for other in NAMES if one != other}
    bench = simulated(tmp_path, effects)
    choice = choose(searched(bench, tmp_path).attempts, NAMES[:3], 2)
    assert choice.shared == () and set(choice.apart) == set(NAMES[:3])
    assert judge(bench, choice, tmp_path)[1]["gains"] == {}


def test_luck_of_the_choosing_part_is_not_promised(tmp_path: Path) -> None:
    """A gain that only the choosing part shows is no gain on the reporting part."""
    bench = simulated(tmp_path, {}, luck=0.08)
    choice = choose(searched(bench, tmp_path).attempts, NAMES[:3], 2)
    assert choice.attempt is not None and choice.attempt.value > 0.05
    _, verdict = judge(bench, choice, tmp_path)
    assert all(gain["low"] < 0.02 for gain in verdict["gains"].values())


def test_what_loses_on_the_reporting_part_goes_back_to_its_own_model(tmp_path: Path) -> None:
    bench = simulated(tmp_path, {("a", "b"): -0.06, ("c", "b"): -0.06}, luck=0.2)
    choice = choose(searched(bench, tmp_path).attempts, NAMES[:3], 2)
    assert any("b" in group for group in choice.shared)
    final, verdict = judge(bench, choice, tmp_path)
    assert verdict["gains"]["b"]["verdict"] == "loses"
    assert all("b" not in group for group in final.shared)
    assert final.apart["b"].endswith("points on the reporting part")


def test_every_further_arrangement_that_is_looked_at_widens_the_intervals(tmp_path: Path) -> None:
    bench = simulated(tmp_path, {("a", "b"): 0.05, ("b", "a"): 0.05})
    attempts = searched(bench, tmp_path).attempts
    first = choose(attempts, NAMES[:3], 2)
    other = choose([a for a in attempts if a is not first.attempt], NAMES[:3], 2)
    one = judge(bench, first, tmp_path)[1]
    assert judge(bench, first, tmp_path)[1] == one and one["looks"] == 1
    again = judge(bench, other, tmp_path)[1]
    assert again["looks"] == 2 and again["level"] > one["level"]


def test_a_method_that_fails_does_not_stop_the_search(tmp_path: Path) -> None:
    bench = simulated(tmp_path, {("a", "b"): 0.05}, failing="hmnet")
    attempts = searched(bench, tmp_path).attempts
    failed = [a for a in attempts if a.state == "failed"]
    assert failed and all(a.reason == "does not work" for a in failed)
    assert any(a.state == "finished" for a in attempts)


def test_a_larger_budget_continues_the_same_sequence(tmp_path: Path) -> None:
    small, large = (simulated(tmp_path, {("a", "b"): 0.05}, budget=b) for b in (100.0, 500.0))
    searched(small, tmp_path)
    searched(large, tmp_path)
    assert 0 < len(small.trained) < len(large.trained)
    assert large.trained[: len(small.trained)] == small.trained


def test_weak_arrangements_are_stopped_after_the_first_seed(tmp_path: Path) -> None:
    bench = simulated(tmp_path, {("a", "c"): -0.2, ("b", "c"): -0.2, ("c", "a"): 0.05}, seeds=4)
    attempts: list[Any] = searched(bench, tmp_path).attempts
    assert {a.seeds for a in attempts if a.state == "dropped"} & {1, 2}
    assert max(a.seeds for a in attempts if a.state == "finished") == 4


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_tasks_have_nothing_to_share(count: int) -> None:
    choice = choose([], NAMES[:count], 2)
    assert choice.shared == () and list(choice.apart) == NAMES[:count]


def test_pairs_are_trained_and_clustered_if_the_budget_allows(tmp_path: Path) -> None:
    effects = {("a", "b"): 0.1, ("b", "a"): 0.1, ("c", "a"): -0.1, ("c", "b"): -0.1}
    rich = simulated(tmp_path, effects)
    assert searched(rich, tmp_path).by_pairs == [["a", "b"], ["c"]]
    assert {cell.group for cell in rich.trained} >= {("a", "c"), ("b", "c")}
    poor = simulated(tmp_path, effects, budget=100.0)
    searched(poor, tmp_path)
    assert ("b", "c") not in {cell.group for cell in poor.trained}
