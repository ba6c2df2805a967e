"""Large tables take time in proportion, and sizes beyond any reason are refused."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import brodmann as bm
from brodmann.data.sources.delimited import _checked_header
from brodmann.data.tasks import TaskSpec, label_index


def seconds(call: Callable[[], object]) -> float:
    """Of the processor, the least of three: other tests run beside this one."""
    found = []
    for _ in range(3):
        begun = time.process_time()
        call()
        found.append(time.process_time() - begun)
    return min(found)


def assert_linear(call: Callable[[int], object], size: int) -> None:
    """Eight times as much takes about eight times as long, far from sixty-four times."""
    assert seconds(lambda: call(8 * size)) < 24 * seconds(lambda: call(size)) + 0.05


def test_a_header_of_many_columns() -> None:
    def check(count: int) -> None:
        _checked_header([f"c{i}" for i in range(count)], Path("t.csv"))

    assert_linear(check, 2000)
    with pytest.raises(bm.InputError) as error:
        _checked_header([*(f"c{i}" for i in range(60_000)), "c7"], Path("t.csv"))
    assert str(error.value) == "t.csv line 1: the column 'c7' occurs twice in the first line"


@pytest.mark.parametrize("given", ["name", "number"])
def test_many_labels(given: str) -> None:
    """As names, or as the numbers that the hub writes for them."""

    def look_up(count: int) -> None:
        spec = TaskSpec("t", "classification", labels=tuple(f"l{i}" for i in range(count)))
        for place in range(count):
            assert label_index(f"l{place}" if given == "name" else place, spec) == place

    assert_linear(look_up, 500)


def test_a_message_lists_some_of_many_names() -> None:
    rows: list[dict[str, Any]] = [{"text": f"t {i}", "label": f"l{i % 90:02d}"} for i in range(180)]
    with pytest.raises(bm.InputError) as error:
        bm.load_task(
            "t", kind="classification", labels=[f"l{i:02d}" for i in range(90)],
            train=[*rows, {"text": "x", "label": "none"}], validation=rows,
        )  # fmt: skip
    first = ", ".join(f"l{i:02d}" for i in range(50))
    assert str(error.value) == (
        "t.train row 181: task 't': label 'none' is not one of the task's 90 labels; known: "
        f"{first} and 40 more"
    )
    wide = [{f"c{i:03d}": "x" for i in range(100)}] * 4
    with pytest.raises(bm.InputError) as error:
        bm.load_task("t", kind="classification", train=wide)
    columns = ", ".join(f"c{i:03d}" for i in range(50))
    assert str(error.value) == (
        f"t.train: task 't' needs the column 'text' (text), found {columns} and 50 more"
    )


def test_generated_examples_have_a_limit() -> None:
    for limit in (10_000_000, {"validation": 100_001}):
        with pytest.raises(bm.InputError) as error:
            bm.load_tasks([{"use": "builtin/topic", "limit": limit}])
        asked = limit if isinstance(limit, int) else 100_001
        assert str(error.value) == (
            f"builtin/topic: limit = {asked:,}: at most 100,000 examples per split are generated"
        )


@pytest.mark.parametrize(
    ("setting", "most"),
    [
        ("dissociation.draws", 10_000),
        ("dissociation.resamples", 1_000_000),
        ("training.epochs", 10**9),
        ("training.batch_size", 10**9),
        ("model.max_length", 10**9),
    ],
)
def test_settings_beyond_any_reason(tmp_path: Path, command: Any, setting: str, most: int) -> None:
    config = tmp_path / "c.toml"
    config.write_text(f'name = "r"\noutput = "{tmp_path}"\ntasks = ["builtin/topic"]\n')
    for value in (most + 1, 2**62, 2**63, 10**30):
        code, out, err = command("run", config, "--set", f"{setting}={value}")
        assert (code, out) == (2, "")
        auto = "'auto' or input should be " if setting == "training.epochs" else ""
        assert err == (
            f"brodmann: {config}: {setting} = {value}: input should be {auto}less than or equal to "
            f"{most}\n"
        )


def test_draws_beyond_any_reason_are_refused_from_python(
    tiny_model: Any, tasks_of_every_kind: list[Any]
) -> None:
    tasks = tasks_of_every_kind[:2]
    scores = bm.head_importance(tiny_model, tasks, examples=4)
    with pytest.raises(bm.InputError) as error:
        bm.dissociation(tiny_model, tasks, scores, draws=2**63)
    assert str(error.value) == (
        f"dissociation: draws = {2**63}: input should be less than or equal to 10000"
    )
    with pytest.raises(bm.InputError) as error:
        bm.fit(tiny_model, tasks, epochs=2**62)
    assert str(error.value) == (
        f"fit: epochs = {2**62}: input should be 'auto' or input should be less than or equal to "
        "1000000000"
    )
