"""map, dissociate, prune, export and grid from the command line, on a tiny model."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.conftest import in_process

import brodmann as bm

pytestmark = pytest.mark.long  # all of them, or the shared run would be trained twice
Command = Callable[..., tuple[int, str, str]]

CONFIG = """
name = "small"
output = "{output}"
[[tasks]]
use = "builtin/sentiment"
limit = {{ train = 96, validation = 32, test = 8 }}
[[tasks]]
use = "builtin/topic"
limit = {{ train = 96, validation = 32, test = 8 }}
[[tasks]]
use = "builtin/similarity"
limit = {{ train = 96, validation = 32, test = 8 }}
[model]
backbone = "builtin:tiny"
pooling = "first"
[training]
epochs = 3
batch_size = 16
learning_rate = 2e-3
[map]
examples = 40
[dissociation]
alpha = 0.25
curve = [0.5]
resamples = 50
{more}
"""


def write(folder: Path, more: str = "") -> Path:
    path = folder / "small.toml"
    path.write_text(CONFIG.format(output=folder / "runs", more=more), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    folder = tmp_path_factory.mktemp("trained")
    code, out, err = in_process("run", write(folder))
    assert code == 0, err
    assert "layer 0 is at the bottom" in out
    result = bm.Dissociation.load(folder / "runs" / "small" / "dissociation.json")
    # After so few steps a correlation may be below 0, and then there is no D.
    assert ("D = " in out) is (result.mean is not None)
    assert ("D is undefined.  " in out) is (result.mean is None)
    return folder / "runs" / "small"


def test_run_leaves_map_and_dissociation(trained: Path, command: Command) -> None:
    scores = bm.HeadScores.load(trained / "importance.json")
    assert scores.tasks == ("sentiment", "topic", "similarity") and scores.shape == (3, 4)
    result = bm.Dissociation.load(trained / "dissociation.json")
    assert result.alpha == 0.25 and [p["alpha"] for p in result.curve] == [0.25, 0.5]
    assert len(result.random[0]) == 20
    assert result.settings["redraws"] == 5 and result.settings["exchanges"] == 3
    assert result.redrawn is not None and (result.null is None) is (result.mean is None)
    metrics = json.loads((trained / "metrics.json").read_text("utf-8"))
    for task, entry in metrics["splits"]["validation"].items():
        assert entry["training_loss"] > 0 and entry["guessing_loss"] == pytest.approx(
            {"sentiment": np.log(2), "topic": np.log(4), "similarity": 1.0}[task], abs=0.01
        )
        assert result.undertrained.get(task) == entry["undertrained"]
    written = (trained / "dissociation.json").stat().st_mtime_ns
    code, out, err = command("dissociate", trained, "--json")  # there already: read, not measured
    assert (code, err) == (0, "") and json.loads(out)["base"] == result.base
    assert (trained / "dissociation.json").stat().st_mtime_ns == written


def test_other_settings_measure_again_without_training(trained: Path, command: Command) -> None:
    weights = (trained / "model" / "model.safetensors").stat().st_mtime_ns
    before = bm.HeadScores.load(trained / "importance.json")
    code, out, err = command("map", trained, "--set", "map.granularity=token")
    assert (code, err) == (0, "")
    stale = (
        "note: the stored D belongs to an earlier map: `brodmann dissociate` with the same --set "
        "measures it"
    )
    assert stale in " ".join(out.split())
    code, out, _ = command("report", trained, "--text")
    assert "D belongs to an earlier map of heads than the one shown here." in out
    assert "note: Measured on an earlier map of heads than the atlas." in out
    token = bm.HeadScores.load(trained / "importance.json")
    assert token.settings["granularity"] == "token"
    assert not np.allclose(token.values, before.values)
    assert (trained / "model" / "model.safetensors").stat().st_mtime_ns == weights
    assert "token" not in (trained / "config.toml").read_text(encoding="utf-8")
    code, out, _ = command("map", trained)  # the run's own configuration again
    assert code == 0 and "earlier map" not in out
    assert "earlier map" not in command("report", trained, "--text")[1]
    assert np.array_equal(bm.HeadScores.load(trained / "importance.json").values, before.values)


def test_a_run_with_heads_off_goes_to_its_report(
    trained: Path, tmp_path: Path, command: Command
) -> None:
    off = f'[off]\nby = "{trained}"\nalpha = 0.25\ntrain = false'
    code, _, err = command("run", write(tmp_path, off), "--set", "dissociation.draws=1")
    assert (code, err) == (0, "")
    folder = tmp_path / "runs" / "small"
    least = bm.HeadScores.load(trained / "importance.json").least(0.25)
    assert sorted(bm.HeadScores.load(folder / "importance.json").removed) == least
    chosen = bm.Dissociation.load(folder / "dissociation.json").heads
    assert all(len(heads) == 2 and set(map(tuple, heads)).isdisjoint(least) for heads in chosen)
    assert (folder / "report.html").is_file()


def test_prune_writes_a_smaller_model(trained: Path, tmp_path: Path, command: Command) -> None:
    code, out, err = command("prune", trained, "--alpha", 0.5, "--out", tmp_path / "half", "--json")
    assert (code, err) == (0, "")
    result = json.loads(out)
    assert result["removed"] == 6 and result["of"] == 12 and result["speed"] > 0
    assert result["parameters"][1] < result["parameters"][0]
    small = bm.MultiTaskModel.from_pretrained(tmp_path / "half")
    full = bm.MultiTaskModel.from_pretrained(trained)
    assert set(small.rules) == set(full.rules)
    small.rules, full.rules = {}, {}  # the smaller model has rules of its own
    scores = bm.HeadScores.load(trained / "importance.json")
    assert [tuple(head) for head in result["heads"]] == scores.least(0.5)
    with bm.head_gates(full, off=scores.least(0.5)):
        gated = full.predict("topic", ["The team won the match."])
    answer = small.predict("topic", ["The team won the match."])
    assert answer[0]["probabilities"] == pytest.approx(gated[0]["probabilities"], abs=1e-5)
    code, out, err = command("prune", trained, "--order", "top", "--task", "topic")
    assert (code, err) == (0, "") and "3 of 12 heads removed" in out
    assert (trained / "pruned-top-30-topic" / "model.safetensors").is_file()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("prune", "RUN", "--alpha", "1.5"), "alpha = 1.5: expected a share from 0 to 1"),
        (("prune", "RUN", "--alpha", "0.01"), "alpha = 0.01 of 12 heads is less than one head"),
        (("prune", "RUN", "--order", "leest"), "unknown order 'leest'; did you mean 'least'?"),
        (("prune", "RUN", "--task", "topics"), "the run has no task 'topics'"),
        (("export", "RUN", "--task", "topics"), "the model has no task 'topics'"),
        (
            ("export", "RUN", "--task", "topic", "--to", "exp"),
            "--to exp: unknown form; known: transformers, onnx, peft (the folder is set with "
            "--out)",
        ),
        (
            ("export", "RUN", "--task", "topic", "--to", "onnx", "--to", "transformers"),
            "--to is given 2 times: export one form at a time",
        ),
        (("map", "NOWHERE"), "NOWHERE: no such file"),
        (("map", "RUN", "--set", "map.examples=0"), "map.examples = 0"),
        (("dissociate", "RUN", "--set", "dissociation.alpha=2"), "dissociation.alpha = 2"),
        (
            ("dissociate", "RUN", "--set", "dissociation.redraws=1"),
            "config.toml: dissociation.redraws = 1: one redraw has no spread: expected 0, or 2 or "
            "more",
        ),
        (
            ("map", "RUN", "--set", "dissociation.redraws=3", "--set", "map.estimator=iterative"),
            "config.toml: dissociation.redraws = 3: cannot be combined with map.estimator = "
            "'iterative', which has no sums to redraw: set redraws = 0",
        ),
        (("grid", "RUN"), "no [grid] table"),
        (("prune", "RUN", "--out", "RUN/model"), "holds a model with all its heads"),
        (("prune", "RUN", "--out", "RUN/figures"), "holds other files: name a new folder"),
        (("export", "RUN", "--task", "topic", "--to", "onnx", "--zeroed"), "--zeroed needs"),
    ],
)
def test_bad_input_is_one_line(
    trained: Path, command: Command, words: tuple[str, ...], message: str
) -> None:
    code, out, err = command(*(word.replace("RUN", str(trained)) for word in words))
    assert code == 2 and out == "" and message in err and err.count("\n") == 1


def test_export_to_transformers_answers_the_same(
    trained: Path, tmp_path: Path, command: Command
) -> None:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = bm.MultiTaskModel.from_pretrained(trained)
    texts = ["The team won the match.", "A fine soup."]
    for task in ("topic", "similarity"):
        folder = tmp_path / task
        assert command("export", trained, "--task", task, "--out", folder)[0] == 0
        stock = AutoModelForSequenceClassification.from_pretrained(folder).eval()
        tokenizer = AutoTokenizer.from_pretrained(folder)
        pair = [texts[::-1]] if task == "similarity" else []
        inputs = tokenizer(texts, *pair, padding=True, return_tensors="pt")
        with torch.no_grad():
            logits = stock(**inputs).logits
        if task == "topic":
            answers = model.predict(task, texts)
            for row, answer in zip(logits.softmax(-1), answers, strict=True):
                named = {stock.config.id2label[i]: float(p) for i, p in enumerate(row)}
                assert named == pytest.approx(answer["probabilities"], abs=1e-5)
        else:
            answers = model.predict(task, list(zip(texts, texts[::-1], strict=True)))
            values = [answer["value"] for answer in answers]
            assert logits[:, 0].tolist() == pytest.approx(values, abs=1e-4)
    code, _, err = command("export", trained, "--task", "topic", "--out", tmp_path / "topic")
    assert code == 2 and "is not empty: name a new folder" in err


def test_a_pruned_model_is_exported_with_zeroed_heads(
    trained: Path, tmp_path: Path, command: Command
) -> None:
    from transformers import AutoModelForSequenceClassification

    small = tmp_path / "small"
    assert command("prune", trained, "--alpha", 0.5, "--out", small)[0] == 0
    code, _, err = command("export", small, "--task", "topic", "--out", tmp_path / "out")
    assert code == 2 and "use --zeroed" in err and not (tmp_path / "out").exists()
    words = ("export", small, "--task", "topic", "--out", tmp_path / "out", "--zeroed")
    assert command(*words)[0] == 0
    stock = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out").eval()
    model = bm.MultiTaskModel.from_pretrained(small)
    assert set(model.rules) == set(bm.MultiTaskModel.from_pretrained(trained).rules)  # its own
    inputs = model.tokenizer(["The team won the match."], return_tensors="pt")
    with torch.no_grad():
        row = stock(**inputs).logits.softmax(-1)[0].tolist()
    answer = model.predict("topic", ["The team won the match."])[0]["probabilities"]
    assert row == pytest.approx(list(answer.values()), abs=1e-5)


def test_an_exported_task_gives_calibrated_probabilities(
    trained: Path, tmp_path: Path, command: Command
) -> None:
    from transformers import AutoModelForSequenceClassification

    model = bm.MultiTaskModel.from_pretrained(trained)
    assert model.rules["topic"].temperature != 1.0
    assert command("export", trained, "--task", "topic", "--out", tmp_path / "out")[0] == 0
    stock = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out").eval()
    inputs = model.tokenizer(["The team won the match."], return_tensors="pt")
    with torch.no_grad():
        row = stock(**inputs).logits.softmax(-1)[0].tolist()
    calibrated = model.predict("topic", ["The team won the match."])[0]["probabilities"]
    assert row == pytest.approx(list(calibrated.values()), abs=1e-5)
    model.rules = {}
    plain = model.predict("topic", ["The team won the match."])[0]["probabilities"]
    assert row != pytest.approx(list(plain.values()), abs=1e-5)


@pytest.fixture(scope="module")
def onnx_folder(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The exported task "topic"."""
    folder = tmp_path_factory.mktemp("export") / "onnx"
    words = ("export", trained, "--task", "topic", "--to", "onnx", "--out", folder)
    code, out, err = in_process(*words)
    assert (code, err) == (0, "") and "ONNX Runtime agrees with torch to" in out
    return folder


def test_onnx_answers_the_same(trained: Path, onnx_folder: Path) -> None:
    import onnxruntime

    session = onnxruntime.InferenceSession(onnx_folder / "model.onnx")
    model = bm.MultiTaskModel.from_pretrained(trained)
    texts = ["The team won the match.", "A very fine soup with bread and butter.", "No."]
    inputs = model.tokenizer(texts, padding=True, return_tensors="np")
    names = {value.name for value in session.get_inputs()}
    logits = session.run(None, {k: v for k, v in inputs.items() if k in names})[0]
    expected = [list(a["probabilities"].values()) for a in model.predict("topic", texts)]
    found = torch.tensor(logits).softmax(-1).tolist()
    for one, other in zip(found, expected, strict=True):
        assert one == pytest.approx(other, abs=1e-5)


LONG = ["The team won the match. " * 60 + "A fine soup.", "A fine soup."]


def test_an_export_reads_a_long_text_as_the_model_does(
    trained: Path, tmp_path: Path, command: Command
) -> None:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = bm.MultiTaskModel.from_pretrained(trained)
    assert command("export", trained, "--task", "topic", "--out", tmp_path / "out")[0] == 0
    stock = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out").eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert tokenizer.model_max_length == model.settings.max_length
    with torch.no_grad():
        inputs = tokenizer(LONG, padding=True, truncation=True, return_tensors="pt")
        rows = stock(**inputs).logits.softmax(-1).tolist()
    for row, answer in zip(rows, model.predict("topic", LONG), strict=True):
        assert row == pytest.approx(list(answer["probabilities"].values()), abs=1e-5)


def test_onnx_can_be_used_from_its_folder_alone(trained: Path, onnx_folder: Path) -> None:
    """With the graph, the small JSON and tokenizer.json: neither Brodmann nor transformers."""
    import onnxruntime
    import tokenizers
    from transformers import AutoConfig

    folder = onnx_folder
    model = bm.MultiTaskModel.from_pretrained(trained)
    key = json.loads((folder / "brodmann.json").read_text(encoding="utf-8"))
    labels = list(model.spec("topic").label_list)
    task = {"name": "topic", "kind": "classification", "labels": labels, "reads": ["text"]}
    assert key == {
        "schema_version": 1,
        "format": "brodmann onnx export",
        "tasks": [task | {"language": "en"}],
        "inputs": ["input_ids", "attention_mask", "token_type_ids"],
        "outputs": {"logits": ["text", "output"]},
        "max_length": model.settings.max_length,
        "stride": model.settings.stride,
        "padding_id": 0,
        "backbone": "builtin:tiny",
    }
    assert AutoConfig.from_pretrained(folder).id2label == dict(enumerate(labels))
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    for text, answer in zip(LONG, model.predict("topic", LONG), strict=True):
        read = tokenizer.encode(text)
        values = (read.ids, read.attention_mask, read.type_ids)
        inputs = {name: np.array([v]) for name, v in zip(key["inputs"], values, strict=True)}
        row = torch.tensor(session.run(None, inputs)[0][0]).softmax(-1).tolist()
        named = dict(zip(key["tasks"][0]["labels"], row, strict=True))
        assert named == pytest.approx(answer["probabilities"], abs=1e-5)


@pytest.mark.slow
def test_onnx_of_a_model_without_any_head(trained: Path, tmp_path: Path, command: Command) -> None:
    assert command("prune", trained, "--alpha", 1, "--out", tmp_path / "none")[0] == 0
    words = ("export", tmp_path / "none", "--task", "topic", "--to", "onnx")
    code, out, err = command(*words, "--out", tmp_path / "onnx")
    assert (code, err) == (0, "") and "agrees with torch" in out


GRID = """
[grid]
pairs = true
vary = {{ seed = [0, 1] }}
"""


def test_a_grid_trains_nothing_twice_and_outlives_a_failure(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, GRID.format())
    quick = ["--set", "training.epochs=1", "--set", "dissociation.draws=0"]
    import brodmann.studies.one_run as module
    from brodmann.studies.cells import task_name

    genuine, ran = module.run, []

    def watched(config: Any, base: Any, report: Any, **options: Any) -> Any:
        names = [task_name(task) for task in config.tasks]
        ran.append((tuple(names), config.seed))
        if names == ["sentiment", "similarity"] and config.seed == 1 and len(ran) <= 6:
            raise RuntimeError("the disk caught fire")
        return genuine(config, base, report, **options)

    monkeypatch.setattr(module, "run", watched)
    code, out, err = command("grid", path, *quick)
    assert code == 1 and "1 of 6 cells failed" in err and "the disk caught fire" in out
    assert len(ran) == 6
    code, out, err = command("grid", path, *quick, "--json")
    assert (code, err) == (0, "") and len(ran) == 7  # only the one that failed
    summary = json.loads(out)
    assert summary["failed"] == [] and len(summary["cells"]) == 6
    over = summary["over_seeds"]["sentiment+topic"]
    assert over["seeds"] == 2 and len(over["mean"]) == 2
    folders = list((tmp_path / "runs" / "cells").iterdir())
    assert len(folders) == 6
    trained = {f.name: (f / "model" / "model.safetensors").stat().st_mtime_ns for f in folders}
    # Another grid over the same cells, measured differently: trained no more.
    code, _, err = command("grid", path, *quick, "--set", "name=other", "--set", "map.examples=20")
    assert (code, err) == (0, "")
    again = {f.name: (f / "model" / "model.safetensors").stat().st_mtime_ns for f in folders}
    assert trained == again


def test_a_grid_keeps_away_from_runs_and_notices_changed_data(
    tmp_path: Path, command: Command
) -> None:
    rows = "".join(f'{{"text": "word {i} {i % 2}", "label": {i % 2}}}\n' for i in range(40))
    (tmp_path / "rows.jsonl").write_text(rows, encoding="utf-8")
    text = """
name = "one"
output = "{output}"
[[tasks]]
name = "t"
kind = "classification"
train = "rows.jsonl"
[model]
backbone = "builtin:tiny"
[training]
epochs = 1
[map]
examples = 8
[grid]
vary = {{ seed = [0] }}
"""
    path = tmp_path / "one.toml"
    path.write_text(text.format(output=tmp_path / "runs"), encoding="utf-8")
    plain = tmp_path / "plain.toml"
    whole = path.read_text(encoding="utf-8")
    plain.write_text(whole.partition("[grid]")[0], encoding="utf-8")
    assert command("run", plain)[0] == 0
    code, _, err = command("grid", path)
    assert code == 2 and "contains a run: give the grid another name" in err
    other = ("grid", path, "--set", "name=[/odd]")
    assert "expected a folder name" in command(*other)[2]
    words = ("grid", path, "--set", "name=study")
    assert command(*words)[0] == 0
    assert "is there" in command(*words)[1]
    (tmp_path / "rows.jsonl").write_text(rows.replace("word 3 ", "other "), encoding="utf-8")
    code, out, err = command(*words)
    assert code == 1 and "have changed since" in " ".join(out.split())


def test_heads_that_are_asked_for_later_are_measured(tmp_path: Path, command: Command) -> None:
    path = write(tmp_path, "[grid]\nheads = false\nvary = { seed = [0] }")
    quick = ("--set", "training.epochs=1", "--set", "dissociation.draws=0", "--json")
    (cell,) = json.loads(command("grid", path, *quick)[1])["cells"]
    assert "dissociation" not in cell
    model = tmp_path / "runs" / "cells" / cell["fingerprint"] / "model" / "model.safetensors"
    trained = model.stat().st_mtime_ns
    (cell,) = json.loads(command("grid", path, *quick, "--set", "grid.heads=true")[1])["cells"]
    assert cell["dissociation"]["tasks"] and model.stat().st_mtime_ns == trained
    (cell,) = json.loads(command("grid", path, *quick)[1])["cells"]  # more than is asked for now
    assert cell["dissociation"]["tasks"]


def test_what_is_varied_reaches_no_other_cell(tmp_path: Path) -> None:
    from brodmann.config import load_config
    from brodmann.studies.cells import cells_of, shared_beginnings, specialized_share

    grid = '[grid]\ncases = [{ specialize = { alpha = 0.5 } }, { "specialize.alpha" = 1.0 }]\n'
    grid += 'vary = { "specialize.delta" = [0.25, 0.5] }'
    config = load_config(write(tmp_path, grid))[0]
    cells = cells_of(config)
    assert [cell.varied["specialize.delta"] for cell in cells] == [0.25, 0.5, 0.25, 0.5]
    assert all(cell.varied["specialize"] == {"alpha": 0.5} for cell in cells[:2])
    assert config.grid is not None and config.grid.cases[0] == {"specialize": {"alpha": 0.5}}
    # With alpha = 1 every head trains on: no steps of its own, and the others go on from it.
    assert [specialized_share(cell) for cell in cells] == [0.25, 0.5, 0.0, 0.0]
    branches = shared_beginnings(cells)
    plain = cells[2]
    assert branches[plain.fingerprint].keep_at == (0.25, 0.5)
    assert all(branches[c.fingerprint].start == plain.config.folder for c in cells[:2])
    assert cells[3].fingerprint not in branches


def test_names_of_tasks_before_they_are_read() -> None:
    from brodmann.data.description import TaskDescription
    from brodmann.studies.cells import task_name

    for pair_of in ("builtin/topic", {"use": "builtin/topic"}, "tasks/topic.toml"):
        task = TaskDescription.model_validate({"pair_of": pair_of})
        assert task_name(task) == "topic_pair"


def test_a_backbone_with_brackets_in_it_is_shown(tmp_path: Path, command: Command) -> None:
    path = write(tmp_path, '[grid]\ncases = [{ "model.backbone" = "nowhere/[/x]" }]')
    code, out, err = command("grid", path)
    assert (code, out) == (2, "") and "nowhere/[/x]" in err and not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ('groups = [["sentiment", "topics"]]', "no task 'topics'; did you mean 'topic'?"),
        ("vary = { seeds = [1] }", "unknown key 'seeds'; did you mean 'seed'?"),
        ("vary = { seed = [1, 1] }", "are the same run"),
        ('pairs = true\ngroups = [["sentiment"]]', "give pairs or groups, not both"),
        ("pair = true", "unknown key 'grid.pair'; did you mean 'pairs'?"),
        ("vary = { seed = [] }", "describes no run"),
        ('groups = [["topic", "topic"]]', "a task occurs twice in the group topic+topic"),
        ('vary = { "map.examples" = [5, 9] }', "use dissociation.curve"),
        (
            'pairs = true\nvary = { "tasks.0.limit" = [5] }',
            "'tasks.0.limit' is a position in tasks",
        ),
    ],
)
def test_a_wrong_grid_is_one_line(
    tmp_path: Path, command: Command, grid: str, message: str
) -> None:
    code, out, err = command("grid", write(tmp_path, f"[grid]\n{grid}"))
    assert code == 2 and out == "" and message in err and err.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_two_grids_with_a_common_cell(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One waits while the other is at it; and what the other has trained meanwhile is not trained
    again."""
    import threading

    from brodmann import files as artifacts
    from brodmann.config import load_config
    from brodmann.pipeline import train as stage
    from brodmann.studies.cells import cells_of

    text = GRID.format().replace("pairs = true", "heads = false").replace("[0, 1]", "[0]")
    path = write(tmp_path, text)
    (cell,) = cells_of(load_config(path, ["training.epochs=1"])[0])
    held, free = threading.Event(), threading.Event()

    def hold() -> None:
        with artifacts.locked(cell.config.folder):
            held.set()
            free.wait(60)

    other = threading.Thread(target=hold)
    other.start()
    held.wait(60)
    said: list[str] = []
    genuine_wait = artifacts.wait_until_free

    def let_go(folder: Path) -> None:
        said.append(folder.name)
        free.set()
        other.join()
        genuine_wait(folder)

    monkeypatch.setattr("brodmann.studies.work.wait_until_free", let_go)
    genuine, first = stage.build_model, []

    def slowly(config: Any, tasks: Any) -> Any:
        """After the wait another grid finishes the cell before this one has its lock."""
        model = genuine(config, tasks)
        if said and not first:
            first.append(config.folder)
            stage.train(config, tmp_path, lambda event, facts: None)
        return model

    monkeypatch.setattr(stage, "build_model", slowly)
    code, out, err = command("grid", path, "--set", "training.epochs=1")
    assert code == 0, out + err
    assert "another grid is running it, waiting" in " ".join(out.split())
    assert said == [cell.config.folder.name] and first == [cell.config.folder]
    log = [json.loads(line) for line in (first[0] / "log.jsonl").read_text().splitlines()]
    assert sum("start" in entry for entry in log) == 1  # trained once
