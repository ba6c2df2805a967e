"""Gates equal the definition in every family, compose, and leave nothing behind."""

from typing import Any

import pytest
import torch
import transformers as tf
from tests.families import CONFIGS, SHARED_LAYERS, padded_inputs, tiny

import brodmann as bm
from brodmann.models.backbone.anatomy import head_shape, head_slots
from brodmann.models.backbone.checkpointing import enable_checkpointing
from brodmann.models.heads.gates import _in_force

OFF = [(0, 1), (0, 2), (1, 3)]
WITHOUT_SDPA = ("mpnet", "deberta", "deberta-v2", "openai-gpt")
CASES = [
    (family, attention)
    for family in CONFIGS
    for attention in ("eager", "sdpa")
    if attention == "eager" or CONFIGS[family]().model_type not in WITHOUT_SDPA
]


def states(model: Any, **inputs: Any) -> torch.Tensor:
    with torch.no_grad():
        return model(**inputs).last_hidden_state


def zero_slices(model: Any, heads: list[tuple[int, int]]) -> None:
    """The definition: the head's part of W^O is zero."""
    slots = head_slots(model)
    for layer, head in heads:
        weight = slots[layer].output.weight
        conv = type(slots[layer].output).__name__ == "Conv1D"  # stores its weight transposed
        width = weight.shape[0 if conv else 1] // 4
        part = slice(head * width, (head + 1) * width)
        with torch.no_grad():
            weight[part] = 0 if conv else weight[part]
            if not conv:
                weight[:, part] = 0


def hooks_of(model: torch.nn.Module) -> int:
    return sum(len(module._forward_pre_hooks) for module in model.modules())


@pytest.mark.parametrize(("family", "attention"), CASES)
def test_a_gate_of_zero_is_the_heads_slice_set_to_zero(family: str, attention: str) -> None:
    model, inputs = tiny(family, attention), padded_inputs()
    assert head_shape(model) == (2, 4)
    plain = states(model, **inputs)
    with bm.head_gates(model, torch.ones(2, 4)):
        assert torch.equal(states(model, **inputs), plain)
    off = OFF
    if family in SHARED_LAYERS:
        off = [(0, 1), (1, 1)]  # the weights are those of both layers
    with bm.head_gates(model, off=off):
        gated = states(model, **inputs)
    assert not torch.allclose(gated, plain, atol=1e-3)
    assert hooks_of(model) == 0 and not _in_force
    zero_slices(model, off[:1] if family in SHARED_LAYERS else off)
    torch.testing.assert_close(gated, states(model, **inputs), rtol=1e-5, atol=1e-5)


def test_shared_layers_have_a_gate_for_every_call() -> None:
    model, inputs = tiny("albert"), padded_inputs()
    plain = states(model, **inputs)
    outcomes = []
    for layer in range(2):
        with bm.head_gates(model, off=[(layer, 2)]):
            outcomes.append(states(model, **inputs))
            assert torch.equal(outcomes[-1], states(model, **inputs))  # counted anew every time
    assert not torch.allclose(outcomes[0], outcomes[1]) and not torch.allclose(outcomes[0], plain)


@pytest.mark.parametrize("family", CONFIGS)
def test_gates_of_each_example(family: str) -> None:
    model, inputs = tiny(family), padded_inputs()
    gates = torch.rand(3, 2, 4)
    with bm.head_gates(model, gates):
        together = states(model, **inputs)
    for row in range(3):
        one = {name: tensor[row : row + 1] for name, tensor in inputs.items()}
        with bm.head_gates(model, gates[row]):
            alone = states(model, **one)
        real = inputs["attention_mask"][row].bool()
        torch.testing.assert_close(together[row][real], alone[0][real], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "auto",
    [
        tf.AutoModelForSequenceClassification,
        tf.AutoModelForTokenClassification,
        tf.AutoModelForQuestionAnswering,
        tf.AutoModelForMaskedLM,
    ],
)
def test_models_with_heads_of_their_own(auto: Any) -> None:
    model, inputs = tiny("bert", auto=auto), padded_inputs()
    with torch.no_grad():
        plain = model(**inputs)[0]
        with bm.head_gates(model, off=OFF):
            assert not torch.allclose(model(**inputs)[0], plain)
        assert torch.equal(model(**inputs)[0], plain)


def test_a_decoder_that_generates() -> None:
    model = tiny("llama", auto=tf.AutoModelForCausalLM)
    ids = torch.randint(4, 99, (1, 6))
    with bm.head_gates(model, off=OFF):
        text = model.generate(ids, max_new_tokens=5, do_sample=False, pad_token_id=1)
    zero_slices(model.model, OFF)
    again = model.generate(ids, max_new_tokens=5, do_sample=False, pad_token_id=1)
    assert torch.equal(text, again)


def test_nested_gates_multiply_and_an_exception_leaves_no_hook() -> None:
    model, inputs = tiny("bert"), padded_inputs()
    first, second = torch.rand(2, 4), torch.rand(2, 4)
    with bm.head_gates(model, first * second):
        expected = states(model, **inputs)
    with bm.head_gates(model, first):
        outer = states(model, **inputs)
        with pytest.raises(ZeroDivisionError), bm.head_gates(model, second):
            torch.testing.assert_close(states(model, **inputs), expected)
            raise ZeroDivisionError
        assert torch.equal(states(model, **inputs), outer)
    assert hooks_of(model) == 0 and not _in_force
    torch.testing.assert_close(
        bm.gated(model, first, **inputs).last_hidden_state, outer, rtol=0, atol=0
    )


def test_wrong_gates_are_one_clear_line() -> None:
    model = tiny("bert")
    with (
        pytest.raises(bm.InputError, match=r"\(3, 4\): expected \(2, 4\) or \(examples, 2, 4\)"),
        bm.head_gates(model, torch.ones(3, 4)),
    ):
        pass
    with (
        pytest.raises(bm.InputError, match=r"\(2, 0\) is outside the model's 2 layers × 4 heads"),
        bm.head_gates(model, off=[(2, 0)]),
    ):
        pass
    with (
        pytest.raises(bm.InputError, match="gates for 5 examples, but the batch has 3 rows"),
        bm.head_gates(model, torch.ones(5, 2, 4)),
    ):
        model(**padded_inputs())
    fourier = tf.AutoModel.from_config(
        tf.FNetConfig(hidden_size=32, num_hidden_layers=2, intermediate_size=37, vocab_size=99)
    )
    with (
        pytest.raises(bm.InputError, match="FNetModel: no attention heads were found"),
        bm.head_gates(fourier, off=[(0, 0)]),
    ):
        pass
    assert hooks_of(model) == 0 and not _in_force


def test_autocast() -> None:
    model, inputs = tiny("bert"), padded_inputs()
    with torch.autocast("cpu", torch.bfloat16):
        plain = states(model, **inputs)
        with bm.head_gates(model, torch.ones(2, 4)):
            assert torch.equal(states(model, **inputs), plain)
        with bm.head_gates(model, off=OFF):
            gated = states(model, **inputs)
    zero_slices(model, OFF)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(gated, states(model, **inputs), rtol=0.02, atol=0.02)


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama", "deberta-v2"])
@pytest.mark.parametrize("closed", [True, False])
def test_gradient_checkpointing_computes_again_with_the_same_gates(
    family: str, closed: bool
) -> None:
    model, inputs = tiny(family), padded_inputs()
    model.config.use_cache = False
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    gates, others = torch.rand(3, 2, 4), torch.rand(2, 4)

    def gradients(checkpointing: bool) -> list[torch.Tensor]:
        model.train()
        if checkpointing:
            enable_checkpointing(model, {"use_reentrant": False})
        leaf = gates.clone().requires_grad_()
        model.zero_grad()
        with bm.head_gates(model, others), bm.head_gates(model, leaf):
            loss = model(**inputs).last_hidden_state.square().sum()
            if not closed:
                loss.backward()
        if closed:
            loss.backward()
        disable = getattr(model, "activation_checkpointing_disable", None)
        (disable or model.gradient_checkpointing_disable)()
        return [leaf.grad, *(p.grad.clone() for p in model.parameters() if p.grad is not None)]

    for plain, again in zip(gradients(False), gradients(True), strict=True):
        torch.testing.assert_close(plain, again, rtol=1e-4, atol=1e-4)
    assert hooks_of(model) == 0 and not _in_force


def test_reentrant_checkpointing_is_refused() -> None:
    model = tiny("bert")
    enable_checkpointing(model, {"use_reentrant": True})
    with pytest.raises(bm.InputError, match="use_reentrant"), bm.head_gates(model, off=OFF):
        pass
    assert hooks_of(model) == 0 and not _in_force


def test_a_compiled_model_is_gated_too() -> None:
    model, inputs = tiny("bert"), padded_inputs()
    compiled = torch.compile(model, backend="eager")
    with torch.no_grad():
        before = compiled(**inputs).last_hidden_state
        with bm.head_gates(compiled, off=OFF):
            gated = compiled(**inputs).last_hidden_state
        with bm.head_gates(model, off=OFF):
            expected = model(**inputs).last_hidden_state
        assert torch.equal(gated, expected) and not torch.allclose(gated, before)
        assert torch.equal(compiled(**inputs).last_hidden_state, before)


def test_the_encoders_of_a_multitask_model(tiny_model: Any) -> None:
    text = ["the red cat sat 1"]
    plain = tiny_model.predict("single", text)
    with bm.head_gates(tiny_model, torch.zeros(3, 4)):
        gated = tiny_model.predict("single", text)
    assert plain != gated and plain == tiny_model.predict("single", text)
