"""Run cells of a grid on a Ray cluster: on this machine's cores, or on many machines.

Every cell is one Ray task with its own cores and GPUs. The worker writes the result into the grid's
folder itself, under a temporary name and renamed, so that finished cells survive any crash; the
folder must be the same on every machine. A cell whose worker died is started again and resumes from
its own checkpoint. The driver only distributes and watches.
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

LIVES = 5  # how often to restart a cell whose worker died
LOOK_EVERY = 1.0  # seconds
SECONDS_TO_SAVE = 60.0
SECONDS_TO_ANSWER = 5.0
SETTINGS = b"\x04"  # type of an HTTP/2 settings frame
HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0" + SETTINGS + b"\0\0\0\0\0"
PLACE = "cell"  # resource of our own cluster: one unit per cell that may run at once


def ray_engine(
    *, address: str | None = None, workers: int | None = None, cpus: float = 1, gpus: float = 0
) -> Engine:
    """An engine for `run_grid`: its own cluster with `workers` cells at once, or a running one.

    A cell gets `cpus` cores (and as many threads) and `gpus` GPUs.
    """
    if importlib.util.find_spec("ray") is None:
        raise InputError("--engine ray needs more packages: pip install 'brodmann[ray]'")
    if workers is not None and (workers < 1 or address is not None):
        raise InputError(
            "--workers: expected at least 1, and no --address (it is for a cluster of its own)"
        )
    if not 0 < cpus < math.inf or not 0 <= gpus < math.inf:
        raise InputError(
            f"--cpus {cpus:g} --gpus {gpus:g}: expected cpus above 0 and gpus of at least 0"
        )
    if address == "":
        raise InputError("--address: expected HOST:PORT, or auto")
    options: dict[str, Any] = {"num_cpus": cpus, "num_gpus": gpus, "max_retries": LIVES}
    cluster: dict[str, Any] = {"address": address}
    if address is None:  # "local": never join a cluster that is already running
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
    """Start our own cluster on the loopback address, with its own token.

    Otherwise Ray listens on every interface, and anyone who reaches it can run code. Its processes
    inherit the token; nothing is written to disk.
    """
    own = {
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # Ray's switch for single machines
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
    """Make Ray read the environment again: it may have been imported before."""
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
    """Raise InputError unless Ray answers: Ray itself would keep trying other or closed ports.

    Ray speaks gRPC, so its first answer is an HTTP/2 settings frame.
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
        raise InputError(
            f"--address {address}: no Ray cluster answers at this address ({error})"
        ) from None
    if answer[3:4] != SETTINGS:
        raise InputError(f"--address {address}: something other than Ray answers at this address")


def _check_room(ray: Any, report: Report, cpus: float, gpus: float, *, fixed: bool) -> None:
    """Raise InputError or note if no machine has room for a cell, which would wait forever."""
    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if any(m.get("CPU", 0) >= cpus and m.get("GPU", 0) >= gpus for m in machines):
        return
    most = max((m.get("CPU", 0), m.get("GPU", 0)) for m in machines)
    text = (
        f"--cpus {cpus:g} --gpus {gpus:g}: no machine has room for a cell "
        f"(the largest: {most[0]:g} cores, {most[1]:g} GPUs)"
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
                text = f"stopped after {len(watch.done)} cells, the others are saved"
                raise Interrupted(f"{text}: run the same command again to resume", signals.received)


def _take(ray: Any, job: Any, work: Work, watch: Watch, report: Report) -> None:
    """Record a finished cell; its numbers are already in the folder."""
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
    """Reason why a task failed outside its cell: our own message, or the first line of Ray's."""
    cause = getattr(error, "cause", None)
    return " ".join(str(error if cause is None else cause).split())[:300]


def _stop(ray: Any, jobs: list[Any]) -> None:
    """Stop cells as Ctrl-C would: a running cell saves and stops."""
    for job in jobs:
        ray.cancel(job, force=False)
    if not jobs:
        return
    _, late = ray.wait(jobs, num_returns=len(jobs), timeout=SECONDS_TO_SAVE)
    for job in late:
        ray.cancel(job, force=True)


def _cell(work: Work, threads: int, place: Path) -> dict[str, Any]:
    """Run a cell in a worker, in the folder where the grid was started (for relative paths)."""
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
        if stopped.exit_code == 128 + signal.SIGTERM:  # its machine stops: start it elsewhere
            os._exit(stopped.exit_code)
        raise
    return {"state": result["state"], "error": result.get("error", "")}
