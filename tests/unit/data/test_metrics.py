"""Metrics: seqeval, scikit-learn and SQuAD's own definition are the judges."""

import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brodmann.data.metrics import (
    classification_scores,
    entities,
    multilabel_scores,
    normalize_answer,
    regression_scores,
    span_scores,
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


def test_span_scores_follow_squad() -> None:
    assert normalize_answer("The  Red, cat!") == "red cat"
    assert span_scores([["the red cat", "cat"]], ["Cat."]) == {"f1": 1.0, "exact_match": 1.0}
    assert span_scores([["red cat"]], ["cat"]) == pytest.approx({"f1": 2 / 3, "exact_match": 0.0})
    assert span_scores([[], []], ["", "cat"]) == {"f1": 0.5, "exact_match": 0.5}
