"""A package answers as its model does, says what is wrong with it, and needs no torch."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.packages import ASKED, assert_alike, model_with_rules, package_of

import brodmann as bm
import brodmann.runtime
from brodmann.data.encoding import Encoded
from brodmann.files import read_json, write_checksums, write_json
from brodmann.models.predicting import TorchReader

pytestmark = pytest.mark.long  # all of them, or the package would be written twice


@pytest.fixture(scope="module")
def model(tasks_of_every_kind: list[Any]) -> bm.MultiTaskModel:
    return model_with_rules(tasks_of_every_kind)


@pytest.fixture(scope="module")
def package(model: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return package_of(model, tmp_path_factory.mktemp("package") / "onnx")


@pytest.mark.parametrize("batch_size", [1, 2, 32])
@pytest.mark.parametrize("task", ASKED)
def test_every_kind_is_answered_as_by_the_model(
    model: Any, package: Any, task: str, batch_size: int
) -> None:
    found = package.predict(task, ASKED[task], batch_size=batch_size)
    assert_alike(found, model.predict(task, ASKED[task]))


def test_all_tasks_of_a_text_are_answered_from_one_reading(
    model: Any, package: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [*filter(None, ASKED["single"]), *ASKED["pair"]]
    calls = []
    read = type(package).read
    monkeypatch.setattr(type(package), "read", lambda *a, **k: calls.append(a[2]) or read(*a, **k))
    assert_alike(package.predict_all(texts), model.predict_all(texts))
    together = [{"single", "many", "tag"}, {"pair", "value"}, {"where"}]
    assert [set(names) for names in calls] == together


@pytest.mark.parametrize("wishes", [{"coverage": 0.8}, {"abstain": 0.3}, {"coverage": 0.5}])
def test_rules_travel_with_the_package(model: Any, package: Any, wishes: Any) -> None:
    texts = ASKED["single"]
    found = package.predict("single", texts, **wishes)
    assert_alike(found, model.predict("single", texts, **wishes))
    assert all("in_domain" in answer for answer in found)
    assert list(package.rules) == ["single", "value", "many", "tag"]


WORDS = st.sampled_from(["the", "red", "cat", "Ran", "[SEP]", "☃", "ß", "\u0301", "x" * 40, "\t"])
TEXTS = st.lists(WORDS, max_size=40).map(" ".join) | st.text(max_size=60)
PAIRS = st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=5)


@settings(max_examples=12, deadline=None)
@given(pairs=PAIRS, batch_size=st.integers(1, 6))
def test_any_text_is_read_and_answered_alike(
    model: Any, package: Any, pairs: list[tuple[str, str]], batch_size: int
) -> None:
    asked = {
        "pair": pairs,
        "tag": [first for first, _ in pairs],
        "where": pairs,
        "pick": [{"a": first, "choices": [second, first, "no"]} for first, second in pairs],
    }
    for task, texts in asked.items():
        texts = [one for one in texts if task != "tag" or one.split()]
        if not texts:
            continue
        try:
            expected = model.predict(task, texts)
        except bm.InputError as error:  # half a character, a tag task without words
            with pytest.raises(bm.InputError) as raised:
                package.predict(task, texts)
            assert str(raised.value) == str(error)
            continue
        found = package.predict(task, texts, batch_size=batch_size)
        if task == "pick":  # equal choices may win by rounding
            found, expected = ([one["probabilities"] for one in few] for few in (found, expected))
        assert_alike(found, expected)


def same_encoding(one: Encoded, other: Encoded) -> bool:
    pairs = [(getattr(one, n), getattr(other, n)) for n in ("ids", "starts", "types", "item_rows")]
    pairs += [(one.places[name], other.places[name]) for name in one.places]
    return all(np.array_equal(first, second) for first, second in pairs)


@pytest.mark.parametrize("task", ["pair", "pick", "where", "tag"])
def test_ids_and_windows_are_those_of_training(
    model: Any, package: Any, task: str, tasks_of_every_kind: list[Any]
) -> None:
    examples = next(t for t in tasks_of_every_kind if t.name == task).splits["validation"]
    spec = model.spec(task)
    found = package.encode(spec, examples)
    assert same_encoding(found, TorchReader(model).encode(spec, examples))


def test_a_frame_comes_back_with_columns(model: Any, package: Any) -> None:
    frame = pd.DataFrame({"a": ["the red cat", "a dog"]})
    found = package.predict("many", frame)
    assert list(found) == ["a", "many.answer"]
    assert list(found["many.answer"]) == list(model.predict("many", frame)["many.answer"])


def test_wrong_questions_get_the_models_own_message(model: Any, package: Any) -> None:
    for asked in (("singel", ["a"]), ("single", "a"), ("pair", ["a"])):
        with pytest.raises(bm.InputError) as theirs:
            package.predict(*asked)
        with pytest.raises(bm.InputError) as ours:
            model.predict(*asked)
        assert str(theirs.value) == str(ours.value)
    with pytest.raises(bm.InputError, match=r"^abstain: nothing is known about the usual texts"):
        package.predict("pair", [("a", "b")], abstain=0.1)


def test_the_package_shows_its_tasks(package: Any) -> None:
    names = "single, pair, many, value, pick, where, tag"
    assert repr(package) == f"OnnxReader({str(package.folder)!r}, {names}; float32)"


def _cut_weights(folder: Path) -> None:
    path = folder / "weights.bin"
    path.write_bytes(path.read_bytes()[:-4])


def _newer(folder: Path) -> None:
    found = read_json(folder / "brodmann.json")
    write_json(folder / "brodmann.json", found | {"version": 2})


def _of_one_task(folder: Path) -> None:
    found = read_json(folder / "brodmann.json")
    write_json(folder / "brodmann.json", found | {"format": "brodmann onnx export"})


def _without_tasks(folder: Path) -> None:
    found = read_json(folder / "brodmann.json")
    del found["tasks"]
    write_json(folder / "brodmann.json", found)


def _other_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").write_text('{"model": 3}', encoding="utf-8")
    write_checksums(folder, but=("README.md",))


def _no_graph(folder: Path) -> None:
    (folder / "model.onnx").write_bytes(b"not a graph")
    write_checksums(folder, but=("README.md",))


DAMAGED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "weights cut": (_cut_weights, "/weights.bin: does not match its checksum: export the model"),
    "newer": (_newer, "/brodmann.json: version 2 is newer than 1, the newest this version reads"),
    "single": (_of_one_task, ": holds the graph of a single task, for other programs: export all"),
    "no tasks": (_without_tasks, "/brodmann.json: damaged (KeyError('tasks')): export the model"),
    "no graph": (lambda f: (f / "model.onnx").unlink(), "/model.onnx: missing: export the model"),
    "no rules": (lambda f: (f / "rules.npz").unlink(), "/rules.npz: missing: export the model"),
    "tokenizer": (_other_tokenizer, "/tokenizer.json: the installed tokenizers "),
    "empty": (lambda f: shutil.rmtree(f), ": not an exported package (it has no brodmann.json)"),
    "broken graph": (_no_graph, "/model.onnx: the installed onnxruntime "),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damage_is_one_clear_line(package: Any, tmp_path: Path, case: str) -> None:
    damage, message = DAMAGED[case]
    folder = Path(shutil.copytree(package.folder, tmp_path / "copy"))
    damage(folder)
    with pytest.raises(bm.InputError) as raised:
        brodmann.runtime.load(folder).predict("single", ["a text"])
    assert str(raised.value).startswith(f"{folder}{message}")
    assert "\n" not in str(raised.value)


def test_a_missing_onnxruntime_is_named(package: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(bm.InputError) as raised:
        brodmann.runtime.load(package.folder)
    assert str(raised.value) == (
        "brodmann.runtime needs the package onnxruntime: pip install onnxruntime tokenizers numpy"
    )


BLOCKED = """
import importlib.metadata, json, re, sys

# Whatever the project requires or uses elsewhere, besides what the runtime is allowed.
names = {{"torch", "datasets", "sklearn", "huggingface_hub", "yaml", "requests", "pandas"}}
for line in importlib.metadata.requires("brodmann"):
    names.add(re.match(r"[\\w-]+", line)[0].replace("-", "_"))
names -= {{"numpy", "onnxruntime", "tokenizers", "brodmann"}}

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in names:
            raise ImportError(f"{{name}} must not be imported")

sys.meta_path.insert(0, Blocked())
import brodmann.runtime

package = brodmann.runtime.load({folder!r}, threads=1)
asked = json.loads(sys.stdin.read())
answers = {{task: package.predict(task, [tuple(t) if task in ("pair", "value", "where") else t
                                        for t in texts]) for task, texts in asked.items()}}
print(json.dumps(answers))
"""


def test_answers_need_neither_torch_nor_transformers_nor_pydantic(model: Any, package: Any) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED.format(folder=str(package.folder))],
        input=json.dumps(ASKED),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    expected = {task: model.predict(task, texts) for task, texts in ASKED.items()}
    assert_alike(json.loads(done.stdout), json.loads(json.dumps(expected)))
