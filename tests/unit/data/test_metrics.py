"""Metrics: seqeval and the definitions written out are the judges."""

import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brodmann.data.metrics import (
    classification_scores,
    entities,
    multilabel_scores,
    regression_scores,
    set_exact_match,
    tagging_scores,
)

TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
sentences = st.lists(
    st.lists(st.tuples(st.sampled_from(TAGS), st.sampled_from(TAGS)), min_size=1, max_size=9),
    min_size=1,
    max_size=5,
)


@settings(max_examples=300, deadline=None)
@given(sentences)
def test_entity_scores_agree_with_seqeval(pairs: list[list[tuple[str, str]]]) -> None:
    from seqeval.metrics import f1_score, precision_score, recall_score
    from seqeval.metrics.sequence_labeling import get_entities

    gold = [[a for a, _ in sentence] for sentence in pairs]
    predicted = [[b for _, b in sentence] for sentence in pairs]
    for tags in gold:
        assert entities(tags) == get_entities(tags)
    ours = tagging_scores(gold, predicted, entity_scheme=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # seqeval warns where there is no entity at all
        assert ours["entity_f1"] == pytest.approx(float(f1_score(gold, predicted)))
        assert ours["entity_precision"] == pytest.approx(float(precision_score(gold, predicted)))
        assert ours["entity_recall"] == pytest.approx(float(recall_score(gold, predicted)))


def test_classification_scores_have_known_values() -> None:
    two = classification_scores([0, 0, 1, 1], [0, 1, 1, 1], 2)
    assert two == pytest.approx(
        {"accuracy": 0.75, "f1": 0.8, "macro_f1": (2 / 3 + 0.8) / 2, "matthews": 1 / 3**0.5}
    )
    three = classification_scores([0, 1, 2], [0, 1, 1], 3)
    assert three["f1"] == three["macro_f1"] == pytest.approx((1 + 2 / 3 + 0) / 3)
    assert classification_scores([0, 1], [1, 1], 2)["matthews"] == 0


def test_multilabel_and_regression_scores() -> None:
    assert multilabel_scores([[1, 0], [1, 1]], [[1, 0], [0, 1]]) == pytest.approx(
        {"micro_f1": 0.8, "macro_f1": (2 / 3 + 1) / 2, "exact_match": 0.5}
    )
    scores = regression_scores([1, 2, 3, 4], [1, 2, 3, 8])
    assert scores["spearman"] == 1 and scores["mean_squared_error"] == 4
    assert scores["r2"] == pytest.approx(1 - 4 / 1.25)
    constant = regression_scores([1, 2, 3], [2, 2, 2])
    assert constant["spearman"] == constant["pearson"] == 0


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1), st.integers(0, 1)), min_size=1))
def test_multirc_scores_agree_with_their_definition(rows: list[tuple[int, int, int]]) -> None:
    """F1a: F1 of the class True over all answers; EM: questions with every answer right."""
    sets, gold, predicted = ([row[i] for row in rows] for i in range(3))
    right = sum(g and p for g, p in zip(gold, predicted, strict=True))
    f1a = 2 * right / (sum(gold) + sum(predicted)) if right else 0.0
    assert classification_scores(gold, predicted, 2)["f1"] == pytest.approx(f1a)
    whole = [all(g == p for s, g, p in rows if s == name) for name in set(sets)]
    exact = set_exact_match(sets, gold, predicted)["exact_match"]
    assert exact == pytest.approx(sum(whole) / len(whole))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 5), st.floats(-9, 9)), min_size=2))
def test_correlations_agree_with_their_definitions(rows: list[tuple[float, float]]) -> None:
    import numpy as np
    from scipy.stats import rankdata

    truth, guess = np.array(rows).T
    scores = regression_scores(truth.tolist(), guess.tolist())
    for name, x, y in (
        ("pearson", truth, guess),
        ("spearman", rankdata(truth), rankdata(guess)),
    ):
        spread = x.std() * y.std()
        assert np.isfinite(scores[name])
        if x.std() > 1e-6 and y.std() > 1e-6:
            expected = float(((x - x.mean()) * (y - y.mean())).mean() / spread)
            assert scores[name] == pytest.approx(expected, abs=1e-6)
        elif np.ptp(x) == 0 or np.ptp(y) == 0:
            assert scores[name] == 0


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1))
def test_matthews_agrees_with_its_definition(rows: list[tuple[bool, bool]]) -> None:
    tp, fp, fn, tn = (
        sum(pair == wanted for pair in rows)
        for wanted in ((True, True), (False, True), (True, False), (False, False))
    )
    below = ((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)) ** 0.5
    expected = (tp * tn - fp * fn) / below if below else 0.0
    gold, guess = ([int(pair[i]) for pair in rows] for i in range(2))
    assert classification_scores(gold, guess, 2)["matthews"] == pytest.approx(expected)
