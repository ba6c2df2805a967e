"""The house rules: rooms, layers, names and sizes of the source."""

import ast
import re
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "brodmann"
FILES = sorted(SOURCE.rglob("*.py"))
ENTRIES = {
    "iap.dissociation",
    "importance.head_importance",
    "ca_mtl.build",  # its keywords are the architecture's settings
    "multitask.from_pretrained",
    "relate.relate",
    "few_shot.transfer",
    "fit.fit",
    "unseen.meta_test",
    "of_transfers.transfer_losses",
    "server.serve",
}


def test_the_root_has_at_most_seven_modules() -> None:
    assert len(list(SOURCE.glob("*.py"))) <= 7


def test_the_rooms_stand_in_at_most_ten_layers_and_every_room_has_one() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = settings["contracts"][0]["layers"]
    assert len(layers) <= 10
    named = {name.strip() for line in layers for name in line.replace(":", "|").split("|")}
    rooms = {f"brodmann.{path.parent.name}" for path in SOURCE.glob("*/__init__.py")}
    modules = {f"brodmann.{path.stem}" for path in SOURCE.glob("*.py") if "__" not in path.name}
    assert named == rooms | modules


def test_no_two_modules_share_a_name() -> None:
    names = Counter(path.name for path in FILES if path.name != "__init__.py")
    assert [name for name, count in names.items() if count > 1] == []


def test_no_file_is_longer_than_350_lines() -> None:
    assert [str(p) for p in FILES if len(p.read_text().splitlines()) > 350] == []


def test_functions_are_short_and_take_few_arguments() -> None:
    """Exempt are public entry points with keywords: commands, and what a user calls."""
    long = []
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and path.parent.name not in ("cli", "verbs"):
                taken = [*node.args.args, *node.args.kwonlyargs]
                given = [one for one in taken if one.arg not in ("self", "cls")]
                size = (node.end_lineno or 0) - node.lineno + 1
                if (size > 60 or len(given) > 8) and f"{path.stem}.{node.name}" not in ENTRIES:
                    long.append(f"{path.name}: {node.name}: {size} lines, {len(given)} arguments")
    assert long == []


def test_every_module_says_what_it_is_for() -> None:
    silent = [str(path) for path in FILES if ast.get_docstring(ast.parse(path.read_text())) is None]
    assert silent == [str(SOURCE / "__main__.py")] or silent == []


def test_the_loop_imports_no_method() -> None:
    tree = ast.parse((SOURCE / "training" / "loop.py").read_text())
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not {name for name in imported if name and name.startswith("brodmann.training.methods.")}


def compared_names(source: str) -> list[str]:
    """Comparisons of an architecture or a sampler with its name, also with one of several."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            words = ast.unparse(node)
            parts = [part for side in (node.left, *node.comparators) for part in ast.walk(side)]
            text = any(isinstance(c, ast.Constant) and isinstance(c.value, str) for c in parts)
            if text and ("architecture" in words or "sampling" in words):
                found.append(f"{node.lineno}: {words}")
    return found


def test_no_module_compares_the_name_of_an_architecture_or_a_sampler() -> None:
    """Capabilities are asked for instead (`ARCHITECTURES`, `SAMPLERS`)."""
    for source in ("architecture == 'x'", "architecture in ('x', 'y')", "'x' != sampling"):
        assert compared_names(f"a = {source}") == [f"1: {source}"]
    assert compared_names("a = name in ARCHITECTURES and kind == 'x'") == []
    found = {
        path.name: compared_names(path.read_text())
        for path in FILES
        if path.parent.name not in ("encoders", "sampling")
    }
    assert {name: places for name, places in found.items() if places} == {}


def test_no_dict_names_a_module_of_a_room_above() -> None:
    """A module that is imported by its name is hidden from import-linter."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = settings["contracts"][0]["layers"]
    height = {
        name.strip().removeprefix("brodmann."): -place
        for place, line in enumerate(layers)
        for name in line.replace(":", "|").split("|")
    }
    found = []
    for path in FILES:
        room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and room in height:
                named = re.fullmatch(r"brodmann\.(\w+)[\w.]*(?::\w+)?", node.value)
                if named and height.get(named[1], height[room]) > height[room]:
                    found.append(f"{path.name}:{node.lineno} {node.value}")
    assert found == []


def test_nothing_asks_an_encoder_what_it_has() -> None:
    """Their protocol says what they have; what differs is a capability of the architecture."""
    asked = []
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                of = ast.unparse(node.args[0]) if node.args else ""
                if node.func.id in ("hasattr", "getattr") and of.endswith("encoder"):
                    asked.append(f"{path.name}:{node.lineno}: {ast.unparse(node)}")
    assert asked == []


def test_a_vocabulary_is_listed_once() -> None:
    """A choice of words is one `Literal`; what needs them as values takes `get_args` of it."""
    places: dict[frozenset[object], list[str]] = {}
    literals = set()
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            literal = isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Literal"
            listed = node.slice if isinstance(node, ast.Subscript) and literal else node
            if isinstance(listed, ast.Tuple | ast.List | ast.Set):
                words = [one.value for one in listed.elts if isinstance(one, ast.Constant)]
                if len(words) == len(listed.elts) > 1 and all(isinstance(w, str) for w in words):
                    place = f"{path.relative_to(SOURCE)}:{listed.lineno}"
                    places.setdefault(frozenset(words), []).append(place)
                    literals |= {frozenset(words)} if literal else set()
    twice = {tuple(sorted(map(str, words))): sorted(set(places[words])) for words in literals}
    assert {words: found for words, found in twice.items() if len(found) > 1} == {}


def test_unit_tests_mirror_the_rooms() -> None:
    """Commands are tested as a user calls them, in `tests/integration`."""
    rooms = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    tested = {path.parent.name for path in (ROOT / "tests" / "unit").glob("*/test_*.py")}
    assert rooms - tested == {"cli"} and tested <= rooms
