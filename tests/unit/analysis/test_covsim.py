"""CovSim against its definition, and the difficulty of a dataset."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import brodmann as bm
from brodmann.analysis import covsim, difficulty
from brodmann.analysis.covsim import covsim_matrix
from brodmann.analysis.difficulty import hellinger, task_difficulty


def literal(x: np.ndarray, y: np.ndarray, kept: float = 0.99) -> float:
    """The definition, by the eigenvectors of X^T X."""
    roots = []
    for one in (x, y):
        values, vectors = np.linalg.eigh(one.T @ one)
        order = np.argsort(-values)
        values, vectors = np.maximum(values[order], 0), vectors[:, order]
        rank = 1
        while values[:rank].sum() / values.sum() < kept - 1e-12:
            rank += 1
        roots.append(vectors[:, :rank] @ np.diag(np.sqrt(values[:rank])))
    a, b = roots
    return float(np.linalg.norm(a.T @ b) / (np.linalg.norm(a) * np.linalg.norm(b)))


@settings(deadline=None, max_examples=30)
@given(st.integers(2, 12), st.integers(2, 12), st.integers(2, 6), st.integers(0, 1000))
def test_it_is_the_definition_and_symmetric(n: int, m: int, size: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    x, y = random.normal(size=(n, size)), random.normal(size=(m, size))
    assert covsim(x, y) == pytest.approx(literal(x, y), abs=1e-8)
    assert covsim(x, y) == pytest.approx(covsim(y, x))
    assert 0 <= covsim(x, y) <= 1 + 1e-9


def test_one_direction_is_1_with_itself_and_0_with_another() -> None:
    east, north = np.outer([1.0, 2.0, 3.0], [1.0, 0.0]), np.outer([1.0, 5.0], [0.0, 1.0])
    assert covsim(east, east) == pytest.approx(1.0)
    assert covsim(east, north) == pytest.approx(0.0, abs=1e-12)
    round_ = np.random.default_rng(0).normal(size=(500, 4))
    assert covsim(round_, round_) == pytest.approx(0.5, abs=0.05)  # 1 / sqrt(rank), not 1


def test_the_mean_leaves_a_task_itself_out() -> None:
    random = np.random.default_rng(1)
    inputs = [random.normal(size=(20, 3)) for _ in range(3)]
    matrix, means = covsim_matrix(inputs)
    assert means[0] == pytest.approx((matrix[0, 1] + matrix[0, 2]) / 2)
    assert matrix[1, 2] == pytest.approx(covsim(inputs[1], inputs[2]))


@pytest.mark.parametrize("x", [np.zeros((3, 2)), np.ones(3), np.full((2, 2), np.nan)])
def test_what_has_no_covariance_is_refused(x: np.ndarray) -> None:
    with pytest.raises(bm.InputError, match="covsim"):
        covsim(x, np.eye(2))


def test_harder_data_have_more_difficulty() -> None:
    easy = difficulty(["good good good", "bad bad bad"] * 10, [1, 0] * 10)
    same_words = difficulty(["good bad good", "bad good bad"] * 10, [1, 0] * 10)
    uneven = difficulty(["good good good"] * 18 + ["bad bad bad"] * 2, [1] * 18 + [0] * 2)
    assert easy["overlap"] == pytest.approx(0.0) and same_words["overlap"] > 0.7
    assert uneven["imbalance"] == pytest.approx(0.8) and easy["imbalance"] == 0
    assert easy["difficulty"] < same_words["difficulty"]
    assert easy["difficulty"] == pytest.approx(np.log(2) + 2 / 60)
    more = difficulty(["a b", "c d", "e f", "g h"], [0, 1, 2, 3])
    assert more["classes"] == pytest.approx(np.log(4))


def test_hellinger_is_scipys_on_a_hand_made_case() -> None:
    from collections import Counter

    one, other = Counter({"a": 1, "b": 1}), Counter({"a": 1})
    expected = np.linalg.norm(np.sqrt([0.5, 0.5]) - np.sqrt([1.0, 0.0])) / np.sqrt(2)
    assert hellinger(one, other) == pytest.approx(expected)


def test_difficulty_of_nothing_is_refused() -> None:
    with pytest.raises(bm.InputError, match="at least two classes"):
        difficulty(["a", "b"], [1, 1])
    with pytest.raises(bm.InputError, match="2 texts and 1 labels"):
        difficulty(["a", "b"], [1])
    for texts, labels, message in (
        ("ab", ["x", "y"], "expected lists of texts and labels, found one text"),
        (["a", None], [0, 1], "expected texts, found None"),
        (["a", "b"], [["x"], ["y"]], "expected one label per text, found"),
    ):
        with pytest.raises(bm.InputError, match=message):
            difficulty(texts, labels)  # type: ignore[arg-type]


def test_inputs_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(bm.InputError, match="different sizes, 2 and 3"):
        covsim(np.eye(2), np.eye(3))
    with pytest.raises(bm.InputError, match="expected \\(text, size\\) of finite numbers"):
        covsim([["a", "b"]], np.eye(2))  # type: ignore[arg-type]


def test_difficulty_of_a_task_is_that_of_its_training_texts() -> None:
    rows = [{"t": f"{'good' if i % 2 else 'bad'} {i}", "u": "more", "y": i % 2} for i in range(12)]
    task = bm.load_task(
        "t", kind="classification", text="t", text_pair="u", label="y", train=rows, validation=rows
    )
    expected = difficulty([f"{row['t']} more" for row in rows], [row["y"] for row in rows])
    assert task_difficulty(task) == pytest.approx(expected["difficulty"])
    value = bm.load_task("v", kind="regression", text="t", label="y", train=rows, validation=rows)
    assert task_difficulty(value) is None
