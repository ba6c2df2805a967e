"""Recipes: the papers' experiments as configurations, with the tables and figures made of them.

A recipe is an ordinary configuration (one file here, runnable by its own command, at a small scale)
with a `[recipe]` table: whose experiment it is, what it varies, what to change for the paper's own
scale, and its views, each a table or figure of the paper with the paper's numbers as data.
`index.toml` lists every table and figure that should have one.
"""

import tomllib
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from brodmann.errors import InputError, did_you_mean

PAPERS = {
    "SPEC": "Li et al. 2023, Interpreting and Exploiting Functional Specialization",
    "MESH": "Gupta et al., Multi-head Efficiency in XTREME",
    "CAMTL": "Pilault et al. 2021, Conditionally Adaptive Multi-Task Learning",
    "HMNET": "Fei et al. 2022, Coarse-to-Fine: Hierarchical Multi-task Learning",
}
Numbers = dict[str, dict[str, float | None]]  # row → column → value


@dataclass(frozen=True)
class View:
    """One table or figure."""

    name: str  # spec-table3
    shows: str
    reader: str  # a function of `readers.py`
    paper: Numbers = field(default_factory=dict)
    note: str = ""  # how ours differs by design
    figure: str = ""  # how it is drawn: "bars", "lines", "matrix" or "points"; a table is not
    unit: str = ""  # what bars and lines show: the label of their axis
    sides: list[str] = field(default_factory=list)  # what a matrix's rows are, and its columns
    relate: list[str] = field(default_factory=list)  # the relations it shows, if not all
    arm: str = ""  # the arm it reads, if not all


@dataclass(frozen=True)
class Recipe:
    """One experiment."""

    name: str  # name of its file
    path: Path
    folder: str  # folder of its runs, in the output
    paper: str
    varies: str
    views: tuple[View, ...]
    at_paper_scale: dict[str, Any] = field(default_factory=dict)  # setting → value
    needs: tuple[str, ...] = ()  # recipes whose runs it starts from
    needs_at_paper_scale: tuple[str, ...] = ()  # further ones
    statistics: bool = False  # only describes its tasks and `models`: nothing is trained
    models: dict[str, str] = field(default_factory=dict)  # title → backbone
    relate: tuple[str, ...] = ()  # relations of tasks, if they are the experiment
    titles: tuple[str, ...] = ()  # of the cases of its grid, in their order
    titles_at_paper_scale: tuple[str, ...] = ()  # if they differ
    attention: dict[str, list[str]] = field(default_factory=dict)  # which pairs' maps are compared

    def starts_from(self, scale: str) -> tuple[str, ...]:
        """The recipes whose runs it needs at a scale."""
        return (*self.needs, *(self.needs_at_paper_scale if scale == "paper" else ()))


@cache
def recipes() -> tuple[Recipe, ...]:
    folder = Path(str(resources.files(__name__)))
    return tuple(_read(path) for path in sorted(folder.glob("*.toml")) if path.name != "index.toml")


def _read(path: Path) -> Recipe:
    values = tomllib.loads(path.read_text(encoding="utf-8"))
    described = values["recipe"]
    views = tuple(View(**view) for view in described.get("views", ()))
    return Recipe(
        name=path.stem,
        path=path,
        folder=values["name"],
        paper=described["paper"],
        varies=described["varies"],
        views=views,
        at_paper_scale=described.get("at_paper_scale", {}),
        needs=tuple(described.get("needs", ())),
        needs_at_paper_scale=tuple(described.get("needs_at_paper_scale", ())),
        statistics=described.get("statistics", False),
        models=described.get("models", {}),
        relate=tuple(described.get("relate", ())),
        titles=tuple(described.get("titles", ())),
        titles_at_paper_scale=tuple(described.get("titles_at_paper_scale", ())),
        attention=described.get("attention", {}),
    )


@cache
def index() -> dict[str, str]:
    """Every table and figure of the papers that should have a recipe, and what it shows."""
    text = resources.files(__name__).joinpath("index.toml").read_text(encoding="utf-8")
    found: dict[str, str] = {}
    for paper, views in tomllib.loads(text).items():
        found |= {f"{paper}-{name}": shows for name, shows in views.items()}
    return found


def missing() -> list[str]:
    known = {view.name for recipe in recipes() for view in recipe.views}
    return [name for name in index() if name not in known]


def find(name: str) -> tuple[Recipe, list[View]]:
    """A recipe with all its views, or with the one view that is named."""
    for recipe in recipes():
        if recipe.name == name:
            return recipe, list(recipe.views)
        for view in recipe.views:
            if view.name == name:
                return recipe, [view]
    if name in index():
        raise InputError(f"{name} ({index()[name]}): has no recipe yet")
    if name.upper() in PAPERS:
        raise InputError(f"{name} is a paper: name a table, figure or recipe of its own")
    known = [*(recipe.name for recipe in recipes()), *index()]
    raise InputError(f"unknown table, figure or recipe '{name}'{did_you_mean(name, known)}")
