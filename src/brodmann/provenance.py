"""Record where numbers come from: versions, hardware, git state, memory."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def provenance() -> dict[str, Any]:
    """Versions, hardware and git state: what a reader needs to trust or repeat the numbers."""
    import datetime
    import importlib.metadata as metadata
    import platform

    versions = {"python": platform.python_version()}
    for name in ("brodmann", "torch", "transformers", "tokenizers", "accelerate", "datasets"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return {
        "versions": versions,
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "git": _git_state(),
        "command": sys.argv[1:],
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def _processor() -> str:
    import platform

    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def _git_state() -> dict[str, Any] | None:
    def git(*words: str) -> str:
        return subprocess.run(
            ["git", *words], capture_output=True, text=True, check=True, timeout=5
        ).stdout.strip()

    try:
        return {"commit": git("rev-parse", "HEAD"), "changed": bool(git("status", "--porcelain"))}
    except (OSError, subprocess.SubprocessError):
        return None  # not a git checkout, or no git: nothing to record


def peak_of_process() -> int:
    """Peak resident memory of the process so far, in bytes; 0 if the system does not report it."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if sys.platform == "darwin" else 1024 * size  # macOS reports bytes, Linux KB
