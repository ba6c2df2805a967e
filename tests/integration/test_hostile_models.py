"""Models that ask for code to be run, with a `y` waiting on standard input: nothing runs."""

import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import brodmann as bm
from brodmann.models.backbone.load import load_backbone, quiet

Command = Callable[..., tuple[int, str, str]]
CONSENT = "y\ny\ny\nThe soup was cold.\n"
REFUSED = (
    "asks for Python code of its own (auto_map), which Brodmann never runs: use a model that "
    "transformers supports by itself"
)
TASK = {"use": "builtin/sentiment", "limit": {"train": 20, "validation": 20, "test": 20}}


def plant(folder: Path, mark: Path) -> None:
    """Code that leaves a mark when it is imported; whoever plants it removes the checksums."""
    (folder / "checksums.json").unlink(missing_ok=True)
    (folder / "evil.py").write_text(
        f"open({str(mark)!r}, 'w').close()\n"
        "from transformers import BertConfig, BertModel, PreTrainedTokenizerFast\n"
        "class EvilConfig(BertConfig):\n    model_type = 'evil'\n"
        "class EvilModel(BertModel):\n    config_class = EvilConfig\n"
        "class EvilTok(PreTrainedTokenizerFast):\n    pass\n"
    )


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | values), "utf-8")


@pytest.fixture
def answered(command: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """`brodmann WORDS`, with consent on standard input."""

    def call(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(CONSENT))
        return command(*words)

    return call


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "model"
    bm.MultiTaskModel.from_pretrained("builtin:tiny", bm.load_tasks([TASK])).save_pretrained(folder)
    return folder


def test_a_tokenizer_with_code_in_a_trained_model(
    model: Path, tmp_path: Path, answered: Command
) -> None:
    folder, mark = tmp_path / "copy", tmp_path / "ran"
    shutil.copytree(model, folder)
    plant(folder, mark)
    change(
        folder / "tokenizer_config.json",
        auto_map={"AutoTokenizer": [None, "evil.EvilTok"]},
        tokenizer_class="EvilTok",
    )
    refused = (2, "", f"brodmann: {folder}: {REFUSED}\n")
    finished = subprocess.run(  # in a process of its own, as users call it
        [sys.executable, "-m", "brodmann", "predict", str(folder)],
        input=CONSENT,
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ,
    )
    assert (finished.returncode, finished.stdout, finished.stderr) == refused
    out = ["--out", tmp_path / "out"]
    assert answered("export", folder, "--task", "sentiment", *out) == refused
    assert not mark.exists() and not (tmp_path / "out").exists()


def test_a_trained_model_whose_configuration_names_code(
    model: Path, tmp_path: Path, answered: Command
) -> None:
    """A family that transformers knows is built from its own class, whatever the files ask for."""
    folder, mark = tmp_path / "copy", tmp_path / "ran"
    shutil.copytree(model, folder)
    plant(folder, mark)
    code = {"auto_map": {"AutoConfig": "evil.EvilConfig", "AutoModel": "evil.EvilModel"}}
    document = json.loads((folder / "config.json").read_text("utf-8"))
    inner = {**document["backbone"], **code}
    (folder / "config.json").write_text(json.dumps({**document, **code, "backbone": inner}))
    assert answered("predict", folder)[0] == 0
    assert not mark.exists()
    settings = {**document["settings"], "attention": "someone/kernel"}
    (folder / "config.json").write_text(json.dumps({**document, "settings": settings}))
    assert answered("predict", folder) == (
        2,
        "",
        f"brodmann: {folder / 'config.json'}: damaged or missing (attention = 'someone/kernel' is "
        "code from the hub, which Brodmann never runs)\n",
    )


def test_a_backbone_with_code(tmp_path: Path, answered: Command) -> None:
    folder, mark = tmp_path / "backbone", tmp_path / "ran"
    tiny = load_backbone("builtin:tiny")
    with quiet():
        tiny.model.save_pretrained(folder)
        tiny.tokenizer.save_pretrained(folder)
    plant(folder, mark)
    change(
        folder / "tokenizer_config.json",
        auto_map={"AutoTokenizer": [None, "evil.EvilTok"]},
        tokenizer_class="EvilTok",
    )
    load_backbone(str(folder))  # BERT's own tokenizer reads the same tokenizer.json
    assert not mark.exists()
    change(
        folder / "config.json",
        model_type="evil",
        auto_map={"AutoConfig": "evil.EvilConfig", "AutoModel": "evil.EvilModel"},
    )
    config = tmp_path / "c.toml"
    config.write_text(
        f'name = "r"\noutput = "{tmp_path / "runs"}"\ntasks = ["builtin/topic"]\n'
        f'[model]\nbackbone = "{folder}"\n'
    )
    for command in ("run", "train", "plan"):
        code, out, err = answered(command, config)
        assert (code, err) == (2, f"brodmann: backbone '{folder}': {REFUSED}\n"), command
        assert "[y/N]" not in out
    with pytest.raises(bm.InputError, match="which Brodmann never runs"):
        bm.load_pruned(folder)
    assert not mark.exists() and not (tmp_path / "runs").exists()
