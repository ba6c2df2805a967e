"""`brodmann map MODEL --data FILE`: the heads of a classifier that was trained elsewhere."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as tf
from tests.families import shaken
from typer.testing import CliRunner

import brodmann as bm
from brodmann.cli import app
from brodmann.models.backbone.tiny import tiny_config, tiny_tokenizer

ROWS = [("A wonderful film.", "good"), ("The soup was cold.", "bad"), ("I loved it.", "good")] * 4


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("map") / "sorter"
    torch.manual_seed(0)
    config = tiny_config()
    config.id2label, config.label2id = {0: "bad", 1: "good"}, {"bad": 0, "good": 1}
    model = shaken(tf.AutoModelForSequenceClassification.from_config(config))
    model.save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    file = tmp_path / "reviews.csv"
    file.write_text("body,stars\n" + "".join(f"{text},{label}\n" for text, label in ROWS))
    return file


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(app, ["map", *map(str, arguments)])


def test_importance_curve_and_page(checkpoint: Path, reviews: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run(checkpoint, "--data", reviews, "--text", "body", "--label", "stars", "--out", out)
    assert done.exit_code == 0, done.output
    scores = bm.HeadScores.load(out / "importance.json")
    model = tf.AutoModelForSequenceClassification.from_pretrained(checkpoint)
    rows = [{"text": text, "label": label} for text, label in ROWS]
    again = bm.head_importance(model, rows, tokenizer=tiny_tokenizer())
    assert scores.values == pytest.approx(again.values, rel=1e-6)
    curve = json.loads((out / "pruning-curve.json").read_text())["tasks"]["reviews"]
    assert [point["share"] for point in curve["points"]] == [step / 10 for step in range(1, 10)]
    with torch.no_grad(), bm.head_gates(model, off=scores.least(0.5)):
        inputs = tiny_tokenizer()([text for text, _ in ROWS], return_tensors="pt", padding=True)
        guesses = [model.config.id2label[int(i)] for i in model.eval()(**inputs).logits.argmax(-1)]
    right = sum(guess == label for guess, (_, label) in zip(guesses, ROWS, strict=True))
    assert curve["points"][4]["least"] == pytest.approx(right / len(ROWS))
    page = (out / "report.html").read_text()
    assert "Pruning curve" in page and "Atlas of heads" in page


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--label", "stars"], "no column 'text', found body, stars"),
        (
            ["--text", "body", "--label", "body"],
            "label 'A wonderful film.' is unknown",
        ),
        (["--text", "body", "--label", "stars", "--set", "a=1"], "with --data there is none"),
    ],
)
def test_wrong_input_is_one_clear_line(
    checkpoint: Path, reviews: Path, tmp_path: Path, options: list[str], message: str
) -> None:
    out = tmp_path / "out"
    done = run(checkpoint, "--data", reviews, "--out", out, *options)
    assert isinstance(done.exception, bm.InputError) and message in str(done.exception)
    assert not out.exists()


def test_a_model_that_does_not_classify_is_refused(reviews: Path, tmp_path: Path) -> None:
    tf.AutoModel.from_config(tiny_config()).save_pretrained(tmp_path / "bare")
    tiny_tokenizer().save_pretrained(tmp_path / "bare")
    done = run(tmp_path / "bare", "--data", reviews, "--text", "body", "--label", "stars")
    assert "expected a sequence or token classifier" in str(done.exception)
    done = run(tmp_path / "bare", "--text", "body")
    assert "need --data" in str(done.exception)


def test_tags_of_words_for_a_token_classifier() -> None:
    config = tiny_config()
    config.id2label, config.label2id = {0: "O", 1: "PER"}, {"O": 0, "PER": 1}
    model = shaken(tf.AutoModelForTokenClassification.from_config(config)).eval()
    rows = [{"words": ["Susan", "flew"], "tags": ["PER", "O"]}] * 3
    options = {"tokenizer": tiny_tokenizer(), "text": "words", "label": "tags"}
    scores = bm.head_importance(model, {"names": rows}, **options)
    assert scores.tasks == ("names",) and (scores.values > 0).any()
    with pytest.raises(bm.InputError, match="one tag for each of the 2 words"):
        bm.head_importance(model, [{"words": ["a", "b"], "tags": ["O"]}], **options)


def test_dissociation_of_plain_models(checkpoint: Path) -> None:
    model = tf.AutoModelForSequenceClassification.from_pretrained(checkpoint).eval()
    tokenizer = tiny_tokenizer()

    def batches(texts: list[str], labels: list[int]) -> list[dict[str, Any]]:
        return [
            {**tokenizer(texts, return_tensors="pt", padding=True), "labels": torch.tensor(labels)}
        ]

    tasks = {
        "a": batches(["one film", "two soups"] * 4, [0, 1] * 4),
        "b": batches(["x"] * 6, [1] * 6),
    }
    scores = bm.head_importance(model, tasks)
    found = bm.dissociation(model, tasks, scores, draws=2, resamples=10, alpha=0.25)
    assert found.tasks == ["a", "b"] and found.metrics == ["accuracy", "accuracy"]
    with torch.no_grad(), bm.head_gates(model, off=scores.top(0.25, "b")):
        batch = tasks["a"][0]
        right = (model(**batch).logits.argmax(-1) == batch["labels"]).double().mean()
    assert found.performance[0][1] == pytest.approx(float(right))
    own = bm.dissociation(
        model, tasks, scores, draws=0, resamples=0, alpha=0.25,
        score=lambda outputs, batch: outputs.logits.softmax(-1)[:, 1],
    )  # fmt: skip
    assert own.metrics == ["score", "score"] and 0 < own.base[0] < 1
    with pytest.raises(bm.InputError, match="score returned shape"):
        bm.dissociation(model, tasks, scores, draws=0, score=lambda o, b: o.logits.mean())
