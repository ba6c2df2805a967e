"""Metrics: scikit-learn, scipy, seqeval and the definitions written out are the judges."""

import math
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brodmann.data.kinds import every_score
from brodmann.data.metrics import mean
from brodmann.data.tag_schemes import entities
from brodmann.data.tasks import TaskSpec

approx = partial(pytest.approx, rel=0, abs=1e-12)  # rounding of the last digits
TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
sentences = st.lists(
    st.lists(st.tuples(st.sampled_from(TAGS), st.sampled_from(TAGS)), min_size=1, max_size=9),
    min_size=1,
    max_size=5,
)


def names(count: int) -> tuple[str, ...]:
    return tuple(f"label {place}" for place in range(count))


def label_scores(
    gold: Sequence[int], predicted: Sequence[int], classes: int, sets: Sequence[Any] | None = None
) -> dict[str, float]:
    columns = {} if sets is None else {"set": "set"}
    spec = TaskSpec("t", "classification", labels=names(classes), columns=dict(columns))
    examples: list[dict[str, Any]] = [{"label": label} for label in gold]
    for example, name in zip(examples, sets or (), strict=False):
        example["set"] = name
    return every_score([{"label": spec.label_list[g]} for g in predicted], examples, spec)


def label_set_scores(
    gold: Sequence[Sequence[int]], predicted: Sequence[Sequence[int]]
) -> dict[str, float]:
    labels = names(len(gold[0]))
    answers = [{"labels": [labels[i] for i, on in enumerate(row) if on]} for row in predicted]
    examples = [{"label": list(row)} for row in gold]
    return every_score(answers, examples, TaskSpec("t", "multilabel", labels=labels))


def value_scores(gold: Sequence[float], predicted: Sequence[float]) -> dict[str, float]:
    answers = [{"value": value} for value in predicted]
    return every_score(answers, [{"label": v} for v in gold], TaskSpec("t", "regression"))


def tag_scores(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], scheme: str = "entities"
) -> dict[str, float]:
    spec = TaskSpec("t", "tokens", labels=TAGS, scheme=scheme)
    examples = [{"tags": [TAGS.index(tag) for tag in tags]} for tags in gold]
    return every_score([{"tags": list(tags)} for tags in predicted], examples, spec)


def span_scores(right: Sequence[Sequence[str]], answers: Sequence[str]) -> dict[str, float]:
    examples = [{"answers": [(text, 0) for text in texts]} for texts in right]
    return every_score([{"answer": a} for a in answers], examples, TaskSpec("t", "span"))


@settings(max_examples=100, deadline=None)
@given(sentences)
def test_entity_scores_agree_with_seqeval(pairs: list[list[tuple[str, str]]]) -> None:
    from seqeval.metrics import f1_score, precision_score, recall_score
    from seqeval.metrics.sequence_labeling import get_entities

    gold = [[a for a, _ in sentence] for sentence in pairs]
    predicted = [[b for _, b in sentence] for sentence in pairs]
    for tags in gold:
        assert entities(tags) == get_entities(tags)
    ours = tag_scores(gold, predicted)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # seqeval warns where there is no entity at all
        assert ours["entity_f1"] == pytest.approx(float(f1_score(gold, predicted)))
        assert ours["entity_precision"] == pytest.approx(float(precision_score(gold, predicted)))
        assert ours["entity_recall"] == pytest.approx(float(recall_score(gold, predicted)))


@settings(max_examples=60, deadline=None)
@given(sentences)
def test_tag_scores_agree_with_scikit_learn(pairs: list[list[tuple[str, str]]]) -> None:
    from sklearn.metrics import accuracy_score, f1_score

    gold = [[a for a, _ in sentence] for sentence in pairs]
    predicted = [[b for _, b in sentence] for sentence in pairs]
    truth, guess = ([tag for tags in side for tag in tags] for side in (gold, predicted))
    ours = tag_scores(gold, predicted, scheme="words")
    macro = f1_score(truth, guess, average="macro", zero_division=0)
    assert ours == approx({"accuracy": accuracy_score(truth, guess), "macro_f1": macro})


def test_classification_scores_have_known_values() -> None:
    two = label_scores([0, 0, 1, 1], [0, 1, 1, 1], 2)
    assert two == pytest.approx(
        {"accuracy": 0.75, "f1": 0.8, "macro_f1": (2 / 3 + 0.8) / 2, "matthews": 1 / 3**0.5}
    )
    three = label_scores([0, 1, 2], [0, 1, 1], 3)
    assert three["f1"] == three["macro_f1"] == pytest.approx((1 + 2 / 3 + 0) / 3)
    assert label_scores([0, 1], [1, 1], 2)["matthews"] == 0


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(2, 11))
def test_classification_scores_agree_with_scikit_learn(data: Any, classes: int) -> None:
    from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

    some = st.integers(0, data.draw(st.integers(0, classes - 1)))  # at times one class only
    rows = data.draw(st.lists(st.tuples(some, st.integers(0, classes - 1)), min_size=1))
    gold, guess = ([row[i] for row in rows] for i in range(2))
    labels = list(range(classes))
    macro = f1_score(gold, guess, labels=labels, average="macro", zero_division=0)
    second = f1_score(gold, guess, labels=[1], average="macro", zero_division=0)
    varied = len(set(gold)) > 1 and len(set(guess)) > 1  # where scikit-learn defines it
    expected = {
        "accuracy": accuracy_score(gold, guess),
        "f1": second if classes == 2 else macro,
        "macro_f1": macro,
        "matthews": matthews_corrcoef(gold, guess) if varied else 0.0,
    }
    assert label_scores(gold, guess, classes) == approx(expected)


def test_multilabel_and_regression_scores() -> None:
    assert label_set_scores([[1, 0], [1, 1]], [[1, 0], [0, 1]]) == pytest.approx(
        {"micro_f1": 0.8, "macro_f1": (2 / 3 + 1) / 2, "exact_match": 0.5}
    )
    scores = value_scores([1, 2, 3, 4], [1, 2, 3, 8])
    assert scores["spearman"] == 1 and scores["mean_squared_error"] == 4
    assert scores["r2"] == pytest.approx(1 - 4 / 1.25)
    constant = value_scores([1, 2, 3], [2, 2, 2])
    assert constant["spearman"] == constant["pearson"] == 0


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(2, 11))
def test_multilabel_scores_agree_with_scikit_learn(data: Any, labels: int) -> None:
    from sklearn.metrics import accuracy_score, f1_score

    row = st.lists(st.integers(0, 1), min_size=labels, max_size=labels)
    rows = data.draw(st.lists(st.tuples(row, row), min_size=1, max_size=20))
    gold, guess = (np.array([pair[i] for pair in rows]) for i in range(2))
    expected = {
        "micro_f1": f1_score(gold, guess, average="micro", zero_division=0),
        "macro_f1": f1_score(gold, guess, average="macro", zero_division=0),
        "exact_match": accuracy_score(gold, guess),
    }
    assert label_set_scores(gold.tolist(), guess.tolist()) == approx(expected)


def test_a_single_label_is_judged_as_one_of_several() -> None:
    """F1 of the label itself; its absence is no second label."""
    scores = label_set_scores([[1], [0], [1], [0]], [[1], [1], [0], [0]])
    assert scores == {"micro_f1": 0.5, "macro_f1": 0.5, "exact_match": 0.5}
    nothing = label_set_scores([[0], [0]], [[0], [0]])
    assert nothing == {"micro_f1": 0.0, "macro_f1": 0.0, "exact_match": 1.0}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1), st.integers(0, 1)), min_size=1))
def test_multirc_scores_agree_with_their_definition(rows: list[tuple[int, int, int]]) -> None:
    """F1a: F1 of the class True over all answers; EM: questions with every answer right."""
    sets, gold, predicted = ([row[i] for row in rows] for i in range(3))
    right = sum(g and p for g, p in zip(gold, predicted, strict=True))
    f1a = 2 * right / (sum(gold) + sum(predicted)) if right else 0.0
    assert label_scores(gold, predicted, 2)["f1"] == pytest.approx(f1a)
    scores = label_scores(gold, predicted, 2, sets)
    assert scores["f1"] == pytest.approx(f1a)
    whole = [all(g == p for s, g, p in rows if s == name) for name in set(sets)]
    assert scores["exact_match"] == pytest.approx(sum(whole) / len(whole))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(0, 2)), min_size=1))
def test_sets_change_no_score_but_add_exact_match(rows: list[tuple[int, int, int]]) -> None:
    sets, gold, predicted = ([row[i] for row in rows] for i in range(3))
    scores = label_scores(gold, predicted, 3, sets)
    assert list(scores) == ["accuracy", "f1", "macro_f1", "matthews", "exact_match"]
    del scores["exact_match"]
    assert scores == label_scores(gold, predicted, 3)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 5), st.floats(-9, 9)), min_size=2))
def test_correlations_agree_with_their_definitions(rows: list[tuple[float, float]]) -> None:
    from scipy.stats import rankdata

    truth, guess = np.array(rows).T
    scores = value_scores(truth.tolist(), guess.tolist())
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


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 5), st.floats(-9, 9)), min_size=3))
def test_value_scores_agree_with_scipy_and_scikit_learn(rows: list[tuple[float, float]]) -> None:
    from scipy.stats import pearsonr, spearmanr
    from sklearn.metrics import mean_squared_error, r2_score

    truth, guess = np.array(rows).T
    scores = value_scores(truth.tolist(), guess.tolist())
    assert scores["mean_squared_error"] == pytest.approx(mean_squared_error(truth, guess))
    if truth.std() > 1e-6:
        assert scores["r2"] == pytest.approx(r2_score(truth, guess), rel=1e-9, abs=1e-9)
    if truth.std() > 1e-6 and guess.std() > 1e-6:
        assert scores["spearman"] == approx(spearmanr(truth, guess).statistic)
        assert scores["pearson"] == approx(pearsonr(truth, guess).statistic)


@pytest.mark.parametrize("value", [0.1, 1 / 3, 1e-17, 1e9 + 0.1])
def test_constant_predictions_show_nothing(value: float) -> None:
    """Also where the mean of equal numbers is another number, by rounding."""
    for count in range(2, 30):
        scores = value_scores([float(i) for i in range(count)], [value] * count)
        assert scores["spearman"] == scores["pearson"] == 0
        spread = np.var(np.arange(count))
        assert scores["r2"] == pytest.approx(1 - scores["mean_squared_error"] / spread)
    same = value_scores([2.0, 2.0], [1.0, 3.0])
    assert same == {"spearman": 0, "pearson": 0, "r2": 0, "mean_squared_error": 1}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1))
def test_matthews_agrees_with_its_definition(rows: list[tuple[bool, bool]]) -> None:
    tp, fp, fn, tn = (
        sum(pair == wanted for pair in rows)
        for wanted in ((True, True), (False, True), (True, False), (False, False))
    )
    below = ((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)) ** 0.5
    expected = (tp * tn - fp * fn) / below if below else 0.0
    gold, guess = ([int(pair[i]) for pair in rows] for i in range(2))
    assert label_scores(gold, guess, 2)["matthews"] == pytest.approx(expected)


def test_spans_without_an_answer_are_right_when_nothing_is_answered() -> None:
    """As in SQuAD 2.0: an empty answer is right exactly where the context holds none."""
    right = [["red cat"], [], [], ["the red cat", "cat"]]
    assert span_scores(right, ["cat", "", "cat", "Cat."]) == pytest.approx(
        {"f1": (2 / 3 + 1 + 0 + 1) / 4, "exact_match": 2 / 4}
    )
    assert span_scores([["cat"], ["dog"]], ["", ""]) == {"f1": 0.0, "exact_match": 0.0}
    assert span_scores([[], []], ["", ""]) == {"f1": 1.0, "exact_match": 1.0}


def test_a_choice_is_judged_by_its_place_and_by_its_words() -> None:
    examples = [
        {"choices": ["red cat", "a dog"], "label": 0},
        {"choices": ["He saw Ann.", "He saw Al."], "choice_names": ["Ann", "ann"], "label": 0},
        {"choices": ["x", "y", "z"], "label": 0, "right": [0, 2]},
    ]
    answers = [{"choice": 1}, {"choice": 1}, {"choice": 2}]
    scores = every_score(answers, examples, TaskSpec("t", "choice"))
    assert scores == {"accuracy": 1 / 3, "f1": 2 / 3, "exact_match": 2 / 3}


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=400), st.integers(1, 5))
def test_a_mean_is_numpys_to_the_bit_however_many_resamples_there_are(
    values: list[float], resamples: int
) -> None:
    column = np.array(values)
    found = mean(column[:, None], np.ones((resamples, len(column))))
    assert found.tolist() == [column.mean()] * resamples
    assert found[0] == pytest.approx(math.fsum(values) / len(values))
