"""When meta-learning switches heads off: before it trains, or before it tests."""

from pathlib import Path
from typing import Any

import pytest

import brodmann as bm
from brodmann.config import load_config
from brodmann.studies import meta_starts
from brodmann.training import fit
from brodmann.training.meta import trainer

TEXT = """
name = "m"
tasks = [{{ use = "builtin/topic", limit = {{ train = 24, validation = 12, test = 8 }} }}]
[model]
backbone = "builtin:tiny"
gates = "mask"
[meta]
unseen = ["topic"]
off = 0.25
{more}
"""


@pytest.mark.parametrize(
    ("more", "order"),
    [
        ("", ["train", "off"]),  # as in the paper: heads go before meta-testing
        ('off_before = "testing"', ["train", "off"]),
        ('off_before = "training"', ["off", "train"]),
    ],
)
def test_heads_go_off_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str, order: list[str]
) -> None:
    path = tmp_path / "m.toml"
    path.write_text(TEXT.format(more=more))
    config = load_config(path)[0]
    assert config.meta is not None
    done: list[str] = []
    monkeypatch.setattr(meta_starts, "_switch_off", lambda *given: done.append("off"))
    monkeypatch.setattr(trainer, "meta_train", lambda *given, **more: done.append("train"))
    monkeypatch.setattr(fit, "fit", lambda *given, **more: done.append("train"))
    tasks = bm.load_tasks([task.model_dump(exclude_none=True) for task in config.tasks])
    settings = trainer.Meta()
    starts = meta_starts.make_starts(
        tmp_path, config, settings, tasks, 0, lambda event, facts: None, Signals()
    )
    assert list(starts) == ["pretrained", "multitask", "meta"]
    assert done == ["off", *order, *order]  # nothing trains the pretrained start


class Signals:
    received: Any = None
