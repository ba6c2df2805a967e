"""Budgets as texts, plans that fit, and a purse that does not look at the clock."""

import pytest

from brodmann.advising.arrangements import Arrangement, CellKey, Sharing, cells_of_arrangement
from brodmann.advising.costs import EPOCHS, Purse, Speed, make_plan, probe_of, seconds_of
from brodmann.errors import InputError

NAMES = ["a", "b", "c"]


def speed(tokens: int = 10_000) -> Speed:
    own = {"train": tokens, "validation": tokens // 3, "test": tokens // 3}
    return Speed(
        1e-4, 3e-5, 0.5, 384, dict.fromkeys(NAMES, own), dict.fromkeys(NAMES, tokens // 10)
    )


@pytest.mark.parametrize(
    ("text", "seconds"), [("30m", 1800), ("2h", 7200), ("1h30m", 5400), ("90s", 90), (60, 60)]
)
def test_budgets(text: str | float, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "30", "-5m", 0, True, "5m later"])
def test_wrong_budgets(text: str | float) -> None:
    with pytest.raises(InputError) as wrong:
        seconds_of(text)
    assert str(wrong.value) == f"budget = {text!r}: expected a time such as 30m, 2h or 1h30m"


def test_more_budget_means_more_epochs_and_seeds_and_what_is_planned_fits() -> None:
    plans = [make_plan(speed(), NAMES, budget) for budget in (60, 120, 600, 6000)]
    assert [p.epochs for p in plans] == sorted(p.epochs for p in plans)
    assert plans[0].epochs < plans[-1].epochs == EPOCHS[0] and plans[-1].seeds == 5
    assert all(plan.base <= 0.8 * plan.budget for plan in plans)


def test_large_files_are_tried_on_fewer_examples_before_a_second_seed_is_given_up() -> None:
    plan = make_plan(speed(300_000), NAMES, 600)
    assert plan.most in (2000, 4000, 8000) and plan.seeds >= 2 and plan.epochs >= 3
    assert make_plan(speed(300_000), NAMES, 60_000).most is None


def test_a_second_seed_is_given_up_before_epochs_are_too_few() -> None:
    budget = 3.2 * make_plan(speed(), NAMES, 6000, (2,)).base
    plan = make_plan(speed(), NAMES, budget, (5, 4, 3, 2))
    assert plan.seeds == 1 and plan.epochs > 2


def test_a_continued_folder_keeps_its_epochs() -> None:
    assert make_plan(speed(), NAMES, 6000, (3,), (None,)).epochs == 3


def test_a_budget_that_is_too_small_names_one_that_fits() -> None:
    with pytest.raises(InputError, match=r"^budget = 5.0 s: the smallest plan .* give at least"):
        make_plan(speed(), NAMES, 5)


def test_a_cell_is_paid_for_once() -> None:
    purse = Purse(make_plan(speed(), NAMES, 600), speed())
    first = purse.pay(CellKey(("a",)))
    assert purse.pay(CellKey(("a",))) == first == purse.spent
    assert purse.affords([CellKey(("a",))], first / 600)
    assert not purse.affords([CellKey(("b",))], first / 600)


def test_costs_follow_what_is_read_and_trained() -> None:
    cost = speed().seconds
    assert (
        cost(CellKey(("a",), share=0.5), 4)
        < cost(CellKey(("a",)), 4)
        < cost(CellKey(("a", "b")), 4)
    )
    assert cost(probe_of(NAMES), 4) == cost(probe_of(NAMES), 20)
    lora = cells_of_arrangement(Arrangement((("a", "b"),), "ca_mtl"), 0)[0]
    assert cost(lora, 4) > cost(CellKey(("a", "b")), 4)


def test_tasks_alone_have_plain_settings_in_every_arrangement() -> None:
    one = Arrangement((("a", "b"), ("c",)), "annealed sampling", 2.0)
    shared, alone = cells_of_arrangement(one, 1)
    assert shared.settings == {"training.sampling": "annealed"} and shared.rate == 2.0
    assert alone == CellKey(("c",), seed=1)
    assert one.label == "a + b; c alone (annealed sampling, rate × 2)"


def test_equal_and_empty_partitions_are_not_added() -> None:
    sharing = Sharing()
    assert sharing.add("together", [["a", "b"], ["c"]])
    assert not sharing.add("groups", [["c"], ["a", "b"]])
    assert not sharing.add("kept", [])


def test_clusters_go_to_architectures_that_take_them() -> None:
    one = Arrangement((("a", "b", "c"),), "hmnet", clusters=(("a", "c"), ("b",)))
    (cell,) = cells_of_arrangement(one, 0)
    assert cell.settings["model.parameters"] == {"clusters": [["a", "c"], ["b"]]}
