"""Output heads fitted to convergence: scikit-learn's optimum, for every kind and family."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.checkers import assert_same_bits, differing, weights
from tests.families import CONFIGS, tiny

import brodmann as bm
from brodmann.data.batches import evaluation_order, make_batch
from brodmann.models.backbone.load import Backbone
from brodmann.models.evaluation import unlabelled
from brodmann.models.model_settings import OWN, Blueprint, ModelSettings
from brodmann.models.multitask import MultiTaskModel
from brodmann.models.pooling import pooled as pooled_states
from brodmann.training.methods.iat import Specialization
from brodmann.training.output_heads import fit_output_heads, fitted_heads


def build(tasks: list[Any], **options: Any) -> Any:
    options = {"freeze": "encoder"} | options
    return bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks, **options)


def pooled(model: Any, task: Any, split: str) -> Any:
    """What BERT's classifier reads, (example, size), by the model itself."""
    encoded = model.encode(task.spec, task.splits[split])
    found = np.zeros((encoded.items, model.config.hidden_size))
    with torch.no_grad():
        for items in evaluation_order(encoded, 16):
            batch = unlabelled(model, task.name, encoded, items)
            states = model.eval().states(batch.inputs, batch.parts)[0]
            mask = batch.inputs["attention_mask"]
            found[items] = pooled_states(states, mask, model.settings.pooling).numpy()
    return found


def mean_loss(model: Any, task: Any) -> torch.Tensor:
    encoded = model.encode(task.spec, task.splits["train"])
    pad = int(model.tokenizer.pad_token_id)
    batch = make_batch([(task.name, encoded, np.arange(encoded.items))], pad_id=pad)
    loss: torch.Tensor = model.eval()(batch).losses[0].mean()
    return loss


def loss_of(model: Any, task: Any) -> float:
    with torch.no_grad():
        return float(mean_loss(model, task))


def topics(count: int = 240) -> Any:
    return bm.load_tasks(
        [{"use": "builtin/topic", "limit": {"train": count, "validation": 120, "test": 8}}]
    )[0]


@pytest.mark.parametrize("given", [None, 1.0])
def test_it_reaches_what_scikit_learn_reaches_on_the_same_features(given: float | None) -> None:
    task = topics()
    model = build([task])
    (fitted,) = fit_output_heads(model, [task], l2=given).values()
    l2 = model.config.hidden_size / 4 if given is None else given
    assert fitted.converged and fitted.tasks == ("topic",)
    labels = {s: [e["label"] for e in task.splits[s]] for s in ("train", "validation")}
    reference = make_pipeline(
        StandardScaler(), LogisticRegression(C=1 / l2, tol=1e-8, max_iter=10_000)
    )
    reference.fit(pooled(model, task, "train"), labels["train"])
    score = bm.evaluate(model, [task])["topic"].scores["accuracy"]
    assert score == reference.score(pooled(model, task, "validation"), labels["validation"])
    logits = [p["probabilities"] for p in bm.evaluate(model, [task])["topic"].predictions]
    ours = np.array([list(one.values()) for one in logits])
    theirs = reference.predict_proba(pooled(model, task, "validation"))
    assert ours == pytest.approx(theirs, abs=2e-3)
    assert fitted.loss == pytest.approx(loss_of(model, task), abs=1e-4)


def test_gradient_steps_stop_short_of_it() -> None:
    """The reason for it: a few epochs of small steps leave a head far from its optimum."""
    task = topics()
    stepped, fitted = build([task]), build([task])
    bm.fit(stepped, [task], epochs=3, learning_rate=5e-3, keep="last")
    fit_output_heads(fitted, [task], l2=1.0)
    assert loss_of(fitted, task) < 0.8 * loss_of(stepped, task)


def test_a_regression_is_ridge_regression(tasks_of_every_kind: list[Any]) -> None:
    task = next(task for task in tasks_of_every_kind if task.name == "value")
    model = build([task])
    fit_output_heads(model, [task], l2=1.0)
    targets = [
        (e["label"] - task.spec.target_mean) / task.spec.target_scale for e in task.splits["train"]
    ]
    # Half of a squared error is what ridge regression weighs by 1.
    reference = make_pipeline(StandardScaler(), Ridge(alpha=0.5))
    reference.fit(pooled(model, task, "train"), targets)
    values = [p["value"] for p in bm.evaluate(model, [task])["value"].predictions]
    expected = reference.predict(pooled(model, task, "validation"))
    expected = expected * task.spec.target_scale + task.spec.target_mean
    assert values == pytest.approx(list(expected), abs=2e-3)


def test_every_kind_is_at_its_optimum_and_nothing_else_has_changed(
    tasks_of_every_kind: list[Any],
) -> None:
    """Without the penalty's share the loss is flat there: no step of the last map lowers it."""
    model = build(tasks_of_every_kind).train()
    before = weights(model)
    state = torch.get_rng_state()
    start = {task.name: loss_of(model, task) for task in tasks_of_every_kind}
    model.train()
    found = fit_output_heads(model, tasks_of_every_kind, l2=1e-3)
    assert model.training and torch.get_rng_state().equal(state)
    assert set(found) == {task.name for task in tasks_of_every_kind}
    for task in tasks_of_every_kind:
        loss = mean_loss(model, task)
        assert float(loss.detach()) < 0.7 * start[task.name], task.name
        assert found[task.name].loss == pytest.approx(float(loss.detach()), abs=2e-3)
        last = list(model.head_of(task.name).parameters())[-2:]
        slopes = torch.autograd.grad(loss, last)
        assert max(float(slope.abs().max()) for slope in slopes) < 2e-2, task.name
    for name, value in model.state_dict().items():
        if not name.startswith("heads."):
            assert value.equal(before[name]), name
        else:
            assert not value.equal(before[name]), name


@pytest.mark.parametrize("family", sorted(CONFIGS))
def test_every_familys_own_head_is_fitted_by_its_last_map(family: str) -> None:
    task = topics(48)
    tokenizer = build([task]).tokenizer
    config = CONFIGS[family]()
    config.vocab_size = len(tokenizer)
    bare = type(tiny(family))(config).eval()
    asked = ModelSettings(backbone=family, max_length=48, freeze="encoder")
    settings = Blueprint.of(asked, pooling=OWN, seed=0)
    model = MultiTaskModel(Backbone(family, bare, tokenizer), [task.spec], settings)
    before = copy.deepcopy(model.state_dict())
    start = loss_of(model, task)
    fit_output_heads(model, [task], l2=1e-2)
    assert loss_of(model, task) < start
    changed = differing(model, before)
    assert 1 <= len(changed) <= 2 and all(name.startswith("heads.") for name in changed)


def test_tasks_that_share_a_head_are_fitted_together() -> None:
    limit = {"train": 60, "validation": 30, "test": 8}
    described = [
        {"use": "builtin/sentiment", "name": name, "head": "mood", "limit": limit, "language": "en"}
        for name in ("one", "two")
    ]
    tasks = bm.load_tasks(described)
    model = build(tasks)
    found = fit_output_heads(model, tasks)
    assert list(found) == ["mood"] and found["mood"].tasks == ("one", "two")
    both = [loss_of(model, task) for task in tasks]
    assert found["mood"].loss == pytest.approx(np.mean(both), abs=1e-4)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"l2": 0}, "l2 = 0: expected a number above 0"),
        ({"l2": "1"}, "l2 = '1': expected a number above 0"),
        ({"examples": 0}, "examples = 0: expected at least 1"),
    ],
)
def test_wrong_settings_are_named(
    tasks_of_every_kind: list[Any], wrong: dict[str, Any], message: str
) -> None:
    with pytest.raises(bm.InputError) as caught:
        fit_output_heads(build(tasks_of_every_kind[:1]), tasks_of_every_kind[:1], **wrong)
    assert str(caught.value) == message
    with pytest.raises(bm.InputError) as caught:
        fit_output_heads(build(tasks_of_every_kind[:1]), [])
    assert str(caught.value) == "tasks: expected at least one task, found none"


CONFIG = """
name = "frozen"
output = "{output}"
tasks = [
  {{ use = "builtin/sentiment", limit = {{ train = 80, validation = 40, test = 8 }} }},
  {{ use = "builtin/topic", limit = {{ train = 80, validation = 40, test = 8 }} }},
]
[model]
backbone = "builtin:tiny"
output_heads = "fitted"
freeze = "encoder"
[map]
examples = 16
[dissociation]
draws = 1
resamples = 20
"""


def test_a_run_with_a_frozen_encoder_uses_it_by_one_setting(command: Any, tmp_path: Path) -> None:
    path = tmp_path / "frozen.toml"
    path.write_text(CONFIG.format(output=tmp_path / "runs"))
    code, _, err = command("run", path, "--json")
    assert code == 0, err
    model = bm.MultiTaskModel.from_pretrained(tmp_path / "runs" / "frozen")
    limit = {"train": 80, "validation": 40, "test": 8}
    tasks = bm.load_tasks([{"use": f"builtin/{n}", "limit": limit} for n in ("sentiment", "topic")])
    again = build(tasks)
    fit_output_heads(again, tasks, precision="auto")
    for name, value in again.state_dict().items():
        assert value.equal(model.state_dict()[name]), name
    assert (tmp_path / "runs" / "frozen" / "dissociation.json").is_file()
    code, _, err = command("report", tmp_path / "runs" / "frozen")
    assert code == 0, err
    fitted = 'brodmann: model.output_heads = "fitted": '
    for change, message in (
        (
            "model.freeze=0.5",
            "model.freeze is 0.5, expected 'encoder': nothing but the output heads may change",
        ),
        ('specialize={variant="prune"}', "cannot be combined with [specialize]"),
        ("model.gates=trained", 'cannot be combined with model.gates = "trained"'),
        (
            "model.architecture=ca_mtl",
            "architecture \"ca_mtl\" also trains 'encoder.embedding.rows.task:sentiment': use "
            "architecture 'shared' or 'single'",
        ),
    ):
        code, _, err = command("run", path, "--set", change, "--set", "name=other")
        assert (code, err) == (2, f"{fitted}{message}\n"), change
    assert not (tmp_path / "runs" / "other").exists()


def test_heads_are_as_they_were_after_a_measurement_through_fitted_ones() -> None:
    task = topics()
    model = build([task])
    before = weights(model)
    loss = loss_of(model, task)
    with fitted_heads(model, [task]):
        assert loss_of(model, task) < loss
    assert_same_bits(before, model)


def test_heads_chosen_before_the_first_step_are_measured_through_fitted_output_heads() -> None:
    """Not through random ones: the choice is that of a model with fitted heads."""
    task = topics()
    chosen = {}
    for fitted in (True, False):
        model = build([task], freeze=0.0)
        settings = bm.IAT(alpha=0.25, variant="ticket_share", examples=64, fitted=fitted)
        special = Specialization(model, settings, steps=10)
        how = {"seed": 0, "batch_size": 16, "precision": "float32"}
        chosen[fitted] = special.choose([task], **how)[task.name]
    reference = build([task], freeze=0.0)
    random = bm.head_importance(reference, [task], examples=64).top(0.25, task.name)
    fit_output_heads(reference, [task], examples=64, batch_size=16)
    expected = bm.head_importance(reference, [task], examples=64).top(0.25, task.name)
    assert chosen[True] == expected and chosen[False] == random
    assert set(expected) != set(random)
