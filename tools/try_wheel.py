"""Use an installed brodmann as a reader would: README's Python block, a notebook, and `predict`.

`make wheel-check` runs it with the interpreter of an environment that holds the wheel and what the
wheel declares, so a file left out of the wheel or a package left out of its list shows here.
"""

import csv
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import brodmann

ROOT = Path(__file__).parent.parent
NOTEBOOK = ROOT / "examples" / "notebooks" / "heads_of_any_classifier.ipynb"
SMALL = ("--set", "model.backbone=builtin:tiny", "--set", "training.max_steps=2")


def main() -> None:
    place = Path(brodmann.__file__).resolve()
    if ROOT / "src" in place.parents:
        sys.exit(f"brodmann comes from {place}, expected the installed wheel")
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        example = _first_block((ROOT / "README.md").read_text(encoding="utf-8"))
        _run(sys.executable, "-c", example)
        _run(sys.executable, "-c", _code_of(NOTEBOOK))
        with open("texts.csv", "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([["text"], ["A wonderful film."], ["Cold soup, again."]])
        command = str(Path(sys.executable).with_name("brodmann"))
        _run(command, "doctor")
        _run(command, "predict", "model", "texts.csv", "--task", "sentiment", "--out", "out.csv")
        with open("out.csv", encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        if [row["text"] for row in rows] != ["A wonderful film.", "Cold soup, again."]:
            sys.exit(f"predict wrote {rows}")
        _run(command, "init", "mine")
        _run(command, "run", "mine/brodmann.toml", *SMALL)
        if not list(Path().rglob("report.html")):
            sys.exit("the run wrote no report.html")
    print(f"brodmann {brodmann.__version__} works from {place.parent}")


def _first_block(text: str) -> str:
    found = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1]


def _code_of(notebook: Path) -> str:
    """The code of a notebook, with the small random encoder in place of a trained one."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    return "\n".join(code).replace("builtin:minilm", "builtin:tiny")


def _run(*words: str) -> None:
    subprocess.run(words, check=True)


main()
