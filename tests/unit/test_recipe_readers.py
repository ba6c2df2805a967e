"""Readers of recipes: the papers' own columns, read by ours, give the papers' own averages, counts
and dissociation scores."""

from typing import Any

import pytest

from brodmann.recipes import View, find, recipes
from brodmann.recipes.cells import SPREAD
from brodmann.recipes.readers import READERS
from brodmann.recipes.readers_of_scores import AT_LEAST_ALONE
from brodmann.recipes.tables import beside

APART = {"average", SPREAD, AT_LEAST_ALONE, "glue", "superglue", "mrqa"}
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
    if view.reader in ("case_scores", "arm_scores")
    and all("average" in row and len(row) > 8 for row in view.paper.values() if "mnli" in row)
    and any("mnli" in row for row in view.paper.values())
]


@pytest.mark.parametrize("view", WHOLE, ids=lambda view: view.name)
def test_the_papers_scores_have_the_papers_average(view: View) -> None:
    """Which counts MNLI's two sets as two."""
    given = grid_of(view) if view.reader == "case_scores" else comparison_of(view)
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
    assert (beside(improved, 8), beside(improved, None)) == ("1 (8, -7)", "1")
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
    from brodmann.recipes.tables import left_out
    from brodmann.reproduce import undefined_runs

    cells = [pair_cell(0, [0.1, 0.3]), pair_cell(1, [0.5, None]), pair_cell(2, [0.2, 0.2])]
    grid = {"cells": cells}
    assert READERS["pair_dissociation"](grid)["a+b"]["D"] == pytest.approx(20)
    assert READERS["dual_task"](grid)["a+b"] == pytest.approx({"D_A": 80 / 3, "D_B": 25})
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
