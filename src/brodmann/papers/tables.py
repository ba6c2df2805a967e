"""Write a reproduced table or figure: our numbers beside the paper's, changes, and source runs.

Also lists all tables and figures with their state.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from brodmann.analysis.dissociation import undertrained
from brodmann.data.kinds import lower_is_better
from brodmann.errors import InputError
from brodmann.files import read_json
from brodmann.papers.readers.common import P_VALUE, PLUS_MINUS, is_companion
from brodmann.papers.recipes import PAPERS, Numbers, Recipe, View, index, recipes
from brodmann.reporting.blocks import Block, Table, Words
from brodmann.text import NOTHING, capital, number, p_value, places, plain, signed

SCALES = ("mini", "paper")
ONE_SIDED = (
    "p is that of the difference to the first row, by the paper's one-sided paired bootstrap over "
    "seeds, which rejects too often."
)
TWO_SIDED = "p is that of the difference to multi, by the two-sided test of `brodmann compare`."


@dataclass(frozen=True)
class Origin:
    """Origin of a recipe's numbers, shared by all of its views."""

    scale: str
    configuration: dict[str, Any]
    machine: dict[str, Any]
    changes: list[str]  # settings that differ from the recipe's
    failed: list[str]  # runs
    data: list[str]  # datasets with fewer rows than the official ones


def described(
    view: View,
    recipe: Recipe,
    ours: Numbers,
    origin: Origin,
    *,
    runs: dict[str, str],
    weak: dict[str, str],
    undefined: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Our numbers, the paper's, their differences, and where ours come from.

    `runs` maps runs to fingerprints; `weak` maps hardly learnt tasks to the number of runs;
    `undefined` maps runs without a D to the reason.
    """
    differences: Numbers = {}
    for row, columns in view.paper.items():
        for column, theirs in columns.items():
            if is_companion(column, columns):  # spreads are shown, not compared
                continue
            mine = ours.get(row, {}).get(column)
            if mine is not None and theirs is not None:
                differences.setdefault(row, {})[column] = mine - theirs
    return {
        "view": asdict(view),
        "recipe": recipe.name,
        "paper": PAPERS[recipe.paper],
        "scale": origin.scale,
        "ours": ours,
        "differences": differences,
        "configuration": origin.configuration,
        "runs": runs,
        "machine": origin.machine,
        "changes": origin.changes,
        "failed": origin.failed,
        "hardly_learnt": weak,
        "undefined": undefined or {},
        "data": origin.data,
    }


def hardly_learnt(found: dict[str, Any], arm: str = "") -> dict[str, str]:
    """Number of runs in which a task scores near an answer without reading, by task.

    Findings about such a task's heads, or about a way of training it, mean little.
    """
    splits = [c["splits"]["validation"] for c in found.get("cells", []) if c["state"] == "done"]
    for name, runs in found.get("splits", {}).items():
        if name == arm or not arm:
            splits += [run["validation"] for run in runs]
    near: dict[str, list[bool]] = {}
    for results in splits:
        for task, entry in results.items():
            judged = not lower_is_better(entry["metric"]) and entry.get("trivial") is not None
            weak = judged and undertrained(entry["score"], entry["trivial"]) is not None
            weak = weak or entry.get("undertrained") is not None
            near.setdefault(task, []).append(weak)
    return {task: f"{sum(weak)} of {len(weak)} runs" for task, weak in near.items() if any(weak)}


def as_markdown(document: dict[str, Any]) -> str:
    """A table of our numbers, the paper's in brackets."""
    view = document["view"]
    columns, rows = shown_cells(document)
    lines = [
        f"# {view['name']}: {view['shows']}",
        "",
        f"{document['paper']}. Scale: {document['scale']} (`brodmann reproduce {view['name']} "
        f"--scale {document['scale']}`). {how_to_read(document)}",
        "",
        f"| {' | '.join(columns)} |",
        "|---" * len(columns) + "|",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
    for strong, words in remarks(document):
        lines += ["", f"**{strong}**{words}" if strong else words]
    if view["figure"]:
        picture = table_file(
            Path(), view["name"], document["scale"], changed=bool(document["changes"])
        )
        lines += ["", f"![{view['name']}]({picture.name}.svg)"]
    if not document["runs"]:
        return "\n".join([*lines, "", "Computed from the data, without any run."]) + "\n"
    lines += ["", "Computed from the runs", ""]
    lines += [f"- {label}: `{fingerprint}`" for label, fingerprint in document["runs"].items()]
    return "\n".join(lines) + "\n"


def as_blocks(document: Mapping[str, Any]) -> list[Block]:
    """The same table as blocks for the terminal: our numbers, the paper's in brackets."""
    view = document["view"]
    columns, rows = shown_cells(document)
    words = (
        Words(strong + rest, "caution" if strong else "plain") for strong, rest in remarks(document)
    )
    return [
        Words(f"{view['name']}: {view['shows']}. {how_to_read(document)}"),
        Table(columns, rows, alike=True),
        *words,
    ]


def shown_cells(document: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """The columns, with the corner above the row names first, and every row with its name."""
    view, ours = document["view"], document["ours"]
    columns = shown_columns(document)
    rows = [
        [
            row,
            *(cell_text(ours.get(row, {}), view["paper"].get(row, {}), name) for name in columns),
        ]
        for row in dict.fromkeys([*ours, *view["paper"]])
    ]
    return [corner(view), *columns], rows


def remarks(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Remarks on the numbers, each as (emphasised words, the rest)."""
    view = document["view"]
    found = []
    if document["changes"]:
        found.append(("Not the recipe as it is", f": {changed_words(document)}."))
    if document["failed"]:
        found.append((f"Without {len(document['failed'])} runs that failed.", ""))
    if document["data"]:
        found.append(("", f"Data: {'; '.join(document['data'])}."))
    if document["hardly_learnt"]:
        found.append(("", caution(document)))
    if document.get("undefined"):
        found.append(("", left_out(document)))
    if view["note"]:
        found.append(("", f"{capital(view['note'])}."))
    return found


def corner(view: Mapping[str, Any]) -> str:
    """The corner of a table: what its rows and columns are."""
    return "{} ↓ {} →".format(*view["sides"]) if view["sides"] else ""


def beside(mine: float | None, theirs: float | None) -> str:
    """Our number, and in brackets the paper's and the difference."""
    first = NOTHING if mine is None else number(mine)
    if theirs is None:
        return first
    apart = "" if mine is None else f", {signed(mine - theirs, places(mine, theirs))}"
    return f"{first} ({number(theirs)}{apart})"


def shown_columns(document: Mapping[str, Any]) -> list[str]:
    """Columns in their order; spreads and p-values appear in the cells they belong to."""
    rows = [*document["ours"].values(), *document["view"]["paper"].values()]
    columns = dict.fromkeys(column for row in rows for column in row)
    return [column for column in columns if not is_companion(column, columns)]


def cell_text(
    ours: Mapping[str, float | None], paper: Mapping[str, float | None], column: str
) -> str:
    """One cell: our number with its spread and p, then the paper's in brackets."""
    text = beside(ours.get(column), paper.get(column))
    first, bracket, rest = text.partition(" (")
    first += _spread(ours, column)
    if (p := ours.get(column + P_VALUE)) is not None:
        first += f", {p_value(p)}"
    if not bracket:
        return first
    theirs, comma, difference = rest.partition(", ")
    inside = theirs.removesuffix(")") + _spread(paper, column)
    return f"{first} ({inside}{comma}{difference}" + ("" if comma else ")")


def _spread(row: Mapping[str, float | None], column: str) -> str:
    spread = row.get(column + PLUS_MINUS)
    return "" if spread is None else f" ± {plain(spread)}"


def how_to_read(document: Mapping[str, Any]) -> str:
    """How to read the cells of a table."""
    rows = [*document["ours"].values(), *document["view"]["paper"].values()]
    columns = {column for row in rows for column in row}
    words = [in_brackets(document["view"])]
    if any(column.endswith(PLUS_MINUS) for column in columns):
        words.append("± is the standard deviation over seeds.")
    if any(column.endswith(P_VALUE) for column in columns):
        few_shot = document["view"].get("reader") == "few_shot"
        words.append(ONE_SIDED if few_shot else TWO_SIDED)
    return " ".join(words)


def in_brackets(view: Mapping[str, Any]) -> str:
    """How to read the cells of a view."""
    if not view["paper"]:
        return "Ours; the paper prints no numbers for it."
    return "Ours, and in brackets the paper's and the difference."


def changed_words(document: Mapping[str, Any]) -> str:
    """Settings changed by --set, and starting runs with other settings."""
    given = [change for change in document["changes"] if "=" in change]
    others = [change for change in document["changes"] if "=" not in change]
    settings = ", ".join(f"`--set {change}`" for change in given)
    return "; ".join([*([f"changed by {settings}"] if given else []), *others])


def caution(document: Mapping[str, Any]) -> str:
    weak = ", ".join(f"{task} ({runs})" for task, runs in document["hardly_learnt"].items())
    return (
        "Hardly learnt (less than a quarter of the way from an answer without reading to a perfect "
        f"one), so that findings about it mean little: {weak}."
    )


def left_out(document: Mapping[str, Any]) -> str:
    """The runs whose D is undefined, and how means over runs treat them."""
    reasons = "; ".join(f"{run} ({reason})" for run, reason in document["undefined"].items())
    count, runs = len(document["undefined"]), len(document["runs"])
    where = f"{count} of {runs} runs, which means leave out"
    if count >= runs:
        where = "the only run" if runs == 1 else f"all {runs} runs"
    return f"D is undefined in {where}: {reasons}."


def listed(output: Path) -> list[dict[str, Any]]:
    """Every table and figure: what it shows, its recipe, and its state at each scale: done, done
    with settings changed by --set (not the recipe's own numbers), begun, or with failed runs."""
    made = {view.name: (recipe, view) for recipe in recipes() for view in recipe.views}
    rows = []
    for name in dict.fromkeys([*index(), *made]):
        recipe, view = made.get(name, (None, None))
        states = {scale: _state(output, name, recipe, scale) for scale in SCALES}
        rows.append(
            {
                "name": name,
                "shows": view.shows if view else index()[name],
                "recipe": recipe.name if recipe else None,
                "varies": recipe.varies if recipe else None,
                "done": [scale for scale, state in states.items() if state == "done"],
                "changed": [scale for scale, state in states.items() if state == "changed"],
                "begun": [scale for scale, state in states.items() if state == "begun"],
                "failed": [scale for scale, state in states.items() if state == "failed"],
            }
        )
    return rows


def recipe_list(rows: list[dict[str, Any]]) -> list[Block]:
    """Every recipe with what it varies, and its tables and figures below it (rows of `listed`)."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row["recipe"] or "none yet", []).append(row)
    shown: list[tuple[str, str, str]] = []
    recipe_rows = []
    for recipe, views in groups.items():
        varies = views[0]["varies"]
        recipe_rows.append(len(shown))
        shown.append((recipe, f"varies {varies}" if varies else "", ""))
        for row in views:
            states = [*row["done"], *(f"{scale} (changed)" for scale in row["changed"])]
            states += [f"{scale} ({s})" for s in ("begun", "failed") for scale in row[s]]
            shown.append((f"  {row['name']}", row["shows"], ", ".join(states) or NOTHING))
    caption = "Recipes, and the tables and figures that each one makes."
    return [Table(("name", "shows", "done"), shown, caption, recipe_rows)]


def _state(output: Path, name: str, recipe: Recipe | None, scale: str) -> str:
    for changed, state in ((False, "done"), (True, "changed")):
        path = table_file(output, name, scale, changed=changed).with_suffix(".json")
        if path.is_file():
            try:
                return "failed" if read_json(path).get("failed") else state
            except InputError:  # skip a damaged table and show the others
                return "failed"
    folder = "" if recipe is None else recipe.folder + ("-paper" if scale == "paper" else "")
    runs = (output / folder, output / f"{folder}-pairs")
    return "begun" if folder and any(path.is_dir() for path in runs) else ""


def table_file(output: Path, view: str, scale: str, *, changed: bool) -> Path:
    """Path without suffix; changed recipes never overwrite the recipe's own numbers."""
    return output / "reproduced" / f"{view}-{scale}{'-changed' if changed else ''}"
