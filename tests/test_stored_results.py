"""Committed results of the papers' recipes carry configuration, versions and hardware."""

import json
from pathlib import Path
from typing import Any

import pytest

from brodmann.papers.recipes import recipes

NEEDS_MORE = {  # the runs are stored, but not what these views are made of
    "spec-figure1",  # which heads were chosen
    "spec-figure3",  # brain data
    "camtl-figure5-entropy",  # entropies of the other samplers
}

RESULTS = Path(__file__).parents[1] / "benchmarks" / "reproduction" / "results"
MEASURES = {"similarity.json", "relevance-groups.json", "relevance-pairs.json",
            "relevance-words.json"}  # whose views in `reproduced/` carry it  # fmt: skip
FILES = sorted(path for path in RESULTS.rglob("*.json") if path.name not in MEASURES)


def machines(document: dict[str, Any]) -> list[dict[str, Any]]:
    found = document.get("machine") or document.get("provenance") or document.get("machines")
    if isinstance(found, dict) and "versions" not in found:  # of every run
        found = list(found.values())
    return found if isinstance(found, list) else [found] if found else []


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem[:12]}")
def test_a_result_says_what_it_was_computed_with(path: Path) -> None:
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["configuration"]["tasks"] and document["configuration"]["training"] is not None
    assert machines(document)
    for machine in machines(document):
        assert machine["versions"]["torch"] and machine["versions"]["transformers"]
        assert machine["processor"] and machine["cores"]


def test_the_page_names_the_version_of_the_stored_results() -> None:
    """Defaults change: whoever repeats a command must know why the numbers differ."""
    versions = {
        machine["versions"]["brodmann"]
        for path in FILES
        for machine in machines(json.loads(path.read_text(encoding="utf-8")))
    }
    page = (Path(__file__).parents[1] / "docs" / "reproduction.md").read_text(encoding="utf-8")
    said = page.partition("## With which version")[2].partition("\n## ")[0]
    assert versions and all(f"Brodmann {version}" in said for version in versions), versions


def test_three_recipes_a_paper_were_run_on_real_text() -> None:
    """By the folders of their runs and the views that were made of them."""
    stored = {path.parent.name for path in FILES}
    views = {path.stem.partition("-mini")[0] for path in (RESULTS / "reproduced").glob("*.json")}
    run: dict[str, set[str]] = {}
    for recipe in recipes():
        if recipe.name == "ca_mtl_builtin":
            continue  # generated text
        made = {view.name for view in recipe.views} & views
        if recipe.folder in stored or made:
            run.setdefault(recipe.paper, set()).add(recipe.name)
    assert len(run["SPEC"]) >= 3 and len(run["CAMTL"]) >= 3 and len(run["HMNET"]) >= 3
    # MESH has one table and so two recipes, with three views.
    assert run["MESH"] == {"mesh_table1", "mesh_meta"}
    assert {"mesh-table1", "mesh-languages", "mesh-unseen-pairs"} <= views


def test_tables_without_a_number_are_listed() -> None:
    """docs/reproduction.md names every table and figure of which nothing is stored."""
    stored = {path.parent.name for path in FILES} | {
        path.parent.name for path in RESULTS.rglob("*.json")
    }
    views = {path.stem.partition("-mini")[0] for path in (RESULTS / "reproduced").glob("*.json")}
    without = {
        (recipe.name, view.name)
        for recipe in recipes()
        for view in recipe.views
        if view.name in NEEDS_MORE or (view.name not in views and recipe.folder not in stored)
    }
    page = (Path(__file__).parents[1] / "docs" / "reproduction.md").read_text(encoding="utf-8")
    listed = page.partition("## What has no number yet")[2].partition("\n## ")[0]
    found = set()
    for line in listed.splitlines():
        if line.startswith("| `"):
            _, names, shown, _ = line.split("|")
            found |= {name.strip() for name in shown.split(",")}
            for recipe, view in without:
                if view in [name.strip() for name in shown.split(",")]:
                    assert f"`{recipe}`" in names, view
    assert found == {view for _, view in without}
