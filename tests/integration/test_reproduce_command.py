"""`brodmann reproduce`: every recipe is valid at both scales; one a paper runs here."""

import io
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from brodmann.analysis.axes import AXES
from brodmann.data.task_cache import TaskCache
from brodmann.errors import InputError
from brodmann.files import write_json
from brodmann.papers.readers import READERS
from brodmann.papers.recipes import PAPERS, find, index, missing, recipes
from brodmann.papers.reproduce import configured, titles_of
from brodmann.papers.tables import Origin, as_blocks, as_markdown, described
from brodmann.pipeline.train import check_methods
from brodmann.reporting.blocks import Table
from brodmann.reporting.record import Study, read_record
from brodmann.reporting.sections.languages import section as languages
from brodmann.reporting.view_figures import WAYS
from brodmann.studies.cells import cells_of, task_name
from brodmann.terminal.drawing import drawn_blocks
from brodmann.terminal.width import LastingConsole

Command = Callable[..., tuple[int, str, str]]
PARTS = ("-frozen", "-shared", "-single", "-all", "-proportional", "-entropy")  # of a table
SMALL = "limit = { train = 24, validation = 16, test = 8 }"
QUICK = (
    "--set", "model.backbone=builtin:tiny", "--set", "training.epochs=1",
    "--set", "training.precision=float32", "--set", "threads=1",
)  # fmt: skip


IN_TWO_LANGUAGES = "tasks=[" + ", ".join(
    f'{{ use = "builtin/{player}:{language}", name = "{name}-{language}", head = "{name}", '
    f"{SMALL} }}"
    for name, player in (("nli", "topic"), ("pa", "sentiment"))
    for language in ("en", "es")
) + "]"  # fmt: skip


def written(folder: Path, file: str) -> str:
    """Of a recipe that was changed, as those of these tests are."""
    name, _, ending = file.rpartition(".")
    return (folder / "reproduced" / f"{name}-mini-changed.{ending}").read_text("utf-8")


def made(folder: Path, name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(written(folder, f"{name}.json"))
    return document


def tasks(*names: str) -> tuple[str, str]:
    """The recipe's tasks, played by built-in ones."""
    players = ("sentiment", "topic", "acceptability", "opinion", "paraphrase")
    listed = [
        f'{{ use = "builtin/{player}", name = "{name}", {SMALL} }}'
        for name, player in zip(names, players, strict=False)
    ]
    return "--set", f"tasks=[{', '.join(listed)}]"


@pytest.mark.parametrize("scale", ["mini", "paper"])
@pytest.mark.parametrize("recipe", recipes(), ids=lambda recipe: recipe.name)
def test_every_recipe_is_a_valid_configuration(recipe, scale: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    config, _ = configured(recipe, scale, tmp_path, [])
    assert not list(tmp_path.iterdir())  # nothing is left behind
    for cell in cells_of(config) if config.grid is not None else ():
        check_methods(cell.config, cell.command)
    if scale == "paper":
        assert (config.name.endswith("-paper") and config.model.backbone != "builtin:minilm") or (
            not recipe.at_paper_scale or recipe.needs
        )
    for view in recipe.views:
        assert view.reader in READERS and view.shows
        beyond = view.note.startswith("beyond the paper's tables")
        assert (view.name in index()) is not (
            beyond or "-models" in view.name or view.name.endswith(PARTS)
        )
        assert view.figure in ("", *WAYS)
        assert view.figure or "-figure" not in view.name  # a figure is drawn
        assert bool(view.unit) is (view.figure in ("bars", "lines"))  # and its axis has a name
        assert (
            "scale" in view.note or view.name == "spec-table2"
        )  # how ours differs is in the table
    titles_of(recipe, scale, tmp_path)  # as many titles as cases
    for needed in recipe.starts_from(scale):
        assert find(needed)[0].name == needed


def test_views_are_listed_once_and_what_lacks_is_said(command: Command, tmp_path: Path) -> None:
    names = [view.name for recipe in recipes() for view in recipe.views]
    assert len(set(names)) == len(names)
    assert len(index()) == 47
    code, out, err = command("reproduce", "--check")
    lacking = missing()
    assert f"{47 - len(lacking)} of 47" in out
    assert (code == 0) is (not lacking) and all(name in err for name in lacking)
    assert json.loads(command("reproduce", "--check", "--json")[1])["missing"] == lacking
    code, _, err = command("reproduce", "spec-table3", "--check")
    assert code == 2 and "--check covers all tables and figures" in err
    assert command("reproduce", "--scale", "huge")[0] == 2
    code, out, _ = command("reproduce", "--json", "--output", tmp_path)
    rows = {row["name"]: row for row in json.loads(out)}
    assert rows["spec-table3"]["recipe"] == "five_tasks" and rows["spec-table3"]["done"] == []
    with pytest.raises(InputError, match="did you mean 'spec-table3'"):
        find("spec-tabel3")
    with pytest.raises(InputError, match="spec is a paper"):
        find("spec")


def test_differences_and_the_table(tmp_path: Path) -> None:
    recipe, (view,) = find("camtl-table1")
    config, _ = configured(recipe, "mini", tmp_path, [])
    first, *_, last = view.paper
    ours = {first: {"average": 76.0, "task σ": 7.0}, last: {"average": None}}
    origin = Origin("mini", config.portable(), machine={}, changes=[], failed=[], data=[])
    document = described(view, recipe, ours, origin, runs={"one run": "abc"}, weak={})
    assert document["differences"] == {
        first: {"average": pytest.approx(-4.61), "task σ": pytest.approx(-7.41)}
    }
    text = as_markdown(document)
    assert f"| {first} | 76.0 (80.6, −4.6) | 7.0 (14.4, −7.4) |" in text
    assert f"| {last} | – (84.0) | – (10.0) |" in text
    assert "- one run: `abc`" in text


def test_wrong_words_name_the_recipe(tmp_path: Path, command: Command) -> None:
    """Not a file the user has never seen; and nothing is written."""
    for words, expected in (
        (("--set", "training.epochs=x"), "recipe five_tasks: training.epochs = 'x'"),
        (("--set", "traning.epochs=1"), "recipe five_tasks: unknown key 'traning'"),
        (("--data-dir", tmp_path / "none"), f"recipe five_tasks: data_dir = '{tmp_path / 'none'}'"),
        (("--set", "output=else"), "--set output=else: cannot be changed: choose the folder"),
    ):
        code, out, err = command("reproduce", "five_tasks", "--output", tmp_path / "runs", *words)
        assert (code, out) == (2, "") and expected in err and err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_paper_and_a_recipe_have_different_names() -> None:
    assert not {paper.lower() for paper in PAPERS} & {recipe.name for recipe in recipes()}


def test_five_tasks_in_one_run(tmp_path: Path, command: Command) -> None:
    names = ("mnli", "qqp", "qnli", "ag_news", "sst2")
    words = ("reproduce", "five_tasks", "--output", tmp_path, *QUICK, *tasks(*names))
    words += ("--set", "dissociation.draws=1", "--set", "dissociation.resamples=20")
    code, out, err = command(*words, "--set", "map.examples=8")
    assert code == 0, err
    assert "spec-table3" in out and "(83.9, " in out
    table = made(tmp_path, "spec-table3")
    assert set(table["ours"]["base"]) == set(names)
    (label, fingerprint), *others = table["runs"].items()
    assert (tmp_path / "cells" / fingerprint / "model").is_dir() and not others
    assert label == "+".join(names)
    drawn = written(tmp_path, "spec-figure4.svg")
    assert drawn.startswith("<?xml") and "ag_news" in drawn
    assert "spec-figure4-mini-changed.svg" in written(tmp_path, "spec-figure4.md")
    assert table["differences"]["base"]["mnli"] == pytest.approx(
        table["ours"]["base"]["mnli"] - 83.91
    )
    code, out, _ = command("reproduce", "--output", tmp_path, "--json")
    rows = {row["name"]: row for row in json.loads(out)}
    assert rows["spec-table10"]["done"] == [] and rows["spec-table10"]["changed"] == ["mini"]
    assert rows["spec-table6"]["changed"] == rows["spec-table6"]["begun"] == []
    (tmp_path / "transfer").mkdir()  # as its first run does
    rows = json.loads(command("reproduce", "--output", tmp_path, "--json")[1])
    assert {row["name"] for row in rows if row["begun"]} == {"spec-table6"}
    text = written(tmp_path, "spec-table3.md")
    assert "**Not the recipe as it is**: changed by `--set model.backbone=builtin:tiny`" in text


def test_a_recipe_is_planned_here_and_then_what_it_took(tmp_path: Path, command: Command) -> None:
    small = (*QUICK, *tasks("qnli", "sst2"), "--set", "map.examples=8", "--output", tmp_path)
    code, out, err = command("plan", "sst2_qnli", "--data-dir", tmp_path, *small, "--json")
    assert (code, err) == (0, "")
    plan = json.loads(out)
    assert plan["runs"] == 3 and plan["calibrated"] == 1 and plan["reached"] is None
    assert command("reproduce", "sst2_qnli", "--data-dir", tmp_path, *small)[0] == 0
    code, out, _ = command("plan", "sst2_qnli", "--data-dir", tmp_path, *small, "--json")
    found = json.loads(out)
    assert found["reached"] > 0 and found["seconds"] == plan["seconds"]
    stages = {"training", "evaluation", "map of heads", "dissociation"}
    assert all(set(cell["took"]) == stages for cell in found["cells"])
    code, _, err = command("plan", tmp_path / "none.toml", "--data-dir", tmp_path)
    assert code == 2 and "--data-dir is only for a recipe" in err


def test_starts_with_other_settings_are_a_change(tmp_path: Path, command: Command) -> None:
    """What was only tried out does not pass into a table that is called done; and what a table was
    computed from are its starts, not all that stands beside them."""
    small = (*QUICK, "--output", tmp_path)
    words = ("reproduce", "spec-table6", "--output", tmp_path, "--scale", "paper")
    code, _, err = command(*words)
    assert code == 2 and "`brodmann reproduce iat --scale paper`" in err
    arms = ("--set", "compare.arms=['multi', 'iat', 'random']", "--set", "compare.seeds=[0]")
    quick = ("--set", "map.examples=8", "--set", "specialize.examples=8")
    assert command("reproduce", "iat", *small, *arms, *quick, *tasks("a", "b"))[0] == 0
    few = ("--set", "transfer.examples=[4]", "--set", "transfer.seeds=1")
    few += ("--set", "transfer.epochs=1", *tasks("scitail", "imdb"))
    code, _, err = command("reproduce", "spec-table6", *small, *few)
    assert code == 0, err
    document = made(tmp_path, "spec-table6")
    assert document["changes"][-1] == "the starts: iat was run with other settings"
    assert {k.partition(": ")[2] for k in document["runs"] if ": " in k} == {
        "multi-seed0", "iat-seed0",
    }  # fmt: skip
    words = ("plan", "spec-table6", "--data-dir", tmp_path, "--output", tmp_path / "none")
    code, _, err = command(*words)
    assert code == 2 and "transfer starts from iat" in err


def test_brain_data_are_asked_for_before_anything_is_trained(
    tmp_path: Path, command: Command
) -> None:
    (tmp_path / "five-tasks").mkdir()
    cells = [{"state": "done", "fingerprint": "abc", "label": "one"}]
    write_json(tmp_path / "five-tasks" / "grid.json", {"cells": cells})
    code, _, err = command("reproduce", "spec-figure3", "--output", tmp_path, *QUICK)
    assert code == 2 and "needs the voxels of Pereira et al. 2018" in err
    assert not (tmp_path / "five-single").exists()


def test_a_damaged_table_does_not_hide_the_others(tmp_path: Path, command: Command) -> None:
    (tmp_path / "reproduced").mkdir()
    (tmp_path / "reproduced" / "spec-table3-mini.json").write_text("{", encoding="utf-8")
    code, out, _ = command("reproduce", "--output", tmp_path, "--json")
    rows = {row["name"]: row for row in json.loads(out)}
    assert code == 0 and rows["spec-table3"]["failed"] == ["mini"] and len(rows) > 50


def test_failed_runs_are_said(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them, or some: no table is called done, and what starts from them says so."""
    import brodmann.studies.one_run as module

    genuine = module.run

    def broken(config: Any, *given: Any, **options: Any) -> Any:
        if len(config.tasks) > 2 or task_name(config.tasks[1]) == "c":
            raise RuntimeError("the disk caught fire")
        return genuine(config, *given, **options)

    monkeypatch.setattr(module, "run", broken)
    words = ("reproduce", "five_tasks", "--output", tmp_path, *QUICK, *tasks("a", "b", "c"))
    code, _, err = command(*words)
    assert code == 1 and "every run failed (RuntimeError: the disk caught fire)" in err
    code, _, err = command("reproduce", "spec-figure5", "--output", tmp_path)
    assert code == 2 and "five_single starts from five_tasks" in err
    words = ("reproduce", "spec-table9", "--output", tmp_path, *QUICK, *tasks("a", "b", "c"))
    code, _, err = command(*words, "--set", "map.examples=8")
    assert code == 1 and "2 runs failed" in err
    text = written(tmp_path, "spec-table9.md")
    assert "**Without 2 runs that failed.**" in text
    rows = json.loads(command("reproduce", "--output", tmp_path, "--json")[1])
    assert all(row["done"] == [] and row["changed"] == [] for row in rows)


def test_what_cannot_be_read_is_one_line(tmp_path: Path, command: Command) -> None:
    """Before the first cell of a grid: no folder, no table of failures."""
    words = ("reproduce", "five_tasks", "--output", tmp_path / "runs")
    code, out, err = command(*words)
    assert code == 2 and "no such file" in err and "datasets: --data-dir FOLDER" in err
    wrong = ("--set", "model.backbone=builtin:nope")
    code, out, err = command(*words, *tasks("a", "b"), *wrong)
    assert (code, out) == (2, "") and "unknown backbone 'builtin:nope'" in err
    assert err.count("\n") == 1 and not list(tmp_path.iterdir())
    code, _, err = command(*words, "--set", "recipe.paper=X")
    assert code == 2 and "the [recipe] table cannot be changed" in err


def test_words_in_common_take_no_training(tmp_path: Path, command: Command) -> None:
    words = ("reproduce", "hmnet-table2", "--output", tmp_path, *tasks("a", "b", "c"))
    code, _, err = command(*words, "--limit", "9")
    assert code == 0, err
    text = written(tmp_path, "hmnet-table2.md")
    assert "Computed from the data, without any run." in text
    assert "tasks.2.limit={ train = 9, validation = 9, test = 9 }" in text
    assert not (tmp_path / "cells").exists()


def test_what_was_changed_takes_nobodys_place(tmp_path: Path, command: Command) -> None:
    own = tmp_path / "reproduced" / "hmnet-table2-mini.json"
    write_json(own, {"failed": [], "changes": []})
    words = ("reproduce", "hmnet-table2", "--output", tmp_path, *tasks("a", "b"))
    assert command(*words)[0] == 0
    assert json.loads(own.read_text())["changes"] == []
    rows = json.loads(command("reproduce", "--output", tmp_path, "--json")[1])
    assert {row["name"]: row["done"] for row in rows}["hmnet-table2"] == ["mini"]


def test_wide_tables_are_printed_in_parts() -> None:
    _, (view,) = find("mesh-table1")
    ours = {arm: dict.fromkeys(row, 33.3) for arm, row in view.paper.items()}
    document = {"view": asdict(view), "ours": ours, "hardly_learnt": {"pa-en": "3 of 3 runs"}}
    document |= {"failed": [], "data": []}
    document["changes"] = ["seed=3", "the starts: iat was run with other settings"]
    to = io.StringIO()
    console = LastingConsole(file=to, width=80, force_terminal=True, color_system=None)
    for part in drawn_blocks(as_blocks(document)):
        console.print(part, highlight=False)
    text = to.getvalue()
    assert "…" not in text and text.count("random_only") > 1
    paper = view.paper["random_only"]
    for task in (column for column in paper if not column.endswith(" ±")):
        theirs, spread = paper[task], paper[f"{task} ±"]
        cell = f"33.3 ± 33.3 ({theirs:.1f} ± {spread:.1f}, {33.3 - theirs:+.1f})"
        assert task in text and cell in text and f"{task} ±" not in text
    assert "pa-en (3 of 3 runs)" in text
    words = "Not the recipe as it is: changed by `--set seed=3`; the starts: iat was run with other"
    assert words in " ".join(text.split())


def test_parts_of_ca_mtl(tmp_path: Path, command: Command) -> None:
    words = ("reproduce", "camtl-table1", "--output", tmp_path, *QUICK, *tasks("a", "b"))
    code, out, err = command(*words, "--set", "grid.vary={seed=[0]}", "--json")
    assert code == 0, err
    (document,) = json.loads(out)
    control = "control: all modules, one embedding for all tasks"  # not the paper's
    assert set(document["ours"]) == {*document["view"]["paper"], control}


def test_examples_over_training_stand_beside_the_difficulty_of_the_data(
    tmp_path: Path, command: Command
) -> None:
    words = ("reproduce", "camtl-figure8", "--output", tmp_path, *QUICK, *tasks("a", "b"))
    cells = 'grid.vary={seed=[0], "training.sampling"=["uncertainty"]}'
    code, out, err = command(*words, "--set", cells, "--json")
    assert code == 0, err
    (document,) = json.loads(out)
    rows = document["ours"]
    assert list(rows["uncertainty: a"]) == ["to step 2", "peak at step", "difficulty"]
    assert 0.6 < rows["uncertainty: a"]["difficulty"] < rows["uncertainty: b"]["difficulty"]
    drawn = written(tmp_path, "camtl-figure8.svg")
    assert "to step 2" in drawn and "difficulty" not in drawn  # which is no point of a line


def test_relevance(tmp_path: Path, command: Command) -> None:
    words = ("reproduce", "hmnet_relevance", "--output", tmp_path, *QUICK, *tasks("a", "b", "c"))
    code, out, err = command(*words)
    assert code == 0, err
    for name in ("hmnet-table2", "hmnet-table3", "hmnet-figure2", "hmnet-figure5", "hmnet-figure6"):
        assert name in out
    document = made(tmp_path, "hmnet-figure5")
    assert all(-1 <= v <= 1 + 1e-6 for row in document["ours"].values() for v in row.values())


def test_rows_of_mesh(tmp_path: Path, command: Command) -> None:
    words = ("reproduce", "mesh_table1", "--output", tmp_path, *QUICK, "--set", IN_TWO_LANGUAGES)
    words += ("--set", "compare.seeds=[0]", "--set", "map.examples=8")
    words += ("--set", "dissociation.resamples=20", "--set", "specialize.examples=8")
    code, _, err = command(*words)
    assert code == 0, err
    document = made(tmp_path, "mesh-table1")
    # The paper's second row prunes and then trains for ten epochs.
    rows = {"multi", "off_least_tuned", "random_only", "ticket_share"}
    assert set(document["differences"]) == rows and "off_least" in document["ours"]
    rows = made(tmp_path, "mesh-languages")["ours"]
    assert list(rows) == [*AXES] and 0 < rows[AXES[0]]["p, seed 0"] <= 1
    document = json.loads(
        (tmp_path / "reproduced" / "mesh-languages-mini-changed.json").read_text()
    )
    assert list(document["runs"]) == ["multi, seed 0"]
    assert document["hardly_learnt"]["nli-en"] == "1 of 1 runs"  # one epoch of the tiny model
    text = written(tmp_path, "mesh-languages.md")
    assert "Hardly learnt" in text and "nli-en (1 of 1 runs)" in text
    run = read_record(tmp_path / "mesh-table1" / "multi-seed0")
    (table,) = [block for block in languages(Study("t", [run])).blocks if isinstance(block, Table)]
    for kind, _, overlap, *_ in table.rows:  # what the run's own report says
        assert f"{rows[kind]['overlap (%)']:.1f}" == overlap


def test_meta_learning_of_mesh(tmp_path: Path, command: Command) -> None:
    words = ("reproduce", "mesh_meta", "--output", tmp_path, *QUICK, "--set", IN_TWO_LANGUAGES)
    words += ("--set", "meta.unseen=['nli-es']", "--set", "meta.tuning='pa-es'")
    words += ("--set", "meta.steps=2", "--set", "meta.pairs=2", "--set", "meta.seeds=2")
    words += ("--set", "meta.support=4", "--set", "meta.query=4", "--set", "meta.shots=[2, 4]")
    words += ("--set", "meta.draws=2")
    code, out, err = command(*words, "--set", "meta.curve=[0, 1]")
    assert code == 0, err
    assert "mesh-unseen-pairs" in out
    document = json.loads(
        (tmp_path / "reproduced" / "mesh-unseen-pairs-mini-changed.json").read_text()
    )
    rows = document["ours"]
    assert list(rows)[:3] == ["pretrained", "multitask", "meta"] and len(rows) == 7
    result = json.loads((tmp_path / "mesh-meta" / "meta.json").read_text())
    last = result["pairs"]["nli-es"]["table"][-1]
    assert (last["shots"], last["steps"]) == (4, 1)
    column = "nli-es, 1 steps"
    assert rows["meta"][column] == pytest.approx(100 * last["starts"]["meta"]["mean"][0])
    ahead, low = last["differences"]["multitask"]["mean"], last["differences"]["multitask"]["low"]
    assert rows["meta less multitask"][column] == pytest.approx(100 * ahead)
    half = rows["meta less multitask, 95 % ±"][column]
    # Two seeds that differ alike have no interval.
    assert half == (None if low is None else pytest.approx(100 * (ahead - low)))


def test_ray_is_for_grids(tmp_path: Path, command: Command) -> None:
    code, _, err = command("reproduce", "iat", "--output", tmp_path, "--engine", "ray")
    assert code == 2 and "--engine ray only runs grids: iat is not a grid" in err


def test_what_starts_from_other_runs_says_so(tmp_path: Path, command: Command) -> None:
    code, _, err = command("reproduce", "spec-table6", "--output", tmp_path)
    assert code == 2 and "transfer starts from iat: `brodmann reproduce iat`" in err
    config, _ = configured(find("transfer")[0], "paper", tmp_path / "elsewhere", [])
    assert config.transfer is not None
    assert config.transfer.starts["iat"] == f"{tmp_path}/elsewhere/iat-paper/iat-seed0"


@pytest.mark.parametrize(
    ("name", "needed", "teacher"),
    [
        ("glue_models", "iat", "iat-paper/multi-seed{seed}"),
        ("glue_single", "iat", "iat-paper/single-seed{seed}"),
        ("glue_models_proportional", "iat_proportional", "iat-proportional-paper/multi-seed{seed}"),
        ("pairs_models", "pairs", "pairs-paper"),
    ],
)
def test_tinybert_is_distilled_at_the_papers_scale(
    tmp_path: Path, command: Command, name: str, needed: str, teacher: str
) -> None:
    code, _, err = command("reproduce", name, "--output", tmp_path, "--scale", "paper")
    words = f"{name} starts from {needed}: `brodmann reproduce {needed} --scale paper`"
    assert (code, err) == (2, f"brodmann: {words}\n")
    config, _ = configured(find(name)[0], "paper", tmp_path, [])
    students = [cell.config for cell in cells_of(config) if cell.command == "distill"]
    assert students
    for student in students:
        section = student.distill
        assert section is not None and section.teacher == f"{tmp_path}/{teacher}"
        assert section.student == student.model.backbone == "huawei-noah/TinyBERT_General_6L_768D"
        assert (section.layer_epochs, section.prediction_epochs) == (2, 3)
    others = {cell.config.model.backbone for cell in cells_of(config) if cell.command == "run"}
    assert "huawei-noah/TinyBERT_General_6L_768D" not in others and "roberta-base" in others
    mini, _ = configured(find(name)[0], "mini", tmp_path, [])
    assert not any(cell.command == "distill" for cell in cells_of(mini))


def test_a_corpus_that_was_measured_on_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`brodmann relate RUN --by dse --corpus FILE`, then the table: it says which sentences."""
    from brodmann.papers.recipe_relations import related

    recipe, _ = find("five_single")
    config, base = configured(recipe, "mini", tmp_path, [])
    monkeypatch.setattr("brodmann.pipeline.train.train", lambda *_, **__: None)
    write_json(tmp_path / "five-tasks" / "grid.json", {"cells": []})
    about = {"name": "wiki.txt", "sentences": 5000, "digest": "x"}
    measured = {"tasks": ["a", "b"], "dse": {"matrix": [], "examples": 1000, "corpus": about}}
    write_json(config.folder / "similarity.json", measured)
    found = related(recipe, config, base, lambda *_: None, ("dse",), TaskCache())
    assert found["dse"]["dse"] == measured["dse"]
    assert found["notes"] == ["dse: 1,000 sentences of wiki.txt"]


def test_statistics_take_no_training(tmp_path: Path, command: Command) -> None:
    words = ("reproduce", "statistics", "--output", tmp_path, *tasks("cola", "sst2"), "--json")
    code, out, err = command(*words)
    assert code == 0, err
    first, second = json.loads(out)
    assert first["ours"]["cola"] == {"classes": 2, "training examples": 24}
    assert second["ours"]["BERT-base"]["heads"] == 144 and first["runs"] == second["runs"] == {}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["reproduced"]
    text = written(tmp_path, "spec-table2.md")
    assert "Computed from the data, without any run." in text
    assert command("reproduce", "spec-table2", "--output", tmp_path / "x")[0] == 0  # without data


def test_a_new_task_after_a_trained_start(tmp_path: Path, command: Command) -> None:
    quick = (*QUICK, "--output", tmp_path)
    words = (*quick, *tasks("qnli", "sst2"))
    code, _, err = command("reproduce", "ca_mtl_trained", *words)
    assert code == 2 and "starts from single_trained: `brodmann reproduce single_trained`" in err
    documents = {}
    for recipe in ("single_trained", "ca_mtl_trained"):
        code, out, err = command("reproduce", recipe, *words, "--json")
        assert code == 0, err
        (documents[recipe],) = json.loads(out)
    scores, gains = documents["single_trained"]["ours"], documents["ca_mtl_trained"]["ours"]
    metrics = json.loads((tmp_path / "ca-mtl-trained" / "metrics.json").read_text())
    for task, row in gains.items():
        score = 100 * metrics["splits"]["validation"][task]["score"]
        assert row["gain"] == pytest.approx(score - scores[task]["score"])
    assert "single_trained: single-trained" in documents["ca_mtl_trained"]["runs"]
    later = [word for word in quick if "backbone" not in str(word)]
    later.remove("--set")
    listed = 'tasks=[{ use = "builtin/paraphrase", name = "scitail", ' + SMALL + " }]"
    groups = ("--set", 'grid.groups=[["scitail"]]', "--set", "grid.vary={seed=[0]}")
    like = ("--set", 'adapt.like={scitail="qnli"}')
    code, out, err = command("reproduce", "new_tasks", *later, "--set", listed, *groups, *like)
    assert code == 0, err
    assert "camtl-table8" in out and "camtl-table3" in out
    document = made(tmp_path, "camtl-table3")
    assert list(document["ours"]["trained"]) == ["scitail, 10 %", "scitail"]
    assert len([run for run in document["runs"] if run.startswith("scitail")]) == 1
    assert set(document["differences"]["trained"]) == {"scitail, 10 %", "scitail"}
