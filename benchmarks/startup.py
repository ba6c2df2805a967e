"""Start-up: `import brodmann` and `brodmann --help` against bare Python, medians taking turns.

python benchmarks/startup.py
"""

import statistics
import subprocess
import sys
import time
from pathlib import Path

COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import brodmann": [sys.executable, "-c", "import brodmann"],
    "brodmann --help": [str(Path(sys.executable).with_name("brodmann")), "--help"],
}
LIMITS = {"import brodmann": 0.2, "brodmann --help": 0.5}  # seconds over bare Python
RUNS = 11


def main() -> None:
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(RUNS):
        for name, words in COMMANDS.items():
            begin = time.perf_counter()
            subprocess.run(words, stdout=subprocess.DEVNULL, check=True)
            times[name].append(time.perf_counter() - begin)
    bare = statistics.median(times["python -c pass"])
    print(f"bare Python {bare:.3f} s")
    for name, limit in LIMITS.items():
        over = statistics.median(times[name]) - bare
        print(f"{name:<16} +{over:.3f} s (limit {limit} s) {'ok' if over <= limit else 'TOO SLOW'}")


if __name__ == "__main__":
    main()
