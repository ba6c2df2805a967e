"""Packages of every architecture, with gates and without heads; weights stored once; int8."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.families import shaken
from tests.packages import ASKED, assert_alike, package_of

import brodmann as bm
from brodmann.errors import InputError
from brodmann.files import read_json
from brodmann.models.encoders import ARCHITECTURES
from brodmann.pipeline.int8_layers import choose_int8
from brodmann.pipeline.package_parity import Trial

TASKS = ("single", "tag")
QUICK = ("ca_mtl",)  # the rest is slow: a graph per task is drawn


@pytest.fixture(scope="module")
def tasks(tasks_of_every_kind: list[Any]) -> list[Any]:
    return [task for task in tasks_of_every_kind if task.name in TASKS]


def build(tasks: list[Any], name: str = "shared", **options: Any) -> bm.MultiTaskModel:
    model = bm.MultiTaskModel.from_pretrained(
        "builtin:tiny", tasks, architecture=name, max_length=32, stride=8, **options
    )
    return shaken(model).eval()  # type: ignore[no-any-return]


def size_of_weights(model: Any) -> int:
    return sum(value.nbytes for value in model.state_dict().values())


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in ARCHITECTURES]
)
def test_every_architecture_answers_without_torch(
    name: str, tasks: list[Any], tmp_path: Path
) -> None:
    model = build(tasks, name)
    package = package_of(model, tmp_path / "onnx", data=tasks)
    for task in TASKS:
        assert_alike(package.predict(task, ASKED[task]), model.predict(task, ASKED[task]))
    texts = ["the red cat", ASKED["single"][-2]]
    assert_alike(package.predict_all(texts), model.predict_all(texts))
    one = model.merged().architecture.one_pass
    graphs = sorted(path.name for path in package.folder.glob("*.onnx"))
    assert graphs == (["model.onnx"] if one else ["1-single.onnx", "2-tag.onnx"])
    # Common layers are stored once; small tensors are in the graphs.
    stored = (package.folder / "weights.bin").stat().st_size
    assert stored <= size_of_weights(model.merged()) + 64 * 200


def test_gates_and_removed_heads_are_in_the_graph(tasks: list[Any], tmp_path: Path) -> None:
    model = build(tasks, gates="trained")
    model.switch_off([(0, 1), (2, 0)])
    assert model.gates is not None and float(model.gates().detach().std()) > 0.1
    bm.prune_heads(model, [(1, 0), (1, 1), (1, 2), (1, 3), (0, 3)])
    package = package_of(model, tmp_path / "onnx")
    assert_alike(
        package.predict("single", ASKED["single"]), model.predict("single", ASKED["single"])
    )


def test_parity_says_what_was_compared(tasks: list[Any], tmp_path: Path) -> None:
    model = build(tasks).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    package = package_of(model, tmp_path / "onnx", data=tasks[:1])
    assert all(module.training for module in model.modules())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    found = read_json(package.folder / "parity.json")["tasks"]
    score = bm.evaluate(model, tasks[:1])["single"].scores["accuracy"]
    assert found["single"] | {"largest_difference": 0} == {
        "compared_on": "validation",
        "examples": 8,
        "largest_difference": 0,
        "metric": "accuracy",
        "torch": score,
        "export": score,
        "points_lost": 0.0,
        "interval": [0.0, 0.0],
        "changed": 0.0,
    }
    assert found["tag"] | {"largest_difference": 0} == {
        "compared_on": "random texts",
        "examples": 16,
        "largest_difference": 0,
    }
    assert 0 < found["single"]["largest_difference"] < 1e-4
    text = (package.folder / "model.onnx").read_bytes()
    assert b"onnx_graphs.py" not in text  # no places of this machine


def test_a_package_does_not_replace_other_files(tasks: list[Any], tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="is not empty: name a new folder"):
        bm.export(build(tasks), to="onnx", out=tmp_path)


# A neuron of this layer's input is enormous and read with weight 0: all others round to nothing.
PLANTED = "encoder.backbone.encoder.layer.1.output.dense"


def sensitive(tasks: list[Any]) -> bm.MultiTaskModel:
    model = build(tasks)
    layer = model.encoder.backbone.encoder.layer[1]
    with torch.no_grad():
        layer.intermediate.dense.weight[0] = 0
        layer.intermediate.dense.bias[0] = 1e5
        layer.output.dense.weight[:, 0] = 0
    return model


def answered_by(model: Any) -> list[Any]:
    """A task whose right answers are the model's own, and about which it is never in doubt."""
    drawn = np.random.default_rng(0)
    words = ["the", "a", "red", "big", "old", "cat", "dog", "sat", "ran", "on", "with", "and", "no"]
    texts = [" ".join(drawn.choice(words, size=drawn.integers(3, 12))) for _ in range(200)]

    def odds() -> Any:
        shares = [list(a["probabilities"].values()) for a in model.predict("single", texts)]
        return np.log(np.array(shares)[:, 1] / np.array(shares)[:, 0])

    with torch.no_grad():
        model.head_of("single").stock.classifier.bias[1] -= float(np.median(odds()))
    found = odds()
    sure = np.abs(found) > np.quantile(np.abs(found), 0.4)
    rows = [{"a": texts[n], "y": str(int(found[n] > 0))} for n in np.flatnonzero(sure)]
    task = {"name": "single", "kind": "classification", "text": "a", "label": "y"}
    return bm.load_tasks([task | {"train": rows, "validation": rows}])


@pytest.mark.slow
def test_int8_keeps_the_layer_that_does_not_bear_it(
    tasks: list[Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = sensitive(tasks[:1])
    package = package_of(model, tmp_path / "i8", data=answered_by(model), int8=True, tolerance=3.0)
    parity = read_json(package.folder / "parity.json")
    chosen = parity["int8"]["graphs"]["model.onnx"]
    assert chosen["float_layers"] == [PLANTED]
    assert max(chosen["damage"], key=chosen["damage"].get) == PLANTED
    assert chosen["layers"] == len(chosen["damage"]) == 18
    assert parity["tasks"]["single"]["points_lost"] <= 3.0
    assert "points with all 18 layers in int8 (tolerance 3)" in caplog.text
    assert package.description.int8


def test_int8_is_smaller_and_close(tasks: list[Any], tmp_path: Path) -> None:
    model = build(tasks)
    package = package_of(model, tmp_path / "i8", data=tasks, int8=True, tolerance=100.0)
    stored = (package.folder / "weights.bin").stat().st_size
    encoder = model.encoder.backbone.encoder
    layers = sum(p.numel() for p in encoder.parameters() if p.dim() == 2)
    assert stored == pytest.approx(size_of_weights(model) - 3 * layers, rel=0.05)
    entry = read_json(package.folder / "parity.json")["tasks"]["single"]
    assert 1e-4 < entry["largest_difference"] < 1.0
    assert entry["interval"][0] <= entry["points_lost"] <= entry["interval"][1]


class Planted:
    """Layers of which some, the most damaged ones, must stay in float32."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, sensitive: int, layers: int = 11) -> None:
        self.names = [str(n) for n in range(layers)]
        self.bad = set(self.names[-sensitive:] if sensitive else ())
        self.graph: Any = None
        self.path = Path()
        self.tried: list[set[str]] = []
        quantisation = "brodmann.models.quantisation"
        monkeypatch.setattr(f"{quantisation}.layers_of_graph", lambda _: list(self.names))
        monkeypatch.setattr(f"{quantisation}.read_graph", lambda graph, _: graph)
        self.graph = type("Graph", (), {"file": "model.onnx"})()

    def losses(self, layers: Any) -> dict[str, float]:
        self.tried.append(set(layers))
        return {"fine": -1.0, "hurt": 5.0 * len(self.bad & set(layers))}

    def damage(self, layer: str) -> float:
        return float(layer)

    def with_int8(self, layers: Any) -> None:
        self.last = set(layers)


@pytest.mark.parametrize("count", [0, 1, 2, 5, 10])
def test_the_fewest_layers_stay_in_float32(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    bench: Any = Planted(monkeypatch, count)
    chosen = choose_int8(bench, 1.0)
    assert set(chosen.kept) == bench.bad
    assert bench.last == set(bench.names) - bench.bad
    assert len(bench.tried) <= 6


def test_int8_that_costs_too_much_everywhere_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    bench: Any = Planted(monkeypatch, 11)
    with pytest.raises(InputError) as raised:
        choose_int8(bench, 0.5)
    assert str(raised.value) == (
        "int8: task 'hurt' loses more than 0.5 points whichever layers stay in float32: allow more "
        "with --tolerance, or export without --int8"
    )


def test_a_trial_without_examples_is_not_judged(tasks: list[Any]) -> None:
    from brodmann.pipeline.package_parity import make_trials

    first, second = make_trials(build(tasks), tasks[1:])
    assert isinstance(first, Trial) and not first.judged and second.judged
    assert len(np.unique(np.diff(first.encoded.starts))) > 8  # texts of many lengths
