"""LoRA adapters: peft's own, on targets that are found, with answers that stay exact."""

import copy
import json
import os
import signal
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.checkers import assert_same_bits
from tests.families import CONFIGS, padded_inputs, tiny
from tests.unit.models.test_conditional import parts

import brodmann as bm
from brodmann.data.batches import Batch, make_batch
from brodmann.data.tasks import TaskSpec
from brodmann.errors import Interrupted
from brodmann.models.backbone.load import load_backbone
from brodmann.models.backbone.query_value import query_value_maps
from brodmann.models.encoders import ARCHITECTURES
from brodmann.models.encoders.lora import target_paths
from brodmann.models.exports import export_onnx, stock_model
from brodmann.models.model_settings import ModelSettings
from brodmann.models.peft_export import export_peft
from brodmann.training.methods.iat import Specialization

SPECS = [TaskSpec(name=name, kind="classification", labels=["x", "y"]) for name in "ab"]
both = pytest.mark.parametrize("architecture", ["lora", "task_lora"])


def stirred(module: Any) -> Any:
    """Adapters that have left zero."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if ".lora_B." in name:
                parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
    return module


def build(tasks: list[Any], architecture: str, **parameters: Any) -> Any:
    model = bm.MultiTaskModel.from_pretrained(
        "builtin:tiny", tasks, architecture=architecture, parameters=parameters, max_length=32
    )
    return stirred(model).eval()


def batch_of(model: Any, tasks: list[Any], items: tuple[int, ...] = (0, 3, 5)) -> Batch:
    encoded = [(t.name, model.encode(t.spec, t.splits["train"]), np.array(items)) for t in tasks]
    return make_batch(encoded, pad_id=0)


@pytest.fixture
def two_tasks(tasks_of_every_kind: list[Any]) -> list[Any]:
    return tasks_of_every_kind[:2]


def test_targets_are_those_that_peft_knows_by_name() -> None:
    from peft.utils.constants import TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING as KNOWN

    compared = 0
    for family in CONFIGS:
        model = tiny(family)
        found = query_value_maps(model)
        with torch.device("meta"):
            assert query_value_maps(type(model)(model.config)) == found
        if family.startswith("deberta"):  # a softmax shows no keys apart from queries
            assert set(target_paths(model, KNOWN[model.config.model_type])) < set(found)
        elif model.config.model_type in KNOWN:
            assert found == target_paths(model, KNOWN[model.config.model_type])
            compared += 1
    assert compared == 9


@both
@pytest.mark.parametrize("family", ["bert", "mpnet", "modernbert", "deberta-v2", "gpt2", "llama"])
def test_it_starts_as_the_backbone_and_merges_into_one(architecture: str, family: str) -> None:
    plain = tiny(family)
    start = copy.deepcopy(plain.state_dict())
    encoder = ARCHITECTURES[architecture].build(copy.deepcopy(plain), SPECS, 16, r=3).eval()
    inputs = padded_inputs()
    with torch.no_grad():
        (found,) = encoder(inputs, parts(("a", 3)))
        assert torch.equal(found.last_hidden_state, plain(**inputs).last_hidden_state)
        stirred(encoder)
        (found,) = encoder(inputs, parts(("a", 3)))
        assert not torch.equal(found.last_hidden_state, plain(**inputs).last_hidden_state)
        merged = encoder.merged("a")
        torch.testing.assert_close(
            merged(**inputs).last_hidden_state, found.last_hidden_state, atol=1e-4, rtol=1e-4
        )
    assert list(merged.state_dict()) == list(start)
    kept = {name.replace(".base_layer", ""): p for name, p in encoder.backbone.named_parameters()}
    for name, value in start.items():
        assert torch.equal(kept[name], value) and not kept[name].requires_grad


def test_adapters_by_task_are_those_that_peft_would_choose_by_row() -> None:
    encoder = stirred(ARCHITECTURES["task_lora"].build(tiny("bert"), SPECS, 16, r=3)).eval()
    inputs = padded_inputs(4)
    names = ["task:a"] * 2 + ["task:b"] * 2
    by_peft = copy.deepcopy(encoder)
    for layer in by_peft.adapted().values():
        layer._forward_hooks.clear()
        layer.enable_adapters(True)
        layer.register_forward_pre_hook(
            lambda _, args, kwargs: (args, kwargs | {"adapter_names": names}), with_kwargs=True
        )
    with torch.no_grad():
        found = encoder(inputs, parts(("a", 2), ("b", 2)))
        expected = by_peft.backbone(**inputs).last_hidden_state
    joined = torch.cat([states.last_hidden_state for states in found])
    torch.testing.assert_close(joined, expected, atol=1e-6, rtol=1e-6)


@both
def test_only_adapters_and_output_heads_train(
    tasks_of_every_kind: list[Any], architecture: str
) -> None:
    tasks = tasks_of_every_kind[:2]
    for freeze in (0.0, 0.5, "encoder"):
        model = bm.MultiTaskModel.from_pretrained(
            "builtin:tiny", tasks, architecture=architecture, freeze=freeze
        )
        trained = [name for name, p in model.named_parameters() if p.requires_grad]
        assert all(".lora_" in name or name.startswith("heads.") for name in trained)
        adapters = 1 if architecture == "lora" else 2
        assert sum(".lora_" in name for name in trained) == adapters * 3 * 2 * 2
    before = {name: value.clone() for name, value in model.state_dict().items()}
    bm.fit(model, tasks, max_steps=4, batch_size=8, learning_rate=1e-3)
    moved = {n for n, value in model.state_dict().items() if not torch.equal(value, before[n])}
    assert moved == set(trained)


def test_the_short_form_names_an_architecture() -> None:
    settings = ModelSettings(lora={"r": 4, "targets": ["query"], "per": "task"})
    assert (settings.architecture, settings.lora) == ("task_lora", None)
    assert settings.parameters == {"r": 4, "targets": ["query"]}
    assert settings == ModelSettings(
        architecture="task_lora", parameters={"r": 4, "targets": ["query"]}
    )
    assert ModelSettings(lora={}).architecture == "lora"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"lora": {}, "architecture": "pals"},
            "architecture = 'pals' cannot be combined with lora: leave one out",
        ),
        (
            {"lora": {"r": 4}, "parameters": {"r": 4}},
            "lora and parameters: both are parameters of one architecture",
        ),
        ({"lora": {"r": 0}}, "lora.r = 0: input should be greater than 0"),
        ({"lora": {"rank": 4}}, "unknown key 'lora.rank'; known: r, alpha, dropout, targets, per"),
    ],
)
def test_bad_settings_are_one_line(given: dict[str, Any], message: str) -> None:
    with pytest.raises(bm.InputError) as caught:
        ModelSettings(**given)
    assert str(caught.value) == f"ModelSettings: {message}"


def test_bad_parameters_are_one_line(tasks_of_every_kind: list[Any]) -> None:
    tasks = tasks_of_every_kind[:1]
    with pytest.raises(bm.InputError) as caught:
        build(tasks, "lora", targets=["qurey"])
    assert str(caught.value) == (
        "targets: BertModel has no linear map 'qurey'; did you mean 'query'?"
    )
    with pytest.raises(bm.InputError) as caught:
        build(tasks, "task_lora", r=0)
    assert str(caught.value) == "lora: r = 0: input should be greater than 0"


def test_a_missing_package_is_named_before_anything_loads(
    monkeypatch: pytest.MonkeyPatch, tasks_of_every_kind: list[Any]
) -> None:
    monkeypatch.setattr("brodmann.models.encoders.importlib.util.find_spec", lambda name: None)
    with pytest.raises(bm.InputError) as caught:
        bm.MultiTaskModel.from_pretrained("no/such-model", tasks_of_every_kind[:1], lora={"r": 2})
    assert str(caught.value) == "architecture 'lora' needs peft: pip install 'brodmann[lora]'"


def test_importance_through_adapters_is_the_gradient_of_the_gates(
    two_tasks: list[Any],
) -> None:
    """A gate acts on the input of W^O, also where W^O itself is adapted."""
    model = build(two_tasks, "lora", targets=["query", "value", "attention.output.dense"])
    merged = model.merged()
    ours, theirs = (
        bm.head_importance(one, two_tasks, examples=6, precision="float32").values
        for one in (model, merged)
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-6)
    batch = batch_of(model, two_tasks)
    with torch.no_grad(), bm.head_gates(model, off=[(1, 0)]), bm.head_gates(merged, off=[(1, 0)]):
        torch.testing.assert_close(model(batch).logits, merged(batch).logits, atol=1e-4, rtol=1e-4)


@both
def test_heads_are_removed_from_the_merged_model(two_tasks: list[Any], architecture: str) -> None:
    model = build(two_tasks, architecture)
    with pytest.raises(bm.InputError) as caught:
        bm.prune_heads(model, [(0, 1)])
    assert str(caught.value) == (
        "BertModel: it has LoRA adapters, whose rows would stay: merge them first "
        "(`model.merged()`), or use head_gates"
    )
    small = bm.prune_heads(model.merged(), [(0, 1), (2, 3)])
    batch = batch_of(model, two_tasks)
    with torch.no_grad(), bm.head_gates(model, off=[(0, 1), (2, 3)]):
        expected = model(batch).logits
    with torch.no_grad():
        torch.testing.assert_close(small(batch).logits, expected, atol=1e-4, rtol=1e-4)


@both
def test_iat_is_refused_with_the_reason(two_tasks: list[Any], architecture: str) -> None:
    with pytest.raises(bm.InputError) as caught:
        Specialization(build(two_tasks, architecture), bm.IAT(), steps=10)
    assert str(caught.value).startswith(
        "specialize: with LoRA one matrix moves all heads of a projection together, so no head "
        "can be held still: use 'shared', 'single'"
    )


@both
def test_exports_hold_what_the_model_answers(
    tasks_of_every_kind: list[Any], tmp_path: Path, architecture: str
) -> None:
    from peft import PeftModel

    tasks = [task for task in tasks_of_every_kind if task.name in ("single", "value", "where")]
    model = build(tasks, architecture)
    for task in tasks:
        stock = stock_model(model, task.name)
        inputs = batch_of(model, [task]).inputs
        export_peft(model, task.name, tmp_path / task.name)
        base = type(stock)(stock.config)
        plain = load_backbone("builtin:tiny").model.state_dict()
        own = base.base_model.state_dict()
        base.base_model.load_state_dict({k: v for k, v in plain.items() if k in own})
        with warnings.catch_warnings():  # peft's own, as in the export
            warnings.filterwarnings("ignore", ".*gradient_checkpointing", FutureWarning)
            adapted = PeftModel.from_pretrained(base, str(tmp_path / task.name)).eval()
        with torch.no_grad():
            one, other = stock(**inputs)[0], adapted(**inputs)[0]
            torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)
            merged = adapted.merge_and_unload()(**inputs)[0]
            torch.testing.assert_close(one, merged, atol=1e-5, rtol=1e-5)
        config = json.loads((tmp_path / task.name / "adapter_config.json").read_text())
        assert config["base_model_name_or_path"] == "builtin:tiny"
        assert sorted(config["target_modules"]) == ["query", "value"]
    with pytest.raises(bm.InputError) as caught:
        export_peft(model.merged(), "single", tmp_path / "new")
    assert "has no LoRA adapter: --to peft works for 'lora' or 'task_lora'" in str(caught.value)


@pytest.mark.slow
@both
def test_onnx_holds_the_merged_model(
    two_tasks: list[Any], tmp_path: Path, architecture: str
) -> None:
    model = build(two_tasks, architecture)
    assert export_onnx(model, two_tasks[0].name, tmp_path / "onnx") < 1e-5


@both
def test_checkpointing_changes_nothing(two_tasks: list[Any], architecture: str) -> None:
    gradients = []
    for again in (False, True):
        model = build(two_tasks, architecture).train()
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        if again:
            model.enable_gradient_checkpointing()
        sum(loss.sum() for loss in model(batch_of(model, two_tasks)).losses).backward()
        gradients.append([p.grad for p in model.parameters() if p.grad is not None])
    assert len(gradients[0]) > 12
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_a_new_task_gets_an_adapter_of_its_own(two_tasks: list[Any]) -> None:
    first, second = two_tasks
    model = build([first], "task_lora")
    texts = ["a fine film", "a dull one"]
    before = model.predict(first.name, texts)
    model.add_task(second, like=first.name)
    ours, theirs = (model.encoder.task_parameters(task.name) for task in two_tasks)
    assert all(torch.equal(one, other) for one, other in zip(ours, theirs, strict=True))
    model.train_only(second.name)
    assert all(p.requires_grad for p in theirs) and not any(p.requires_grad for p in ours)
    bm.fit(model, [second], max_steps=3, batch_size=8)
    assert model.predict(first.name, texts) == before
    fresh = build([first], "task_lora")
    fresh.add_task(second)
    assert all(not p.any() for p in fresh.encoder.task_parameters(second.name)[1::2])  # every B


@both
def test_dropout_resumes_to_the_bit(
    tasks_of_every_kind: list[Any], tmp_path: Path, architecture: str
) -> None:
    """Batches that mix tasks, stopped in the middle."""
    tasks = tasks_of_every_kind[:3]
    options: dict[str, Any] = {"max_steps": 6, "batch_size": 6, "sampling": "uncertainty"}
    whole = build(tasks, architecture, dropout=0.3)
    bm.fit(whole, tasks, keep="last", **options)
    model = build(tasks, architecture, dropout=0.3)

    def stop(event: str, facts: dict[str, Any]) -> None:
        if event == "step" and facts["step"] == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Interrupted):
        bm.fit(model, tasks, keep="last", folder=tmp_path, report=stop, **options)
    model = build(tasks, architecture, dropout=0.3)
    bm.fit(model, tasks, keep="last", folder=tmp_path, **options)
    assert_same_bits(whole, model)
