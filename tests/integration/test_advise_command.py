"""`brodmann advise` from raw files to an answer, with the tiny model: noise, copies, resuming."""

import json
import random
import re
import shutil
import sys
import tomllib
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

import brodmann as bm
from brodmann.advising.arrangements import METHODS, Arrangement, cells_of_arrangement
from brodmann.advising.cell_runs import Bench
from brodmann.advising.costs import Plan, Purse, Speed
from brodmann.advising.data_parts import divide_tasks
from brodmann.advising.tasks_file import read_tasks
from brodmann.training.events import silent
from brodmann.training.loop import Loop

Command = Callable[..., tuple[int, str, str]]
WORDS = ("tree", "lamp", "river", "stone", "cloud", "paper", "glass", "sand", "wheel", "bread")
TRAINING = "\n[training]\nlearning_rate = 3e-3\nepochs = 6\nbatch_size = 16\n"
BUDGET = "30s"


def texts(seed: int, marks: list[str], count: int = 160) -> list[tuple[str, int]]:
    """Texts of random words with one of the marks, and which."""
    draw = random.Random(seed)
    found = []
    for place in range(count):
        words = draw.choices(WORDS, k=6)
        kind = place % len(marks)
        words.insert(draw.randrange(6), marks[kind])
        found.append((" ".join(words), kind))
    return found


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two tasks that can be learnt, one with shuffled labels, and a copy of the first."""
    folder = tmp_path_factory.mktemp("raw")
    first = texts(0, ["sun", "rain"])
    copy = [{"w": text, "v": ["wet", "dry"][1 - kind]} for text, kind in first]
    random.Random(5).shuffle(copy)
    noise = [kind for _, kind in texts(2, ["sea", "hill"])]
    random.Random(6).shuffle(noise)
    return [
        write(folder / "a.jsonl", [{"t1": t, "z": "pq"[k]} for t, k in first]),
        write(
            folder / "b.jsonl",
            [{"x": t, "y": "abc"[k]} for t, k in texts(1, ["cat", "dog", "cow"])],
        ),
        write(folder / "c.jsonl", copy),
        write(
            folder / "n.jsonl",
            [
                {"x": t, "y": "uv"[y]}
                for (t, _), y in zip(texts(2, ["sea", "hill"]), noise, strict=True)
            ],
        ),
    ]


def begin(files: list[Path], folder: Path) -> None:
    """Look only, then set how the tiny model is trained."""
    stopped = bm.advise(files, to=folder, backbone="builtin:tiny", go_on=lambda path: False)
    assert stopped is None
    path = folder / "tasks.toml"
    path.write_text(path.read_text() + TRAINING)


@pytest.fixture(scope="module")
def whole(files: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session without interruption."""
    folder = tmp_path_factory.mktemp("whole") / "advice"
    begin(files, folder)
    assert bm.advise(to=folder, budget=BUDGET) is not None
    return folder


def answer_of(folder: Path) -> dict[str, Any]:
    """The answer without paths and times."""
    found = json.loads((folder / "advice.json").read_text())
    del found["serving"], found["configurations"], found["models"], found["heads"]
    return found


@pytest.mark.long
def test_noise_is_not_shared_and_the_copy_is_found(whole: Path) -> None:
    found = answer_of(whole)
    assert found["copies"] == {"c": "a"}
    assert found["without_signal"] == ["n"]
    assert found["signals"]["a"]["present"] and found["signals"]["b"]["present"]
    shared = {task for group in found["choice"]["shared"] for task in group}
    assert shared <= {"a", "b"}
    assert all({"n", "c"}.isdisjoint(chain.from_iterable(t["groups"])) for t in found["trials"])
    for task in shared:
        gain = found["verdict"]["gains"][task]
        assert gain["low"] <= gain["mean"] <= gain["high"] and gain["needed"] >= gain["examples"]


@pytest.mark.long
def test_what_is_delivered_answers(whole: Path) -> None:
    document = json.loads((whole / "advice.json").read_text())
    tasks = sorted(task for model in document["models"] for task in model["tasks"])
    assert tasks == ["a", "b"]
    for model in document["models"]:
        answers = bm.predict(model["folder"], ["the rain fell on the cat"], model["tasks"][0])
        assert set(answers[0]) >= {"label"}
        assert (Path(model["folder"]) / "calibration.json").is_file()
        assert set(model["suspects"]) == set(model["tasks"])
        assert bm.Run(model["folder"]).mistakes is not None
    page = (whole / "report.html").read_text()
    assert "n shows no signal above the trivial answer" in page and "c is a copy of a" in page
    config = document["configurations"][0]
    assert bm.plan(config).document["steps"] > 0
    assert (whole / "optuna.journal").stat().st_size > 0


@pytest.mark.long
def test_a_session_that_is_interrupted_anywhere_gives_the_same_answer(
    files: list[Path], whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C within a training, between trainings and while trials run; then a larger budget."""
    folder = tmp_path / "advice"
    begin(files, folder)
    shutil.copy(whole / "speed.json", folder)  # the same machine at the same speed
    one_step = Loop.one_step
    for last in (11, 90, 230):
        steps = 0

        def stopping(self: Loop, *given: Any, stop: int = last) -> Any:
            nonlocal steps
            steps += 1
            if steps == stop:
                raise KeyboardInterrupt
            return one_step(self, *given)

        monkeypatch.setattr(Loop, "one_step", stopping)
        with pytest.raises(KeyboardInterrupt):
            bm.advise(to=folder, budget="25s")
    monkeypatch.setattr(Loop, "one_step", one_step)
    bm.advise(to=folder, budget=BUDGET)
    ours, theirs = answer_of(folder), answer_of(whole)
    del ours["looked"], theirs["looked"]
    assert ours == theirs


def test_a_finished_session_trains_nothing_again(
    whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*given: Any) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(Loop, "one_step", never)
    before = answer_of(whole)
    advice = bm.advise(to=whole, budget=BUDGET)
    assert advice is not None and answer_of(whole) == before
    assert list(advice.to_frame()["task"]) == ["a", "b", "n"]
    assert str(advice) in advice._repr_html_()


def test_without_yes_it_stops_after_looking_and_says_how_to_go_on(
    files: list[Path], tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    code, out, err = command("advise", *files, "--to", tmp_path / "o", "--backbone", "builtin:tiny")
    assert code == 0
    assert re.search(r"a\s+classification\s+sure\s+text: t1, label: z", out)
    assert "c is a copy of a" in out
    assert f"correct {tmp_path / 'o' / 'tasks.toml'} if anything is wrong, then: brodmann" in err
    assert not (tmp_path / "o" / "cells").exists()


def test_corrections_in_the_file_count(files: list[Path], tmp_path: Path, command: Command) -> None:
    folder = tmp_path / "o"
    command("advise", *files[:2], "--to", folder, "--backbone", "builtin:tiny")
    path = folder / "tasks.toml"
    path.write_text(path.read_text().replace('kind = "classification"', 'kind = "multilabel"', 1))
    code, out, _ = command("advise", "--to", folder)
    assert code == 0
    assert re.search(r"a\s+multilabel\s+corrected", out)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--budget", "soon"], "budget = 'soon': expected a time such as 30m, 2h or 1h30m"),
        ([], "{to}: no tasks.toml in it: name the files with labelled rows"),
        (["{to}.nothing.csv"], "{to}.nothing.csv: no such file"),
    ],
)
def test_bad_input_is_one_line(
    words: list[str], message: str, tmp_path: Path, command: Command
) -> None:
    to = str(tmp_path / "o")
    code, _, err = command("advise", *(w.format(to=to) for w in words), "--to", to)
    assert (code, err) == (2, f"brodmann: {message.format(to=to)}\n")


def test_a_folder_of_other_files_is_left_alone(
    files: list[Path], tmp_path: Path, command: Command
) -> None:
    (tmp_path / "mine.txt").write_text("x")
    code, _, err = command("advise", files[0], "--to", tmp_path)
    assert code == 2
    assert err == (
        f"brodmann: {tmp_path} already holds other files: name another folder with --to\n"
    )
    folder = tmp_path / "o"
    command("advise", *files[:2], "--to", folder, "--backbone", "builtin:tiny")
    code, _, err = command("advise", files[3], "--to", folder)
    assert code == 2 and "was made for other files" in err


def test_a_budget_that_is_too_small_is_said_before_anything_is_trained(
    files: list[Path], tmp_path: Path, command: Command
) -> None:
    folder = tmp_path / "o"
    words = ["--to", folder, "--backbone", "builtin:tiny", "--yes"]
    code, _, err = command("advise", *files, *words, "--budget", "1s")
    assert code == 2 and err.startswith("brodmann: budget = 1.0 s: the smallest plan")
    assert not (folder / "cells").exists()


def test_options_that_contradict_the_file_are_an_error(
    files: list[Path], tmp_path: Path, command: Command
) -> None:
    folder = tmp_path / "o"
    command("advise", *files[:2], "--to", folder, "--backbone", "builtin:tiny")
    code, _, err = command("advise", "--to", folder, "--backbone", "builtin:minilm")
    assert (code, err) == (
        2,
        f"brodmann: {folder}/tasks.toml: model.backbone is 'builtin:tiny' there, not "
        "'builtin:minilm': change it there\n",
    )


def test_without_optuna_it_says_what_to_install(
    files: list[Path], tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    code, _, err = command("advise", *files, "--to", tmp_path / "o")
    assert (code, err) == (
        2,
        "brodmann: advise needs Optuna: pip install 'brodmann[advise]'\n",
    )
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains(method: str, files: list[Path], tmp_path: Path) -> None:
    folder = tmp_path / "o"
    begin(files[:2], folder)
    config = read_tasks(folder)
    parts = divide_tasks(config, folder)
    tokens = {name: {"train": 1, "validation": 1, "test": 1} for name in parts.names}
    speed = Speed(1e-9, 1e-9, 1e-9, 128, tokens, dict.fromkeys(parts.names, 1))
    bench = Bench(config, folder, parts, Purse(Plan(60, 1, 1, 1.0), speed), silent)
    arrangement = Arrangement((tuple(parts.names),), method, 0.5, (("a",), ("b",)))
    (cell,) = cells_of_arrangement(arrangement, 0)
    stored = tomllib.loads((bench.run(cell) / "config.toml").read_text())
    for key, value in METHODS[method].items():
        section, _, name = key.partition(".")
        assert name in stored[section] if value != {} else stored["model"]["architecture"] == "lora"
    assert stored["training"]["learning_rate"] == pytest.approx(0.5 * 3e-3)
    assert bench.choosing(cell, "a").shape[0] == len(parts.tasks[0].splits["validation"])


@pytest.mark.parametrize(("place", "said"), [(0, "Train a alone."), (3, "n shows no signal")])
def test_one_file_is_answered_too(place: int, said: str, files: list[Path], tmp_path: Path) -> None:
    begin([files[place]], tmp_path / "o")
    advice = bm.advise(to=tmp_path / "o", budget="15s")
    assert advice is not None and str(advice).startswith(said)
    assert advice.document["trials"] == [] and advice.document["verdict"]["gains"] == {}
    assert len(advice.document["models"]) == (place == 0)
