"""Temperature, thresholds and conformal sets: planted effects, and judges computed otherwise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from sklearn.metrics import f1_score

import brodmann as bm
from brodmann.data.answering.conformal import KEPT, label_region, p_values, reach, thinned
from brodmann.data.answering.decisions import Decisions, filled, softmax
from brodmann.data.answering.temperature import BINS, fit_temperature, honesty, tempered
from brodmann.data.answering.thresholds import FEWEST, fit_thresholds, parts_of
from brodmann.data.encoding import encode_task
from brodmann.data.kinds import KINDS, metric_of
from brodmann.models.backbone.tiny import tiny_tokenizer


def drawn(scale: float, count: int = 4000, answers: int = 3, seed: int = 0) -> Decisions:
    """Decisions whose right answers follow softmax(logits), with the logits then scaled."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(0, 2, (count, answers)).astype(np.float32)
    right = np.array([generator.choice(answers, p=p / p.sum()) for p in softmax(logits)])
    return Decisions(logits * np.float32(scale), right, np.arange(count))


@pytest.mark.parametrize("scale", [0.25, 1.0, 4.0])
def test_the_temperature_undoes_a_planted_scale(scale: float) -> None:
    assert fit_temperature(drawn(scale)) == pytest.approx(scale, rel=0.07)


def test_the_temperature_is_the_optimum_that_scipy_finds() -> None:
    decisions = drawn(3.0, count=500)

    def cost(log: float) -> float:
        p = softmax(decisions.logits / np.exp(log))[np.arange(500), decisions.right]
        return float(-np.log(p).sum() + log * log / 2)

    found = minimize_scalar(cost, bounds=(-3, 3), method="bounded", options={"xatol": 1e-8})
    assert np.log(fit_temperature(decisions)) == pytest.approx(found.x, abs=1e-3)


def test_the_temperature_stays_finite_if_every_decision_is_right_or_there_is_none() -> None:
    logits = np.array([[9.0, 0.0]] * 20, np.float32)
    assert 0.05 <= fit_temperature(Decisions(logits, np.zeros(20, int), np.arange(20))) < 1
    assert fit_temperature(Decisions(np.zeros((0, 2)), np.zeros(0, int), np.zeros(0, int))) == 1.0


def test_missing_answers_do_not_change_the_temperature() -> None:
    decisions = drawn(2.0, count=400)
    wider = filled([*decisions.logits, np.zeros(5, np.float32)])[:-1]
    assert wider.shape == (400, 5) and np.isneginf(wider[:, 3:]).all()
    more = Decisions(wider, decisions.right, decisions.example)
    assert fit_temperature(more) == pytest.approx(fit_temperature(decisions))


def test_honesty_is_the_error_and_score_computed_by_hand() -> None:
    decisions = drawn(4.0, count=300)
    found = honesty(decisions)
    p = softmax(decisions.logits)
    said, right = p.max(1), p.argmax(1) == decisions.right
    error = 0.0
    for low in np.arange(BINS) / BINS:
        inside = (said >= low) & (said < low + 1 / BINS)
        if low + 1 / BINS > 0.999:
            inside |= said >= low
        if inside.any():
            error += inside.mean() * abs(right[inside].mean() - said[inside].mean())
    target = np.eye(3)[decisions.right]
    assert found["ece"] == pytest.approx(error, abs=1e-6)
    assert found["brier"] == pytest.approx(((p - target) ** 2).sum(1).mean(), abs=1e-6)
    assert sum(size for _, _, size in found["bins"]) == 300


def test_calibration_makes_overconfident_answers_honest_and_keeps_the_answers() -> None:
    decisions = drawn(4.0)
    temperature = fit_temperature(decisions)
    assert honesty(decisions)["ece"] > 0.1 > 0.02 > honesty(decisions, temperature)["ece"]
    cooler = np.stack(tempered(list(decisions.logits), temperature))
    assert (cooler.argmax(1) == decisions.logits.argmax(1)).all()


def multilabel(count: int, cut: float, seed: int = 0) -> tuple[bm.Task, list[np.ndarray]]:
    """A task whose label is right exactly if its probability exceeds `cut`."""
    generator = np.random.default_rng(seed)
    shares = generator.uniform(0.02, 0.98, (count, 2))
    rows = [{"text": f"t {i}", "label": [n for n, s in zip("ab", row, strict=True) if s > cut]}
            for i, row in enumerate(shares)]  # fmt: skip
    description = {"name": "m", "kind": "multilabel", "train": rows, "validation": rows[:4]}
    (task,) = bm.load_tasks([{**description, "labels": ["a", "b"]}])
    return task, [np.log(row / (1 - row)).astype(np.float32) for row in shares]


def fitted(task: bm.Task, outputs: list[np.ndarray]):  # type: ignore[no-untyped-def]
    examples = task.splits["train"]
    encoded = encode_task(
        examples, task.spec, tiny_tokenizer(), max_length=16, stride=0, cache=False
    )
    return fit_thresholds(outputs, encoded, examples, task.spec), encoded


def test_thresholds_find_a_planted_cut() -> None:
    task, outputs = multilabel(400, cut=0.3)
    found, encoded = fitted(task, outputs)
    assert found.usual is not None and found.score is not None and found.usual < found.score
    assert found.score > 0.97
    assert all(value == pytest.approx(0.3, abs=0.051) for value in found.thresholds.values())
    predictions = KINDS["multilabel"].predict(
        outputs, encoded, task.splits["train"], task.spec, found.thresholds
    )
    truth = [e["label"] for e in task.splits["train"]]
    guess = [[int(name in p["labels"]) for name in "ab"] for p in predictions]
    judge = f1_score(truth, guess, average=task.spec.metric.removeprefix("f1_").removesuffix("_f1"))
    assert judge > 0.97


def test_the_score_of_thresholds_is_that_of_new_examples() -> None:
    """Labels are drawn from their probabilities, so thresholds can be too well fitted."""
    reported, naive, new = [], [], []
    for seed in range(8):
        shares = np.random.default_rng(seed).beta(0.6, 1.4, (1060, 2)).clip(0.01, 0.99)
        right = np.random.default_rng(seed + 100).uniform(size=shares.shape) < shares
        rows = [{"text": f"t {i}", "label": [n for n, r in zip("ab", row, strict=True) if r]}
                for i, row in enumerate(right)]  # fmt: skip
        (task,) = bm.load_tasks([{"name": "m", "kind": "multilabel", "labels": ["a", "b"],
                                  "train": rows[:60], "validation": rows[60:]}])  # fmt: skip
        outputs = [np.log(row / (1 - row)).astype(np.float32) for row in shares]
        found, _ = fitted(task, outputs[:60])
        if not found.thresholds:
            continue
        metric = metric_of(task.spec)
        scores = []
        for split, logits in (("train", outputs[:60]), ("validation", outputs[60:])):
            encoded = encode_task(task.splits[split], task.spec, tiny_tokenizer(), max_length=16,
                                  stride=0, cache=False)  # fmt: skip
            predictions = KINDS["multilabel"].predict(
                logits, encoded, task.splits[split], task.spec, found.thresholds
            )
            scores.append(metric.score(predictions, task.splits[split], task.spec))
        reported.append(found.score), naive.append(scores[0]), new.append(scores[1])
    assert len(new) >= 4
    optimism = np.mean(np.array(naive) - new)
    assert optimism > 0.01  # the set-up can tell an honest score from one that is too good
    assert np.mean(np.array(reported) - new) < optimism - 0.01


def test_few_examples_choose_no_thresholds() -> None:
    task, outputs = multilabel(FEWEST - 1, cut=0.3)
    assert fitted(task, outputs)[0].thresholds == {}


def test_parts_are_of_equal_size_and_always_the_same() -> None:
    assert np.bincount(parts_of(23)).tolist() == [5, 5, 5, 4, 4]
    assert (parts_of(23) == parts_of(23)).all()


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 300), st.floats(0.05, 0.95), st.integers(0, 9))
def test_the_reach_holds_its_share_of_the_held_out_scores(
    count: int, coverage: float, seed: int
) -> None:
    scores = np.sort(np.random.default_rng(seed).normal(size=count)).astype(np.float32)
    found = reach(scores, coverage)
    assert (scores <= found).mean() >= min(1.0, coverage)


def test_sets_and_p_values_keep_their_promise_on_new_examples() -> None:
    """Averaged over many draws of held-out and new examples, the coverage is as asked for."""
    generator = np.random.default_rng(1)
    covered, usual = [], []
    for _ in range(400):
        scores = generator.normal(size=60)
        held, new = np.sort(scores[:40]).astype(np.float32), scores[40:]
        covered.append((new <= reach(held, 0.9)).mean())
        usual.append((p_values(held, new) < 0.05).mean())
    assert np.mean(covered) == pytest.approx(0.9, abs=0.02)
    assert np.mean(usual) <= 0.05 + 0.01


def test_too_few_held_out_scores_give_the_whole_set() -> None:
    assert reach(np.array([0.1, 0.2], np.float32), 0.9) == np.inf
    assert label_region([0.2, 0.5, 0.3], np.inf) == [1, 2, 0]


def test_a_set_is_never_empty_and_starts_with_the_answer() -> None:
    assert label_region([0.2, 0.5, 0.3], 0.1) == [1]
    assert label_region([0.2, 0.5, 0.3], 0.7) == [1, 2]


def test_thinned_scores_keep_both_ends() -> None:
    scores = np.random.default_rng(0).normal(size=5 * KEPT)
    kept = thinned(scores)
    assert len(kept) == KEPT and (np.diff(kept) >= 0).all()
    assert kept[0] == np.float32(scores.min()) and kept[-1] == np.float32(scores.max())
