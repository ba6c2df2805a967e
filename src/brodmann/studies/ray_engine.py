"""Cells of a grid on a Ray cluster: this machine's cores, or many machines.

Every cell is one Ray task with its own cores and graphics cards. The worker writes the result into
the grid's folder itself, under a temporary name and renamed, so what is finished stays finished
whoever dies; the folder must be the same on every machine. A cell whose worker died is started
again and goes on from its own checkpoint. The driver only hands out and watches.
"""

import contextlib
import importlib.util
import logging
import math
import os
import secrets
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from brodmann.errors import InputError, Interrupted
from brodmann.studies.work import Engine, Execute, Watch, Work
from brodmann.training.events import Report, silent

LIVES = 5  # how often a cell is started again when its worker dies
LOOK_EVERY = 1.0  # seconds
SECONDS_TO_SAVE = 60.0
SECONDS_TO_ANSWER = 5.0
SETTINGS = b"\x04"  # this kind of frame of HTTP/2
HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0" + SETTINGS + b"\0\0\0\0\0"
PLACE = "cell"  # a resource of a cluster of our own: as many as cells may run at once


def ray_engine(
    *, address: str | None = None, workers: int | None = None, cpus: float = 1, gpus: float = 0
) -> Engine:
    """An engine for `run_grid`: its own cluster with `workers` cells at once, or a running one.

    A cell gets `cpus` cores (and as many threads) and `gpus` graphics cards.
    """
    if importlib.util.find_spec("ray") is None:
        raise InputError("--engine ray needs more packages: pip install 'brodmann[ray]'")
    if workers is not None and (workers < 1 or address is not None):
        raise InputError("--workers: at least 1, and only for a cluster of its own (no --address)")
    if not 0 < cpus < math.inf or not 0 <= gpus < math.inf:
        raise InputError(f"--cpus {cpus:g} --gpus {gpus:g}: expected above 0, and 0 or more")
    if address == "":
        raise InputError("--address: expected HOST:PORT, or auto")
    options: dict[str, Any] = {"num_cpus": cpus, "num_gpus": gpus, "max_retries": LIVES}
    cluster: dict[str, Any] = {"address": address}
    if address is None:  # "local": never one that somebody else has started
        cluster |= {"address": "local", "include_dashboard": False}
    if workers is not None:
        cluster |= {"num_cpus": math.ceil(workers * cpus), "resources": {PLACE: workers}}
        options["resources"] = {PLACE: 1}

    @contextlib.contextmanager
    def connected(report: Report) -> Iterator[Execute]:
        _check_answers(address)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        with closed_to_others() if address is None else contextlib.nullcontext():
            import ray

            try:
                ray.init(**cluster, log_to_driver=False, logging_level=logging.ERROR)
            except (
                ConnectionError, ValueError, RuntimeError, ray.exceptions.RayError,
            ) as error:  # fmt: skip
                reason = " ".join(str(error).split())[:200]
                where = address or "this machine"
                raise InputError(f"no Ray cluster at {where} ({reason})") from None
            try:
                _check_room(ray, report, cpus, gpus, fixed=address is None)
                yield lambda works, watch: _hand_out(ray, works, watch, report, options)
            finally:
                ray.shutdown()

    return connected


@contextlib.contextmanager
def closed_to_others() -> Iterator[None]:
    """Start a cluster of our own on the loopback address, with a token of its own.

    Ray listens on every interface otherwise, and whoever reaches it can run code. Its processes
    inherit the token; nothing is written to disk.
    """
    own = {
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # Ray's switch for machines on their own
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
    }
    before = {name: os.environ.get(name) for name in own}
    os.environ.update(own)
    try:
        _read_settings_again()
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        _read_settings_again()


def _read_settings_again() -> None:
    """Ray reads the environment when it is imported, which somebody may have done before."""
    if "ray" not in sys.modules:
        return
    constants: Any = importlib.import_module("ray._private.ray_constants")
    inner: Any = importlib.import_module("ray._raylet")
    constants.ENABLE_RAY_CLUSTER = constants.env_bool(
        constants.ENABLE_RAY_CLUSTERS_ENV_VAR, not constants.IS_WINDOWS_OR_OSX
    )
    inner.Config.initialize("")
    inner.AuthenticationTokenLoader.instance().reset_cache()


def _check_answers(address: str | None) -> None:
    """Ray itself would go on knocking at a door that nobody opens, or behind which is another.

    It speaks gRPC: whoever does begins with a frame of HTTP/2 settings.
    """
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if not colon:  # none, or auto: Ray looks for a cluster on this machine
        return
    if not port.isdecimal():
        raise InputError(f"--address {address}: expected HOST:PORT, or auto")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), SECONDS_TO_ANSWER) as door:
            if os.environ.get("RAY_USE_TLS") == "1":
                return
            door.sendall(HELLO)
            answer = door.recv(9)
    except (OSError, OverflowError) as error:
        raise InputError(f"--address {address}: no Ray cluster answers there ({error})") from None
    if answer[3:4] != SETTINGS:
        raise InputError(f"--address {address}: something else than Ray answers there")


def _check_room(ray: Any, report: Report, cpus: float, gpus: float, *, fixed: bool) -> None:
    """A cell that no machine has room for would wait for ever without a word."""
    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if any(m.get("CPU", 0) >= cpus and m.get("GPU", 0) >= gpus for m in machines):
        return
    most = max((m.get("CPU", 0), m.get("GPU", 0)) for m in machines)
    text = (
        f"--cpus {cpus:g} --gpus {gpus:g}: no machine has room for a cell "
        f"(the largest: {most[0]:g} cores, {most[1]:g} graphics cards)"
    )
    if fixed:
        raise InputError(text)
    report("note", {"text": f"{text}: waiting for the cluster to grow"})


def _hand_out(
    ray: Any, works: list[Work], watch: Watch, report: Report, options: dict[str, Any]
) -> None:
    from brodmann.training.stopping import StopSignals

    task = ray.remote(**options)(_cell)
    threads = max(1, round(options["num_cpus"]))
    with StopSignals() as signals:
        jobs = {task.remote(work, threads, Path.cwd()): work for work in works}
        while jobs:
            ready, _ = ray.wait(list(jobs), num_returns=1, timeout=LOOK_EVERY)
            report("cells", watch.seen())
            for job in ready:
                work = jobs.pop(job)
                _take(ray, job, work, watch, report)
            if signals.received:
                _stop(ray, list(jobs))
                text = f"stopped after {len(watch.done)} cells, the others saved"
                raise Interrupted(f"{text}: the same command goes on from here", signals.received)


def _take(ray: Any, job: Any, work: Work, watch: Watch, report: Report) -> None:
    """What a cell has come to; its numbers are in the folder already."""
    try:
        result = ray.get(job)
    except ray.exceptions.RayError as error:
        work.give_up(_reason(error), report)
        return
    finally:
        watch.finished(work)
    if result["state"] == "failed":
        report("cell failed", {"label": work.cell.label, "reason": result["error"]})
    else:
        report("cell", work.facts("done", watch.left()))


def _reason(error: Exception) -> str:
    """Of a task that failed outside its cell: our own words, or the first of Ray's."""
    cause = getattr(error, "cause", None)
    return " ".join(str(error if cause is None else cause).split())[:300]


def _stop(ray: Any, jobs: list[Any]) -> None:
    """As Ctrl-C would: a cell that runs saves and stops."""
    for job in jobs:
        ray.cancel(job, force=False)
    if not jobs:
        return
    _, late = ray.wait(jobs, num_returns=len(jobs), timeout=SECONDS_TO_SAVE)
    for job in late:
        ray.cancel(job, force=True)


def _cell(work: Work, threads: int, place: Path) -> dict[str, Any]:
    """In a worker, from the folder that the grid was started in: its paths may be relative."""
    import torch

    if not place.is_dir():
        raise InputError(
            f"{place}: not on {socket.gethostname()}: a grid's folders must be the same on every "
            "machine of the cluster"
        )
    os.chdir(place)
    torch.set_num_threads(threads)
    if work.cell.config.threads is None:
        work.cell.config.threads = threads
    try:
        result = work.finish(silent)
    except Interrupted as stopped:
        if stopped.exit_code == 128 + signal.SIGTERM:  # a machine goes away: start it elsewhere
            os._exit(stopped.exit_code)
        raise
    return {"state": result["state"], "error": result.get("error", "")}
