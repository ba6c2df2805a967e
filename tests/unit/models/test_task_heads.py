"""Output heads equal each family's own AutoModelFor..., and cost no second encoder."""

from typing import Any

import pytest
import torch
import transformers as tf
from tests.families import CONFIGS, SEPARATE, shaken

from brodmann.models.backbone.anatomy import anatomy_of, layers_of
from brodmann.models.task_heads import TaskHead

FORMS: dict[str, Any] = {
    "sequence": tf.AutoModelForSequenceClassification,
    "choice": tf.AutoModelForMultipleChoice,
    "span": tf.AutoModelForQuestionAnswering,
    "tokens": tf.AutoModelForTokenClassification,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("family", CONFIGS)
def test_a_head_equals_the_stock_model(family: str, form: str) -> None:
    config = CONFIGS[family]()
    config.num_labels = {"sequence": 3, "span": 2, "tokens": 5}.get(form, 1)
    ids = torch.randint(4, 99, (3, 10))
    ids[0, 7:] = 1
    inputs = {"input_ids": ids, "attention_mask": (ids != 1).long()}
    backbone = tf.AutoModel.from_config(config).eval()
    head = TaskHead(config, form, config.num_labels, seed=0).eval()
    with torch.no_grad():
        ours = head(backbone(**inputs), inputs)
    shapes = {"sequence": (3, 3), "choice": (3,), "span": (3, 10, 2), "tokens": (3, 10, 5)}
    assert ours.shape == shapes[form]
    auto = FORMS[form]
    if type(config) not in auto._model_mapping:
        return  # no stock class: a linear layer, or one output of the sequence class
    stock = auto.from_config(config).eval()
    slot = stock.base_model_prefix
    getattr(stock, slot).load_state_dict(backbone.state_dict(), strict=False)
    weights = head.stock.state_dict()
    missing = stock.load_state_dict(weights, strict=False)
    assert not missing.unexpected_keys
    assert all(key.startswith(f"{slot}.") for key in missing.missing_keys)
    shaped = {k: v[:, None] for k, v in inputs.items()} if form == "choice" else inputs
    with torch.no_grad():
        theirs = stock(**shaped)
    if form == "span":
        expected = torch.stack([theirs.start_logits, theirs.end_logits], dim=-1)
    else:
        expected = theirs.logits.flatten() if form == "choice" else theirs.logits
    assert torch.equal(ours, expected)
    assert sum(p.numel() for p in head.parameters()) < 10_000


@pytest.mark.parametrize("form", ["sequence", "choice"])
@pytest.mark.parametrize("family", CONFIGS)
def test_a_text_may_end_in_the_token_that_pads(family: str, form: str) -> None:
    """What is real is said by the mask: the padding id may be a text's own last token."""
    config = CONFIGS[family]()
    ids = torch.randint(4, 99, (2, 10))
    ids[0, 6:] = config.pad_token_id  # the first of them is the text's own
    mask = torch.ones_like(ids)
    mask[0, 7:] = 0
    torch.manual_seed(0)
    backbone = shaken(tf.AutoModel.from_config(config)).eval()
    head = shaken(TaskHead(config, form, 3 if form == "sequence" else 1, seed=0)).eval()
    with torch.no_grad():
        inputs = {"input_ids": ids, "attention_mask": mask}
        states = backbone(**inputs)
        padded = head(states, inputs)
        alone = {"input_ids": torch.full((1, 7), 50), "attention_mask": mask[:1, :7]}
        cut = type(states)(last_hidden_state=states.last_hidden_state[:1, :7])
        if states.get("pooler_output") is not None:
            cut["pooler_output"] = states.pooler_output[:1]
        unpadded = head(cut, alone)
    assert torch.allclose(padded[:1], unpadded, atol=1e-6)


def test_a_head_depends_on_its_seed_only() -> None:
    config = CONFIGS["roberta"]()
    one, same = TaskHead(config, "sequence", 3, seed=1), TaskHead(config, "sequence", 3, seed=1)
    other = TaskHead(config, "sequence", 3, seed=2)
    for (name, a), b, c in zip(
        one.named_parameters(), same.parameters(), other.parameters(), strict=True
    ):
        assert torch.equal(a, b)
        if name.endswith("weight"):
            assert not torch.equal(a, c) and a.abs().max() > 0


def test_a_head_keeps_no_states_between_calls() -> None:
    config = CONFIGS["bert"]()
    head = TaskHead(config, "sequence", 2, seed=0)
    states = tf.AutoModel.from_config(config)(input_ids=torch.ones(1, 4, dtype=torch.long))
    head(states, {"input_ids": torch.ones(1, 4), "attention_mask": torch.ones(1, 4)})
    assert head.stock.bert.states is None


@pytest.mark.parametrize("family", SEPARATE)
def test_layers_and_embeddings_of_a_family_are_found(family: str) -> None:
    model = tf.AutoModel.from_config(CONFIGS[family]())
    assert len(layers_of(model)) == 2
    for path in anatomy_of(model).embeddings[:1]:
        assert sum(p.numel() for p in model.get_submodule(path).parameters()) > 99
