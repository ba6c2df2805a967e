"""Documents of mistakes: what is cut, what is counted, and tasks at the edges."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.run_folders import write_run

from brodmann.analysis.mistake_lists import MOST_CASES, MOST_CELLS, MOST_LABELS, mistakes_of
from brodmann.data.judging import LETTERS, excerpt
from brodmann.data.tag_mistakes import BOTH, BOUNDS, MISSED, SPURIOUS, TYPE, paired, sort_of
from brodmann.data.tasks import TaskSpec
from brodmann.reporting.blocks import Fold, Matrix
from brodmann.reporting.sections.wrong_answers import section
from brodmann.results import Mistakes
from brodmann.studies.report import read_study, report_on
from brodmann.training.events import silent


def classified(
    truth: list[int], chances: Any, texts: list[str] | None = None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], TaskSpec]:
    """Predictions, examples and specification of a classification."""
    chances = np.asarray(chances, float)
    names = tuple(f"label {place}" for place in range(chances.shape[1]))
    predictions = [
        {
            "label": names[int(row.argmax())],
            "score": float(row.max()),
            "probabilities": dict(zip(names, map(float, row), strict=True)),
        }
        for row in chances
    ]
    examples = [
        {"text": texts[i] if texts else f"text {i}", "label": label}
        for i, label in enumerate(truth)
    ]
    return predictions, examples, TaskSpec("t", "classification", labels=names)


def test_mistakes_are_in_the_order_of_confidence_and_answers_in_that_of_doubt() -> None:
    chances = [[0.9, 0.1], [0.4, 0.6], [0.2, 0.8], [0.3, 0.7]]
    found = mistakes_of(*classified([1, 0, 1, 0], chances))
    assert [(case["row"], case["sure"]) for case in found["mistakes"]] == [
        (0, 0.9),
        (3, 0.7),
        (1, 0.6),
    ]
    assert [case["row"] for case in found["uncertain"]] == [1, 3, 2, 0]
    assert (found["wrong"], found["examples"]) == (3, 4)
    assert found["matrix"] == {
        "labels": ["label 0", "label 1"],
        "counts": [[0, 2], [1, 1]],
        "shown": 2,
        "of": 2,
    }
    first = found["mistakes"][0]
    assert (first["truth"], first["answer"]) == ("label 1", "label 0")
    assert first["texts"]["text"] == "text 0"


def test_thousands_of_labels_and_long_texts_make_a_small_document() -> None:
    random = np.random.default_rng(0)
    count, labels = 3000, 2000
    truth = random.integers(0, labels, size=count).tolist()
    chances = random.random((count, labels))
    texts = ["long " * 10_000] * count
    found = mistakes_of(*classified(truth, chances / chances.sum(axis=1, keepdims=True), texts))
    assert len(found["labels"]) == MOST_LABELS and 1800 < found["labels_in_all"] <= labels
    assert len(found["matrix"]["labels"]) == MOST_CELLS
    assert len(found["mistakes"]) == len(found["uncertain"]) == MOST_CASES
    assert found["wrong"] >= 2900 and found["confusions_in_all"] >= 2900
    assert len(json.dumps(found)) < 300_000
    assert all(len(case["texts"]["text"]) <= LETTERS + 2 for case in found["mistakes"])


def test_the_page_of_many_labels_stays_small(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    chances = random.random((500, 300))
    truth = random.integers(0, 300, size=500).tolist()
    one = mistakes_of(*classified(truth, chances, ["word " * 500] * 500))
    write_run(tmp_path / "run", ["a", "b"])
    before = len(report_on([tmp_path / "run"], silent).read_text())
    Mistakes({"a": one, "b": one}).save(tmp_path / "run" / "mistakes.json")
    text = report_on([tmp_path / "run"], silent).read_text()
    assert len(text) - before < 2 * 60_000
    assert f"Most confident mistakes (12 of {one['wrong']})" in text
    assert "The 20 of 300 labels that are confused most often." in text


def test_a_single_label_on_the_validation_side_has_scores_and_no_confusion() -> None:
    found = mistakes_of(*classified([0, 0, 0], [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3]]))
    assert [one["label"] for one in found["labels"]] == ["label 0"]
    assert found["matrix"] is None and found["confusions"] == [] and found["wrong"] == 0
    assert found["mistakes"] == [] and found["suspects_in_all"] == 0


def test_a_task_of_one_label_among_several_possible() -> None:
    spec = TaskSpec("t", "multilabel", labels=("x",))
    examples = [
        {"text": "a", "label": [1]},
        {"text": "b", "label": [0]},
        {"text": "c", "label": [1]},
    ]
    predictions = [
        {"labels": ["x"], "probabilities": {"x": 0.9}},
        {"labels": ["x"], "probabilities": {"x": 0.8}},
        {"labels": [], "probabilities": {"x": 0.3}},
    ]
    found = mistakes_of(predictions, examples, spec)
    assert found["sorts"] == {"label missed": 1, "label wrongly given": 1}
    (entry,) = found["labels"]
    assert (entry["precision"][0], entry["recall"][0], entry["f1"][0]) == (0.5, 0.5, 0.5)
    assert [(c["row"], c["truth"], c["answer"]) for c in found["mistakes"]] == [
        (1, "no label", "x"),
        (2, "x", "no label"),
    ]
    assert [case["sure"] for case in found["mistakes"]] == pytest.approx([0.8, 0.7])
    assert found["confusions_in_all"] == 2 and found["matrix"] is None


def test_a_suspect_names_the_doubted_label_and_the_other() -> None:
    chances = [[0.9, 0.1], [0.8, 0.2], [0.02, 0.98], [0.1, 0.9], [0.1, 0.9]]
    found = mistakes_of(*classified([0, 0, 0, 1, 1], chances))
    (one,) = found["suspects"]
    assert (one["row"], one["truth"], one["answer"], one["sure"]) == (
        2,
        "label 0",
        "label 1",
        pytest.approx(0.98),
    )


def test_numbers_have_residuals_in_place_of_labels() -> None:
    spec = TaskSpec("t", "regression")
    examples = [{"text": f"t{i}", "label": float(i)} for i in range(10)]
    predictions = [{"value": i + (3.0 if i == 4 else 0.5)} for i in range(10)]
    found = mistakes_of(predictions, examples, spec)
    assert found["wrong"] is None and found["suspects_in_all"] is None and found["labels"] == []
    assert found["mistakes"][0]["row"] == 4 and found["mistakes"][0]["wrong"] == 3.0
    assert found["numbers"]["mean_absolute_error"] == pytest.approx(0.75)
    fifths = found["numbers"]["fifths"]
    assert [part["examples"] for part in fifths] == [2] * 5
    assert [part["mean_error"] for part in fifths] == pytest.approx([0.5, 0.5, 1.75, 0.5, 0.5])


@pytest.mark.parametrize(
    ("truth", "answer", "sorts"),
    [
        ("O B-X I-X O", "O B-X I-X O", [""]),
        ("O B-X I-X O", "O B-Y I-Y O", [TYPE]),
        ("O B-X I-X O", "O B-X O O", [BOUNDS]),
        ("O B-X I-X O", "O O B-Y I-Y", [BOTH]),
        ("O B-X O O", "O O O B-X", [MISSED, SPURIOUS]),
        ("B-X I-X B-Y I-Y", "B-Y I-Y I-Y I-Y", [BOTH, MISSED]),
        ("O O O O", "B-X O O B-Y", [SPURIOUS, SPURIOUS]),
    ],
)
def test_entities_are_paired_with_those_in_their_place(
    truth: str, answer: str, sorts: list[str]
) -> None:
    assert [sort_of(pair) for pair in paired(truth.split(), answer.split())] == sorts


def test_an_excerpt_is_one_short_line_with_the_place_that_matters() -> None:
    assert excerpt("a\n b\tc") == "a b c"
    text = "x " * 400 + "here " + "y " * 400
    found = excerpt(text, text.index("here"))
    assert "here" in found and found.startswith("…") and found.endswith("…")
    assert len(found) <= LETTERS + 2 and excerpt("z" * LETTERS) == "z" * LETTERS


def test_one_task_is_shown_at_once_and_several_are_folded(tmp_path: Path) -> None:
    one = mistakes_of(*classified([0, 1, 1], [[0.2, 0.8], [0.1, 0.9], [0.6, 0.4]]))
    write_run(tmp_path / "run", ["a"])
    study = read_study([tmp_path / "run"], silent)
    study.runs[0].mistakes = Mistakes({"a": one})
    shown = section(study)
    assert shown is not None and any(isinstance(block, Matrix) for block in shown.blocks)
    study.runs[0].mistakes = Mistakes({"a": one, "b": one})
    shown = section(study)
    assert shown is not None and not any(isinstance(block, Matrix) for block in shown.blocks)
    folds = [block.title for block in shown.blocks if isinstance(block, Fold)]
    assert folds == ["a: 2 of 3 examples wrong", "b: 2 of 3 examples wrong"]
    study.runs[0].mistakes = Mistakes({})  # no task has validation examples
    assert section(study) is None
    study.runs[0].mistakes = Mistakes({"a": one})
    study.runs.append(study.runs[0])
    assert section(study) is None  # side by side, lists say little
