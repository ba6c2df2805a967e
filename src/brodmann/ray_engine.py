"""Cells of a grid on a Ray cluster: this machine's cores, or many machines.

Every cell is one Ray task with its own cores and graphics cards. The worker writes the result into
the grid's folder itself, under a temporary name and renamed, so what is finished stays finished
whoever dies; the folder must be the same on every machine. A cell whose worker died is started
again and goes on from its own checkpoint. The driver only hands out and watches.
"""

import logging
import os
import socket
import time
from collections.abc import Callable
from typing import Any

from brodmann.errors import InputError, Interrupted
from brodmann.grid import Engine, Work

LIVES = 5  # how often a cell is started again when its worker dies
LOOK_EVERY = 1.0  # seconds
SECONDS_TO_SAVE = 60.0
SECONDS_TO_ANSWER = 5.0


def ray_engine(
    *, address: str | None = None, workers: int | None = None, cpus: float = 1, gpus: float = 0
) -> Engine:
    """An engine for `run_grid`: its own cluster with `workers` cells at once, or a running one.

    A cell gets `cpus` cores (and as many threads) and `gpus` graphics cards.
    """
    try:
        import ray
    except ImportError:
        raise InputError("--engine ray needs more packages: pip install 'brodmann[ray]'") from None
    if workers is not None and (workers < 1 or address is not None):
        raise InputError("--workers: at least 1, and only for a cluster of its own (no --address)")
    if not cpus > 0 or gpus < 0:
        raise InputError(f"--cpus {cpus:g} --gpus {gpus:g}: expected above 0, and 0 or more")

    def run_all(waiting: list[Work], report: Any) -> None:
        if not waiting:
            return
        _check_answers(address)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        try:
            ray.init(
                address=address,
                num_cpus=None if workers is None else max(1, round(workers * cpus)),
                include_dashboard=False if address is None else None,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        except (ConnectionError, ValueError, RuntimeError) as error:
            reason = " ".join(str(error).split())[:200]
            raise InputError(f"no Ray cluster at {address or 'this machine'} ({reason})") from None
        try:
            _check_room(ray, report, cpus, gpus, fixed=address is None)
            _hand_out(ray, waiting, report, cpus, gpus)
        finally:
            ray.shutdown()

    return run_all


def _check_answers(address: str | None) -> None:
    """Ray itself would go on knocking at a door that nobody opens."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if not colon:  # none, or auto: Ray looks for a cluster on this machine
        return
    if not port.isdecimal():
        raise InputError(f"--address {address}: expected HOST:PORT, or auto")
    try:
        socket.create_connection((host.strip("[]"), int(port)), SECONDS_TO_ANSWER).close()
    except (OSError, OverflowError) as error:
        raise InputError(f"--address {address}: no Ray cluster answers there ({error})") from None


def _check_room(ray: Any, report: Any, cpus: float, gpus: float, *, fixed: bool) -> None:
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


def _hand_out(ray: Any, waiting: list[Work], report: Any, cpus: float, gpus: float) -> None:
    options = {"num_cpus": cpus, "num_gpus": gpus, "max_retries": LIVES}
    task = ray.remote(**options)(_cell)
    threads = max(1, round(cpus))
    jobs = {task.remote(work, threads): work for work in waiting}
    began, done = time.monotonic(), 0
    try:
        while jobs:
            ready, _ = ray.wait(list(jobs), num_returns=1, timeout=LOOK_EVERY)
            seconds = time.monotonic() - began
            report("cells", _seen(list(jobs.values()), len(waiting), seconds))
            for job in ready:
                work = jobs.pop(job)
                done += 1
                facts = work.facts("done", seconds / done * len(jobs))
                try:
                    result = ray.get(job)
                except ray.exceptions.RayError as error:
                    work.give_up(" ".join(str(error).split())[:200], report)
                    continue
                if result["state"] == "failed":
                    report("cell failed", {"label": work.cell.label, "reason": result["error"]})
                else:
                    report("cell", facts)
    except KeyboardInterrupt:
        for job in jobs:  # as Ctrl-C would: a cell that runs saves and stops
            ray.cancel(job, force=False)
        _, late = ray.wait(list(jobs), num_returns=len(jobs), timeout=SECONDS_TO_SAVE)
        for job in late:
            ray.cancel(job, force=True)
        text = f"stopped after {done} cells, the others saved: the same command goes on from here"
        raise Interrupted(text, 2) from None


def _seen(left: list[Work], cells: int, seconds: float) -> dict[str, Any]:
    """Where every cell is, from the logs in their folders: `left` (seconds) is what the steps so
    far say of those to come."""
    running = [(work.cell.label, step) for work in left if (step := work.step()) is not None]
    share = cells - len(left) + sum(step / max(steps, 1) for _, (step, steps) in running)
    return {
        "running": running,
        "done": cells - len(left),
        "waiting": len(left) - len(running),
        "left": seconds / share * (cells - share) if share > 0 else None,
    }


def _cell(work: Work, threads: int) -> dict[str, Any]:
    """In a worker."""
    import torch

    torch.set_num_threads(threads)
    if work.cell.config.threads is None:
        work.cell.config.threads = threads
    silent: Callable[[str, dict[str, Any]], None] = lambda event, facts: None  # noqa: E731
    result = work.finish(silent)
    return {"state": result["state"], "error": result.get("error", "")}
