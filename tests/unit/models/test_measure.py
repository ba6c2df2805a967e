"""Importance equals a loop over examples with gates of its own, for every kind of task."""

from typing import Any

import numpy as np
import pytest
import torch
import transformers as tf
from tests.checkers import assert_same_bits, weights
from tests.families import CONFIGS, padded_inputs, tiny

import brodmann as bm
from brodmann.data.batches import make_batch
from brodmann.models.heads.measure import measuring, path_integrals
from brodmann.models.heads.probes import plain_probes, task_probes


@pytest.fixture(scope="module")
def model(tasks_of_every_kind: list[Any]) -> Any:
    from tests.families import shaken

    built = bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks_of_every_kind, max_length=16)
    for bare in built.bare_models():
        shaken(bare)
    return built.eval()


def by_loop(model: Any, task: Any, count: int) -> np.ndarray:
    """The definition: one example at a time, a gate that requires gradients, an absolute value."""
    total = np.zeros((3, 4))
    for example in task.splits["train"][:count]:
        encoded = model.encode(task.spec, [example])
        items = np.arange(encoded.items)
        batch = make_batch([(task.name, encoded, items)], pad_id=model.tokenizer.pad_token_id)
        gates = torch.ones(3, 4, requires_grad=True)
        with bm.head_gates(model, gates):
            loss = model(batch).losses[0].mean()
        total += torch.autograd.grad(loss, gates)[0].abs().numpy()
    return total / count


@pytest.mark.parametrize("place", range(7))
def test_importance_equals_a_loop_over_examples(
    model: Any, tasks_of_every_kind: list[Any], place: int
) -> None:
    task = tasks_of_every_kind[place]
    count = len(task.splits["train"])
    scores = bm.head_importance(model, [task], examples=None, batch_size=5)
    expected = by_loop(model, task, count)
    np.testing.assert_allclose(
        scores.of(task.name), expected, rtol=1e-4, atol=1e-6 * expected.max()
    )
    # In double precision the two agree to the last digits: the difference above is rounding alone.
    double = model.double()
    try:
        exact = by_loop(double, task, count)
        precise = bm.head_importance(double, [task], examples=None, batch_size=5)
    finally:
        model.float()
    np.testing.assert_allclose(precise.of(task.name), exact, rtol=1e-6, atol=1e-6 * exact.max())


def test_long_texts_are_one_example_over_several_windows(model: Any) -> None:
    words = [f"w{i % 7}" for i in range(60)]
    rows = [{"q": "what?", "c": " ".join(words[i:]), "answer": words[i + 2]} for i in range(4)]
    task = bm.load_task(
        "where", kind="span", question="q", context="c", answer="answer", train=rows,
        validation=rows,
    )  # fmt: skip
    encoded = model.encode(task.spec, task.splits["train"])
    assert encoded.items > 4
    scores = bm.head_importance(model, [task], examples=None, batch_size=2)
    expected = by_loop(model, task, 4)
    np.testing.assert_allclose(scores.of("where"), expected, rtol=1e-4, atol=1e-6 * expected.max())


def batches_for(model: Any, auto: Any) -> list[dict[str, torch.Tensor]]:
    found = []
    for _ in range(2):
        batch = padded_inputs()
        if auto is tf.AutoModelForSequenceClassification:
            batch["labels"] = torch.randint(0, 2, (3,))
        elif auto is tf.AutoModelForQuestionAnswering:
            batch["start_positions"] = batch["end_positions"] = torch.tensor([1, 2, 3])
        else:
            batch["labels"] = torch.where(batch["attention_mask"] == 1, 1, -100)
        found.append(batch)
    return found


@pytest.mark.parametrize("family", CONFIGS)
def test_plain_models_of_every_family(family: str) -> None:
    auto = tf.AutoModelForSequenceClassification
    model = tiny(family, auto=auto)
    batches = batches_for(model, auto)
    scores = bm.head_importance(model, {"task": batches})
    total = np.zeros((2, 4))
    for batch in batches:
        for row in range(3):
            one = {name: tensor[row : row + 1] for name, tensor in batch.items()}
            gates = torch.ones(2, 4, requires_grad=True)
            with bm.head_gates(model, gates):
                loss = model(**one).loss
            total += torch.autograd.grad(loss, gates)[0].abs().numpy()
    np.testing.assert_allclose(scores.of("task"), total / 6, rtol=2e-3, atol=1e-5 * total.max())


@pytest.mark.parametrize(
    "auto", [tf.AutoModelForTokenClassification, tf.AutoModelForQuestionAnswering,
             tf.AutoModelForCausalLM, tf.AutoModelForMaskedLM]
)  # fmt: skip
def test_the_loss_of_stock_models_is_their_own(auto: Any) -> None:
    from brodmann.models.stock_losses import stock_loss

    family = "gpt2" if auto is tf.AutoModelForCausalLM else "bert"
    model = tiny(family, auto=auto)
    batch = {name: tensor[1:2] for name, tensor in batches_for(model, auto)[0].items()}
    with torch.no_grad():
        outputs = model(**batch)
    torch.testing.assert_close(stock_loss(outputs, batch)[0], outputs.loss)


def test_a_loss_that_is_not_one_a_row_is_refused() -> None:
    model = tiny("bert", auto=tf.AutoModelForSequenceClassification)
    batches = batches_for(model, tf.AutoModelForSequenceClassification)
    with pytest.raises(bm.InputError, match=r"shape \(\) for 3 rows: expected one loss per row"):
        bm.head_importance(model, {"t": batches}, loss=lambda outputs, batch: outputs.loss)
    with pytest.raises(bm.InputError, match="batches hold no labels"):
        bm.head_importance(model, {"t": [padded_inputs()]})


@pytest.mark.parametrize(
    ("outputs", "problem", "labels"),
    [
        (1, None, [[0.5], [2.0], [-3.0]]),
        (3, "regression", [[0.5, 1, 2], [2, 0, 1], [-3, 0, 0]]),
        (3, None, [[1.0, 0, 1], [0, 0, 1], [1, 1, 0]]),
        (3, None, [2, 0, 1]),
    ],
)
def test_the_problem_is_what_transformers_takes_it_for(
    outputs: int, problem: str | None, labels: Any
) -> None:
    from brodmann.models.stock_losses import stock_loss

    config = CONFIGS["bert"]()
    config.num_labels, config.problem_type = outputs, problem
    model = tf.AutoModelForSequenceClassification.from_config(config).eval()
    batch = {**padded_inputs(), "labels": torch.tensor(labels)}
    with torch.no_grad():
        found = model(**batch)
    before = {**vars(config)}.get("problem_type")
    assert before == problem or problem is None  # transformers may write it down itself
    torch.testing.assert_close(stock_loss(found, batch, config).mean(), found.loss)


def test_places_beyond_the_text_do_not_count() -> None:
    from brodmann.models.stock_losses import stock_loss

    model = tiny("bert", auto=tf.AutoModelForQuestionAnswering)
    batch = {**padded_inputs(), "start_positions": torch.tensor([1, 99, 2])}
    batch["end_positions"] = torch.tensor([2, 99, 3])
    with torch.no_grad():
        found = model(**batch)
    losses = stock_loss(found, batch)
    assert losses[1] == 0
    torch.testing.assert_close(losses[[0, 2]].mean(), found.loss)


def test_a_compiled_model_is_measured_as_the_plain_one() -> None:
    model = tiny("bert", auto=tf.AutoModelForSequenceClassification)
    batches = batches_for(model, tf.AutoModelForSequenceClassification)
    plain = bm.head_importance(model, {"t": batches})
    compiled = torch.compile(model, backend="eager")
    fresh = bm.head_importance(compiled, {"t": batches})
    with torch.no_grad():
        compiled(**batches[0])
    called = bm.head_importance(compiled, {"t": batches})
    assert np.array_equal(plain.values, fresh.values)
    assert np.array_equal(plain.values, called.values)


def test_choices_are_rows_of_one_example() -> None:
    model = tiny("bert", auto=tf.AutoModelForMultipleChoice)
    inputs = {name: torch.stack([t, t.flip(0)], 1) for name, t in padded_inputs().items()}
    batch = {**inputs, "labels": torch.tensor([0, 1, 0])}
    scores = bm.head_importance(model, {"t": [batch]}).of("t")
    total = np.zeros((2, 4))
    for row in range(3):
        gates = torch.ones(2, 4, requires_grad=True)
        with bm.head_gates(model, gates):
            loss = model(**{name: tensor[row : row + 1] for name, tensor in batch.items()}).loss
        total += torch.autograd.grad(loss, gates)[0].abs().numpy()
    np.testing.assert_allclose(scores, total / 3, rtol=1e-3, atol=1e-6)
    assert bm.head_importance(model, {"t": [batch]}, granularity="token").values.shape == (1, 2, 4)


def test_an_encoder_that_reads_two_texts_in_one_pass() -> None:
    class Twice(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = tiny("bert")

        def forward(self, input_ids: Any, attention_mask: Any) -> torch.Tensor:
            def read(ids: Any) -> torch.Tensor:
                return self.encoder(input_ids=ids, attention_mask=attention_mask).pooler_output

            return (read(input_ids) * read(input_ids.flip(1))).sum(dim=1)

    model, batch = Twice(), padded_inputs()
    batch["attention_mask"] = torch.ones_like(batch["attention_mask"])
    scores = bm.head_importance(model, {"t": [batch]}, loss=lambda out, batch: out.square())
    gates = torch.ones(3, 2, 4, requires_grad=True)
    with bm.head_gates(model, gates):
        loss = model(**batch).square().sum()
    expected = torch.autograd.grad(loss, gates)[0].abs().mean(dim=0)
    np.testing.assert_allclose(scores.of("t"), expected, rtol=1e-3)


def test_tokens_are_counted_once_and_padding_never() -> None:
    model = tiny("bert", auto=tf.AutoModelForSequenceClassification)
    batch = batches_for(model, tf.AutoModelForSequenceClassification)[0]
    scores = bm.head_importance(model, {"t": [batch]}, granularity="token")
    states: list[torch.Tensor] = []
    for layer in model.bert.encoder.layer:
        layer.attention.output.dense.register_forward_pre_hook(
            lambda _, args: (states.append(args[0]), args[0].retain_grad())[0]
        )
    outputs = model(**{k: v for k, v in batch.items() if k != "labels"})
    torch.nn.functional.cross_entropy(outputs.logits, batch["labels"], reduction="sum").backward()
    real = batch["attention_mask"].bool()
    for layer, state in enumerate(states):
        products = (state * state.grad)[real].unflatten(-1, (4, 8)).sum(-1).abs().mean(0)
        np.testing.assert_allclose(scores.of("t")[layer], products.detach(), rtol=1e-4)


def test_leave_one_out_is_the_loss_without_the_head(
    model: Any, tasks_of_every_kind: list[Any]
) -> None:
    task = tasks_of_every_kind[0]
    scores = bm.head_importance(model, [task], examples=None, estimator="leave_one_out")
    encoded = model.encode(task.spec, task.splits["train"])
    probe = task_probes(model, task.name, encoded, batch_size=99)[0]()
    with torch.no_grad():
        base = probe.losses().mean()
        with bm.head_gates(model, off=[(1, 2)]):
            without = probe.losses().mean()
    assert scores.of(task.name)[1, 2] == pytest.approx(float(without - base), abs=1e-6)


def test_integrated_gradients_add_up_to_the_whole_difference(
    model: Any, tasks_of_every_kind: list[Any]
) -> None:
    task = tasks_of_every_kind[0]
    encoded = model.encode(task.spec, task.splits["train"])
    probe = task_probes(model, task.name, encoded, batch_size=99)[0]()
    with measuring(model):
        integrals = path_integrals(model, probe, steps=100)
        with torch.no_grad():
            on = probe.losses()
            with bm.head_gates(model, torch.zeros(3, 4)):
                off = probe.losses()
    torch.testing.assert_close(integrals.sum(dim=(1, 2)), (on - off).double(), rtol=0.02, atol=0.02)
    scores = bm.head_importance(model, [task], examples=6, estimator="integrated_gradients")
    assert scores.values.shape == (1, 3, 4) and (scores.values > 0).all()


def test_iterative_takes_the_least_away_and_scores_again(
    model: Any, tasks_of_every_kind: list[Any]
) -> None:
    task = tasks_of_every_kind[0]
    options = {"examples": 8, "seed": 3}
    scores = bm.head_importance(model, [task], estimator="iterative", step=0.25, **options)
    first = bm.head_importance(model, [task], **options)
    assert scores.least(0.25, task.name) == first.least(0.25, task.name)
    assert sorted(scores.values.ravel()) == pytest.approx([i / 12 for i in range(1, 13)])
    from brodmann.measuring.importance import iterative_places

    asked: list[list[Any]] = []

    def score(off: Any) -> np.ndarray:
        asked.append(sorted(off))
        value = np.arange(4.0).reshape(2, 2)
        return -value if off else value  # the order turns round once a head is gone

    places = iterative_places(score, 0.25, alpha=0.5)
    assert asked == [[], [(0, 0)], [(0, 0), (1, 1)]]
    np.testing.assert_allclose(places, [[0.25, 1.0], [0.75, 0.5]])


def test_measuring_leaves_no_trace(tasks_of_every_kind: list[Any]) -> None:
    model = bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks_of_every_kind, freeze=0.4)
    model.train()
    model.heads.eval()
    before = weights(model)
    asking = [p.requires_grad for p in model.parameters()]
    random = torch.get_rng_state()
    for estimator in ("gradient", "leave_one_out", "integrated_gradients"):
        bm.head_importance(model, tasks_of_every_kind[:1], examples=4, estimator=estimator)
    assert torch.equal(random, torch.get_rng_state())
    assert model.encoder.training and not model.heads.training
    assert asking == [p.requires_grad for p in model.parameters()]
    assert all(p.grad is None for p in model.parameters())
    assert_same_bits(model, before)
    assert not any(m._forward_pre_hooks for m in model.modules())


def test_the_draw_depends_on_its_seed_and_the_batch_size_changes_nothing(
    model: Any, tasks_of_every_kind: list[Any]
) -> None:
    tasks = tasks_of_every_kind[:2]
    one = bm.head_importance(model, tasks, examples=5, seed=1, batch_size=2)
    same = bm.head_importance(model, tasks, examples=5, seed=1, batch_size=5)
    other = bm.head_importance(model, tasks, examples=5, seed=2)
    np.testing.assert_allclose(one.values, same.values, rtol=1e-4)
    assert not np.allclose(one.values, other.values, rtol=1e-3)
    whole = bm.head_importance(model, tasks[:1], examples=[0, 1, 2, 3])
    halves = [bm.head_importance(model, tasks[:1], examples=pair) for pair in ([0, 2], [3, 1])]
    np.testing.assert_allclose(whole.values, (halves[0].values + halves[1].values) / 2, rtol=1e-4)
    with pytest.raises(bm.InputError, match="expected indices from 0 to 15"):
        bm.head_importance(model, tasks, examples=[16])
    with pytest.raises(bm.InputError, match="has no split 'test'"):
        bm.head_importance(model, tasks, split="test")
    with pytest.raises(
        bm.InputError, match=r"^head_importance: estimator = 'gradent': input should be"
    ):
        bm.head_importance(model, tasks, estimator="gradent")


def test_probes_are_made_one_at_a_time() -> None:
    """Memory does not grow with the number of examples: a batch is built when it is asked for."""
    model = tiny("bert", auto=tf.AutoModelForSequenceClassification)
    made = plain_probes(model, batches_for(model, tf.AutoModelForSequenceClassification), None)
    assert len(made) == 2 and all(callable(make) for make in made)
