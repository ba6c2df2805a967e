"""Task-conditioned encoders: what equals the backbone at the start, and what touches what."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.checkers import assert_same_bits
from tests.families import padded_inputs, tiny

import brodmann as bm
from brodmann.data.batches import Part
from brodmann.data.tasks import TaskSpec
from brodmann.models.backbone.checkpointing import enable_checkpointing, is_checkpointing
from brodmann.models.encoders import ARCHITECTURES
from brodmann.models.encoders.conditional import ConditionalAttention
from brodmann.models.encoders.task_context import of_parts
from brodmann.models.exports import stock_model
from brodmann.models.task_heads import module_key

CONDITIONED = ["bert", "roberta", "xlm-roberta", "electra", "mpnet"]
SPECS = [TaskSpec(name, "classification", labels=("x", "y")) for name in ("a", "b", "c")]
LENGTH = 16


def parts(*sizes: tuple[str, int]) -> list[Part]:
    found, begin = [], 0
    for task, rows in sizes:
        ones = np.ones(rows, int)
        found.append(Part(task, slice(begin, begin + rows), np.arange(rows), {}, ones, rows))
        begin += rows
    return found


@pytest.fixture
def two_tasks() -> list[Any]:
    """Two classifications with equally many classes."""
    rows = [{"t": f"{word} film {n}", "l": n % 2} for n, word in enumerate(["fine", "dull"] * 12)]
    other = [{"t": f"{word} dog {n}", "l": n % 2} for n, word in enumerate(["old", "red"] * 12)]
    return bm.load_tasks(
        [
            {"name": name, "kind": "classification", "text": "t", "label": "l",
             "train": data[:16], "validation": data[16:]}
            for name, data in (("film", rows), ("dog", other))
        ]
    )  # fmt: skip


def encoder_of(
    family: str, architecture: str, attention: str = "eager", **parameters: Any
) -> tuple[Any, Any]:
    """(encoder, an equal backbone of its own)"""
    pair = [tiny(family, None if family == "mpnet" else attention) for _ in range(2)]
    torch.manual_seed(3)
    encoder = ARCHITECTURES[architecture].build(pair[0], SPECS, LENGTH, **parameters)
    return encoder.eval(), pair[1]


def stirred(encoder: Any) -> Any:
    """Everything beside the backbone away from its start."""
    generator = torch.Generator().manual_seed(5)
    for name, parameter in encoder.named_parameters():
        if not name.startswith("backbone."):
            parameter.data += 0.1 * torch.randn(parameter.shape, generator=generator)
    return encoder


def states(encoder: Any, inputs: Any, *sizes: tuple[str, int]) -> list[torch.Tensor]:
    return [found.last_hidden_state for found in encoder(inputs, parts(*sizes))]


@pytest.mark.parametrize("family", CONDITIONED)
@pytest.mark.parametrize("padding", [True, False])
@pytest.mark.parametrize("alignment", ["linear", "film", "separate"])
def test_at_its_start_it_is_the_backbone_to_the_bit(
    family: str, padding: bool, alignment: str
) -> None:
    encoder, plain = encoder_of(
        family, "ca_mtl", bottleneck="none", norms="both", alignment=alignment
    )
    inputs = padded_inputs()
    if not padding:
        inputs = {name: tensor[1:] for name, tensor in inputs.items()}
    rows = len(inputs["input_ids"])
    with torch.no_grad():
        expected = plain(**inputs).last_hidden_state
        first, second = states(encoder, inputs, ("a", 1), ("b", rows - 1))
    assert torch.equal(torch.cat([first, second]), expected)


@pytest.mark.parametrize("family", [name for name in CONDITIONED if name != "mpnet"])
def test_at_its_start_it_is_nearly_the_backbone_under_sdpa(family: str) -> None:
    encoder, plain = encoder_of(family, "ca_mtl", "sdpa", bottleneck="none")
    inputs = padded_inputs()
    with torch.no_grad():
        (found,) = states(encoder, inputs, ("a", 3))
        expected = plain(**inputs).last_hidden_state
    real = inputs["attention_mask"].bool()
    torch.testing.assert_close(found[real], expected[real], atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("family", [name for name in CONDITIONED if name != "mpnet"])
@pytest.mark.parametrize("bottleneck", ["base", "large"])
def test_sdpa_and_eager_agree(family: str, bottleneck: str) -> None:
    """In double precision, where nothing but the way of computing could differ."""
    pair = [
        stirred(encoder_of(family, "ca_mtl", how, bottleneck=bottleneck)[0]).double()
        for how in ("eager", "sdpa")
    ]
    inputs = padded_inputs()
    real = inputs["attention_mask"].bool()
    found = []
    for encoder in pair:
        both = torch.cat(states(encoder, inputs, ("a", 2), ("b", 1)))
        both[real].square().sum().backward()
        found.append((both[real], encoder.attention[0].blocks.grad))
    assert found[0][0].dtype == torch.float64
    torch.testing.assert_close(found[0][0], found[1][0], atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(found[0][1], found[1][1], atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("family", CONDITIONED)
@pytest.mark.parametrize(
    "architecture", [("ca_mtl", {}), ("ca_mtl", {"bottleneck": "large"}), ("pals", {"size": 8}),
                     ("adapters", {"size": 5})],
)  # fmt: skip
def test_a_mixed_batch_gives_what_batches_of_one_task_give(
    family: str, architecture: tuple[str, dict[str, Any]]
) -> None:
    name, parameters = architecture
    encoder = stirred(encoder_of(family, name, **parameters)[0])
    inputs = padded_inputs(5)
    with torch.no_grad():
        mixed = states(encoder, inputs, ("b", 2), ("a", 2), ("c", 1))
        begin = 0
        for (task, rows), found in zip((("b", 2), ("a", 2), ("c", 1)), mixed, strict=True):
            alone = {key: value[begin : begin + rows] for key, value in inputs.items()}
            (expected,) = states(encoder, alone, (task, rows))
            real = alone["attention_mask"].bool()
            torch.testing.assert_close(found[real], expected[real], atol=1e-5, rtol=1e-5)
            begin += rows


def test_equal_rows_give_equal_outputs_and_one_row_changes_only_its_task() -> None:
    encoder = stirred(encoder_of("bert", "ca_mtl")[0])
    inputs = padded_inputs(2)
    rows = encoder.embedding.rows

    def of(task: str) -> torch.Tensor:
        with torch.no_grad():
            return states(encoder, inputs, (task, 2))[0]

    before = {task: of(task) for task in "abc"}
    assert not torch.allclose(before["a"], before["b"])
    rows[module_key("b")].data.copy_(rows[module_key("a")].data)
    assert torch.equal(of("a"), of("b")) and torch.equal(of("a"), before["a"])
    assert torch.equal(of("c"), before["c"])


@pytest.mark.parametrize("architecture", ["ca_mtl", "pals", "adapters"])
def test_a_batch_leaves_no_gradient_on_another_tasks_parameters(architecture: str) -> None:
    encoder = stirred(encoder_of("bert", architecture, **SMALL[architecture])[0])
    states(encoder, padded_inputs(2), ("a", 2))[0].sum().backward()
    assert all(p.grad is not None for p in encoder.task_parameters("a"))
    for other in "bc":
        assert all(p.grad is None for p in encoder.task_parameters(other))


@pytest.mark.parametrize("architecture", ["shared", "single", "ca_mtl", "pals", "adapters"])
def test_a_batch_leaves_no_gradient_on_another_tasks_output_head(
    two_tasks: list[Any], architecture: str
) -> None:
    from brodmann.data.batches import make_batch

    first, second = two_tasks
    model = build(two_tasks, architecture, **SMALL.get(architecture, {}))
    encoded = model.encode(first.spec, first.splits["train"])
    batch = make_batch([(first.name, encoded, np.arange(4))], pad_id=model.tokenizer.pad_token_id)
    model(batch).losses[0].mean().backward()
    heads = model.heads
    assert all(p.grad is not None for p in heads[module_key(first.name)].parameters())
    assert all(p.grad is None for p in heads[module_key(second.name)].parameters())


SMALL: dict[str, dict[str, Any]] = {
    "ca_mtl": {"alignment": "separate"}, "pals": {"size": 8}, "adapters": {"size": 5},
}  # fmt: skip


def test_half_of_the_layers_are_frozen_but_nothing_conditional_is() -> None:
    encoder, _ = encoder_of("bert", "ca_mtl")
    trained = {name for name, p in encoder.named_parameters() if p.requires_grad}
    assert not any("embeddings." in name or ".layer.0." in name for name in trained)
    assert any(".layer.1." in name for name in trained)
    beside = [name for name, _ in encoder.named_parameters() if not name.startswith("backbone.")]
    assert beside and set(beside) <= trained
    everything, _ = encoder_of("bert", "ca_mtl", frozen=0.0)
    assert all(p.requires_grad for p in everything.parameters())


def test_adapters_train_norms_and_nothing_else_of_the_backbone() -> None:
    encoder, plain = encoder_of("bert", "adapters", size=5)
    trained = {n for n, p in encoder.backbone.named_parameters() if p.requires_grad}
    assert trained and all("LayerNorm" in name and ".layer." in name for name in trained)
    inputs = padded_inputs()
    with torch.no_grad():
        (found,) = states(encoder, inputs, ("a", 3))
        expected = plain(**inputs).last_hidden_state
    torch.testing.assert_close(found, expected, atol=1e-3, rtol=1e-3)  # near the start


def test_pals_start_as_the_backbone() -> None:
    encoder, plain = encoder_of("roberta", "pals", size=8)
    inputs = padded_inputs()
    with torch.no_grad():
        assert torch.equal(states(encoder, inputs, ("a", 3))[0], plain(**inputs).last_hidden_state)


def literal_bias(module: ConditionalAttention, z: torch.Tensor, tokens: int) -> torch.Tensor:
    """The definition, example by example: block_diag of modulated blocks."""
    scale, shift = module.film(z[None])
    blocks = []
    side = module.blocks.shape[1]
    for number, block in enumerate(module.blocks):
        columns = slice(number * side, number * side + side)
        gain, offset = scale[0, columns], shift[0, columns]
        width = len(gain)
        blocks.append((1 + gain) * block[:, :width] + offset if width else block[:, :0])
    whole = torch.block_diag(*blocks)
    return whole[:tokens, :tokens]


@pytest.mark.parametrize(("size", "length", "blocks"), [(32, 16, None), (32, 7, 3), (32, 48, None)])
def test_the_bias_is_block_diagonal_as_defined(size: int, length: int, blocks: Any) -> None:
    module = stirred(ConditionalAttention(size, length, blocks))
    assert len(module.blocks) == (max(1, size // length) if blocks is None else blocks)
    z = torch.randn(2, size)
    context = of_parts(parts(("a", 2), ("b", 3)), torch.device("cpu"))
    for tokens in (length, length - 2):
        found = module(z, context, tokens)
        assert found.shape == (5, 1, tokens, tokens)
        for row, task in enumerate((0, 0, 1, 1, 1)):
            torch.testing.assert_close(found[row, 0], literal_bias(module, z[task], tokens))
    full = ConditionalAttention(size, length, 1)
    assert bool(full.inside.all())


@pytest.mark.parametrize(
    ("architecture", "parameters"),
    [("ca_mtl", {"bottleneck": "large"}), ("ca_mtl", {}), ("pals", {"size": 8})],
)
def test_gradient_checkpointing_changes_nothing(
    architecture: str, parameters: dict[str, Any]
) -> None:
    from brodmann.models.encoders.task_context import checkpoint_contexts

    encoder = stirred(encoder_of("bert", architecture, **parameters)[0])
    inputs = padded_inputs()

    def gradients() -> dict[str, torch.Tensor]:
        encoder.zero_grad()
        encoder.train()
        for module in encoder.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        found = states(encoder, inputs, ("a", 2), ("c", 1))
        sum(one.square().sum() for one in found).backward()  # type: ignore[union-attr]
        return {n: p.grad.clone() for n, p in encoder.named_parameters() if p.grad is not None}

    plain = gradients()
    enable_checkpointing(
        encoder.backbone, {"use_reentrant": False, "context_fn": checkpoint_contexts}
    )
    again = gradients()
    found = states(encoder, inputs, ("a", 2), ("c", 1))
    total = sum(one.square().sum() for one in found)
    total.backward(retain_graph=True)  # type: ignore[union-attr]
    total.backward()  # type: ignore[union-attr]
    assert plain.keys() == again.keys() and is_checkpointing(encoder.backbone)
    for name, value in plain.items():
        torch.testing.assert_close(value, again[name], msg=name)


@pytest.mark.parametrize("architecture", ["ca_mtl", "pals", "adapters"])
def test_other_families_are_refused_in_one_line(architecture: str) -> None:
    for family in ("distilbert", "gpt2", "deberta"):
        with pytest.raises(bm.InputError, match=r"not built like BERT's .* such as BERT"):
            ARCHITECTURES[architecture].build(tiny(family), SPECS, LENGTH)


@pytest.mark.parametrize(
    ("architecture", "parameters", "words"),
    [
        ("ca_mtl", {"alignment": "linaer"}, "did you mean 'linear'"),
        ("ca_mtl", {"blocks": 0}, "from 1 to 16"),
        ("ca_mtl", {"frozen": 2.0}, "share from 0 to 1"),
        ("ca_mtl", {"bottleneck": "big"}, "expected one of base, published, large, none"),
        ("ca_mtl", {"blocks": True}, "from 1 to 16"),
        ("ca_mtl", {"frozen": [0.5]}, "share from 0 to 1"),
        ("skillnet", {"skills": ["topic"]}, "expected a table"),
        ("skillnet", {"skills": {"a": 3}}, "expected a list"),
        ("pals", {"size": 7}, "multiple of the 4 attention heads"),
        ("adapters", {"size": 0}, "above 0"),
    ],
)
def test_bad_parameters_are_one_line(
    architecture: str, parameters: dict[str, Any], words: str
) -> None:
    with pytest.raises(bm.InputError, match=words):
        ARCHITECTURES[architecture].build(tiny("bert"), SPECS, LENGTH, **parameters)


def test_the_backbone_alone_says_that_it_needs_a_task() -> None:
    encoder, _ = encoder_of("bert", "ca_mtl")
    with pytest.raises(bm.InputError, match="call the multi-task model"):
        encoder.backbone(**padded_inputs())


ALL: list[tuple[str, dict[str, Any]]] = [
    ("ca_mtl", {}), ("ca_mtl", {"bottleneck": "large", "alignment": "separate"}),
    ("pals", {"size": 8}), ("adapters", {"size": 5}), ("hmnet", {}), ("skillnet", {}),
]  # fmt: skip


@pytest.mark.parametrize(("architecture", "parameters"), ALL)
def test_saved_and_loaded_it_answers_the_same(
    two_tasks: list[Any], tmp_path: Path, architecture: str, parameters: dict[str, Any]
) -> None:
    model = bm.MultiTaskModel.from_pretrained(
        "builtin:tiny", two_tasks, architecture=architecture, parameters=parameters
    ).eval()
    stirred(model.encoder)
    texts = ["a fine film", "a dull one"]
    expected = model.predict(two_tasks[0].name, texts)
    model.save_pretrained(tmp_path / "model")
    again = bm.MultiTaskModel.from_pretrained(tmp_path / "model")
    assert again.predict(two_tasks[0].name, texts) == expected
    with pytest.raises(bm.InputError, match="export works for 'shared', 'single', 'lora' or"):
        stock_model(model, two_tasks[0].name)


@pytest.mark.parametrize(("architecture", "parameters"), ALL)
def test_training_gates_importance_dissociation_and_iat_work(
    two_tasks: list[Any], tmp_path: Path, architecture: str, parameters: dict[str, Any]
) -> None:
    model = bm.MultiTaskModel.from_pretrained(
        "builtin:tiny", two_tasks, architecture=architecture, parameters=parameters, max_length=32
    )
    special = None if architecture == "adapters" else bm.IAT(alpha=0.5, delta=0.5, examples=8)
    bm.fit(
        model, two_tasks, epochs=1, max_steps=4, batch_size=4, folder=tmp_path, specialize=special
    )
    scores = bm.head_importance(model, two_tasks, examples=8)
    assert scores.values.shape == (2, 3, 4) and (scores.values > 0).any()
    result = bm.dissociation(model, two_tasks, scores, alpha=0.5, draws=2, resamples=10)
    assert result.settings["architecture"] == architecture


def build(tasks: list[Any], architecture: str, **parameters: Any) -> Any:
    return bm.MultiTaskModel.from_pretrained(
        "builtin:tiny", tasks, architecture=architecture, parameters=parameters
    ).eval()


@pytest.mark.parametrize(("architecture", "parameters"), [("shared", {}), ("single", {}), *ALL])
def test_a_new_task_starts_like_another_and_leaves_the_others_alone(
    two_tasks: list[Any], tmp_path: Path, architecture: str, parameters: dict[str, Any]
) -> None:
    first, second = two_tasks
    model = build([first], architecture, **parameters)
    if architecture not in ("shared", "single"):
        stirred(model.encoder)
    texts = ["a fine film", "a dull one"]
    before = model.predict(first.name, texts)
    model.add_task(second, like=first.name, head="like")
    assert model.predict(first.name, texts) == before
    found = model.predict(second.name, texts)
    assert [list(one["probabilities"].values()) for one in found] == [
        list(one["probabilities"].values()) for one in before
    ]
    model.train_only(second.name)
    bm.fit(model, [second], epochs=1, max_steps=3, batch_size=4, weight_decay=0.1)
    assert model.predict(first.name, texts) == before
    assert model.predict(second.name, texts) != found
    model.save_pretrained(tmp_path / "model")
    again = bm.MultiTaskModel.from_pretrained(tmp_path / "model")
    assert again.predict(first.name, texts) == before
    assert again.predict(second.name, texts) == model.predict(second.name, texts)


@pytest.mark.parametrize(("architecture", "parameters"), [("shared", {}), ("single", {}), *ALL])
def test_a_new_task_is_in_the_mode_of_the_rest(
    two_tasks: list[Any], architecture: str, parameters: dict[str, Any]
) -> None:
    model = build(two_tasks[:1], architecture, **parameters)
    model.add_task(two_tasks[1], like=two_tasks[0].name)
    assert not any(module.training for module in model.modules())


def test_new_tasks_start_from_nothing_too(two_tasks: list[Any]) -> None:
    for like in ("random", "xavier"):
        model = build(two_tasks[:1], "ca_mtl")
        model.add_task(two_tasks[1], like=like)
        rows = model.encoder.embedding.rows
        assert not torch.equal(*(rows[module_key(task.name)] for task in two_tasks))
    model = build(two_tasks[:1], "single")
    with pytest.raises(bm.InputError, match="another task's encoder"):
        model.add_task(two_tasks[1], like="random")
    with pytest.raises(bm.InputError, match="already has a task"):
        model.add_task(two_tasks[0])
    with pytest.raises(bm.InputError, match="did you mean"):
        model.add_task(two_tasks[1], like="rndom")


def bert(size: str) -> Any:
    import transformers

    sizes: dict[str, dict[str, int]] = {
        "base": {},
        "large": {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16,
                  "intermediate_size": 4096},
    }  # fmt: skip
    with torch.device("meta"):
        return transformers.AutoModel.from_config(transformers.BertConfig(**sizes[size]))


def added(which: str, architecture: str, tasks: int = 8, **parameters: Any) -> tuple[int, float]:
    """(parameters beside the backbone, all over the backbone's)"""
    backbone = bert(which)
    plain = sum(p.numel() for p in backbone.parameters())
    specs = [TaskSpec(f"t{n}", "classification", labels=("x", "y")) for n in range(tasks)]
    with torch.device("meta"):
        encoder = ARCHITECTURES[architecture].build(backbone, specs, 128, **parameters)
    more = sum(p.numel() for p in encoder.parameters()) - plain
    return more, 1 + more / plain


def ca_mtl_formula(d: int, layers: int, tasks: int = 8, length: int = 128) -> int:
    """Embedding, bias a layer, alignment, output norms of the top half, one bottleneck."""
    film = 2 * d * d + 2 * d
    count = max(1, d // length)
    side = -(-length // count)
    attention = layers * (count * side**2 + 2 * length * d + 2 * length)
    bottleneck = film + 2 * d * (d // 3) + d // 3 + d
    return tasks * d + d * d + attention + (d * d + film) + layers // 2 * film + bottleneck


@pytest.mark.parametrize(("size", "d", "layers"), [("base", 768, 12), ("large", 1024, 24)])
def test_parameter_counts_are_the_closed_formulas(size: str, d: int, layers: int) -> None:
    assert added(size, "ca_mtl")[0] == ca_mtl_formula(d, layers)
    small = 204 if d == 768 else 272
    pal = 2 * d * small + layers * (3 * small**2 + 3 * small)
    assert added(size, "pals", size=small)[0] == 8 * pal
    adapter = 2 * layers * (2 * d * 256 + 256 + d)
    assert added(size, "adapters")[0] == 8 * adapter
    film = 2 * d * d + 2 * d
    both = ca_mtl_formula(d, layers) + layers // 2 * film  # one more norm in the top half
    assert added(size, "ca_mtl", norms="both")[0] == both
    bottleneck = film + 2 * d * (d // 3) + d // 3 + d
    stack = ca_mtl_formula(d, layers) + (layers - 1) * bottleneck  # one a layer instead of one
    assert added(size, "ca_mtl", bottleneck="large")[0] == stack


def test_the_table_of_parameters_in_the_documentation() -> None:
    """Every ratio that docs/conditioned.md prints."""
    for size, architecture, parameters, ratio in (
        ("base", "ca_mtl", {}, 1.123),
        ("large", "ca_mtl", {}, 1.115),
        ("base", "ca_mtl", {"norms": "both"}, 1.187),
        ("large", "ca_mtl", {"norms": "both"}, 1.190),
        ("base", "ca_mtl", {"bottleneck": "large"}, 1.281),
        ("large", "ca_mtl", {"bottleneck": "large"}, 1.307),
        ("base", "pals", {}, 1.133),
        ("large", "pals", {"size": 272}, 1.141),
        ("base", "adapters", {}, 1.691),
        ("large", "adapters", {}, 1.602),
    ):
        assert added(size, architecture, **parameters)[1] == pytest.approx(ratio, abs=5e-4)


def test_bert_base_grows_as_the_papers_say() -> None:
    assert added("base", "ca_mtl")[1] == pytest.approx(1.12, abs=0.005)  # Pilault et al.: 1.12
    assert added("base", "pals")[1] == pytest.approx(1.13, abs=0.005)  # Stickland & Murray: 1.13
    assert added("base", "ca_mtl", norms="both")[1] == pytest.approx(1.18, abs=0.01)


def test_zero_shot_scores_every_start_and_changes_nothing(two_tasks: list[Any]) -> None:
    first, second = two_tasks
    model = build([first], "ca_mtl")
    stirred(model.encoder)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = bm.zero_shot(model, second)
    assert list(found) == [first.name, "random", "xavier"]
    told = []
    for start in found:  # a start is one: the new task's states, and so its answers, differ
        trial = copy.deepcopy(model)
        trial.add_task(second, like=start)
        told.append(trial.predict(second.name, ["a red dog", "an old one"]))
    assert told[0] != told[1] and told[1] != told[2] and told[0] != told[2]
    copied = bm.zero_shot(model, second, head="like")
    assert list(copied) == [first.name] and "accuracy" in copied[first.name]
    assert_same_bits(model, before)
    with pytest.raises(bm.InputError, match="needs a new one"):
        bm.zero_shot(model, first)


@pytest.mark.parametrize("module", ["alignment", "norm", "bottleneck"])
def test_a_small_scale_shows_under_bf16(module: str) -> None:
    """Steps of bfloat16 near 1 are 1/128: γ = 0.003 must not round away, nor only half of it."""
    import torch

    from brodmann.models.encoders.conditional import (
        ConditionalAlignment,
        ConditionalBottleneck,
        ConditionalNorm,
    )
    from brodmann.models.encoders.task_context import TaskContext

    torch.manual_seed(0)
    size = 12
    one = {
        "alignment": lambda: ConditionalAlignment(["a"], size, "film"),
        "norm": lambda: ConditionalNorm(size),
        "bottleneck": lambda: ConditionalBottleneck(size, None),
    }[module]()
    states, z, pretrained = torch.randn(2, 3, size), torch.ones(1, size), torch.nn.LayerNorm(size)
    torch.nn.init.normal_(pretrained.bias)
    context = TaskContext(("a",), (slice(0, 2),), torch.zeros(2, dtype=torch.long))

    def output() -> torch.Tensor:
        return one(states, pretrained, z, context) if module == "norm" else one(states, z, context)

    def change(precision: bool) -> torch.Tensor:
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=precision):
            one.film.both.bias.zero_()
            before = output().float()
            one.film.both.bias[:size] = 0.003
            return output().float() - before

    exact, rounded = change(False), change(True)
    assert exact.abs().max() > 1e-4
    if module == "bottleneck":  # its products are in bf16: only that something comes through
        assert rounded.abs().max() > 0
    else:
        torch.testing.assert_close(rounded, exact, atol=1e-5, rtol=1e-2)


def test_only_attention_that_takes_a_bias_is_conditioned(tasks_of_every_kind: list[Any]) -> None:
    from brodmann.models.backbone.load import load_backbone
    from brodmann.models.encoders.ca_mtl import build

    tasks = tasks_of_every_kind[:2]
    with pytest.raises(bm.InputError, match="attention = 'flex_attention' of the backbone accepts"):
        bm.MultiTaskModel.from_pretrained(
            "builtin:tiny", tasks, architecture="ca_mtl", attention="flex_attention"
        )
    other = load_backbone("builtin:tiny", attention="flex_attention").model
    assert not build(other, [task.spec for task in tasks], 32, attention=False).attention
