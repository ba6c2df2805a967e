"""`brodmann relate`: from data alone, from pair trainings, inside a run; and its advice runs."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

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
    assert (code, err) == (0, "") and "cluster 2:" in out
    found = json.loads((tmp_path / "runs/study/relevance-words.json").read_text("utf-8"))
    assert found["by"] == "words" and found["matrix"][0][0] == 1.0
    assert found["matrix"][0][1] > found["matrix"][0][2]  # twins share more words
    assert sorted(map(sorted, found["clusters"])) == [["entailment"], ["opinion", "sentiment"]]
    text = better.read_text("utf-8")
    assert text.startswith("# clusters by words:") and 'architecture = "hmnet"' in text
    code, out, err = command("run", better)  # the advice is a configuration that runs
    assert (code, err) == (0, ""), err
    model = json.loads((tmp_path / "runs/better/model/config.json").read_text("utf-8"))
    assert model["settings"]["architecture"] == "hmnet"
    assert command("relate", study, "--by", "groups", "--json")[0] == 0
    code, _, err = command("relate", study, "--advise", study)  # not over somebody's own file
    assert code == 2 and "name another file" in err and "[training]" in study.read_text("utf-8")
    code, _, err = command("relate", study, "--by", "wrds")
    assert code == 2 and "did you mean 'words'" in err
    code, _, err = command("relate", study, "--clusters", "7")
    assert code == 2 and "expected a number from 1 to 3" in err


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


def test_dse_needs_an_encoder_a_task(study: Path, command: Command) -> None:
    assert command("train", study)[0] == 0
    code, _, err = command("relate", study, "--by", "dse")
    assert code == 2 and "compares the encoders of single tasks" in err
    code, _, err = command("relate", study, "--by", "dse", "--advise", "x.toml")
    assert code == 2 and "--advise goes with" in err
