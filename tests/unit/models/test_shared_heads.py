"""Tasks that share an output head: one set of weights, one meaning, also for later tasks."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.checkers import assert_same_bits, weights

import brodmann as bm
from brodmann.errors import InputError


def with_head(task: Any, name: str, head: str, **changes: Any) -> Any:
    return replace(task, spec=replace(task.spec, name=name, head=head, **changes))


def test_one_head_for_two_languages(tmp_path: Path, tasks_of_every_kind: list[Any]) -> None:
    task = tasks_of_every_kind[0]
    pairs = [with_head(task, "en", "both"), with_head(task, "es", "both"), task]
    model = bm.MultiTaskModel.from_pretrained("builtin:tiny", pairs).eval()
    assert model.head_of("en") is model.head_of("es") is not model.head_of(task.name)
    assert len(model.heads) == 2
    model.save_pretrained(tmp_path / "model")
    again = bm.MultiTaskModel.from_pretrained(tmp_path / "model")
    assert again.head_of("en") is again.head_of("es")
    first, second = (again.predict(name, ["a cat"])[0] for name in ("en", "es"))
    assert first == second


def test_a_new_task_finds_the_head_it_names(tasks_of_every_kind: list[Any]) -> None:
    task = tasks_of_every_kind[0]
    model = bm.MultiTaskModel.from_pretrained("builtin:tiny", [with_head(task, "en", "both")])
    before = weights(model.head_of("en"))
    model.add_task(with_head(task, "es", "both"))
    assert model.head_of("es") is model.head_of("en")
    assert_same_bits(before, model.head_of("es"))
    model.train_only("es")  # the head is not its alone
    assert not [p for p in model.parameters() if p.requires_grad]
    model.train_only("en", "es")
    assert all(p.requires_grad for p in model.head_of("en").parameters())


def test_answers_must_mean_the_same(tasks_of_every_kind: list[Any]) -> None:
    task = tasks_of_every_kind[0]
    other = with_head(task, "other", "both", labels=("left", "right"))
    with pytest.raises(InputError) as error:
        bm.MultiTaskModel.from_pretrained("builtin:tiny", [with_head(task, "one", "both"), other])
    assert str(error.value) == (
        "head = 'both': 'other' (classification: left, right) cannot share the output head of "
        f"'one' (classification: {', '.join(task.spec.labels)})"
    )


def test_a_task_without_a_shared_head_is_written_as_before(tasks_of_every_kind: list[Any]) -> None:
    """Fingerprints of runs from before heads could be shared stay valid."""
    spec = tasks_of_every_kind[0].spec
    assert "head" not in spec.to_dict()
    shared = replace(spec, head="both")
    assert shared.to_dict()["head"] == "both"
    assert type(spec).from_dict(shared.to_dict()) == shared
