"""Model files from elsewhere: nothing in them runs, and what does not fit is said."""

import ast
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import brodmann as bm
from brodmann.models.backbone.load import load_backbone, quiet

SOURCE = Path(bm.__file__).parent
OURS = ("MultiTaskModel", "cls")  # whose from_pretrained is our own


def loader_calls() -> list[tuple[str, ast.Call]]:
    """Every call that lets transformers read a checkpoint or build a class from a configuration."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            owner = ast.unparse(node.func.value)
            if node.func.attr in ("from_pretrained", "from_config") and owner not in OURS:
                found.append((f"{path.relative_to(SOURCE)}:{node.lineno}", node))
    return found


def test_no_loader_may_run_code_from_a_checkpoint() -> None:
    calls = loader_calls()
    assert len(calls) >= 7
    for place, call in calls:
        given = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
        assert given.get("trust_remote_code") == "False", place


def test_no_other_way_into_a_checkpoint() -> None:
    """Functions that load by themselves would need the same care."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    for name in ("pipeline(", "torch.load(", "AutoProcessor", "pickle.load", "torch.hub"):
        assert f"transformers.{name}" not in text and f" {name}" not in text, name


@pytest.fixture
def backbone(tmp_path: Path) -> Path:
    """The tiny encoder as a folder that somebody gives us."""
    tiny = load_backbone("builtin:tiny")
    with quiet():
        tiny.model.save_pretrained(tmp_path / "backbone")
        tiny.tokenizer.save_pretrained(tmp_path / "backbone")
    return tmp_path / "backbone"


def with_weights(
    change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]],
) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        path = folder / "model.safetensors"
        changed = {name: value.contiguous() for name, value in change(load_file(path)).items()}
        path.unlink()
        save_file(changed, path, {"format": "pt"})

    return apply


def with_config(**values: Any) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        document = json.loads((folder / "config.json").read_text("utf-8"))
        (folder / "config.json").write_text(json.dumps(document | values), "utf-8")

    return apply


def cut(name: str, size: int) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:size]) and None


def written(name: str, content: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_text(content) and None


def more_tokens(folder: Path) -> None:
    document = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    words = document["model"]["vocab"]
    words |= {f"new{i}": len(words) + i for i in range(10)}
    (folder / "tokenizer.json").write_text(json.dumps(document), "utf-8")


def a_vision_model(folder: Path) -> None:
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.ViTConfig(**sizes, intermediate_size=8, image_size=32)
    transformers.ViTModel(config).save_pretrained(folder)


LACKS = "the checkpoint lacks weights of the encoder"
RANDOM = "training would start from random numbers; use the weights that belong to this"
DAMAGED = "its files are damaged, or do not belong together"
TOKENIZER = "its tokenizer cannot be read"
BROKEN_JSON = "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"
QUERY = "encoder.layer.1.attention.self.query.weight"
FIRST = (
    "embeddings.LayerNorm.bias, embeddings.LayerNorm.weight, embeddings.position_embeddings.weight"
)
NOT_TEXT = "does not read text alone, expected an encoder (BERT, RoBERTa, ...) or a decoder"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            with_weights(lambda weights: {}),
            f"{LACKS} ({FIRST} and 50 more): {RANDOM} config.json",
        ),
        (
            with_weights(lambda weights: {f"x.{name}": w for name, w in weights.items()}),
            f"{LACKS} ({FIRST} and 50 more); instead it holds x.embeddings.LayerNorm.bias, "
            "x.embeddings.LayerNorm.weight, x.embeddings.position_embeddings.weight and 52 more: "
            f"{RANDOM} config.json",
        ),
        (
            with_weights(lambda weights: {n: w for n, w in weights.items() if n != QUERY}),
            f"{LACKS} ({QUERY}): {RANDOM} config.json",
        ),
        (
            with_weights(lambda weights: weights | {QUERY: weights[QUERY][:10]}),
            f"one weight has another shape than its config.json says ({QUERY}: 10 × 64, expected "
            "64 × 64): weights and configuration belong to different models",
        ),
        (
            with_config(intermediate_size=96),
            "9 weights have another shape than its config.json says "
            "(encoder.layer.0.intermediate.dense.bias: 128, expected 96): weights and "
            "configuration belong to different models",
        ),
        (
            cut("model.safetensors", 5000),
            f"{DAMAGED} (SafetensorError: Error while deserializing header: invalid header length)",
        ),
        (
            cut("model.safetensors", 0),
            f"{DAMAGED} (SafetensorError: Error while deserializing header: header too small)",
        ),
        (
            more_tokens,
            "its tokenizer has ids up to 2,338, but there are only 2,329 embeddings: tokenizer and "
            "weights belong to different models (or call resize_token_embeddings and save the "
            "model)",
        ),
        (written("tokenizer.json", "{"), f"{TOKENIZER} ({BROKEN_JSON})"),
        (written("tokenizer.json", "{}"), f"{TOKENIZER} (KeyError: 'added_tokens')"),
        (
            lambda folder: [path.unlink() for path in folder.glob("tokenizer*")] and None,
            "no tokenizer (tokenizer.json is missing or empty): copy the model's own beside its "
            "weights",
        ),
        (a_vision_model, f"vit {NOT_TEXT} (GPT-2, Llama, ...)"),
        (written("config.json", '{"model_type": "clip"}'), f"clip {NOT_TEXT} (GPT-2, Llama, ...)"),
        (
            with_config(num_hidden_layers=0),
            "its config.json has num_hidden_layers = 0, expected at least 1",
        ),
        (with_config(hidden_act="soft"), f"{DAMAGED} (KeyError: 'soft')"),
        (
            with_config(attn_implementation="someone/kernel"),
            "its config.json asks for attention code from the hub ('someone/kernel'), which "
            "Brodmann never runs: remove 'attn_implementation' from it",
        ),
        (
            with_config(model_type="own", auto_map={"AutoConfig": "own.Config"}),
            "asks for Python code of its own (auto_map), which Brodmann never runs: use a model "
            "that transformers supports by itself",
        ),
    ],
)
def test_a_backbone_that_does_not_fit_is_refused(
    backbone: Path, change: Callable[[Path], None], message: str
) -> None:
    change(backbone)
    with pytest.raises(bm.InputError) as error:
        load_backbone(str(backbone))
    assert str(error.value) == f"backbone '{backbone}': {message}"


def notes(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "brodmann"]


def test_checkpoints_with_heads_and_prefixes_load_and_are_reported(
    backbone: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What BertForMaskedLM saves: a prefix, no pooler, a head of its own."""
    whole = load_backbone(str(backbone))
    assert notes(caplog) == []
    masked = transformers.BertForMaskedLM(whole.model.config)
    masked.bert.load_state_dict(whole.model.state_dict(), strict=False)
    masked.save_pretrained(backbone)
    assert "bert.embeddings.LayerNorm.weight" in load_file(backbone / "model.safetensors")
    loaded = load_backbone(str(backbone), seed=1)
    assert notes(caplog) == [
        f"{backbone}: not in the checkpoint, drawn from the seed: pooler.dense.bias, "
        "pooler.dense.weight",
        f"{backbone}: in the checkpoint, not used: cls.predictions.bias, "
        "cls.predictions.transform.LayerNorm.bias, cls.predictions.transform.LayerNorm.weight "
        "and 2 more",
    ]
    for name, value in whole.model.state_dict().items():
        same = torch.equal(loaded.model.state_dict()[name], value)
        assert same != name.startswith("pooler.dense.weight"), name


def test_notes_of_a_backbone_are_shown_with_the_run(
    backbone: Path, tmp_path: Path, command: Callable[..., tuple[int, str, str]]
) -> None:
    change = with_weights(lambda weights: {n: w for n, w in weights.items() if "pooler" not in n})
    change(backbone)
    config = tmp_path / "c.toml"
    config.write_text(
        f'name = "r"\noutput = "{tmp_path}"\n[model]\nbackbone = "{backbone}"\n'
        "[training]\nmax_steps = 1\n"
        '[[tasks]]\nuse = "builtin/topic"\nlimit = { train = 30, validation = 20, test = 20 }\n'
    )
    expected = "not in the checkpoint, drawn from the seed: pooler.dense.bias, pooler.dense.weight"
    code, out, err = command("train", config)
    assert code == 0 and f"note: {backbone}: {expected}" in " ".join(out.split()) and err == ""
    shutil.rmtree(tmp_path / "r")
    code, out, err = command("train", config, "--json")
    assert json.loads(out)["folder"] == str(tmp_path / "r")
    assert err == f"brodmann: note: {backbone}: {expected}\n"
