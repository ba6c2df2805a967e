"""Rules of a trained model: fitted, stored, used, and forgotten with the next training."""

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import brodmann as bm
from brodmann.analysis.statistics import rank_auc
from brodmann.data.answering.domain import fit_domain
from brodmann.data.answering.rules import HOW_TO_FIT
from brodmann.data.answering.rules_file import FILE
from brodmann.files import write_arrays
from brodmann.measuring.fitting_rules import fit_rules, texts_read
from brodmann.models.saving import store_rules

INPUTS: dict[str, list[Any]] = {
    "single": ["the red cat sat 3", "nothing like it"],
    "pair": [("the red cat", "a dog"), ("one", "two")],
    "many": ["the big cat sat 1", "other words"],
    "value": [("the red cat", "a dog"), ("one", "two")],
    "pick": [{"a": "the old cat", "choices": ["yes", "no", "maybe"]}] * 2,
    "where": [{"b": "which cat?", "a": "the sad cat sat"}] * 2,
    "tag": ["the red cat sat", "words of no kind"],
}


@pytest.fixture(scope="module")
def fitted(tasks_of_every_kind: list[Any]) -> Any:
    """(model with rules, report, number of texts that the progress counted)."""
    model = bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks_of_every_kind, seed=3)
    seen: list[int] = []
    report = fit_rules(model, tasks_of_every_kind, progress=seen.append)
    return model, report, sum(seen)


def test_every_kind_has_rules_and_a_report(fitted: Any, tasks_of_every_kind: list[Any]) -> None:
    model, report, seen = fitted
    assert list(model.rules) == list(report) == [task.name for task in tasks_of_every_kind]
    for name, entry in report.items():
        assert entry["examples"] == len(tasks_of_every_kind[0].splits["validation"])
        assert 0 <= entry["own_texts"]["refused"] <= 1 and model.rules[name].domain is not None
    assert set(report["single"]["other_tasks"]) >= {"many", "tag"}  # a pair is not one text
    assert "pair" not in report["single"]["other_tasks"]
    assert seen <= texts_read(tasks_of_every_kind, 1000)
    json.dumps(report, allow_nan=False)  # it is stored


def test_answers_say_how_usual_their_texts_are(fitted: Any) -> None:
    model, _, _ = fitted
    for task, inputs in INPUTS.items():
        for answer in model.predict(task, inputs):
            assert 0 < answer["in_domain"] <= 1 and "abstained" not in answer


def test_unusual_texts_get_no_answer_on_request(fitted: Any) -> None:
    model, _, _ = fitted
    for task, inputs in INPUTS.items():
        usual = [answer["in_domain"] for answer in model.predict(task, inputs)]
        answers = model.predict(task, inputs, abstain=0.999)
        for p, answer in zip(usual, answers, strict=True):
            assert (p < 0.999) == ("abstained" in answer)
            if p < 0.999:
                empty = {k: v for k, v in answer.items() if k not in ("tokens",)}
                assert empty.pop("in_domain") == p and empty.pop("abstained")
                assert set(empty.values()) == {None}


def test_coverage_adds_sets_and_intervals_where_they_exist(fitted: Any) -> None:
    model, _, _ = fitted
    answers = model.predict_all(["the red cat sat 3"], coverage=0.5)[0]
    assert answers["single"]["label"] == answers["single"]["set"][0]
    assert "set" not in answers["many"] and "set" not in answers["tag"]
    low, high = model.predict("value", INPUTS["value"], coverage=0.5)[0]["interval"]
    assert low < high
    assert set(model.predict("pick", INPUTS["pick"], coverage=0.9999)[0]["set"]) == {0, 1, 2}


def test_a_frame_gets_the_columns_of_the_rules(fitted: Any) -> None:
    import pandas as pd

    model, _, _ = fitted
    frame = pd.DataFrame({"a": INPUTS["single"]})
    found = model.predict("single", frame, coverage=0.5)
    assert list(found) == ["a", "single.answer", "single.score", "single.set", "single.in_domain"]
    refused = model.predict(
        "tag", pd.DataFrame({"words": [text.split() for text in INPUTS["tag"]]}), abstain=0.999
    )
    assert refused["tag.answer"].isna().any() and (refused["tag.in_domain"] < 1).any()


def test_rules_are_stored_with_the_model(fitted: Any, tmp_path: Path) -> None:
    model, _, _ = fitted
    model.save_pretrained(tmp_path / "m")
    again = bm.MultiTaskModel.from_pretrained(tmp_path / "m")
    for task, inputs in INPUTS.items():
        wishes = {"coverage": 0.5} if task in ("single", "pair", "value", "pick") else {}
        assert again.predict(task, inputs, **wishes) == model.predict(task, inputs, **wishes)


def test_rules_are_added_to_a_saved_model(fitted: Any, tmp_path: Path) -> None:
    model, _, _ = fitted
    plain = copy.deepcopy(model)
    plain.rules = {}
    plain.save_pretrained(tmp_path / "m")
    assert not (tmp_path / "m" / FILE).exists()
    for _ in range(2):  # the second time, it replaces the first
        store_rules(tmp_path / "m", model.rules)
        again = bm.MultiTaskModel.from_pretrained(tmp_path / "m")
        assert again.predict("many", INPUTS["many"]) == model.predict("many", INPUTS["many"])


def test_damaged_rules_are_one_clear_line(fitted: Any, tmp_path: Path) -> None:
    model, _, _ = fitted
    model.save_pretrained(tmp_path / "m")
    (tmp_path / "m" / "checksums.json").unlink()
    path = tmp_path / "m" / FILE
    for damage in (b"", path.read_bytes()[:200]):
        path.write_bytes(damage)
        with pytest.raises(bm.InputError, match=r"rules\.npz.*damaged"):
            bm.MultiTaskModel.from_pretrained(tmp_path / "m")
    write_arrays(path, {"rules": np.frombuffer(b'{"single": 3}', np.uint8)})
    with pytest.raises(bm.InputError, match="calibrate again"):
        bm.MultiTaskModel.from_pretrained(tmp_path / "m")


def test_without_rules_wishes_are_refused_with_what_to_do(tiny_model: Any) -> None:
    for wish in ({"abstain": 0.05}, {"coverage": 0.9}):
        with pytest.raises(bm.InputError) as error:
            tiny_model.predict("single", ["a"], **wish)
        assert HOW_TO_FIT in str(error.value)
    with pytest.raises(bm.InputError, match=r"abstain = 5: expected a level between 0 and 1"):
        tiny_model.predict("single", ["a"], abstain=5)
    for wrong in ("0.05", True, float("nan")):
        with pytest.raises(bm.InputError, match="expected a level between 0 and 1"):
            tiny_model.predict("single", ["a"], abstain=wrong)
    with pytest.raises(bm.InputError, match="answers of tokens have no sets"):
        tiny_model.predict("tag", ["a"], coverage=0.9)


def test_training_ends_the_rules_that_it_could_make_wrong(
    fitted: Any, tasks_of_every_kind: list[Any]
) -> None:
    model = copy.deepcopy(fitted[0])
    rows = [{"a": f"x {i}", "y": i % 2} for i in range(16)]
    halves = {"train": rows[:8], "validation": rows[8:]}
    new = bm.load_tasks([{"name": "new", "kind": "classification", "text": "a", "label": "y"}
                         | halves])  # fmt: skip
    model.add_task(new[0])
    model.train_only("new")
    before = model.predict("single", INPUTS["single"])
    bm.fit(model, new, epochs=1, progress=False)
    assert model.predict("single", INPUTS["single"]) == before  # untouched, with its rules
    model.requires_grad_(True)
    bm.fit(model, new, epochs=1, progress=False)
    assert not model.rules
    removed = copy.deepcopy(fitted[0])
    removed.switch_off([(0, 0)])
    assert not removed.rules


def background(known: str, own: Any, other: Any, generator: Any) -> Any:
    """Texts of other tasks: none, some like the own ones, or some like those to recognise."""
    if known == "none":
        return own[:0]
    return own + 0.1 if known == "alike" else other + generator.normal(size=own.shape)


@pytest.mark.parametrize("known", ["none", "alike", "unlike"])
def test_the_domain_tells_planted_texts_apart(known: str) -> None:
    generator = np.random.default_rng(0)
    centre, other = np.eye(16)[:2] * 5
    train, held, own = (centre + generator.normal(size=(200, 16)) for _ in range(3))
    strange = other + generator.normal(size=(200, 16))
    domain = fit_domain(train, background(known, train, other, generator), held)
    assert len(domain.others) == {"none": 0, "alike": 0, "unlike": 200}[known]
    assert (domain.p_values(own) < 0.05).mean() == pytest.approx(0.05, abs=0.04)
    assert (domain.p_values(strange) < 0.05).mean() > 0.9
    scores = np.r_[domain.scores(own), domain.scores(strange)]
    judge = roc_auc_score(np.repeat([0, 1], 200), scores)
    assert rank_auc(scores[:200], scores[200:]) == pytest.approx(judge, abs=1e-9) and judge > 0.97


def test_fewer_texts_than_neighbours_still_have_a_domain() -> None:
    states = np.random.default_rng(0).normal(size=(3, 8)).astype(np.float32)
    domain = fit_domain(states, states[:0], states)
    assert np.isfinite(domain.scores(states)).all()
