"""IAT: exactly the chosen heads move, and everything else is ordinary training."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.checkers import assert_same_bits, weights
from torch import Tensor

import brodmann as bm
from brodmann.data.batches import make_batch
from brodmann.models.task_heads import module_key
from brodmann.training.method_settings import IAT
from brodmann.training.methods.iat import Specialization
from brodmann.training.optimizer import make_optimizer

HEADS = {"single": [(0, 1), (1, 0), (1, 3)], "pair": [(0, 1), (0, 2)]}
LAYERS, SIZE = 3, 16  # of builtin:tiny, and the size of a head


def build(tasks: list[Any], **options: Any) -> Any:
    return bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks, **options)


class Loop:
    """A few lines of training by hand: an optimizer with decay, dropout on, over two tasks."""

    def __init__(self, tasks: list[Any], **options: Any) -> None:
        architecture = options.pop("architecture", "shared")
        self.tasks = [task for task in tasks if task.name in HEADS]
        self.model = build(self.tasks, architecture=architecture).train()
        groups = [(1e-3, list(self.model.parameters()))]
        self.optimizer = make_optimizer(groups, 0.1, options.pop("optimizer", None))
        before = options.pop("before", 3)
        self.special = Specialization(self.model, IAT(**options), steps=10)
        for _ in range(before):  # so that there is momentum to drift on
            self.step(["single", "pair"])
        self.special.install(HEADS)

    def step(self, names: list[str]) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        for name in names:
            task = next(task for task in self.tasks if task.name == name)
            self.special.task = name
            encoded = self.model.encode(task.spec, task.splits["train"])
            items = torch.arange(8).numpy()
            batch = make_batch([(name, encoded, items)], pad_id=self.model.tokenizer.pad_token_id)
            self.model(batch).losses[0].mean().backward()
        with self.special.around_step(names, self.optimizer):
            self.optimizer.step()

    def everything(self) -> dict[str, Tensor]:
        """Weights and both moments, by name."""
        found = {}
        for name, parameter in self.model.named_parameters():
            found[name] = parameter.detach().clone()
            for moment in ("exp_avg", "exp_avg_sq", "momentum_buffer"):
                if moment in self.optimizer.state.get(parameter, {}):
                    found[f"{name}/{moment}"] = self.optimizer.state[parameter][moment].clone()
        return found


def moved_heads(before: Tensor, after: Tensor, dimension: int) -> list[int]:
    changed = (before != after).any(dim=1 - dimension) if before.dim() == 2 else before != after
    return [head for head in range(4) if changed[head * SIZE : (head + 1) * SIZE].any()]


def owned(name: str) -> tuple[int, int] | None:
    """(layer, dimension) of a parameter that heads own, from BERT's own names."""
    if "attention.self." in name or name.endswith("attention.output.dense.weight"):
        layer = int(name.partition("layer.")[2].partition(".")[0])
        return layer, 1 if "output" in name else 0
    return None


def check_step(loop: Loop, names: list[str], chosen: list[tuple[int, int]], encoder: str) -> None:
    before = loop.everything()
    loop.step(names)
    seen = 0
    for key, after in loop.everything().items():
        name = key.partition("/")[0]
        place = owned(name)
        if encoder not in name:
            continue
        if place is None:
            if "embeddings" not in name and "pooler" not in name:
                assert not before[key].equal(after), key  # all else trains as before
            continue
        layer, dimension = place
        expected = sorted(head for at, head in chosen if at == layer)
        if name.endswith("key.bias") and "exp_avg" in key:
            continue  # its gradient is 0 but for rounding: softmax does not see it
        assert moved_heads(before[key], after, dimension) == expected, key
        seen += 1
    assert seen >= LAYERS * (7 + 2 * 6)  # weights and moments of Q, K, V, O and their biases


def test_exactly_the_chosen_slices_move_with_their_moments(tasks_of_every_kind: list[Any]) -> None:
    loop = Loop(tasks_of_every_kind)
    check_step(loop, ["single"], HEADS["single"], "encoder")
    check_step(loop, ["pair"], HEADS["pair"], "encoder")
    both = sorted({*HEADS["single"], *HEADS["pair"]})
    check_step(loop, ["single", "pair"], both, "encoder")  # accumulated over two tasks


@pytest.mark.parametrize("before", [3, 0])
def test_heads_that_are_not_chosen_keep_still_under_sgd(
    tasks_of_every_kind: list[Any], before: int
) -> None:
    """SGD adds the decay to its momentum: also when this step is the first to make one."""
    loop = Loop(tasks_of_every_kind, optimizer="sgd", before=before)
    start = loop.everything()
    loop.step(["single"])
    after = loop.everything()
    seen = 0
    for name in [name for name in start if "/" not in name and owned(name) is not None]:
        layer, dimension = owned(name)  # type: ignore[misc]
        chosen = [head for at, head in HEADS["single"] if at == layer]
        moment = f"{name}/momentum_buffer"
        moments = start.get(moment, torch.zeros_like(start[name]))
        for old, new in ((start[name], after[name]), (moments, after[moment])):
            assert set(moved_heads(old, new, dimension)) <= set(chosen), name
            seen += 1
        if name.endswith("query.weight"):
            assert moved_heads(start[name], after[name], dimension) == chosen
    assert seen == 2 * LAYERS * 7


def test_alpha_0_moves_no_head_in_the_last_steps(tasks_of_every_kind: list[Any]) -> None:
    """Everything outside attention trains as before, as with any other alpha."""
    tasks = tasks_of_every_kind[:2]
    at_switch: dict[str, Tensor] = {}
    model = build(tasks)

    def note(event: str, facts: dict[str, Any]) -> None:
        if event == "method begins":
            at_switch.update(weights(model))

    options = OPTIONS | {"specialize": IAT(alpha=0, delta=0.5)}
    progress = bm.fit(model, tasks, report=note, **options)
    assert progress.methods["specialize"] == {"single": [], "pair": []}
    for name, value in weights(model).items():
        if owned(name) is not None:
            assert value.equal(at_switch[name]), name
        elif "intermediate" in name or name.startswith("heads."):
            assert not value.equal(at_switch[name]), name


def test_an_accumulated_batch_is_masked_by_its_own_task(tasks_of_every_kind: list[Any]) -> None:
    """A head that only one of two tasks chose gets that task's gradient and no other."""
    loop = Loop(tasks_of_every_kind)
    torch.manual_seed(7)
    loop.step(["single", "pair"])
    weight = dict(loop.model.named_parameters())[
        "encoder.backbone.encoder.layer.0.attention.self.query.weight"
    ]
    together = weight.grad.clone()
    alone = Loop(tasks_of_every_kind)
    torch.manual_seed(7)
    alone.step(["single"])
    first = dict(alone.model.named_parameters())[
        "encoder.backbone.encoder.layer.0.attention.self.query.weight"
    ].grad
    rows = [slice(head * SIZE, (head + 1) * SIZE) for head in range(4)]
    assert together[rows[1]].ne(first[rows[1]]).any()  # both chose head 1: the sum
    assert first[rows[2]].eq(0).all() and together[rows[2]].ne(0).any()  # pair's alone
    assert together[rows[0]].eq(0).all() and together[rows[3]].eq(0).all()


def test_encoders_of_their_own_move_only_by_their_own_choice(
    tasks_of_every_kind: list[Any],
) -> None:
    loop = Loop(tasks_of_every_kind, architecture="single")
    for name, heads in HEADS.items():
        check_step(loop, ["single", "pair"], heads, f"backbones.{module_key(name)}.")


def test_what_the_published_code_does_instead(tasks_of_every_kind: list[Any]) -> None:
    """Gradients zeroed only: momentum and decay move every head; or W^O left unmasked."""
    loop = Loop(tasks_of_every_kind, strict=False)
    query = "encoder.backbone.encoder.layer.0.attention.self.query.weight"
    before = loop.everything()
    loop.step(["single"])
    after = loop.everything()
    assert moved_heads(before[query], after[query], 0) == [0, 1, 2, 3]  # it drifts
    grad = dict(loop.model.named_parameters())[query].grad
    assert grad is not None and grad[:SIZE].eq(0).all() and grad[SIZE : 2 * SIZE].ne(0).any()

    loop = Loop(tasks_of_every_kind, projections="qkv")
    output = "encoder.backbone.encoder.layer.0.attention.output.dense.weight"
    before = loop.everything()
    loop.step(["single"])
    after = loop.everything()
    assert moved_heads(before[query], after[query], 0) == [1]
    assert moved_heads(before[output], after[output], 1) == [0, 1, 2, 3]


OPTIONS: dict[str, Any] = {
    "max_steps": 10, "batch_size": 4, "learning_rate": 1e-3, "weight_decay": 0.1, "keep": "last",
}  # fmt: skip


@pytest.mark.parametrize("specialize", [IAT(alpha=1), IAT(delta=0), IAT(alpha=0, variant="prune")])
def test_all_heads_or_no_steps_are_plain_training_to_the_bit(
    tasks_of_every_kind: list[Any], specialize: IAT
) -> None:
    plain, special = build(tasks_of_every_kind), build(tasks_of_every_kind)
    bm.fit(plain, tasks_of_every_kind, **OPTIONS)
    progress = bm.fit(special, tasks_of_every_kind, specialize=specialize, **OPTIONS)
    assert_same_bits(plain, special)
    assert not progress.methods


@pytest.mark.parametrize("stop_at", [3, 6, 7, 9])
def test_a_run_stopped_before_at_and_after_the_switch_goes_on_with_the_same_bits(
    tasks_of_every_kind: list[Any], tmp_path: Path, stop_at: int
) -> None:
    options: Any = OPTIONS | {"specialize": IAT(delta=0.4, examples=8), "accumulation": 2}
    options |= {"sampling": "sqrt", "precision": "bf16"}
    straight = build(tasks_of_every_kind)
    whole = bm.fit(straight, tasks_of_every_kind, folder=tmp_path / "a", **options)

    def stop(event: str, facts: dict[str, Any]) -> None:
        if event == "step" and facts["step"] == stop_at:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(bm.errors.Interrupted):
        bm.fit(build(tasks_of_every_kind), tasks_of_every_kind, folder=tmp_path / "b",
               report=stop, **options)  # fmt: skip
    again = build(tasks_of_every_kind)
    rest = bm.fit(again, tasks_of_every_kind, folder=tmp_path / "b", **options)
    assert_same_bits(straight, again)
    assert whole.evaluations == rest.evaluations
    assert {n: list(map(tuple, h)) for n, h in rest.methods["specialize"].items()} == whole.methods[
        "specialize"
    ]


def test_a_branch_shares_the_steps_before_the_switch(
    tasks_of_every_kind: list[Any], tmp_path: Path
) -> None:
    special = IAT(delta=0.4, examples=8)
    bm.fit(
        build(tasks_of_every_kind), tasks_of_every_kind,
        folder=tmp_path / "plain", branch_at=[0.4], **OPTIONS,
    )  # fmt: skip
    straight = build(tasks_of_every_kind)
    bm.fit(straight, tasks_of_every_kind, specialize=special, **OPTIONS)
    steps = []
    branched = build(tasks_of_every_kind)
    bm.fit(
        branched, tasks_of_every_kind, folder=tmp_path / "iat", specialize=special,
        branch_from=tmp_path / "plain", **OPTIONS,
        report=lambda event, facts: steps.append(facts["step"]) if event == "step" else None,
    )  # fmt: skip
    assert steps == [7, 8, 9, 10]
    assert_same_bits(straight, branched)
    notes: list[str] = []
    steps.clear()

    def note(event: str, facts: dict[str, Any]) -> None:
        notes.extend([facts["text"]] if event == "note" else [])
        steps.extend([facts["step"]] if event == "step" else [])

    bm.fit(
        build(tasks_of_every_kind), tasks_of_every_kind, folder=tmp_path / "other",
        specialize=IAT(delta=0.3, examples=8), branch_from=tmp_path / "plain", report=note,
        **OPTIONS,
    )  # fmt: skip
    assert notes and notes[0].endswith("no branch at step 7: training from the beginning")
    assert steps == list(range(1, 11))


def test_the_switch_leaves_nothing_behind(tasks_of_every_kind: list[Any]) -> None:
    """Dropout is on again, the random state is as it was, no gradient of the measurement stays."""
    model = build(tasks_of_every_kind).train()
    special = Specialization(model, IAT(delta=1.0, examples=8, fitted=False), steps=10)
    state = torch.get_rng_state()
    heads = special.choose(tasks_of_every_kind, seed=0, batch_size=8, precision="float32")
    assert torch.get_rng_state().equal(state) and model.training
    assert all(parameter.grad is None for parameter in model.parameters())
    assert {len(chosen) for chosen in heads.values()} == {3}  # floor(0.3 · 12)
    scores = bm.head_importance(model, tasks_of_every_kind, examples=8)
    assert heads == {name: scores.top(0.3, name) for name in scores.tasks}


def test_variants(tasks_of_every_kind: list[Any]) -> None:
    steps: dict[str, int] = {}

    def note(event: str, facts: dict[str, Any]) -> None:
        if event == "method begins":
            steps[variant] = facts["step"]

    chosen = {}
    for variant in ("important", "random", "ticket_share", "prune"):
        model = build(tasks_of_every_kind)
        options = OPTIONS | {"specialize": IAT(delta=0.2, variant=variant, examples=8)}
        progress = bm.fit(model, tasks_of_every_kind, report=note, **options)
        chosen[variant] = progress.methods["specialize"]
        if variant == "prune":
            removed = model.config.removed_heads
            heads = [(int(layer), h) for layer, several in removed.items() for h in several]
            assert sorted(heads) == sorted(map(tuple, chosen[variant]["all tasks"]))
            assert len(heads) == 3
    assert steps == {"important": 8, "random": 8, "ticket_share": 0, "prune": 8}
    names = {task.name for task in tasks_of_every_kind}
    assert set(chosen["random"]) == set(chosen["ticket_share"]) == names
    assert len({tuple(heads) for heads in chosen["random"].values()}) > 1


def test_the_best_model_is_the_best_after_the_switch(tasks_of_every_kind: list[Any]) -> None:
    model = build(tasks_of_every_kind)
    options = OPTIONS | {"keep": "best", "evaluate_every": 2, "early_stopping": 1}
    progress = bm.fit(model, tasks_of_every_kind, specialize=IAT(delta=0.4, examples=8), **options)
    assert progress.best_step > 6  # and nothing stopped early before it


def test_wrong_settings_are_named(tasks_of_every_kind: list[Any]) -> None:
    for wrong, message in (
        ({"alpha": 1.5}, "alpha = 1.5: input should be less than or equal to 1"),
        (
            {"variant": "randm"},
            "variant = 'randm': input should be 'important', 'random', 'ticket_share' or 'prune'",
        ),
        ({"projections": "qk"}, "projections = 'qk': input should be 'all' or 'qkv'"),
        ({"examples": 0}, "examples = 0: input should be greater than 0"),
        (
            {"variant": "prune", "alpha": 1},
            "alpha = 1: variant 'prune' would switch every head off",
        ),
        ({"alpa": 0.3}, "unknown key 'alpa'; did you mean 'alpha'?"),
    ):
        with pytest.raises(bm.InputError) as caught:
            IAT(**wrong)  # type: ignore[arg-type]
        assert str(caught.value) == f"IAT: {message}"
    for model, wrong, message in (
        (build(tasks_of_every_kind), IAT(alpha=0.05), "alpha = 0.05 of 12 heads is less than one"),
        (build(tasks_of_every_kind, freeze="encoder"), IAT(delta=0.9, examples=4), "all attention"),
    ):
        with pytest.raises(bm.InputError, match=message):
            bm.fit(model, tasks_of_every_kind, max_steps=2, specialize=wrong)
    with pytest.raises(bm.InputError) as caught:
        bm.fit(build(tasks_of_every_kind), tasks_of_every_kind, specialize={"alpha": 0.3})
    assert str(caught.value) == "fit: specialize = a table: input should be an instance of IAT"
    assert IAT(delta=0.1).switch(10) == 9 and IAT(delta=0.9).switch(10) == 1  # exact shares
    assert IAT(delta=0.15).switch(7) == 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"architecture": "adapters"}, "the backbone of architecture 'adapters' is frozen"),
        ({"freeze": "encoder"}, "all attention is frozen, so no head can be trained"),
        ({"freeze": 1.0}, "all attention is frozen, so no head can be trained"),
    ],
)
def test_where_no_head_trains_it_is_refused_before_the_first_step(
    tasks_of_every_kind: list[Any], options: dict[str, Any], message: str
) -> None:
    tasks = tasks_of_every_kind[:2]
    steps = []
    with pytest.raises(bm.InputError, match=message):
        bm.fit(
            build(tasks, **options),
            tasks,
            epochs=1,
            specialize=IAT(),
            report=lambda event, _: steps.append(event) if event == "step" else None,
        )
    assert not steps
    # Nothing is chosen at all, or whole heads are cut: both go with a frozen backbone.
    Specialization(build(tasks, **options), IAT(variant="prune"), steps=10)
    Specialization(build(tasks, **options), IAT(alpha=1.0), steps=10)
    Specialization(build(tasks, gates="trained", **options), IAT(), steps=10)
