"""A real Ray cluster of two workers: a grid survives the death of one, to the same numbers."""

import contextlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.processes import finish, start, wait_until

from brodmann.errors import InputError
from brodmann.files import read_lines
from brodmann.studies import ray_engine
from brodmann.studies.ray_engine import _check_answers, _check_room

pytest.importorskip("ray")
Command = Callable[..., tuple[int, str, str]]
GRID = """
name = "study"
output = "{folder}/runs"
threads = 1
tasks = [
  {{ use = "builtin/sentiment", limit = {{ train = 96, validation = 24, test = 8 }} }},
  {{ use = "builtin/similarity", limit = {{ train = 96, validation = 24, test = 8 }} }},
]
[model]
backbone = "builtin:tiny"
[training]
epochs = 3
batch_size = 4
learning_rate = 1e-3
precision = "float32"
checkpoint_every = 10
[grid]
heads = false
vary = {{ seed = [0, 1, 2, 3], "training.weight_decay" = [0.0, 0.1, 0.2] }}
"""


def written(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "study.toml"
    path.write_text(GRID.format(folder=folder), encoding="utf-8")
    return path


def unequal(folder: Path) -> Path:
    """Twelve cells of 16, 32 and 320 steps: a busy machine, too, meets a long one on its way."""
    study = written(folder)
    text = study.read_text().replace("train = 96", "train = 32").partition("vary")[0]
    text = text.replace("[grid]", "evaluate_every = 80\n[grid]")
    vary = 'vary = { seed = [0, 1, 2, 3], "training.epochs" = [1, 2, 20] }'
    study.write_text(text + vary, encoding="utf-8")
    return study


def on_its_way(cell: Path) -> bool:
    """A long cell that has a checkpoint and is not near its end."""
    if not 10 <= last_step(cell) < 270:
        return False
    return bool(tomllib.loads((cell / "config.toml").read_text())["training"]["epochs"] == 20)


def workers(driver: int) -> list[int]:
    """Processes of this driver's cluster that run a cell now: Ray gives them their task's name."""
    found = []
    for process in psutil.Process(driver).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):  # it has just ended
            if " ".join(process.cmdline()).startswith("ray::_cell"):
                found.append(process.pid)
    return found


def cell_of(worker: int, cells: Path) -> Path | None:
    """The cell whose folder it holds locked."""
    with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess, psutil.AccessDenied):
        for file in psutil.Process(worker).open_files():
            if file.path.endswith(".lock") and Path(file.path).parent.parent == cells:
                return Path(file.path).parent
    return None


def last_step(folder: Path) -> int:
    """Of its newest checkpoint."""
    found = [int(path.name.removeprefix("step-")) for path in folder.glob("checkpoints/step-*")]
    return max(found, default=0)


def logged_step(folder: Path) -> int:
    log = read_lines(folder / "log.jsonl")
    return max((entry["step"] for entry in log if "learning_rate" in entry), default=0)


def scores(folder: Path) -> dict[str, Any]:
    rows = json.loads((folder / "runs" / "study" / "grid.json").read_text())["cells"]
    assert all(row["state"] == "done" for row in rows)
    return {row["label"]: {t: e["score"] for t, e in row["splits"]["validation"].items()}
            for row in rows}  # fmt: skip


@pytest.mark.slow
def test_a_dead_worker_loses_nothing(tmp_path: Path, command: Command) -> None:
    study = unequal(tmp_path / "ray")
    words = [sys.executable, "-m", "brodmann", "grid", str(study), "--engine", "ray"]
    process = subprocess.Popen(
        [*words, "--workers", "2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    cells = tmp_path / "ray" / "runs" / "cells"
    killed = told = None
    while process.poll() is None and told is None:
        held = {cell: pid for pid in workers(process.pid) if (cell := cell_of(pid, cells))}
        victims = [cell for cell in held if cell != killed and on_its_way(cell)]
        if killed is None and victims:
            killed = victims[0]
            os.kill(held[killed], signal.SIGKILL)
            saved = last_step(killed)
            lines = (killed / "log.jsonl").read_text().splitlines(keepends=True)
            whole = [line for line in lines if line.endswith("\n")]  # it may have died writing
            kept = [line for line in whole if json.loads(line)["step"] <= saved]
        elif victims:
            told = victims[0]  # SIGTERM, as a machine gets that is taken away
            os.kill(held[told], signal.SIGTERM)
        time.sleep(0.05)
    out, err = process.communicate(timeout=400)
    assert killed is not None and told is not None, out + err
    assert process.returncode == 0, out + err
    found = scores(tmp_path / "ray")
    assert len(found) == 12
    for folder in cells.iterdir():
        log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
        steps = [entry["step"] for entry in log if "learning_rate" in entry]
        assert steps == sorted(set(steps))  # no step is in the log twice
        sittings = len(json.loads((folder / "provenance.json").read_text())["sittings"])
        assert sittings == (2 if folder in (killed, told) else 1)
    # Gone on with from its own checkpoint: what was logged up to there stands, times and all.
    assert len(kept) > 1 and (killed / "log.jsonl").read_text().startswith("".join(kept))

    assert command("grid", unequal(tmp_path / "order"))[0] == 0
    assert scores(tmp_path / "order") == found
    code, out, _ = command("grid", study, "--engine", "ray", "--workers", "2")
    assert code == 0 and out.count("is there") == 12  # nothing is left to do


@pytest.mark.slow
def test_ctrl_c_saves_the_cells_that_run(tmp_path: Path) -> None:
    """Not only their last checkpoint: no step is lost."""
    study = written(tmp_path)
    # The worker that starts first is far from its end, and from any checkpoint of its own, when
    # the other one is there too.
    text = study.read_text().replace("checkpoint_every = 10", "evaluate_every = 100000")
    text = text.replace("epochs = 3", "epochs = 5000").partition("vary")[0]
    study.write_text(text + "vary = { seed = [0, 1] }", encoding="utf-8")
    process = start("-m", "brodmann", "grid", study, "--engine", "ray", "--workers", "2")
    cells = tmp_path / "runs" / "cells"
    wait_until(lambda: sum(logged_step(cell) >= 10 for cell in cells.glob("*")) == 2, process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "stopped after 0 cells, the others are saved" in err and err.count("\n") == 1
    for cell in cells.iterdir():
        assert logged_step(cell) <= last_step(cell) < logged_step(cell) + 10  # logged every tenth


@pytest.mark.slow
def test_a_cluster_that_was_started_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Relative folders are those of the grid, not of the cluster."""
    import ray

    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    here = tmp_path / "here"
    study = written(here)
    text = study.read_text().replace(f'output = "{here}/runs"', 'output = "runs"')
    text = text.replace("epochs = 3", "epochs = 1").partition("vary")[0]
    study.write_text(text + "vary = { seed = [0] }", encoding="utf-8")
    monkeypatch.chdir(elsewhere)
    try:
        context = ray.init("local", num_cpus=1, include_dashboard=False, log_to_driver=False)
        address = context.address_info["address"]
        words = ("-m", "brodmann", "grid", "study.toml", "--engine", "ray", "--address", address)
        code, out, err = finish(*words, cwd=here)
        assert code == 0, out + err
        assert len(scores(here)) == 1 and not list(elsewhere.iterdir())
    finally:
        ray.shutdown()


LISTENING = """
import sys
import psutil, ray
from brodmann.studies.ray_engine import ray_engine

own = psutil.Process()
with ray_engine(workers=1)(print):
    assert ray.get(ray.remote(lambda: 3).remote()) == 3
    for process in [own, *own.children(recursive=True)]:
        for connection in process.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN:
                print(connection.laddr.ip)
    print("address", ray.get_runtime_context().gcs_address, flush=True)
    sys.stdin.readline()
"""
INTRUDER = """
import sys, ray
try:
    ray.init(sys.argv[1], log_to_driver=False)
    print(ray.get(ray.remote(lambda: "code runs").remote()))
except ConnectionError as error:
    print(error)
"""


@contextlib.contextmanager
def own_cluster(home: Path) -> Iterator[tuple[list[str], str]]:
    """What a grid's cluster listens on, and its address."""
    process = subprocess.Popen(
        [sys.executable, "-c", LISTENING], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True, env={**os.environ, "HOME": str(home)},
    )  # fmt: skip
    assert process.stdout is not None
    try:
        found = [process.stdout.readline().strip()]
        while found[-1] and not found[-1].startswith("address"):
            found.append(process.stdout.readline().strip())
        assert found[-1], found
        yield found[:-1], found[-1].split()[1]
    finally:
        process.communicate("\n", timeout=60)
    assert process.returncode == 0


@pytest.mark.slow
def test_a_cluster_of_its_own_listens_on_loopback_alone(tmp_path: Path) -> None:
    with own_cluster(tmp_path) as (listening, _):
        assert len(listening) > 4
        assert {ip.removeprefix("::ffff:") for ip in listening} == {"127.0.0.1"}
    assert not (tmp_path / ".ray").exists()  # where Ray would keep a token


@pytest.mark.slow
def test_nobody_uses_a_cluster_without_its_token(tmp_path: Path) -> None:
    with own_cluster(tmp_path) as (_, address):
        refused = f"Failed to connect to Ray cluster at {address}\n"
        loopback = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "HOME": str(tmp_path / "other")}
        for token in (
            {"RAY_AUTH_MODE": "disabled"},
            {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "x" * 64},
        ):
            code, out, _ = finish("-c", INTRUDER, address, **loopback, **token)
            assert (code, out) == (0, refused)


def test_settings_of_the_environment_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    before = dict(os.environ)
    with ray_engine.closed_to_others():
        assert os.environ["RAY_AUTH_MODE"] == "token" and len(os.environ["RAY_AUTH_TOKEN"]) == 64
    assert dict(os.environ) == before


@pytest.mark.slow
def test_plain_and_iat_share_their_first_steps(tmp_path: Path, command: Command) -> None:
    """In order and on Ray, to the scores of runs that went all the way alone."""
    cases = (
        "cases = [{}, "
        '{ "specialize.delta" = 0.5, "specialize.examples" = 8 }, '
        '{ "specialize.delta" = 0.25, "specialize.examples" = 8 }, '
        '{ "specialize.variant" = "ticket_share", "specialize.examples" = 8 }]'
    )
    found, taken = {}, {}
    for name, words in (("order", ()), ("ray", ("--engine", "ray", "--workers", "2"))):
        study = written(tmp_path / name)
        text = study.read_text().replace("epochs = 3", "epochs = 1").partition("vary")[0]
        study.write_text(text + cases, encoding="utf-8")
        code, out, err = command("grid", study, *words)
        assert code == 0, out + err
        found[name] = scores(tmp_path / name)
        for folder in (tmp_path / name / "runs" / "cells").iterdir():
            assert not (folder / "checkpoints" / "branch").exists()  # nobody needs it any more
            log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
            steps = [entry["step"] for entry in log if "learning_rate" in entry]
            settings = tomllib.loads((folder / "config.toml").read_text())
            special = settings.get("specialize")
            taken[name, special and (special["variant"], special["delta"])] = min(steps)
    assert found["order"] == found["ray"] and len(found["ray"]) == 4
    for name in ("order", "ray"):  # a log begins with the first step that was taken there
        assert taken[name, None] == 10 and taken[name, ("ticket_share", 0.1)] == 10
        assert taken[name, ("important", 0.5)] == 30 and taken[name, ("important", 0.25)] == 40
    alone = written(tmp_path / "alone")
    text = alone.read_text().replace("epochs = 3", "epochs = 1").partition("vary")[0]
    alone.write_text(text + cases.replace("[{}, ", "["), encoding="utf-8")
    one = '[{ "specialize.delta" = 0.5, "specialize.examples" = 8 }]'
    alone.write_text(text + f"cases = {one}", encoding="utf-8")
    assert command("grid", alone)[0] == 0
    ((label, straight),) = scores(tmp_path / "alone").items()
    assert found["ray"][label] == straight


def test_failed_cells_are_tried_again_on_request(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    from brodmann.studies import one_run

    tries = []
    real = one_run.run

    def sometimes(config: Any, *words: Any, **more: Any) -> Any:
        tries.append(config.seed)
        if len(tries) < 3:
            raise RuntimeError("the disk was away")
        return real(config, *words, **more)

    monkeypatch.setattr(one_run, "run", sometimes)
    study = written(tmp_path)
    text = study.read_text().replace("epochs = 3", "epochs = 1").partition("vary")[0]
    study.write_text(text + "vary = { seed = [0] }", encoding="utf-8")
    code, out, err = command("grid", study, "--retries", "1")
    assert code == 1 and tries == [0, 0] and "1 of 1 cells failed" in err
    assert out.count("the disk was away") >= 2
    code, out, err = command("grid", study, "--retries", "3")
    assert code == 0 and tries == [0, 0, 0], out + err


def test_time_left_counts_what_is_to_come_and_only_this_sitting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from brodmann.config import load_config
    from brodmann.studies import work as grid_work
    from brodmann.studies.cells import Branch, cells_of

    study = written(tmp_path)
    cases = 'cases = [{}, { "specialize.delta" = 0.5 }]\nvary = { seed = [0, 1] }'
    study.write_text(study.read_text().partition("vary")[0] + cases, encoding="utf-8")
    cells = cells_of(load_config(study)[0])
    plain = {cell.config.seed: cell for cell in cells if cell.config.specialize is None}
    works = []
    for number, cell in enumerate(cells):
        special = cell.config.specialize is not None
        start = plain[cell.config.seed].config.folder if special else None
        branch = Branch(start=start)
        works.append(grid_work.Work(cell, number, 4, tmp_path, tmp_path, False, {}, branch))

    def log(work: grid_work.Work, *entries: dict[str, Any]) -> None:
        work.log.parent.mkdir(parents=True, exist_ok=True)
        with work.log.open("a") as file:
            file.write("".join(json.dumps(entry) + "\n" for entry in entries))
        os.utime(work.log, ns=(work.log.stat().st_mtime_ns + 10**9,) * 2)

    one, two = (work for work in works if work.branch.start is None)
    log(one, {"start": 1, "step": 0, "steps": 100}, {"step": 40})  # of another sitting
    now = [100.0]
    monkeypatch.setattr(grid_work.time, "monotonic", lambda: now[0])
    watch = grid_work.Watch(works)
    assert watch.left() is None and watch.seen()["running"] == []
    assert watch.seen()["waiting"] == 4
    log(one, {"step": 70})  # half of what was left of it
    now[0] += 30
    seen = watch.seen()
    assert [steps for _, steps in seen["running"]] == [(70, 100)] and seen["waiting"] == 3
    assert seen["left"] == pytest.approx(30 * (3 - 0.5) / 0.5)  # two trainings and two halves
    watch.finished(one)
    watch.finished(two)
    now[0] += 70
    assert watch.left() == pytest.approx(50) and watch.seen()["done"] == 2


def test_the_live_table_says_what_runs_and_the_time_left() -> None:
    from rich.console import Console

    from brodmann.terminal.view import RunView

    console = Console(force_terminal=True, width=100, record=True, file=io.StringIO())
    view = RunView(console)
    facts = {"running": [("seed=1", (30, 60))], "done": 2, "waiting": 9, "left": 600.0}
    view("cells", facts)
    assert view.live.table is not None
    console.print(view.live.table.renderable)
    text = console.export_text()
    assert "2 done, 9 waiting, about 10 min left" in text and "30/60" in text
    view.close()
    assert view.live.table is None


def test_wrong_options_are_one_line(tmp_path: Path, command: Command) -> None:
    """And nothing is written, though the cluster is asked last."""
    study = written(tmp_path)
    for words, message in (
        (("--engine", "ray", "--address", ""), "--address: expected HOST:PORT, or auto"),
        (("--engine", "ray", "--address", "127.0.0.1:1"), "no Ray cluster answers at this address"),
        (("--engine", "ray", "--workers", "1", "--cpus", "inf"), "expected cpus above 0"),
        (("--set", "training.sampling=propotional"), "did you mean 'proportional'"),
        (("--engine", "rey"), "--engine rey"),
        (("--workers", "2"), "--address and --workers need --engine ray"),
        (("--cpus", "2"), "--cpus and --gpus need --engine ray"),
        (("--engine", "ray", "--workers", "0"), "--workers: expected at least 1"),
        (("--engine", "ray", "--cpus", "0"), "expected cpus above 0"),
    ):
        code, _, err = command("grid", study, *words)
        assert code == 2 and message in err and err.count("\n") == 1
        assert not (tmp_path / "runs").exists()


def test_a_cell_that_no_machine_has_room_for() -> None:
    """It would wait for ever; a cluster of somebody else's may still grow."""

    class Cluster:
        @staticmethod
        def nodes() -> list[dict[str, Any]]:
            small = {"Alive": True, "Resources": {"CPU": 2.0}}
            return [small, {"Alive": False, "Resources": {"CPU": 64.0, "GPU": 8.0}}]

    notes: list[str] = []

    def report(event: str, facts: dict[str, Any]) -> None:
        notes.append(facts["text"])

    _check_room(Cluster, report, 2, 0, fixed=True)
    with pytest.raises(InputError, match=r"--gpus 1: no machine has room .* 2 cores, 0 GPUs"):
        _check_room(Cluster, report, 1, 1, fixed=True)
    assert notes == []
    _check_room(Cluster, report, 4, 0, fixed=False)
    assert len(notes) == 1 and "waiting for the cluster to grow" in notes[0]


def answer_once(server: socket.socket, words: bytes | None) -> None:
    """None: no word, until the other one goes."""
    door, _ = server.accept()
    with door:
        heard = door.recv(100)
        if words is None:
            while heard:
                heard = door.recv(100)
        else:
            door.sendall(words)


def test_a_cluster_that_does_not_answer_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # bound, but nobody listens
        address = f"127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(
            InputError, match=f"--address {address}: no Ray cluster answers at this address"
        ):
            _check_answers(address)
    with pytest.raises(InputError, match="expected HOST:PORT, or auto"):
        _check_answers("somewhere:else")
    for words, message in (
        (b"HTTP/1.0 400 Bad request", "other than Ray"),
        (b"", "other than Ray"),
        (None, "no Ray cluster answers at this address .timed out"),
    ):
        with socket.create_server(("127.0.0.1", 0)) as other:
            address = f"127.0.0.1:{other.getsockname()[1]}"
            speaker = threading.Thread(target=answer_once, args=(other, words))
            speaker.start()
            monkeypatch.setattr(ray_engine, "SECONDS_TO_ANSWER", 5.0 if words is not None else 0.2)
            with pytest.raises(InputError, match=f"--address {address}: .*{message}"):
                _check_answers(address)
            speaker.join()
    _check_answers("auto")
    _check_answers(None)
