"""Readers of recipes: the papers' own columns, read by ours, give the papers' own averages, counts
and dissociation scores."""

from typing import Any

import pytest

from brodmann.data.task_cache import TaskCache
from brodmann.papers.readers import READERS
from brodmann.papers.readers.common import SPREAD
from brodmann.papers.readers.of_scores import AT_LEAST_ALONE
from brodmann.papers.readers.parameter_counts import SIZES
from brodmann.papers.recipes import View, find, recipes
from brodmann.papers.tables import beside, cell_text, how_to_read, shown_columns

APART = {"average", SPREAD, AT_LEAST_ALONE, "glue", "superglue", "mrqa", *SIZES}
SCORES = ("case_scores", "case_scores_and_sizes", "case_scores_and_millions")
MISPRINTED = {  # (view, row): the paper's average does not follow from its own scores
    ("camtl-table2", "adapters, large"),
    ("hmnet-table1", "HMNet, by groups"),
    ("hmnet-table1", "HMNet, by pairs"),
}


def splits(row: dict[str, float | None]) -> dict[str, Any]:
    """A run with a paper's scores."""
    found: dict[str, Any] = {"validation": {}, "validation_mismatched": {}}
    for column, value in row.items():
        if column not in APART and value is not None:
            matched = not column.endswith("-mm")
            split = found["validation" if matched else "validation_mismatched"]
            split[column.removesuffix("-mm")] = {"score": value / 100}
    return found


def grid_of(view: View, **more: Any) -> dict[str, Any]:
    """A grid whose cases are the paper's rows."""
    cells, titles = [], {}
    for number, (title, row) in enumerate(view.paper.items()):
        cell = splits(row)
        varied = {"tasks": sorted(cell["validation"]), "case": number, "seed": 0}
        cells.append({"state": "done", "varied": varied, "splits": cell})
        titles[f'{{"case": {number}}}'] = title
    return {"cells": cells, "titles": titles, **more}


def comparison_of(view: View) -> dict[str, Any]:
    runs = {arm: [splits(row)] for arm, row in view.paper.items()}
    tasks = sorted({task for (run,) in runs.values() for task in run["validation"]})
    return {
        "arms": {arm: {"seeds": [0]} for arm in runs},
        "tasks": tasks,
        "splits": runs,
        "baseline": "multi",
    }


WHOLE = [
    view
    for recipe in recipes()
    for view in recipe.views
    if view.reader in (*SCORES, "arm_scores")
    and all("average" in row and len(row) > 8 for row in view.paper.values() if "mnli" in row)
    and any("mnli" in row for row in view.paper.values())
]


@pytest.mark.parametrize("view", WHOLE, ids=lambda view: view.name)
def test_the_papers_scores_have_the_papers_average(view: View) -> None:
    """Which counts MNLI's two sets as two."""
    given = grid_of(view) if view.reader in SCORES else comparison_of(view)
    whole = {row: columns for row, columns in view.paper.items() if "mnli" in columns}
    if len(whole) < len(view.paper):  # one row has an average alone
        given = grid_of(View(view.name, view.shows, view.reader, whole))
    ours = READERS[view.reader](given)
    for row, columns in whole.items():
        if (view.name, row) not in MISPRINTED:
            assert ours[row]["average"] == pytest.approx(columns["average"], abs=0.08), row
        assert ours[row]["mnli-mm"] == pytest.approx(columns["mnli-mm"])


def test_there_are_such_tables_of_three_papers() -> None:
    assert {view.name.partition("-")[0] for view in WHOLE} == {"spec", "camtl", "hmnet"}
    assert len(WHOLE) >= 10


@pytest.mark.parametrize("name", ["camtl-table2", "camtl-table10"])
def test_tasks_that_do_not_lose_by_sharing(name: str) -> None:
    """The paper's counts, of nine; two of them do not follow from its own columns."""
    _, (view,) = find(name)
    ours = READERS[view.reader](grid_of(view))
    counted = {row: columns.get(AT_LEAST_ALONE) for row, columns in ours.items()}
    printed = {row: columns.get(AT_LEAST_ALONE) for row, columns in view.paper.items()}
    if name == "camtl-table10":
        printed |= {"25 % frozen": 5, "50 % frozen, full blocks": 1}  # where it prints 6 and 0
    assert counted == printed


def test_benchmarks_are_averaged_as_the_paper_does() -> None:
    """GLUE with MNLI's two sets and without WNLI: 86.6."""
    _, (view,) = find("camtl-table9-all")
    tasks = ["cola", "mnli", "mrpc", "qnli", "qqp", "rte", "sst2", "stsb", "wnli"]
    given = grid_of(view, benchmarks={"glue": tasks, "superglue": ["boolq"]})
    for cell in given["cells"]:
        cell["splits"]["validation"] |= {"wnli": {"score": 0.1}, "boolq": {"score": 0.7}}
    ours = READERS["largest_group"](given)
    for row, columns in view.paper.items():
        assert ours[row]["glue"] == pytest.approx(columns["glue"], abs=0.08)
        assert ours[row]["superglue"] == pytest.approx(70) and ours[row]["wnli"] == 10
        expected = (9 * ours[row]["glue"] + 70) / 10  # type: ignore[operator]
        assert ours[row]["average"] == pytest.approx(expected)


def test_tasks_improved_are_counted_with_both_sets_of_mnli() -> None:
    _, (view,) = find("spec-table13")
    ours = READERS["arm_averages"](comparison_of(view))
    assert ours["iat"]["tasks improved"] == 8  # of nine, as Table 7 has it (STS-B is as good)
    assert "tasks improved" not in ours["multi"]


def test_averages_have_a_spread_and_counts_are_whole() -> None:
    def run(score: float) -> dict[str, Any]:
        return {"validation": {"a": {"score": score}, "left out": {"score": 0.1}}}

    found = {
        "arms": {"multi": {"seeds": [0, 1]}, "iat": {"seeds": [0]}},
        "tasks": ["a"],
        "baseline": "multi",
        "splits": {"multi": [run(0.79), run(0.81)], "iat": [run(0.9)]},
    }
    ours = READERS["arm_scores"](found)
    assert ours["iat"] == {"a": 90.0, "average": 90.0}  # one seed has no spread
    assert ours["multi"]["average"] == pytest.approx(80)
    assert ours["multi"][SPREAD] == pytest.approx(1.414, abs=1e-3)
    improved = READERS["arm_averages"](found)["iat"]["tasks improved"]
    assert (beside(improved, 8), beside(improved, None)) == ("1 (8, −7)", "1")
    arms = {"multi": {"seeds": [0, 1], "dissociation": [0.1, 0.02]}, "iat": {"seeds": [0]}}
    assert READERS["arm_dissociation"]({"arms": arms}) == {"multi": {"D": 10.0, SPREAD: 2.0}}
    cells = [
        {"state": "done", "varied": {"seed": seed}, "splits": {"validation": {"a": {"score": s}}}}
        for seed, s in enumerate((0.5, 0.7))
    ]
    (row,) = READERS["case_scores"]({"cells": cells}).values()
    assert row["average"] == pytest.approx(60) and row[SPREAD] == pytest.approx(14.142, abs=1e-3)
    (alone,) = READERS["case_scores"]({"cells": cells[:1]}).values()
    assert SPREAD not in alone


def test_a_pair_with_the_papers_scores_has_the_papers_d() -> None:
    """Table 4 of Li et al. 2023, from its accuracies."""
    from brodmann.analysis import dissociation_scores

    _, (view,) = find("spec-table4")
    for pair, row in view.paper.items():
        values = {column: value / 100 for column, value in row.items() if value is not None}
        base = [values["A"], values["B"]]
        performance = [[values[f"{i} without {j}"] for j in "AB"] for i in "AB"]
        scores = dissociation_scores(performance, base)
        names = pair.split("+")
        measured = {
            "tasks": names,
            "base": base,
            "performance": performance,
            "per_task": list(scores.per_task),
            "mean": scores.mean,
        }
        cell = {"state": "done", "varied": {"tasks": names}, "dissociation": measured}
        ours = READERS["dual_task_scores"]({"cells": [cell]})[pair]
        assert ours == pytest.approx(row, abs=0.02)


def test_models_are_rows_and_pairs_columns() -> None:
    """Figure 2 and Table 9: D is the mean of both tasks'; the last column the mean over pairs."""
    _, (figure,) = find("spec-figure2-models")
    _, (table,) = find("spec-table9-models")
    cells, titles = [], {}
    for number, (model, row) in enumerate(table.paper.items()):
        titles[f'{{"case": {number}}}'] = model
        for pair in {column.partition(", ")[0]: None for column in row}:
            both = [row[f"{pair}, {task}"] / 100 for task in "AB"]  # type: ignore[operator]
            measured = {"mean": sum(both) / 2, "per_task": both}
            varied = {"tasks": pair.split("+"), "case": number}
            cells.append({"state": "done", "varied": varied, "dissociation": measured})
    grid = {"cells": cells, "titles": titles}
    ours = READERS[figure.reader](grid)
    for model, columns in figure.paper.items():
        assert ours[model] == pytest.approx(columns, abs=0.06), model
    again = READERS[table.reader](grid)
    assert again == {model: pytest.approx(row) for model, row in table.paper.items()}


def pair_cell(seed: int, per_task: list[float | None]) -> dict[str, Any]:
    """A run of the pair a + b; earlier versions stored the mean over the tasks with a D."""
    defined = [d for d in per_task if d is not None]
    reasons = {n: "its base score is 0" for n, d in zip("ab", per_task, strict=True) if d is None}
    measured = {
        "tasks": ["a", "b"],
        "per_task": per_task,
        "pairwise": [[None, per_task[0]], [per_task[1], None]],
        "mean": sum(defined) / len(defined) if defined else None,
        "undefined": reasons,
    }
    varied = {"tasks": ["a", "b"], "seed": seed}
    label = f"a+b seed={seed}"
    return {"label": label, "state": "done", "varied": varied, "dissociation": measured}


def test_an_undefined_d_is_no_number_of_a_pair() -> None:
    """12.5 would be the D of task a alone."""
    grid = {"cells": [pair_cell(0, [0.125, None])]}
    assert READERS["pair_dissociation"](grid) == {"a+b": {"D": None}, "average": {"D": None}}
    assert READERS["dual_task"](grid) == {"a+b": {"D_A": 12.5, "D_B": None}}
    assert READERS["case_dissociation"](grid) == {"as configured": {"D": None}}
    arms = {"multi": {"seeds": [0], "dissociation": None, "undefined": {"multi-seed0": "x"}}}
    assert READERS["arm_dissociation"]({"arms": arms}) == {"multi": {"D": None}}


def test_means_over_seeds_leave_out_runs_without_a_d_and_say_so() -> None:
    from brodmann.papers.reproduce import undefined_runs
    from brodmann.papers.tables import left_out

    cells = [pair_cell(0, [0.1, 0.3]), pair_cell(1, [0.5, None]), pair_cell(2, [0.2, 0.2])]
    grid = {"cells": cells}
    assert READERS["pair_dissociation"](grid)["a+b"]["D"] == pytest.approx(20)
    both = READERS["dual_task"](grid)["a+b"]
    assert (both["D_A"], both["D_B"]) == pytest.approx((80 / 3, 25))
    row = READERS["case_dissociation"](grid)["as configured"]
    assert row == pytest.approx({"D": 20.0, SPREAD: 0.0}, abs=1e-9)
    assert READERS["pairwise_dissociation"](grid)["a"]["b"] == pytest.approx(25)
    reasons = undefined_runs(grid)
    assert reasons == {"a+b seed=1": "b: its base score is 0"}
    document = {"undefined": reasons, "runs": dict.fromkeys("xyz", "")}
    assert left_out(document) == (
        "D is undefined in 1 of 3 runs, which means leave out: a+b seed=1 (b: its base score is 0)."
    )
    document = {"undefined": {"x": "why"}, "runs": {"x": ""}}
    assert left_out(document) == "D is undefined in the only run: x (why)."


def cell(seed: int, tasks: list[str], **measured: Any) -> dict[str, Any]:
    return {
        "state": "done",
        "varied": {"tasks": tasks, "seed": seed},
        "dissociation": {"tasks": tasks, **measured},
    }


def test_dissociation_has_its_spread_over_seeds_in_every_view() -> None:
    """Pairs, both tasks of a pair, Table 4, Table 3, Tables 10 and 11."""
    tasks = ["mnli", "qqp"]
    values: list[dict[str, Any]] = [
        {"mean": 0.10, "per_task": [0.08, 0.12], "base": [0.8, 0.9], "random": [0.7, 0.8],
         "performance": [[0.6, 0.7], [0.8, 0.5]], "pairwise": [[None, 0.08], [0.12, None]],
         "overlap": [[1.0, 0.5], [0.5, 1.0]], "heads_per_layer": [[1, 3], [3, 1]]},
        {"mean": 0.14, "per_task": [0.10, 0.18], "base": [0.82, 0.9], "random": [0.7, 0.8],
         "performance": [[0.62, 0.7], [0.8, 0.5]], "pairwise": [[None, 0.10], [0.18, None]],
         "overlap": [[1.0, 0.7], [0.7, 1.0]], "heads_per_layer": [[2, 2], [3, 1]]},
    ]  # fmt: skip
    grid = {"cells": [cell(seed, tasks, **found) for seed, found in enumerate(values)]}
    root = 2**0.5  # two values d apart have a standard deviation of d / √2
    assert READERS["pair_dissociation"](grid) == {
        row: pytest.approx({"D": 12.0, SPREAD: 4 / root}) for row in ("mnli+qqp", "average")
    }
    both = {"D_A": 9.0, "D_A ±": 2 / root, "D_B": 15.0, "D_B ±": 6 / root}
    assert READERS["dual_task"](grid) == {"mnli+qqp": pytest.approx(both)}
    (model,) = READERS["dual_task_by_model"](grid).values()
    assert model == pytest.approx(
        {"mnli+qqp, A": 9.0, "mnli+qqp, A ±": 2 / root, "mnli+qqp, B": 15.0,
         "mnli+qqp, B ±": 6 / root}
    )  # fmt: skip
    (row,) = READERS["pair_dissociation_by_model"](grid).values()
    assert row["mnli+qqp ±"] == row["average ±"] == pytest.approx(4 / root)
    scores = READERS["dual_task_scores"](grid)["mnli+qqp"]
    assert (scores["A ±"], scores["A without A ±"]) == pytest.approx((2 / root, 2 / root))
    assert (scores["B ±"], scores["D ±"]) == pytest.approx((0.0, 4 / root))
    pairwise = READERS["pairwise_dissociation"](grid)["qqp"]
    assert pairwise == pytest.approx({"mnli": 9.0, "mnli ±": 2 / root, "qqp": None})
    overlap = READERS["overlapping_heads"](grid)["mnli"]
    assert overlap == pytest.approx({"mnli": None, "qqp": 60.0, "qqp ±": 20 / root})
    pruned = READERS["pruned_scores"](grid)
    assert pruned["without mnli"]["mnli ±"] == pytest.approx(2 / root)
    assert pruned["D"]["qqp ±"] == pytest.approx(6 / root)
    layers = READERS["heads_per_layer"](grid)
    assert layers["mean"] == {"layer 0": 2.25, "layer 1": 1.75}
    assert layers["σ"] == {"layer 0": 0.75, "layer 1": 0.75}  # of the means over seeds
    one = {"cells": grid["cells"][:1]}  # one seed has no spread
    assert READERS["dual_task"](one) == {"mnli+qqp": {"D_A": 8.0, "D_B": 12.0}}
    assert READERS["pair_dissociation"](one)["average"] == {"D": 10.0}


def test_a_spread_is_over_the_runs_that_have_a_d() -> None:
    found = [[0.1, 0.1], [0.4, None], [0.2, 0.2]]
    grid = {"cells": [pair_cell(seed, per_task) for seed, per_task in enumerate(found)]}
    pairs = READERS["pair_dissociation"](grid)
    expected = {"D": 15.0, SPREAD: 10 / 2**0.5}
    assert pairs == {row: pytest.approx(expected) for row in ("a+b", "average")}
    both = READERS["dual_task"](grid)["a+b"]
    assert (both["D_A ±"], both["D_B ±"]) == pytest.approx((15.275, 10 / 2**0.5), abs=1e-3)
    alone = READERS["dual_task"]({"cells": grid["cells"][:2]})["a+b"]
    assert "D_A ±" in alone and "D_B ±" not in alone  # one run has no spread


def test_the_papers_pairs_have_the_papers_averages_by_paradigm() -> None:
    """§6.2 of Li et al. 2023, from its Figure 2."""
    _, (figure,) = find("spec-figure2")
    _, (view,) = find("spec-paradigms")
    described = {
        "mnli": {"use": "glue/mnli"}, "qqp": "glue/qqp", "qnli": {"text_pair": "sentence"},
        "ag_news": "ag_news", "sst2": {"use": "glue/sst2"},
    }  # fmt: skip
    cells = []
    for pair, row in figure.paper.items():
        if pair != "average":
            one = cell(0, pair.split("+"), mean=row["D"] / 100)  # type: ignore[operator]
            one["configuration"] = {"tasks": [described[name] for name in pair.split("+")]}
            cells.append(one)
    ours = READERS[view.reader]({"cells": cells})
    for row, columns in view.paper.items():
        assert ours[row] == pytest.approx(columns, abs=0.002)


def test_few_shot_keeps_spread_and_significance() -> None:
    tested = {"mean": (0.7, 0.04), "paired_bootstrap_p": 0.012, "against": {"p": 0.03}}
    entry = {"plain": {"mean": (0.6, 0.05)}, "iat": tested}
    ours = READERS["few_shot"]({"tasks": {"scitail": {"4": entry}}})
    column = "scitail, 4"
    assert ours["plain"] == pytest.approx({column: 60.0, f"{column} ±": 5.0})
    assert ours["iat"] == pytest.approx({column: 70.0, f"{column} ±": 4.0, f"{column} p": 0.012})
    _, (view,) = find("spec-table6")
    document = {"ours": ours, "view": {"paper": view.paper, "reader": view.reader}}
    assert shown_columns(document)[0] == column and f"{column} ±" not in shown_columns(document)
    assert cell_text(ours["iat"], view.paper["iat"], column) == (
        "70.0 ± 4.0, p = 0.012 (75.7 ± 4.0, −5.7)"
    )
    assert cell_text(ours["plain"], {}, column) == "60.0 ± 5.0"
    assert cell_text({}, view.paper["iat"], column) == "– (75.7 ± 4.0)"
    assert how_to_read(document) == (
        "Ours, and in brackets the paper's and the difference. ± is the standard deviation over "
        "seeds. p is that of the difference to the first row, by the paper's one-sided paired "
        "bootstrap over seeds, which rejects too often."
    )


def test_arms_keep_spread_and_significance_by_task() -> None:
    def run(a: float, b: float) -> dict[str, Any]:
        return {"validation": {"a": {"score": a}, "b": {"score": b}}}

    against = {"per_task": {"a": {"p": 0.2}, "b": {"p": 0.01}}, "average": {"p": 0.03}}
    found = {
        "arms": {"multi": {"against": None}, "iat": {"against": against}},
        "tasks": ["a", "b"],
        "baseline": "multi",
        "splits": {"multi": [run(0.5, 0.6), run(0.5, 0.6)], "iat": [run(0.6, 0.6), run(0.8, 0.5)]},
    }
    ours = READERS["arm_scores"](found)
    assert ours["multi"]["a ±"] == 0 and "a p" not in ours["multi"]
    assert (ours["iat"]["a ±"], ours["iat"]["a p"]) == (pytest.approx(14.142, abs=1e-3), 0.2)
    averages = READERS["arm_averages"](found)["iat"]
    assert averages["average p"] == 0.03 and averages["tasks improved"] == 1


def test_task_sigma_counts_both_metrics_as_the_paper_does(tmp_path: Any) -> None:
    """Accuracy and F1, Spearman and Pearson, both sets of MNLI; and the share of data used."""
    import json

    import numpy as np

    splits = {
        "validation": {
            "mnli": {"metric": "accuracy", "score": 0.8, "scores": {"accuracy": 0.8}},
            "mrpc": {"metric": "f1", "score": 0.9, "scores": {"f1": 0.9, "accuracy": 0.85}},
            "stsb": {"metric": "spearman", "score": 0.7, "scores": {"pearson": 0.72}},
        },
        "validation_mismatched": {"mnli": {"metric": "accuracy", "score": 0.78}},
    }
    folder = tmp_path / "cells" / "x"
    folder.mkdir(parents=True)
    lines = [{"step": 10, "used_of_all": 0.4}, {"step": 20, "used_of_all": 0.663}, {"stage": "z"}]
    (folder / "log.jsonl").write_text("\n".join(map(json.dumps, lines)))
    cells = [{"state": "done", "varied": {"seed": 0}, "splits": splits, "fingerprint": "x"}]
    (row,) = READERS["case_ablation"]({"cells": cells, "output": str(tmp_path)}).values()
    assert row["average"] == pytest.approx(100 * np.mean([0.8, 0.9, 0.7, 0.78]))
    every = [0.8, 0.9, 0.85, 0.7, 0.72, 0.78]
    assert row["task σ"] == pytest.approx(100 * np.std(every, ddof=1))
    assert row["% data used"] == pytest.approx(66.3)
    (without,) = READERS["case_ablation"]({"cells": cells}).values()
    assert "% data used" not in without


def test_sizes_are_counted_as_the_papers_do() -> None:
    """Table 2 of Pilault et al. 2021: nine scores, one of them MNLI's second set."""
    names = [f"t{n}" for n in range(7)]
    scores = {name: {"score": 0.5} for name in [*names, "mnli"]}
    splits = {"validation": scores, "validation_mismatched": {"mnli": {"score": 0.5}}}
    base = 109_000_000

    def one(number: int, architecture: str, encoder: float, trained: float) -> dict[str, Any]:
        counts = {"encoder": encoder, "heads": 9000, "trainable": trained + 9000}
        if architecture == "hmnet":
            counts["activated"] = base
        return {
            "state": "done", "varied": {"case": number, "tasks": list(scores)}, "splits": splits,
            "parameters": counts,
            "configuration": {"model": {"architecture": architecture, "backbone": "bert"}},
        }  # fmt: skip

    cells = [
        one(0, "single", 8 * base, 8 * base), one(1, "shared", base, base),
        one(2, "pals", 1.13 * base, 1.13 * base), one(3, "ca_mtl", 1.12 * base, 0.504 * base),
        one(4, "hmnet", 2.1 * base, 2.1 * base),
    ]  # fmt: skip
    titles = ["single-task", "multi-task", "PALs", "CA-MTL", "HMNet"]
    grid = {"cells": cells, "titles": {f'{{"case": {n}}}': t for n, t in enumerate(titles)}}
    ours = READERS["case_scores_and_sizes"](grid)
    _, (view,) = find("camtl-table2")
    for row in ("multi-task", "PALs", "CA-MTL"):
        for column in ("total params (×)", "trained params/task (%)"):
            assert ours[row][column] == pytest.approx(view.paper[row][column], abs=0.06), row
    assert ours["single-task"]["total params (×)"] == 8  # the paper counts MNLI twice
    assert ours["single-task"]["trained params/task (%)"] == 100
    assert ours["multi-task"][AT_LEAST_ALONE] == 9  # sizes are no tasks
    millions = READERS["case_scores_and_millions"](grid)["HMNet"]
    assert millions["activated params (M)"] == 109 and millions["overall params (M)"] == 228.9


def training_log(tmp_path: Any, lines: list[dict[str, Any]]) -> dict[str, Any]:
    import json

    folder = tmp_path / "cells" / "x"
    folder.mkdir(parents=True)
    (folder / "log.jsonl").write_text("\n".join(map(json.dumps, lines)))
    data = {"cola": {"difficulty": 3.5}, "mnli": {"difficulty": 4.0}, "stsb": {}}
    (folder / "provenance.json").write_text(json.dumps({"data": data, "schema_version": 1}))
    splits = {"validation": {task: {"score": 0.5} for task in data}}
    cells = [{"state": "done", "varied": {"seed": 0}, "splits": splits, "fingerprint": "x"}]
    return {"cells": cells, "output": str(tmp_path)}


def test_entropies_stand_at_the_steps_of_evaluation(tmp_path: Any) -> None:
    lines: list[dict[str, Any]] = [
        {"step": 10, "entropy": {"cola": 0.9, "mnli": 1.0}},
        {"step": 20, "entropy": {"cola": 0.7, "mnli": 0.8}},
        {"step": 20, "evaluation": True},
        {"step": 30, "entropy": {"cola": 0.5, "mnli": 0.6}},
        {"step": 30, "evaluation": True},
    ]
    ours = READERS["entropy_over_training"](training_log(tmp_path, lines))
    assert ours == {
        "as configured: cola": pytest.approx({"step 20": 80.0, "step 30": 50.0}),
        "as configured: mnli": pytest.approx({"step 20": 90.0, "step 30": 60.0}),
    }


def test_examples_an_iteration_over_the_course_of_a_training(tmp_path: Any) -> None:
    lines = [
        {"step": 10 * n, "examples": {"cola": 32 * n, "mnli": 320 - 32 * n}} for n in range(1, 6)
    ]
    ours = READERS["examples_over_training"](training_log(tmp_path, lines))
    row = ours["as configured: cola"]
    found = [row[f"to step {10 * n}"] for n in range(1, 6)]
    assert found == pytest.approx([3.2 * n for n in range(1, 6)])
    assert (row["peak at step"], row["difficulty"]) == (50, 3.5)
    assert ours["as configured: mnli"]["peak at step"] == 10
    many = [{"step": 10 * n, "examples": {"cola": 320}} for n in range(1, 1001)]
    row = READERS["examples_over_training"](training_log(tmp_path / "long", many))[
        "as configured: cola"
    ]
    windows = [column for column in row if column.startswith("to step")]
    assert len(windows) == 20 and windows[-1] == "to step 10000" and row[windows[0]] == 32


def test_heads_of_tasks_are_counted_from_the_runs(tmp_path: Any) -> None:
    """Figure 1: whose the important heads are."""
    import json
    from dataclasses import fields

    from brodmann.results import Dissociation

    empty = {field.name: [] for field in fields(Dissociation)}
    folder = tmp_path / "cells" / "x"
    folder.mkdir(parents=True)
    heads = [[[0, 1], [0, 2]], [[0, 1], [1, 3]]]
    square = [[1.0, 0.5], [0.5, 1.0]]
    document = {**empty, "tasks": ["a", "b"], "heads": heads, "performance": square}
    document |= dict.fromkeys(("pairwise", "verdicts", "overlap"), square)
    two = ("metrics", "base", "trivial", "random", "per_task", "p_values", "heads_per_layer")
    document |= {key: [0.0, 0.0] for key in two} | {"alpha": 0.3, "mean": 0.1}
    document |= {"intervals": {}, "undefined": {}, "undertrained": {}, "settings": {}}
    (folder / "dissociation.json").write_text(json.dumps({**document, "schema_version": 1}))
    cells = [{"state": "done", "varied": {"seed": 0}, "fingerprint": "x"}]
    assert READERS["heads_of_tasks"]({"cells": cells, "output": str(tmp_path)}) == {
        "a": {"important heads": 2, "its own alone": 1},
        "b": {"important heads": 2, "its own alone": 1},
        "any task": {"important heads": 3},
        "every task": {"important heads": 1},
    }


def test_new_tasks_are_read_from_a_grid_of_them() -> None:
    def one(task: str, seed: int, score: float) -> dict[str, Any]:
        starts = {"stsb": {"accuracy": score - 0.3}, "random": {"accuracy": 0.3}}
        return {
            "state": "done", "varied": {"tasks": [task], "seed": seed},
            "splits": {"validation": {task: {"score": score}}},
            "adaptation": {
                "metrics": {task: "accuracy"}, "zero_shot": {task: starts},
                "shares": {"10 %": {"scores": {task: score - 0.1}}, "100 %": {"scores": {}}},
            },
        }  # fmt: skip

    cells = [one("scitail", 0, 0.8), one("scitail", 1, 0.9), one("snli", 0, 0.7)]
    assert READERS["adapted"]({"cells": cells}) == {
        "trained": pytest.approx(
            {"scitail, 10 %": 75.0, "scitail, 10 % ±": 7.0711, "scitail": 85.0,
             "scitail ±": 7.0711, "snli, 10 %": 60.0, "snli": 70.0}, abs=1e-3
        )
    }  # fmt: skip
    starts = READERS["zero_shot_starts"]({"cells": cells})
    assert starts["stsb"]["scitail"] == pytest.approx(55) and starts["random"]["snli"] == 30


def test_statistics_of_datasets_and_models_beside_the_papers() -> None:
    from brodmann.config import load_config
    from brodmann.papers.recipe_relations import statistics_of

    recipe, views = find("statistics")
    config, base = load_config(recipe.path)
    only = [view for view in views if view.name == "spec-table2"]
    ours = READERS["model_statistics"](statistics_of(recipe, config, base, only, TaskCache()))
    for title, row in only[0].paper.items():
        for column in ("layers", "heads per layer", "heads"):
            assert ours[title][column] == row[column], title
        assert ours[title]["parameters (M)"] == pytest.approx(row["parameters (M)"], rel=0.06)
    found = {"datasets": {"stsb": {"classes": None, "train": 5}, "a": {"classes": 2, "train": 9}}}
    assert READERS["dataset_statistics"](found) == {
        "stsb": {"training examples": 5},
        "a": {"classes": 2, "training examples": 9},
    }
