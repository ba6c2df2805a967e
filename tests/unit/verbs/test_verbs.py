"""What commands do, as a user's script calls it: configurations, dicts, rows in memory, results."""

import json
from pathlib import Path
from typing import Any

import pytest

import brodmann as bm

LIMIT = {"train": 40, "validation": 20, "test": 20}
FEW: dict[str, Any] = {"draws": 1, "redraws": 0, "exchanges": 0, "resamples": 20}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def settings(name: str = "mine", **sections: Any) -> dict[str, Any]:
    return {
        "name": name,
        "tasks": [{"use": f"builtin/{task}", "limit": LIMIT} for task in ("sentiment", "topic")],
        "model": {"backbone": "builtin:tiny", "max_length": 32},
        "training": {"epochs": 1, "max_steps": 3, "batch_size": 16},
        "map": {"examples": 8},
        "dissociation": FEW,
        **sections,
    }


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = str(tmp_path_factory.mktemp("runs"))
    return bm.run(settings("first", output=output)).folder


def test_a_run_from_a_dict_is_the_run_of_the_command(finished: Path, command: Any) -> None:
    folder = finished.parent / "second"
    shown = ["--set", f"output={finished.parent}", "--set", "name=second", "--json"]
    code, out, _ = command("run", finished / "config.toml", *shown)
    assert code == 0 and json.loads(out)["folder"] == str(folder)
    for name in ("importance.json", "dissociation.json"):
        assert (folder / name).read_bytes() == (finished / name).read_bytes()
    assert bm.Run(folder).scores == bm.Run(finished).scores


def test_a_run_knows_its_results(finished: Path) -> None:
    run = bm.Run(finished)
    assert set(run.scores) == {"validation", "test"}
    assert run.heads is not None and run.heads.tasks == ("sentiment", "topic")
    assert run.dissociation is not None and run.dissociation.alpha == 0.3
    frame = run.to_frame()
    assert set(frame["task"]) == {"sentiment", "topic"}
    primary = frame[frame.primary & (frame.split == "test")].set_index("task").score
    assert primary.to_dict() == run.scores["test"]
    assert repr(run).startswith(f"Run('{finished}': sentiment ")
    assert (
        run.load_model(device="cpu").predict_all(["A film."])[0].keys() == run.scores["test"].keys()
    )
    assert run.save("page.html") == Path("page.html").resolve()
    assert run.save("scores.json") and json.loads(Path("scores.json").read_text())["splits"]


def test_a_folder_without_a_run_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(bm.InputError, match=r"^nothing: not a run \(config.toml is missing\)$"):
        bm.Run("nothing")


def test_changes_are_settings_by_key(finished: Path) -> None:
    run = bm.run(
        finished / "config.toml", changes={"training.max_steps": 2, "name": "short", "output": "."}
    )
    assert run.folder == Path("short")
    log = (run.folder / "log.jsonl").read_text().splitlines()
    assert json.loads(log[0])["steps"] == 2


@pytest.mark.parametrize(
    ("asked", "changes", "said"),
    [
        (7, None, "expected the path of a configuration or run, or settings as a dict, found int"),
        ({"name": "a"}, None, "configuration: the key 'tasks' is missing"),
        (
            {"name": "a", "tasks": ["builtin/topic"], "modle": {}},
            None,
            "configuration: unknown key 'modle'; did you mean 'model'?",
        ),
        ("none.toml", None, "none.toml: no such file; `brodmann init` writes one to start from"),
        (
            {"name": "a", "tasks": ["builtin/topic"]},
            "seed=1",
            "changes: expected a dict, or a list of texts, found 'seed=1'",
        ),
    ],
)
def test_wrong_configurations_are_one_line(asked: Any, changes: Any, said: str) -> None:
    with pytest.raises(bm.InputError) as caught:
        bm.run(asked, changes=changes)
    assert str(caught.value) == said
    assert not Path("runs").exists()


def test_compare_takes_a_configuration_or_finished_runs() -> None:
    arms = bm.compare(settings("arms", compare={"arms": ["multi", "single"]}))
    table = arms.to_frame()
    assert set(table.arm) == {"multi", "single"} and "average" in set(table.task)
    assert (Path("runs/arms/report.html")).is_file()
    again = bm.compare([Path("runs/arms/multi-seed0"), bm.Run("runs/arms/single-seed0")])
    both = [
        {row["mean"] for row in found.rows if row["task"] == "topic"} for found in (arms, again)
    ]
    assert both[0] == both[1]


def test_studies_return_rows(finished: Path) -> None:
    grid = bm.grid(settings("grid", grid={"vary": {"seed": [0, 1]}}))
    assert [row["seed"] for row in grid.rows] == [0, 1]
    assert all(0 <= float(row["topic"] or 0) <= 1 for row in grid.rows)
    starts = {"plain": str(finished), "bare": "builtin:tiny"}
    few = {"starts": starts, "examples": [4], "seeds": 2, "epochs": 1}
    transfer = bm.transfer(settings("few", transfer=few))
    assert len(transfer.to_frame()) == 2 * len(starts)
    new = {"tasks": [{"use": "builtin/paraphrase", "limit": LIMIT}]}
    asked = settings("new", adapt={"start": str(finished)}) | new
    del asked["model"]
    adapted = bm.adapt(asked)
    assert {"paraphrase", "sentiment"} <= set(adapted.to_frame().task)
    assert bm.study(settings("any")).verb == "run"


def test_relations_of_runs_and_of_loaded_tasks(finished: Path) -> None:
    by_words = bm.relate(bm.Run(finished), by="words")
    tasks = bm.load_tasks(settings()["tasks"])
    assert bm.relate(tasks).to_frame().equals(by_words.to_frame())
    inside = bm.relate(finished, by="covsim", examples=8).to_frame().set_index("task")
    assert inside.loc["topic", "sentiment"] == pytest.approx(inside.loc["sentiment", "topic"])
    with pytest.raises(bm.InputError) as caught:
        bm.relate(tasks, by="covsim")
    assert str(caught.value) == (
        "loaded tasks relate by 'words' or 'groups'; by = 'covsim' needs a run"
    )


def test_results_are_returned_and_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    tasks = bm.load_tasks(settings()["tasks"])
    found = bm.relate(tasks, progress=True)
    assert capsys.readouterr().out == ""
    assert found.blocks and "Clusters" in found._repr_html_()


def test_plans_of_runs_and_of_recipes(finished: Path) -> None:
    stages = bm.plan(settings("planned")).to_frame().set_index("stage")
    assert stages.loc["training", "seconds"] > 0
    counted = bm.plan("spec-table3", scale="paper").to_frame()
    assert list(counted.recipe) == ["five_tasks"]


def test_prune_export_predict_and_report(finished: Path) -> None:
    small = bm.prune(finished, alpha=0.5, out="small")
    assert {row["task"] for row in small.rows} == {"sentiment", "topic"}
    run = bm.Run(finished)
    answers = [bm.predict(source, ["A film."]) for source in (run, finished, run.load_model())]
    assert answers[0] == answers[1] == answers[2]
    assert bm.predict("small", ["A film."], "topic")[0]["label"]
    assert (bm.export(run.load_model(), "topic", out="stock") / "config.json").is_file()
    with pytest.raises(bm.InputError, match=r"^export: a model in memory has no folder: pass out="):
        bm.export(run.load_model(), "topic")
    assert bm.report([run], out="both.html").path == Path("both.html").resolve()


def test_small_mistakes_are_one_line(finished: Path) -> None:
    tasks = bm.load_tasks(settings()["tasks"])
    model = bm.Run(finished).load_model()
    cases: list[tuple[Any, str]] = [
        (lambda: bm.report([]), "report: expected at least one run, found none"),
        (
            lambda: bm.fit(model, tasks, callbacks=bm.Callback()),  # type: ignore[arg-type]
            "callbacks: expected a list, found one callback: put it in [ ]",
        ),
        (
            lambda: bm.Run(finished).load_model(device=None),  # type: ignore[arg-type]
            "device = None: expected auto, cpu, cuda, cuda:1, mps or xpu",
        ),
        (
            lambda: bm.relate(tasks, pieces=True),
            "pieces: loaded tasks have no backbone: pass a configuration or run",
        ),
    ]
    for call, said in cases:
        with pytest.raises(bm.InputError) as caught:
            call()
        assert str(caught.value) == said


def test_changes_leave_the_callers_dict_alone() -> None:
    asked = settings()
    with pytest.raises(bm.InputError):
        bm.run(asked, changes={"tasks.0.limit.train": 5, "training.nothing": 1})
    assert asked["tasks"][0]["limit"] == LIMIT and "nothing" not in asked["training"]


def test_results_show_themselves_in_notebooks(finished: Path) -> None:
    run = bm.Run(finished)
    assert run.heads is not None and run.dissociation is not None
    page = run._repr_html_()
    assert page.startswith("<iframe srcdoc=") and "atlas-data" in page and len(page) < 100_000
    assert run.heads._repr_html_().count("<svg") == 2
    assert "<td>" in run.dissociation._repr_html_()
    assert repr(run.heads).splitlines()[0].startswith("HeadScores of 3 layers × 4 heads")
    related = bm.relate(run)
    assert "sentiment" in related._repr_html_()
    assert related.save("words.json") == Path("words.json")
    with pytest.raises(bm.InputError, match=r"^words.csv: expected a name that ends in"):
        related.save("words.csv")
    assert related.save("words.html") and related.save("words.html")  # our own page
    Path("thesis.html").write_text("mine")
    with pytest.raises(bm.InputError, match=r"already exists and is not a Brodmann report"):
        related.save("thesis.html")
    assert Path("thesis.html").read_text() == "mine"


def test_hostile_names_are_escaped_in_notebooks() -> None:
    import numpy as np

    scores = bm.HeadScores(("<script>alert(1)</script>",), np.ones((1, 2, 2)))
    assert "<script>" not in scores._repr_html_()
