"""What knowing the task is worth, from the outcomes of every example."""

from typing import Any

import pytest

import brodmann as bm
from brodmann.data.kinds import outcomes
from brodmann.pipeline.evaluate import worth_of_knowing
from brodmann.text import conditioning


def specs() -> list[Any]:
    rows = [{"text": f"word {i}", "label": "ab"[i % 2]} for i in range(8)]
    tasks = bm.load_tasks(
        [
            {"name": name, "kind": "classification", "train": rows, "validation": rows}
            for name in ("one", "two")
        ]
    )
    return [task.spec for task in tasks]


def right(share: float, count: int = 200) -> Any:
    """Outcomes of examples of which this share was answered right."""
    labels = ["a" if i < share * count else "b" for i in range(count)]
    answers = [{"label": label, "probabilities": {"a": 0.5, "b": 0.5}} for label in labels]
    return outcomes(answers, [{"text": "x", "label": 0}] * count, specs()[0])


@pytest.mark.parametrize(
    ("own", "exchanged", "lost", "words"),
    [
        (0.9, (0.6, 0.4), 0.4, "conditioning is used: "),
        (0.9, (0.9, 0.9), 0.0, "conditioning is hardly used: "),
    ],
)
def test_the_worth_is_what_exchanging_costs(
    own: float, exchanged: tuple[float, ...], lost: float, words: str
) -> None:
    both = {name: right(own) for name in ("one", "two")}
    others = {name: [right(share) for share in exchanged] for name in both}
    found = worth_of_knowing(specs(), both, others)
    assert found["mean_lost"] == pytest.approx(lost)
    assert found["exchanged"] == {name: list(map(pytest.approx, exchanged)) for name in both}
    low, high = found["interval"]
    assert low <= lost <= high and (lost == 0 or high - low > 0.05)
    assert conditioning(found).startswith(words)


def test_a_loss_within_chance_is_not_called_used() -> None:
    worth = {"mean_lost": 0.01, "interval": [-0.02, 0.04]}
    assert conditioning(worth) == (
        "conditioning is not clearly used: reading every task as another costs 1.0 points on "
        "average [−2.0, 4.0]"
    )
