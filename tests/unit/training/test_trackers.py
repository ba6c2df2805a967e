"""Trackers with the real tools: what they store, where, and that a resumed run goes on in it."""

import importlib.util
import json
import os
import signal
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import brodmann as bm
from brodmann.errors import Interrupted
from brodmann.training.trackers import INSTALL, check_trackers, plain_values

OPTIONS: dict[str, Any] = {"max_steps": 24, "batch_size": 4, "precision": "float32"}
OFFLINE = ("tensorboard", "mlflow", "aim", "trackio", "wandb")
LIGHT = ("tensorboard",)  # what the tests always have


def real(name: str) -> Any:
    marks = () if name in LIGHT else (pytest.mark.slow,)
    return pytest.param(name, marks=marks)


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in which nothing but `run` may appear, and no way to another machine."""
    for name in ("home", "work"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    connect = socket.socket.connect

    def local(self: socket.socket, address: Any) -> None:
        host = address[0] if isinstance(address, tuple) else "localhost"
        if host not in ("localhost", "127.0.0.1", "::1"):
            raise AssertionError(f"a tracker asked for {address}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", local)
    yield tmp_path
    assert not list((tmp_path / "work").iterdir())
    assert not [p for p in (tmp_path / "home").rglob("*") if p.is_file()]


def run(tasks: list[Any], folder: Path, tracker: str, **options: Any) -> None:
    model = bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks, max_length=32)
    bm.fit(model, tasks, folder=folder, trackers=[tracker], **OPTIONS, **options)


@pytest.mark.parametrize("tracker", [real(name) for name in OFFLINE])
def test_a_resumed_run_is_one_run_inside_its_folder(
    tracker: str, alone: Path, tasks_of_every_kind: list[Any]
) -> None:
    pytest.importorskip(tracker)
    tasks, folder = tasks_of_every_kind[:2], alone / "first"

    def stop(event: str, facts: dict[str, Any]) -> None:
        if event == "step" and facts["step"] == 13:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Interrupted):
        run(tasks, folder, tracker, report=stop)
    run(tasks, folder, tracker)
    run(tasks, alone / "second", tracker)  # another run of the same process
    for name in ("first", "second"):
        steps, settings = READERS[tracker](alone / name)
        assert steps == {8, 10, 16, 20, 24}, name  # of scores and of losses
        assert str(settings["architecture"]) == "shared" and str(settings["batch_size"]) == "4"


def of_tensorboard(folder: Path) -> tuple[set[int], dict[str, Any]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    steps: set[int] = set()
    for file in folder.rglob("events.out.tfevents*"):
        found = EventAccumulator(str(file)).Reload()
        for tag in found.Tags()["scalars"]:
            steps |= {entry.step for entry in found.Scalars(tag)}
    hparams = max((folder / "brodmann").rglob("hparams.yml"))  # one per start
    lines = hparams.read_text(encoding="utf-8").splitlines()
    return steps - {0}, dict(line.split(": ", 1) for line in lines)


def of_mlflow(folder: Path) -> tuple[set[int], dict[str, Any]]:
    from mlflow.tracking import MlflowClient

    client = MlflowClient((folder / "mlflow").resolve().as_uri())
    (experiment,) = client.search_experiments(filter_string="name = 'brodmann'")
    (one,) = client.search_runs([experiment.experiment_id])
    assert one.info.run_name == folder.name
    assert json.loads((folder / "trackers.json").read_text())["mlflow"] == one.info.run_id
    steps = {
        m.step for key in one.data.metrics for m in client.get_metric_history(one.info.run_id, key)
    }
    return steps - {0}, one.data.params


def of_aim(folder: Path) -> tuple[set[int], dict[str, Any]]:
    from aim import Repo

    (one,) = Repo.from_path(str(folder)).iter_runs()
    steps = {step for metric in one.metrics() for step in metric.dataframe()["step"]}
    return set(map(int, steps)) - {0}, one["hparams"]


def of_trackio(folder: Path) -> tuple[set[int], dict[str, Any]]:
    import sqlite3

    (file,) = (folder / "trackio").glob("*.db")
    with sqlite3.connect(file) as database:
        steps = {step for (step,) in database.execute("select step from metrics")}
        ((config,),) = database.execute("select distinct config from configs").fetchall()
    return steps - {0}, json.loads(config)


def of_wandb(folder: Path) -> tuple[set[int], dict[str, Any]]:
    from wandb.proto import wandb_internal_pb2

    steps: set[int] = set()
    settings: dict[str, Any] = {}
    identities = set()
    for file in (folder / "wandb").rglob("*.wandb"):
        for data in wandb_records(file.read_bytes()):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            if record.history.item:
                steps.add(record.history.step.num)
            if record.run.run_id:
                identities.add(record.run.run_id)
            for change in (*record.run.config.update, *record.config.update):
                settings[change.key] = json.loads(change.value_json)
    assert len(identities) == 1
    return steps - {0}, settings


def wandb_records(data: bytes) -> Iterator[bytes]:
    """The records of a `.wandb` file: LevelDB's log format, after a header of seven bytes.

    In blocks of 32 KiB, every part of a record has its checksum (4 bytes), length (2) and type
    (1: whole, 2: first, 3: middle, 4: last).
    """
    assert data[:4] == b":W&B"
    place, parts = 7, b""
    while place + 7 <= len(data):
        left = -place % 2**15
        if 0 < left < 7:  # too short for a header: filled with zeros
            place += left
            continue
        length, form = struct.unpack("<HB", data[place + 4 : place + 7])
        parts += data[place + 7 : place + 7 + length]
        place += 7 + length
        if form in (1, 4):
            yield parts
            parts = b""


READERS = {
    "tensorboard": of_tensorboard,
    "mlflow": of_mlflow,
    "aim": of_aim,
    "trackio": of_trackio,
    "wandb": of_wandb,
}


def test_every_tracker_of_accelerate_is_known_and_a_missing_one_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from accelerate.tracking import LOGGER_TYPE_TO_CLASS

    assert set(OFFLINE) <= set(LOGGER_TYPE_TO_CLASS) and set(INSTALL) <= set(LOGGER_TYPE_TO_CLASS)
    find = importlib.util.find_spec
    gone = set(LOGGER_TYPE_TO_CLASS)
    monkeypatch.setattr(importlib.util, "find_spec", lambda n: None if n in gone else find(n))
    for name in LOGGER_TYPE_TO_CLASS:
        with pytest.raises(bm.InputError) as caught:
            check_trackers([name])
        package = {"comet_ml": "comet-ml", "mlflow": "mlflow-skinny"}.get(name, name)
        assert str(caught.value) == f"tracker '{name}' is not installed: pip install {package}"
    with pytest.raises(bm.InputError) as caught:
        check_trackers(["tensorbord"])
    assert str(caught.value) == (
        "unknown tracker 'tensorbord'; did you mean 'tensorboard'?: Accelerate logs to "
        + ", ".join(LOGGER_TYPE_TO_CLASS)
    )


def test_settings_are_flat() -> None:
    given = {"a": 1, "b": {"c": [1, 2], "d": None}, "e": None, "f": "x"}
    assert plain_values(given) == {"a": 1, "b.c": "1, 2", "f": "x"}
