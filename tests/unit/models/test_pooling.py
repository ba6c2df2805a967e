"""What stands for a text: the choice between poolers, the vectors themselves, and their export."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as tf
from tests.families import CONFIGS

import brodmann as bm
from brodmann.errors import InputError
from brodmann.models.exports import stock_model
from brodmann.models.pooling import has_trained_pooler, resolve_pooling
from brodmann.models.task_heads import TaskHead, reads_pooler

DECODERS = {"gpt2", "openai-gpt", "llama", "mistral", "qwen2", "qwen3"}
TEXTS = ["the red cat sat", "an old dog", "big and sad the cat ran away"]


def with_trained_pooler(model: Any) -> Any:
    with torch.no_grad():
        for name, value in model.pooler.named_parameters():
            if name.endswith("bias"):
                value.add_(0.1)
    return model


@pytest.mark.parametrize("family", CONFIGS)
def test_auto_keeps_what_was_trained(family: str) -> None:
    config = CONFIGS[family]()
    model = tf.AutoModel.from_config(config)
    reads = reads_pooler(config)
    assert reads == (family in ("bert", "albert"))
    assert resolve_pooling("auto", model, reads_pooler=reads) == ("first" if reads else "own")
    if reads:
        assert not has_trained_pooler(model)
        trained = with_trained_pooler(model)
        assert resolve_pooling("auto", trained, reads_pooler=True) == "own"
        assert resolve_pooling("pooler", model, reads_pooler=True) == "own"
    else:
        with pytest.raises(InputError) as caught:
            resolve_pooling("pooler", model, reads_pooler=False)
        assert str(caught.value) == (
            f"pooling = 'pooler': the classifier of {config.model_type} reads no pooler: use auto, "
            "first or mean"
        )
    if family in DECODERS:
        with pytest.raises(InputError, match="the first token of a decoder sees no other"):
            resolve_pooling("first", model, reads_pooler=reads)
    else:
        assert resolve_pooling("first", model, reads_pooler=reads) == "first"


@pytest.mark.parametrize("pooling", ["first", "mean"])
@pytest.mark.parametrize("form", ["sequence", "choice"])
@pytest.mark.parametrize("family", CONFIGS)
def test_a_head_reads_the_pooled_vector(family: str, form: str, pooling: str) -> None:
    """Whatever the family, the head sees a text whose only state is that vector."""
    config = CONFIGS[family]()
    head = TaskHead(config, form, 3 if form == "sequence" else 1, 0, pooling).eval()
    model = tf.AutoModel.from_config(config).eval()
    ids = torch.randint(4, 99, (3, 10))
    ids[0, 7:] = 1
    mask = (ids != 1).long()
    with torch.no_grad():
        states = model(input_ids=ids, attention_mask=mask)
        found = head(states, {"input_ids": ids, "attention_mask": mask})
        last = states.last_hidden_state
        vector = (
            last[:, 0]
            if pooling == "first"
            else torch.stack([last[0, :7].mean(0), *last[1:].mean(1)])
        )
        alone = TaskHead(config, form, 3 if form == "sequence" else 1, 0, "first").eval()
        expected = alone(
            type(states)(last_hidden_state=vector[:, None]),
            {"input_ids": ids[:, :1], "attention_mask": mask[:, :1]},
        )
    assert torch.allclose(found, expected, atol=1e-6)
    assert not torch.allclose(found[1], found[2])


def test_padding_and_company_do_not_change_an_answer(tasks_of_every_kind: list[Any]) -> None:
    task = tasks_of_every_kind[0]
    model = bm.MultiTaskModel.from_pretrained("builtin:tiny", [task], pooling="mean").eval()
    together = model.predict(task.name, TEXTS)
    alone = [model.predict(task.name, [text])[0] for text in TEXTS]
    for one, other in zip(together, alone, strict=True):
        assert one["probabilities"] == pytest.approx(other["probabilities"], abs=1e-6)


@pytest.mark.parametrize("pooling", ["auto", "pooler", "first"])
def test_pooling_is_saved_with_the_model(
    tmp_path: Path, pooling: str, tasks_of_every_kind: list[Any]
) -> None:
    task = tasks_of_every_kind[0]
    model = bm.MultiTaskModel.from_pretrained("builtin:tiny", [task], pooling=pooling).eval()
    model.save_pretrained(tmp_path / "model")
    again = bm.MultiTaskModel.from_pretrained(tmp_path / "model")
    assert again.settings.pooling == {"auto": "first", "pooler": "own", "first": "first"}[pooling]
    assert again.predict(task.name, TEXTS) == model.predict(task.name, TEXTS)
    assert "texts are read as" in (tmp_path / "model" / "README.md").read_text()


def test_an_export_reads_the_first_token(tasks_of_every_kind: list[Any]) -> None:
    task = tasks_of_every_kind[0]
    model = bm.MultiTaskModel.from_pretrained("builtin:tiny", [task], pooling="first").eval()
    inputs = model.tokenizer(TEXTS, return_tensors="pt", padding=True)
    with torch.no_grad():
        found = torch.softmax(stock_model(model, task.name)(**inputs).logits, dim=-1)
    answers = [list(a["probabilities"].values()) for a in model.predict(task.name, TEXTS)]
    assert torch.allclose(found, torch.tensor(answers), atol=1e-6)


def test_a_mean_that_the_stock_class_cannot_take_is_refused(tasks_of_every_kind: list[Any]) -> None:
    task = tasks_of_every_kind[0]
    model = bm.MultiTaskModel.from_pretrained("builtin:tiny", [task], pooling="mean")
    with pytest.raises(InputError) as caught:
        stock_model(model, task.name)
    assert str(caught.value) == (
        "task 'single' reads the mean of all tokens (pooling = \"mean\"), which transformers' bert "
        'classes cannot read: export it --to onnx, or train with pooling = "first"'
    )
