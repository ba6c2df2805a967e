"""One answer, head by head: signs and sizes agree with moving the gates."""

from typing import Any

import numpy as np
import pytest
import torch
import transformers as tf
from tests.families import shaken

import brodmann as bm
from brodmann.measuring.explaining import explain_first
from brodmann.models.backbone.tiny import tiny_config, tiny_tokenizer


def classifier() -> tuple[Any, Any]:
    torch.manual_seed(0)
    config = tiny_config()
    config.num_labels = 3
    model = tf.AutoModelForSequenceClassification.from_config(config)
    return shaken(model).eval(), tiny_tokenizer()


def test_a_gradient_is_what_a_gate_moves() -> None:
    model, tokenizer = classifier()
    found = bm.explain_heads(model, "A wonderful film.", tokenizer=tokenizer)
    inputs = tokenizer("A wonderful film.", return_tensors="pt")
    layers, heads = found.gradients.shape
    answer = int(found.answer.removeprefix("LABEL_"))
    model.double()
    for layer, head in [(0, 0), (1, 2), (layers - 1, heads - 1)]:
        ends = []
        for step in (-1e-4, 1e-4):
            gates = torch.ones(layers, heads, dtype=torch.float64)
            gates[layer, head] += step
            with torch.no_grad(), bm.head_gates(model, gates):
                ends.append(float(model(**inputs).logits[0, answer]))
        slope = (ends[1] - ends[0]) / 2e-4
        assert found.gradients[layer, head] == pytest.approx(slope, rel=1e-3, abs=1e-5)


def test_attention_is_by_token_and_the_model_is_left_alone() -> None:
    model, tokenizer = classifier()
    before = model.config._attn_implementation
    found = bm.explain_heads(model, "A wonderful film.", label="LABEL_1", tokenizer=tokenizer)
    assert model.config._attn_implementation == before and found.answer == "LABEL_1"
    assert found.attention is not None
    assert found.attention.shape[-2:] == (len(found.tokens),) * 2
    np.testing.assert_allclose(found.looks_at((0, 1)).sum(axis=1), 1.0, rtol=1e-5)
    (first, value), *_ = found.top()
    assert abs(value) == np.abs(found.gradients).max() == abs(found.gradients[first])
    assert str(found).startswith("LABEL_1 (")
    with pytest.raises(bm.InputError, match="no label 'LABEL_9'"):
        bm.explain_heads(model, "x", label="LABEL_9", tokenizer=tokenizer)
    with pytest.raises(bm.InputError, match="pass the model's tokenizer"):
        bm.explain_heads(model, "x")


def test_only_a_sequence_classifier_is_explained() -> None:
    model, tokenizer = classifier()
    tagger = tf.AutoModelForTokenClassification.from_config(model.config)
    for other in (model.base_model, tagger):
        with pytest.raises(bm.InputError) as caught:
            bm.explain_heads(other, "x", tokenizer=tokenizer)
        assert str(caught.value) == (
            f"explain_heads: {type(other).__name__} does not classify whole texts: expected a "
            "sequence classifier"
        )
    with pytest.raises(bm.InputError) as caught:
        bm.head_importance(model, [{"text": "x", "label": 0}])
    assert str(caught.value) == (
        f"{type(model).__name__} is not a multi-task model: pass its tokenizer= with labelled "
        'rows, or batches as {"name": [batch, ...]}'
    )


def test_a_task_of_a_multitask_model(tasks_of_every_kind: list[Any]) -> None:
    model = bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks_of_every_kind)
    task = next(one for one in tasks_of_every_kind if one.spec.kind == "classification")
    text = task.splits["validation"][0]["text"]
    pair = task.splits["validation"][0].get("text_pair")
    found = bm.explain_heads(model, text, pair=pair, task=task.name)
    answer = model.predict(task.name, [text if pair is None else (text, pair)])[0]
    assert found.answer == answer["label"]
    assert found.score == pytest.approx(answer["score"], abs=1e-4)
    with pytest.raises(bm.InputError, match="name one task of"):
        bm.explain_heads(model, text)
    tagged = next(one for one in tasks_of_every_kind if one.spec.kind == "tokens")
    with pytest.raises(bm.InputError, match="expected a classification"):
        bm.explain_heads(model, text, task=tagged.name)
    stored = explain_first(model, tasks_of_every_kind)
    assert stored[task.name]["text"] == text and len(stored[task.name]["attention"]) == 1
    label = task.splits["validation"][0]["label"]
    assert stored[task.name]["truth"] == task.spec.labels[label]  # comparable with the answer
