"""`brodmann relate`: from data alone, from pair trainings, inside a run; and its advice runs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import brodmann as bm

Command = Callable[..., tuple[int, str, str]]
CONFIG = """
name = "study"
output = "{folder}/runs"
tasks = [
  {{ use = "builtin/sentiment", limit = {{ train = 48, validation = 24, test = 8 }} }},
  {{ use = "builtin/opinion", limit = {{ train = 48, validation = 24, test = 8 }} }},
  {{ use = "builtin/entailment", limit = {{ train = 48, validation = 24, test = 8 }} }},
]
[model]
backbone = "builtin:tiny"
architecture = "{architecture}"
[training]
epochs = 1
learning_rate = 1e-3
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(CONFIG.format(folder=tmp_path, architecture="shared"), encoding="utf-8")
    return path


def test_words_groups_and_advice_from_data_alone(
    study: Path, tmp_path: Path, command: Command
) -> None:
    better = tmp_path / "better.toml"
    code, out, err = command("relate", study, "--clusters", "2", "--advise", better)
    assert (code, err) == (0, "") and "Cluster 2:" in out
    found = json.loads((tmp_path / "runs/study/relevance-words.json").read_text("utf-8"))
    assert found["by"] == "words" and found["matrix"][0][0] == 1.0
    assert found["matrix"][0][1] > found["matrix"][0][2]  # twins share more words
    assert sorted(map(sorted, found["clusters"])) == [["entailment"], ["opinion", "sentiment"]]
    text = better.read_text("utf-8")
    assert text.startswith("# clusters by words:") and 'architecture = "hmnet"' in text
    code, out, err = command("run", better)  # the advice is a configuration that runs
    assert (code, err) == (0, ""), err
    assert "M of them active for a task" in " ".join(out.split())
    for file in ("model/README.md", "report.html"):
        assert "active for a task" in (tmp_path / "runs/better" / file).read_text("utf-8")
    model = json.loads((tmp_path / "runs/better/model/config.json").read_text("utf-8"))
    assert model["settings"]["architecture"] == "hmnet"
    assert command("relate", study, "--by", "groups", "--json")[0] == 0
    code, _, err = command("relate", study, "--advise", study)  # not over somebody's own file
    assert code == 2 and "name another file" in err and "[training]" in study.read_text("utf-8")
    code, _, err = command("relate", study, "--by", "wrds")
    assert code == 2 and err == "brodmann: --by wrds; did you mean 'words'?\n"
    code, _, err = command("relate", study, "--by", "foo")
    assert code == 2 and err.count("cra") == 1
    code, _, err = command("relate", study, "--clusters", "7")
    assert code == 2 and "expected a number from 1 to 3" in err


def test_word_pieces_instead_of_words(study: Path, tmp_path: Path, command: Command) -> None:
    from brodmann.models.backbone.tiny import tiny_tokenizer

    code, out, err = command("relate", study, "--pieces")
    assert (code, err) == (0, "") and "the pieces that the tokenizer of builtin:tiny makes" in out
    found = json.loads((tmp_path / "runs/study/relevance-words.json").read_text("utf-8"))
    limit = {"train": 48, "validation": 24, "test": 8}
    tasks = bm.load_tasks(
        [{"use": f"builtin/{n}", "limit": limit} for n in ("sentiment", "opinion")]
    )
    source, target = (
        {piece for row in task.splits["train"] for piece in tiny_tokenizer().tokenize(row["text"])}
        for task in tasks
    )
    assert found["matrix"][0][1] == pytest.approx(len(source & target) / len(target))
    code, _, err = command("relate", study, "--by", "groups", "--pieces")
    assert code == 2 and "--pieces needs --by words" in err


def test_relevance_makes_no_run_of_the_folder(
    study: Path, tmp_path: Path, command: Command
) -> None:
    assert command("relate", study, "--clusters", "2")[0] == 0
    folder = tmp_path / "runs/study"
    # Its page comes before any training.
    code, _, err = command("report", folder)
    assert (code, err) == (0, "")
    page = (folder / "report.html").read_text("utf-8")
    assert "Which tasks belong together" in page and "The most unequal pairs" in page
    assert 'class="line c0"' in page  # who joins whom, drawn
    # Other tasks are another study.
    code, _, err = command("train", study, "--set", "tasks.0.limit.train=40")
    assert code == 2 and "belongs to another run (tasks" in err
    # The same tasks trained otherwise are not.
    change = ("--set", "training.epochs=2", "--set", 'model.architecture="single"')
    code, _, err = command("train", study, *change)
    assert (code, err) == (0, ""), err
    assert "epochs = 2" in (folder / "config.toml").read_text("utf-8")
    assert (folder / "relevance-words.json").is_file()
    code, _, err = command("train", study)  # now it is a run
    assert code == 2 and "belongs to another run" in err
    code, _, err = command("relate", study)
    assert code == 2 and "belongs to another run" in err


def test_relevance_does_not_stand_in_the_way_of_a_grid(
    study: Path, tmp_path: Path, command: Command
) -> None:
    text = study.read_text("utf-8") + "[grid]\nheads = false\nvary = { seed = [0] }\n"
    study.write_text(text, encoding="utf-8")
    assert command("relate", study)[0] == 0
    for _ in range(2):
        code, _, err = command("grid", study)
        assert (code, err) == (0, ""), err
    better = tmp_path / "study.v 2.toml"
    assert command("relate", study, "--clusters", "2", "--advise", better)[0] == 0
    text = better.read_text("utf-8")
    assert 'name = "study.v-2"' in text and "[grid" not in text
    code, _, err = command("train", better)
    assert (code, err) == (0, ""), err
    other = tmp_path / "elsewhere/study.toml"
    assert command("relate", study, "--clusters", "1", "--advise", other)[0] == 0
    text = other.read_text("utf-8")
    assert 'name = "study-advised"' in text and "# 1 cluster (" in text


def test_clusters_come_from_a_relevance_file(study: Path, tmp_path: Path, command: Command) -> None:
    assert command("relate", study, "--clusters", "2")[0] == 0
    file = tmp_path / "runs/study/relevance-words.json"
    code, _, err = command(
        "train", study, "--set", 'name="paths"', "--set", 'model.architecture="hmnet"',
        "--set", f'model.parameters.clusters="{file}"',
    )  # fmt: skip
    assert (code, err) == (0, ""), err
    model = json.loads((tmp_path / "runs/paths/model/config.json").read_text("utf-8"))
    assert sorted(map(sorted, model["settings"]["parameters"]["clusters"])) == [
        ["entailment"], ["opinion", "sentiment"],
    ]  # fmt: skip


def test_pair_trainings_are_done_once(study: Path, tmp_path: Path, command: Command) -> None:
    code, _, err = command("relate", study, "--by", "pairs")
    assert (code, err) == (0, ""), err
    found = json.loads((tmp_path / "runs/study/relevance-pairs.json").read_text("utf-8"))
    assert found["by"] == "pairs" and [found["matrix"][n][n] for n in range(3)] == [0, 0, 0]
    cells = json.loads((tmp_path / "runs/study-pairs/grid.json").read_text("utf-8"))["cells"]
    assert len(cells) == 3 + 3
    alone = found["single"]["sentiment"]
    pair = next(c for c in cells if set(c["varied"]["tasks"]) == {"sentiment", "opinion"})
    together = pair["splits"]["validation"]["sentiment"]["score"]
    assert found["matrix"][1][0] == pytest.approx((together - alone) / alone)
    models = sorted(tmp_path.glob("runs/cells/*/model/model.safetensors"))
    before = [path.stat().st_mtime_ns for path in models]
    assert command("relate", study, "--by", "pairs")[0] == 0
    assert [path.stat().st_mtime_ns for path in models] == before


def summary_of(scores: dict[str, dict[str, float]]) -> dict[str, Any]:
    """A finished grid: "a+b" → task → score."""
    cells = [
        {"splits": {"validation": {task: {"score": s} for task, s in found.items()}}}
        for found in scores.values()
    ]
    return {"cells": cells, "failed": []}


def test_a_task_that_learns_nothing_alone_does_not_lose_the_study(
    study: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    single = {"sentiment": 0.5, "opinion": 0.5, "entailment": 0.0}
    scores = {task: {task: score} for task, score in single.items()} | {
        "1": {"sentiment": 0.6, "opinion": 0.4},
        "2": {"sentiment": 0.4, "entailment": 0.2},
        "3": {"opinion": 0.6, "entailment": 0.1},
    }
    monkeypatch.setattr(
        "brodmann.studies.pair_trainings.run_grid", lambda *_, **__: summary_of(scores)
    )
    better = tmp_path / "better.toml"
    code, out, err = command(
        "relate", study, "--by", "pairs", "--clusters", "3", "--advise", better
    )
    assert (code, err) == (0, ""), err
    assert "In no cluster: entailment  it scores 0.0 alone" in out
    assert "The most unequal pairs\n • opinion → sentiment 20.0 %, back -20.0 %" in out
    found = json.loads((tmp_path / "runs/study/relevance-pairs.json").read_text("utf-8"))
    assert [row[2] for row in found["matrix"]] == [None] * 3
    assert sorted(map(sorted, found["clusters"])) == [["opinion"], ["sentiment"]]
    assert found["left_out"] == {
        "entailment": "it scores 0.0 alone: a ratio to that is not defined"
    }
    assert found["trained"]["limit"] == 1000
    text = better.read_text("utf-8")
    assert "# entailment is left out: it scores 0.0 alone" in text
    assert "builtin/entailment" not in text
    code, _, err = command("report", tmp_path / "runs/study")
    assert (code, err) == (0, ""), err
    page = (tmp_path / "runs/study/report.html").read_text("utf-8")
    assert "In no cluster: entailment" in page and "at most 1,000 examples per task" in page
    assert "--heat:var(--mark)" in page  # harm is not 0
    assert "in no cluster" in command("report", tmp_path / "runs/study", "--text")[1].lower()


def test_advice_leaves_out_whom_every_other_task_harms(
    study: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = {task: {task: 0.5} for task in ("sentiment", "opinion", "entailment")} | {
        "1": {"sentiment": 0.6, "opinion": 0.6},
        "2": {"sentiment": 0.6, "entailment": 0.4},
        "3": {"opinion": 0.6, "entailment": 0.45},
    }
    monkeypatch.setattr(
        "brodmann.studies.pair_trainings.run_grid", lambda *_, **__: summary_of(scores)
    )
    better = tmp_path / "better.toml"
    pairs = ("relate", study, "--by", "pairs", "--advise", better)
    code, out, err = command(*pairs, "--clusters", "1")
    assert (code, err) == (0, ""), err
    assert "entailment is left out: beside every other task it scored lower" in " ".join(
        out.split()
    )
    text = better.read_text("utf-8")
    assert "(-10.0 % at best)" in text and 'architecture = "shared"' in text
    assert "builtin/opinion" in text and "builtin/entailment" not in text
    code, _, err = command("train", better)
    assert (code, err) == (0, ""), err
    scores |= {"1": {"sentiment": 0.4, "opinion": 0.4}, "2": {"sentiment": 0.4, "entailment": 0.4}}
    scores["3"] = {"opinion": 0.4, "entailment": 0.4}
    code, _, err = command(*pairs)
    assert code == 2 and "fewer than two tasks are left to share an encoder (sentiment: bes" in err


def test_pair_trainings_are_cheap_unless_asked(
    study: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def watch(config: Any, base: Path, report: Any, **options: Any) -> Any:
        seen.append(config)
        raise bm.RunError("enough")

    monkeypatch.setattr("brodmann.studies.pair_trainings.run_grid", watch)
    for limit in ("30", "48", "0"):
        assert command("relate", study, "--by", "pairs", "--limit", limit)[0] == 1
    fingerprints = [config.fingerprint() for config in seen]
    assert fingerprints[1] == fingerprints[2] != fingerprints[0]  # nobody has more than 48
    assert [task.limit["train"] for task in seen[0].tasks] == [30] * 3
    assert [task.limit["validation"] for task in seen[0].tasks] == [24] * 3
    # What cannot be is refused before anything is trained.
    for wrong, words in (
        (("--clusters", "9"), "clusters = 9: expected a number from 1 to 3"),
        (("--limit", "-1"), "limit = -1: expected a number of training examples"),
    ):
        code, _, err = command("relate", study, "--by", "pairs", *wrong)
        assert code == 2 and words in err and len(seen) == 3
    assert not (tmp_path / "runs/study-pairs").exists()


def test_attention_maps_of_two_runs(study: Path, tmp_path: Path, command: Command) -> None:
    assert command("train", study)[0] == 0
    two = ("--set", 'name="two"', "--set", "seed=3", "--set", "training.epochs=2")
    assert command("train", study, *two)[0] == 0
    run, other = tmp_path / "runs/study", tmp_path / "runs/two"
    code, out, err = command("relate", run, "--by", "attention", "--with", other, "--examples", "9")
    assert (code, err) == (0, "") and "attention maps of study and two" in out
    found = bm.AttentionMaps.load(run / "attention-maps.json")
    assert found.runs == ("study", "two") and found.values.shape == (3, 3, 4)
    assert (found.values < 1).all() and found.examples == 9
    assert list(found.to_frame().columns) == ["task", "layer", "head", "cosine"]
    assert len(bm.plot(found).axes) == 3 + 1  # and the scale
    assert command("report", run)[0] == 0
    page = (run / "report.html").read_text("utf-8")
    assert "Where the two models look" in page and "layer 2" in page
    assert "layer 2" in command("report", run, "--text")[1]
    # One line each for what cannot be compared.
    wide = ("--set", 'name="wide"', "--set", 'tasks=["builtin/topic"]')
    assert command("train", study, *wide, "--set", "training.max_steps=1")[0] == 0
    for words, message in (
        (("--with", tmp_path / "runs/wide"), "has none of the tasks of"),
        (("--with", tmp_path), "no trained model in it"),
        ((), "--by attention and --with RUN need each other"),
        (("--with", other, "--examples", "0"), "examples = 0: expected at least 1"),
        (("--with", other, "--clusters", "2"), "--clusters needs --by words, groups or pairs"),
    ):
        code, _, err = command("relate", run, "--by", "attention", *words)
        assert code == 2 and message in err and err.count("\n") == 1


def test_the_same_voxels_are_predicted_by_encoders_that_are_alike(
    tmp_path: Path, command: Command
) -> None:
    import numpy as np
    from scipy.io import savemat

    config = tmp_path / "single.toml"
    config.write_text(CONFIG.format(folder=tmp_path, architecture="single"), encoding="utf-8")
    assert command("train", config)[0] == 0
    voxels = tmp_path / "voxels"
    code, _, err = command("relate", config, "--by", "cnm")
    assert code == 2 and "--by cnm and --voxels FOLDER need each other" in err
    code, _, err = command("relate", config, "--by", "cnm", "--voxels", voxels)
    assert code == 2 and "osf.io/crwz7" in err
    random = np.random.default_rng(0)
    lengths = random.integers(1, 9, size=384)
    for participant in ("M01", "P02"):
        (voxels / participant).mkdir(parents=True)
        measured = random.normal(size=(384, 12)) + 0.5 * lengths[:, None] * (np.arange(12) < 6)
        savemat(voxels / participant / "examples_384sentences.mat", {"examples": measured})
    texts = [" ".join(["good"] * n) for n in lengths]
    (voxels / "sentences.txt").write_text("\n".join(texts), encoding="utf-8")
    code, out, err = command("relate", config, "--by", "cnm", "--voxels", voxels)
    assert (code, err) == (0, "") and "CNM (%)" in out
    found = json.loads((tmp_path / "runs/study/similarity.json").read_text("utf-8"))
    matrix = np.array(found["cnm"]["matrix"])
    assert found["cnm"]["voxels"] == {"M01": 12, "P02": 12}
    np.testing.assert_allclose(np.diag(matrix), 1.0)
    assert np.allclose(matrix, matrix.T) and matrix.min() > 0.3  # all can read the length
    assert command("report", tmp_path / "runs/study")[0] == 0
    assert "CNM" in (tmp_path / "runs/study/report.html").read_text("utf-8")


@pytest.mark.slow
def test_encoders_of_single_tasks_are_compared(tmp_path: Path, command: Command) -> None:
    config = tmp_path / "single.toml"
    config.write_text(CONFIG.format(folder=tmp_path, architecture="single"), encoding="utf-8")
    assert command("train", config)[0] == 0
    for by in ("dse", "cra", "ahp"):
        code, out, err = command("relate", config, "--by", by, "--examples", "30")
        assert (code, err) == (0, "") and f"{by.upper()} (%)" in out
    found = json.loads((tmp_path / "runs/study/similarity.json").read_text("utf-8"))
    shares = [row[0] for row in found["ahp"]["transferability"]]
    assert shares[0] is None and sum(shares[1:]) == pytest.approx(1.0)
    for by in ("dse", "cra"):
        matrix = found[by]["matrix"]
        assert [matrix[n][n] for n in range(3)] == pytest.approx([1.0] * 3, abs=1e-5)
        assert matrix[0][1] == pytest.approx(matrix[1][0], abs=1e-6)
    assert command("relate", config, "--by", "cra", "--examples", "20")[0] == 0
    again = json.loads((tmp_path / "runs/study/similarity.json").read_text("utf-8"))
    assert again["dse"] == found["dse"] and again["cra"]["examples"] == 20  # each its own settings
    code, _, err = command("relate", config, "--by", "pairs")
    assert code == 2 and "use 'shared'" in err
    assert (
        command("evaluate", config)[0] == 0 and command("report", tmp_path / "runs/study")[0] == 0
    )
    page = (tmp_path / "runs/study/report.html").read_text("utf-8")
    assert "Which tasks belong together" in page and "DSE" in page


def test_dse_and_cra_take_a_corpus_of_the_users(tmp_path: Path, command: Command) -> None:
    from brodmann.analysis import cra, dse
    from brodmann.config import load_config
    from brodmann.models.representations import sentence_representations
    from brodmann.pipeline.relate import relate

    config = tmp_path / "single.toml"
    config.write_text(CONFIG.format(folder=tmp_path, architecture="single"), encoding="utf-8")
    assert command("train", config)[0] == 0
    sentences = [f"Line {n} of a corpus about rivers, seas and {n % 3} towns." for n in range(12)]
    corpus = tmp_path / "wiki.txt"
    corpus.write_text("\n\n".join(sentences) + "\n", encoding="utf-8")
    model = bm.MultiTaskModel.from_pretrained(tmp_path / "runs/study")
    states = [sentence_representations(model, name, sentences) for name in model.specs]
    for by, measure in (("dse", dse), ("cra", cra)):
        code, out, err = command("relate", config, "--by", by, "--corpus", corpus)
        assert (code, err) == (0, "") and f"{by.upper()} (%)" in out
        found = json.loads((tmp_path / "runs/study/similarity.json").read_text("utf-8"))
        expected = [[measure(one, other) for other in states] for one in states]
        assert found[by]["matrix"] == [pytest.approx(row, abs=1e-6) for row in expected]
        about = found[by]["corpus"]
        assert (about["name"], about["sentences"]) == ("wiki.txt", 12)
    settings, base = load_config(config)
    listed = relate(settings, base, lambda *_: None, by="dse", corpus=sentences)
    assert listed["dse"]["matrix"] == [
        pytest.approx(row, abs=1e-6) for row in found["dse"]["matrix"]
    ]
    assert listed["dse"]["corpus"]["digest"] == found["dse"]["corpus"]["digest"]
    # Fewer are drawn when asked; without a corpus the tasks' own sentences are measured again.
    fewer = relate(settings, base, lambda *_: None, by="dse", corpus=sentences, examples=5)
    assert fewer["dse"]["matrix"] != listed["dse"]["matrix"]
    own = relate(settings, base, lambda *_: None, by="dse", examples=5)
    assert "corpus" not in own["dse"] and own["dse"]["matrix"] != fewer["dse"]["matrix"]
    (tmp_path / "latin.txt").write_bytes("caf\xe9 au lait\nthe sea".encode("latin-1"))
    (tmp_path / "one.txt").write_text("Alone.\n\n")
    expected_file = "expected a UTF-8 text file with one sentence per line"
    for name, problem in (
        ("none.txt", "no such file"),
        ("latin.txt", "not UTF-8 at byte 3"),
        ("one.txt", "1 sentences, at least 2 are needed"),
    ):
        code, _, err = command("relate", config, "--by", "dse", "--corpus", tmp_path / name)
        assert (code, err) == (2, f"brodmann: {tmp_path / name}: {problem}: {expected_file}\n")
    code, _, err = command("relate", config, "--by", "ahp", "--corpus", corpus)
    assert (code, err) == (2, "brodmann: --corpus needs --by dse or cra\n")
    for wrong, message in (
        (["one", 2], "corpus: entry 1: expected a text, found 2"),
        (["one"], f"corpus: 1 sentences, at least 2 are needed: {expected_file}"),
    ):
        with pytest.raises(bm.InputError) as caught:
            relate(settings, base, lambda *_: None, by="dse", corpus=wrong)  # type: ignore[arg-type]
        assert str(caught.value) == message


def test_dse_needs_an_encoder_a_task(study: Path, command: Command) -> None:
    assert command("train", study)[0] == 0
    code, _, err = command("relate", study, "--by", "dse")
    assert code == 2 and "single tasks: train with model.architecture = 'single'" in err
    code, _, err = command("relate", study, "--by", "dse", "--advise", "x.toml")
    assert code == 2 and "--advise needs --by words, groups or pairs" in err
