"""A planted effect: tasks that contradict each other, answered through one common output head.

Only an encoder that knows which task it reads can answer them. A shared one must fail; one that is
conditioned must succeed, and fail when it is told the wrong task.
"""

from typing import Any

import pytest

import brodmann as bm
from brodmann.models.controls import evaluate_exchanged, rotations

COLOURS = ("red", "green", "blue", "black")
YES = {"warm": {"red", "black"}, "cold": {"green", "blue"}, "dark": {"blue", "black"}}
YES["light"] = {"red", "green"}  # of every colour just two of the four tasks say yes
LEARNT = {  # what each architecture is built and trained with
    "ca_mtl": {"parameters": {}},
    "pals": {"parameters": {"size": 16}},
    "adapters": {"parameters": {"size": 16}},
    "hmnet": {"parameters": {}},
    "task_lora": {"parameters": {}},
    "skillnet": {
        "parameters": {
            "skills": {
                "warm": ["tokens"],
                "cold": ["sentiment"],
                "dark": ["questions"],
                "light": ["topic"],
            }
        }
    },
}


def contradicting_tasks(rows: int = 96) -> list[Any]:
    things = ("cat", "dog", "hat", "house", "tree", "book")
    texts = [f"the {COLOURS[i % 4]} {things[i // 4 % 6]} sat" for i in range(rows)]
    return bm.load_tasks(
        [
            {
                "name": name,
                "kind": "classification",
                "head": "answer",
                "labels": ["no", "yes"],
                "train": [
                    {"text": t, "label": "yes" if t.split()[1] in colours else "no"} for t in texts
                ],
                "validation": [
                    {"text": t, "label": "yes" if t.split()[1] in colours else "no"}
                    for t in texts[:24]
                ],
            }
            for name, colours in YES.items()
        ]
    )


def trained(
    tasks: list[Any], architecture: str, epochs: int | None = None, **options: Any
) -> tuple[Any, dict[str, float]]:
    model = bm.MultiTaskModel.from_pretrained(
        "builtin:tiny",
        tasks,
        architecture=architecture,
        dropout=0.0,
        max_length=16,
        pooling="mean",  # random weights do not carry the colour to the first token
        **options,
    )
    if epochs is None:
        epochs = 16 if architecture in ("adapters", "task_lora") else 8  # a frozen backbone
    bm.fit(model, tasks, epochs=epochs, batch_size=16, learning_rate=2e-3, keep="last")
    scores = {name: result.scores["accuracy"] for name, result in bm.evaluate(model, tasks).items()}
    return model, scores


def mean(values: Any) -> float:
    return sum(values) / len(values)


def test_a_shared_encoder_cannot_tell_the_tasks_apart() -> None:
    _, scores = trained(contradicting_tasks(), "shared", epochs=3)
    # Two tasks say yes and two say no to every text, so any answer is right in half of them,
    # however long it has trained.
    assert mean(scores.values()) == pytest.approx(0.5)


def test_one_embedding_for_all_tasks_is_as_bad_as_none() -> None:
    _, scores = trained(contradicting_tasks(), "ca_mtl", 3, parameters={"embeddings": "one"})
    assert mean(scores.values()) == pytest.approx(0.5)


@pytest.mark.slow
def test_embeddings_that_start_alike_are_never_used() -> None:
    """Why task embeddings have a spread of their own: at 0.02 nothing is learnt in this time."""
    _, scores = trained(contradicting_tasks(), "ca_mtl", parameters={"spread": 0.02})
    assert mean(scores.values()) < 0.7


@pytest.mark.parametrize(
    "architecture",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name not in ("ca_mtl", "hmnet")))
        for name in LEARNT
    ],
)
def test_an_encoder_that_knows_its_task_solves_them(architecture: str) -> None:
    tasks = contradicting_tasks()
    model, scores = trained(tasks, architecture, **LEARNT[architecture])
    assert min(scores.values()) > 0.9
    turns = evaluate_exchanged(model, tasks)
    exchanged = [turn[task.name].scores["accuracy"] for turn in turns for task in tasks]
    # As its opposite every answer of a task is wrong; over all three others, two thirds are.
    assert len(turns) == 3 and mean(exchanged) < 0.5
    assert mean(scores.values()) - mean(exchanged) > 0.3


def test_rotations_give_every_task_another() -> None:
    names = ["a", "b", "c", "d", "e"]
    for instead in rotations(names):
        assert sorted(instead) == sorted(instead.values()) == names
        assert all(task != other for task, other in instead.items())
    assert len(rotations(names)) == 3 and rotations(["a", "b"]) == [{"a": "b", "b": "a"}]
