"""Runs in real processes of their own."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

CONFIG = """
name = "{name}"
output = "{output}"
[[tasks]]
use = "builtin/sentiment"
limit = {{ train = 96, validation = 24, test = 24 }}
[[tasks]]
use = "builtin/similarity"
limit = {{ train = 50, validation = 24, test = 24 }}
[[tasks]]
use = "builtin/entities"
limit = {{ train = 40, validation = 24, test = 24 }}
[model]
backbone = "builtin:tiny"
{model}
[training]
epochs = 4
learning_rate = 1e-3
{training}
"""


def write(folder: Path, name: str, *, model: str = "", training: str = "") -> Path:
    path = folder / f"{name}.toml"
    text = CONFIG.format(name=name, output=folder / "runs", model=model, training=training)
    path.write_text(text, encoding="utf-8")
    return path


def start(*words: object, cwd: Path | None = None, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, **environment},
        # A suite started in the background ignores Ctrl-C, and its children would inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def finish(*words: object, cwd: Path | None = None, **environment: str) -> tuple[int, str, str]:
    process = start(*words, cwd=cwd, **environment)
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def wait_until(reached: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """While the process runs, and at most three minutes: busy machines are slow to start one."""
    for _ in range(3600):
        if reached():
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.kill()
    raise AssertionError("the run did not get there in three minutes")


def wait_for_line(log: Path, step: int, process: subprocess.Popen[str]) -> None:
    """Until the log has reached `step`; the run logs every tenth step."""
    line = f'"step": {step},'
    wait_until(lambda: log.is_file() and line in log.read_text(encoding="utf-8"), process)
