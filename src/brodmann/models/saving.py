"""Trained models on disk: recognise, read, write and compare them."""

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from brodmann.data.answering.rules import Rules
from brodmann.data.answering.rules_file import FILE as RULES
from brodmann.data.answering.rules_file import read_rules, write_rules
from brodmann.data.encoding import forget_last_call
from brodmann.data.tasks import TaskSpec
from brodmann.errors import InputError
from brodmann.files import (
    CHECKSUMS,
    checksum,
    damage_in,
    read_json,
    whole_file,
    whole_folder,
    write_checksums,
    write_json,
    write_text,
)
from brodmann.models.backbone import load as backbones
from brodmann.models.backbone.foreign import (
    NO_CODE,
    asks_for_code,
    check_config,
    check_tokenizer,
    reason_of,
)
from brodmann.models.card_metadata import CardFacts
from brodmann.models.model_settings import Blueprint

if TYPE_CHECKING:
    from brodmann.models.multitask import MultiTaskModel

FORMAT = "brodmann multi-task model"
FILES = ("config.json", "model.safetensors", "tokenizer.json")  # files that every saved model has


def save_model(
    model: "MultiTaskModel", target: Path, facts: CardFacts, *, published: bool = False
) -> None:
    """Write the model folder, completely or not at all.

    A `published` one does not name folders of this machine.
    """
    from brodmann.models.card import model_card

    if target.is_dir() and any(target.iterdir()) and not is_model_folder(target):
        raise InputError(f"{target}: contains other files: save the model to a new folder")
    with whole_folder(target) as temporary:
        write_tensors(temporary / "model.safetensors", model.state_dict(), {"format": "pt"})
        write_json(temporary / "config.json", _description(model, published))
        write_tokenizer(model.tokenizer, temporary)
        write_text(temporary / "README.md", model_card(model, facts))
        if model.rules:
            write_rules(temporary, model.rules)
        write_checksums(temporary, but=("README.md",))


def store_rules(folder: Path, rules: Mapping[str, Rules]) -> None:
    """Write the rules of a saved model; a process killed meanwhile leaves an intact model."""
    sums = folder / CHECKSUMS
    if not sums.is_file():  # a model of an early version
        write_rules(folder, rules)
        return
    files = read_json(sums, files=dict)["files"]
    files.pop(RULES, None)
    write_json(sums, {"files": files})
    write_rules(folder, rules)
    write_json(sums, {"files": files | {RULES: checksum(folder / RULES)}})


def _description(model: "MultiTaskModel", published: bool) -> dict[str, Any]:
    """What `config.json` holds."""
    from brodmann.models.card import public_name

    settings, specs = model.settings, list(model.specs.values())
    backbone = model.config.to_dict()
    if published:
        backbone.pop("_name_or_path", None)
        settings = replace(settings, backbone=public_name(settings.backbone))
        specs = [public_spec(spec) for spec in specs]
    return {
        "format": FORMAT,
        "settings": vars(settings),
        "tasks": [spec.to_dict() for spec in specs],
        "backbone": backbone,
    }


def public_spec(spec: TaskSpec) -> TaskSpec:
    """The task without its source, if that is a place on this machine."""
    public = spec.source.startswith("hub:") or spec.source == spec.named
    return spec if public else replace(spec, source="")


def load_model(cls: type["MultiTaskModel"], folder: Path) -> "MultiTaskModel":
    """Load a model that `save_pretrained` wrote."""
    from safetensors.torch import load_file
    from transformers import AutoConfig, AutoTokenizer

    _check_whole(folder)
    document = read_json(folder / "config.json")
    part = "config.json"
    try:
        settings = Blueprint(**document["settings"])
        specs = [TaskSpec.from_dict(values) for values in document["tasks"]]
        inner = dict(document["backbone"])
        config = AutoConfig.for_model(inner.pop("model_type"), **inner)
        check_config(config, str(folder))
        _check_attention(settings.attention)
        bare = backbones.build_bare(config, settings.attention, seed=0)
        part = "tokenizer.json"
        with backbones.quiet():
            tokenizer = AutoTokenizer.from_pretrained(str(folder), trust_remote_code=False)
        check_tokenizer(tokenizer, bare, str(folder))
        part = "model.safetensors"
        loaded = backbones.Backbone(settings.backbone, bare, tokenizer)
        model = cls(loaded, specs, replace(settings))
        model.load_state_dict(load_file(folder / "model.safetensors"))
        part = RULES
        model.rules = {n: r for n, r in read_rules(folder).items() if n in model.specs}
    except ImportError as error:  # the attention implementation is not installed
        raise InputError(f"{folder}: {reason_of(error)}") from error
    except Exception as error:  # transformers, tokenizers and safetensors share no error class
        if asks_for_code(error):
            raise InputError(f"{folder}: {NO_CODE}") from error
        raise InputError(f"{folder / part}: damaged or missing ({reason_of(error)})") from error
    return model.eval()


def _check_whole(folder: Path) -> None:
    """Raise InputError if a file was changed; older models without checksums are accepted."""
    if not (folder / CHECKSUMS).is_file():
        return
    found = damage_in(folder, FILES)
    if found is not None:
        name, reason = found
        raise InputError(
            f"{folder / name}: {reason}: restore it from a copy, or train again (if you changed it "
            f"yourself, remove {CHECKSUMS})"
        )


def _check_attention(name: str | None) -> None:
    """Raise InputError for a name with a slash: transformers would run code from the hub."""
    if name is not None and "/" in name:
        raise InputError(f"attention = '{name}' is code from the hub, which Brodmann never runs")


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None
) -> None:
    """Write tensors without copying them: the moments of a large model may not fit twice."""
    from safetensors.torch import save_file

    with whole_file(path) as temporary:
        temporary.touch()
        mode = temporary.stat().st_mode  # usual permissions: safetensors allows the owner only
        with system_errors():
            save_file({k: v.contiguous() for k, v in tensors.items()}, temporary, metadata)
        temporary.chmod(mode)


@contextlib.contextmanager
def system_errors() -> Iterator[None]:
    """Raise the system's error (a full disk) if a library only quotes it in its message."""
    try:
        yield
    except Exception as error:  # safetensors has its own class, tokenizers a bare one
        if (number := re.search(r"\(os error (\d+)\)", str(error))) is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1]))) from error


def write_tokenizer(tokenizer: Any, folder: Path) -> None:
    """Write the tokenizer's files, without settings that the last call left in it."""
    forget_last_call(tokenizer)
    with system_errors():
        tokenizer.save_pretrained(folder)


def weights_digest(state: Mapping[str, Tensor]) -> str:
    """Digest of the weights: a model that was trained again has another one."""
    found = hashlib.sha256()
    for name, value in sorted(state.items()):
        found.update(name.encode())
        found.update(value.detach().cpu().contiguous().numpy().tobytes())
    return found.hexdigest()[:16]


def is_model_folder(folder: Path) -> bool:
    try:
        return read_json(folder / "config.json").get("format") == FORMAT
    except InputError:
        return False


def refuse_export(folder: Path) -> None:
    """Raise InputError if the folder is an export where a run or model is needed."""
    if (folder / "brodmann.json").is_file():
        raise InputError(
            f"{folder}: is an export, which `brodmann serve` and brodmann.runtime read: name the "
            "run or model that it was made from"
        )


def model_damage(folder: Path) -> str | None:
    """What is missing or truncated in a model folder; None if every file is intact."""
    if not (folder / "config.json").is_file():
        return "config.json is missing"
    if not is_model_folder(folder):
        return "config.json is not that of a trained model"
    for name in ("tokenizer.json", "tokenizer_config.json", "model.safetensors"):
        if not (folder / name).is_file():
            return f"{name} is missing"
    return _cut_short(folder / "model.safetensors")


def _cut_short(path: Path) -> str | None:
    """Why a safetensors file does not have the length of its header, or None; reads no weights."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        try:
            header = json.loads(file.read(length) if 8 + length <= size else b"")
            ends = [entry["data_offsets"][1] for name, entry in header.items()
                    if name != "__metadata__"]  # fmt: skip
        except (ValueError, KeyError, TypeError, AttributeError):
            return f"{path.name} is damaged (its header cannot be read)"
    expected = 8 + length + max(ends, default=0)
    if size != expected:
        return f"{path.name} is damaged ({size:,} bytes, expected {expected:,})"
    return None
