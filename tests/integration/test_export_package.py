"""`brodmann export RUN --to onnx`: all tasks of a run, and an environment without torch."""

import json
import re
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import in_process
from tests.packages import assert_alike

import brodmann as bm
import brodmann.runtime
from brodmann.errors import InputError
from brodmann.files import read_json

pytestmark = pytest.mark.long  # all of them, or the shared run would be trained twice
Command = Callable[..., tuple[int, str, str]]
ROOT = Path(__file__).parent.parent.parent

CONFIG = """
name = "small"
output = "{output}"
[[tasks]]
use = "builtin/sentiment"
limit = {{ train = 32, validation = 16, test = 8 }}
[[tasks]]
name = "own"
kind = "classification"
text = "text"
label = "label"
data = "own.jsonl"
[model]
backbone = "builtin:tiny"
max_length = 24
[training]
max_steps = 2
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    rows = [{"text": f"row {n} of the file", "label": "ab"[n % 2]} for n in range(40)]
    (folder / "own.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (folder / "small.toml").write_text(CONFIG.format(output=folder / "runs"), encoding="utf-8")
    code, _, err = in_process("train", folder / "small.toml")
    assert code == 0, err
    return folder / "runs" / "small"


@pytest.fixture(scope="module")
def exported(trained: Path) -> tuple[Path, str]:
    """The package in its usual place, and what the command printed."""
    code, out, err = in_process("export", trained, "--to", "onnx")
    assert (code, err) == (0, "")
    return trained / "onnx", out


def test_a_run_is_exported_with_all_tasks(trained: Path, exported: tuple[Path, str]) -> None:
    folder, out = exported
    first, second, *lines = out.splitlines()
    assert first == f"wrote {folder}"
    assert second.startswith("2 tasks, float32, ") and second.endswith("beside the torch model:")
    assert [line.split(":")[0].strip() for line in lines] == ["sentiment", "own"]
    names = {"brodmann.json", "model.onnx", "weights.bin", "tokenizer.json", "config.json"}
    names |= {"README.md", "checksums.json", "parity.json", "tokenizer_config.json"}
    assert {path.name for path in folder.iterdir()} == names
    parity = read_json(folder / "parity.json")["tasks"]
    assert {entry["compared_on"] for entry in parity.values()} == {"validation"}
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert 'brodmann.runtime.load("path/to/this/folder")' in card
    assert str(trained.parent.parent) not in (folder / "brodmann.json").read_text(encoding="utf-8")
    model, package = bm.MultiTaskModel.from_pretrained(trained), brodmann.runtime.load(folder)
    texts = ["A wonderful film.", "row 3 of the file " * 9]
    assert_alike(package.predict_all(texts), model.predict_all(texts))


def test_missing_data_is_noted_and_random_texts_are_compared(
    trained: Path, tmp_path: Path, command: Command
) -> None:
    data = trained.parent.parent / "own.jsonl"
    aside = data.rename(tmp_path / "own.jsonl")
    try:
        code, out, err = command("export", trained, "--to", "onnx", "--out", tmp_path / "onnx")
    finally:
        aside.rename(data)
    assert code == 0 and out.count("(on random texts)") == 2
    assert err.startswith("brodmann: note: the run's data cannot be read (") and "own.jsonl" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "--to transformers holds one task: name it with --task, or export all tasks with"),
        (("--int8",), "--int8 needs --to onnx without --task"),
        (("--to", "peft"), "--to peft holds one task: name it with --task"),
        (("--to", "onnx", "--task", "own", "--int8"), "--int8 needs --to onnx without --task"),
        (("--to", "onnx", "--tolerance", "2"), "--tolerance needs --int8: nothing is lost in"),
        (("--to", "onnx", "--int8", "--tolerance", "-1"), "--tolerance -1: expected points that"),
        (("--to", "onnx", "--zeroed"), "--zeroed needs --to transformers"),
    ],
)
def test_wrong_options_are_one_line(
    trained: Path, command: Command, words: tuple[str, ...], message: str
) -> None:
    code, out, err = command("export", trained, *words)
    assert (code, out) == (2, "")
    assert err.startswith(f"brodmann: {message}") and err.count("\n") == 1


ASK = """
import importlib.util, json, sys, brodmann.runtime
absent = ("torch", "transformers", "pydantic", "pyarrow")
present = [name for name in absent if importlib.util.find_spec(name)]
package = brodmann.runtime.load(sys.argv[1])
answers = package.predict_all(["A wonderful film.", "row 3 of the file"])
print(json.dumps({"present": present, "from": brodmann.__file__, "answers": answers}))
"""


@pytest.mark.slow
def test_a_wheel_answers_where_only_three_packages_are(
    trained: Path, exported: tuple[Path, str], tmp_path: Path
) -> None:
    """A new environment: onnxruntime, tokenizers, numpy, and the wheel without what it requires."""

    def run(*words: object) -> str:
        done = subprocess.run(
            list(map(str, words)), capture_output=True, text=True, check=False, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", tmp_path / "dist", ROOT)
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", "--no-deps", *(tmp_path / "dist").glob("*.whl"))
    run(python, "-m", "pip", "install", "-q", "onnxruntime", "tokenizers", "numpy")
    found = json.loads(run(python, "-I", "-c", ASK, exported[0]))
    assert found["present"] == []
    assert str(tmp_path / "venv") in found["from"]
    model: Any = bm.MultiTaskModel.from_pretrained(trained)
    assert_alike(found["answers"], model.predict_all(["A wonderful film.", "row 3 of the file"]))


def test_an_export_in_the_place_of_a_run_is_one_line(
    exported: tuple[Path, str], tmp_path: Path, command: Command
) -> None:
    folder = exported[0]
    said = f"{folder}: is an export, which `brodmann serve` and brodmann.runtime read: name the run"
    texts = tmp_path / "texts.txt"
    texts.write_text("A wonderful film.\n", encoding="utf-8")
    for words in (("predict", folder, texts), ("export", folder, "--to", "onnx")):
        code, out, err = command(*words)
        assert (code, out) == (2, "")
        assert err.startswith(f"brodmann: {said}") and err.count("\n") == 1
    with pytest.raises(InputError, match=re.escape(said)):
        bm.MultiTaskModel.from_pretrained(folder)
    assert command("calibrate", folder) == (
        2,
        "",
        f"brodmann: {folder}: is a folder without a run, expected a TOML file; did you mean "
        f"'{folder.parent}'?\n",
    )
