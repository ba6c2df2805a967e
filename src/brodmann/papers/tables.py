"""What is written of a reproduced table or figure: our numbers beside the paper's, what was
changed, which runs they come from; and the list of all with their state."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from brodmann.analysis.dissociation import undertrained
from brodmann.data.kinds import lower_is_better
from brodmann.errors import InputError
from brodmann.files import read_json
from brodmann.papers.readers.common import P_VALUE, PLUS_MINUS, is_companion
from brodmann.papers.recipes import PAPERS, Numbers, Recipe, View, index, recipes

SCALES = ("mini", "paper")
ONE_SIDED = (
    "p is that of the difference to the first row, by the paper's one-sided paired bootstrap over "
    "seeds, which rejects too often."
)
TWO_SIDED = "p is that of the difference to multi, by the two-sided test of `brodmann compare`."


def described(
    view: View,
    recipe: Recipe,
    scale: str,
    ours: Numbers,
    *,
    configuration: dict[str, Any],
    runs: dict[str, str],
    machine: dict[str, Any],
    changes: list[str],
    failed: list[str],
    weak: dict[str, str],
    data: list[str],
    undefined: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Our numbers, the paper's, their differences, and where ours come from.

    `runs` is each one's fingerprint; `weak` are the tasks that were hardly learnt, with in how many
    of the runs; `undefined` are the runs without a D, each with the reason; `data` says where there
    are fewer than the official ones.
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
        "scale": scale,
        "ours": ours,
        "differences": differences,
        "configuration": configuration,
        "runs": runs,
        "machine": machine,
        "changes": changes,
        "failed": failed,
        "hardly_learnt": weak,
        "undefined": undefined or {},
        "data": data,
    }


def hardly_learnt(found: dict[str, Any], arm: str = "") -> dict[str, str]:
    """task → in how many of the runs it is near an answer without reading: what is said of such a
    task's heads, or of a way of training it, means little."""
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
    view, ours = document["view"], document["ours"]
    columns = shown_columns(document)
    lines = [
        f"# {view['name']}: {view['shows']}",
        "",
        f"{document['paper']}. Scale: {document['scale']} (`brodmann reproduce {view['name']} "
        f"--scale {document['scale']}`). {how_to_read(document)}",
        "",
        f"| {corner(view)} | " + " | ".join(columns) + " |",
        "|---" * (len(columns) + 1) + "|",
    ]
    for row in dict.fromkeys([*ours, *view["paper"]]):
        cells = [
            cell_text(ours.get(row, {}), view["paper"].get(row, {}), column) for column in columns
        ]
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
    if document["changes"]:
        lines += ["", f"**Not the recipe as it is**: {changed_words(document)}."]
    if document["failed"]:
        lines += ["", f"**Without {len(document['failed'])} runs that failed.**"]
    if document["data"]:
        lines += ["", f"Data: {'; '.join(document['data'])}."]
    if document["hardly_learnt"]:
        lines += ["", caution(document)]
    if document.get("undefined"):
        lines += ["", left_out(document)]
    if view["note"]:
        lines += ["", f"{view['note'][:1].upper()}{view['note'][1:]}."]
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


def corner(view: Mapping[str, Any]) -> str:
    """Above the rows' names and before the columns': what both are."""
    return "{} ↓ {} →".format(*view["sides"]) if view["sides"] else ""


def beside(mine: float | None, theirs: float | None) -> str:
    """Our number, and in brackets the paper's and how far ours is from it."""
    first = "–" if mine is None else _short(mine)
    if theirs is None:
        return first
    fine = mine is not None and max(abs(mine), abs(theirs)) < 1
    difference = "" if mine is None else f", {_signed(mine - theirs, 2 if fine else 1)}"
    return f"{first} ({_short(theirs)}{difference})"


def shown_columns(document: Mapping[str, Any]) -> list[str]:
    """Columns in their order; spreads and p-values stand in the cells of what they belong to."""
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
        first += f", p = {p:.3f}"
    if not bracket:
        return first
    theirs, comma, difference = rest.partition(", ")
    inside = theirs.removesuffix(")") + _spread(paper, column)
    return f"{first} ({inside}{comma}{difference}" + ("" if comma else ")")


def _spread(row: Mapping[str, float | None], column: str) -> str:
    spread = row.get(column + PLUS_MINUS)
    return "" if spread is None else f" ± {spread:.1f}"


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
        return "Ours; the paper prints no numbers of it."
    return "Ours, and in brackets the paper's and the difference."


def changed_words(document: Mapping[str, Any]) -> str:
    """Settings by --set, or runs that it starts from."""
    given = [change for change in document["changes"] if "=" in change]
    others = [change for change in document["changes"] if "=" not in change]
    settings = ", ".join(f"`--set {change}`" for change in given)
    return "; ".join([*([f"changed by {settings}"] if given else []), *others])


def caution(document: Mapping[str, Any]) -> str:
    weak = ", ".join(f"{task} ({runs})" for task, runs in document["hardly_learnt"].items())
    return (
        "Hardly learnt (less than a quarter of the way from an answer without reading to a perfect "
        f"one), so that what is said of it means little: {weak}."
    )


def left_out(document: Mapping[str, Any]) -> str:
    """The runs whose D is undefined, and what means over runs do with them."""
    reasons = "; ".join(f"{run} ({reason})" for run, reason in document["undefined"].items())
    count, runs = len(document["undefined"]), len(document["runs"])
    where = f"{count} of {runs} runs, which means leave out"
    if count >= runs:
        where = "the only run" if runs == 1 else f"all {runs} runs"
    return f"D is undefined in {where}: {reasons}."


def _signed(difference: float, places: int) -> str:
    return f"{difference:+,}" if isinstance(difference, int) else f"{difference:+.{places}f}"


def _short(value: float) -> str:
    """Percentages have one place, correlations and cosines two, counts none."""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.2f}" if abs(value) < 1 else f"{value:.1f}"


def listed(output: Path) -> list[dict[str, Any]]:
    """Every table and figure: what it shows, its recipe, and at which scales it is done, done with
    settings changed by --set (not the recipe's own numbers), begun, or with runs that failed."""
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


def _state(output: Path, name: str, recipe: Recipe | None, scale: str) -> str:
    for changed, state in ((False, "done"), (True, "changed")):
        path = table_file(output, name, scale, changed=changed).with_suffix(".json")
        if path.is_file():
            try:
                return "failed" if read_json(path).get("failed") else state
            except InputError:  # a damaged table is none, and the others are still there
                return "failed"
    folder = "" if recipe is None else recipe.folder + ("-paper" if scale == "paper" else "")
    runs = (output / folder, output / f"{folder}-pairs")
    return "begun" if folder and any(path.is_dir() for path in runs) else ""


def table_file(output: Path, view: str, scale: str, *, changed: bool) -> Path:
    """Without its ending; what was changed never takes the place of the recipe's own numbers."""
    return output / "reproduced" / f"{view}-{scale}{'-changed' if changed else ''}"
