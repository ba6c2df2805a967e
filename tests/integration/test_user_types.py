"""What a type checker tells a user: public names have types, and none of them is Any."""

import ast
import functools
import importlib
import inspect
import subprocess
import sys
import textwrap
import typing
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import brodmann as bm
from brodmann.data.answer_types import Answer, Entity
from brodmann.data.kinds import KINDS
from brodmann.files import Array

SCRIPT = """
from pathlib import Path

import brodmann as bm

tasks = bm.load_tasks(["builtin/sentiment", "builtin/topic"])
model = bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks)
reveal_type(tasks)
reveal_type(model)
reveal_type(bm.fit(model, tasks, epochs=1, learning_rate="auto"))
reveal_type(bm.evaluate(model, tasks))
reveal_type(bm.head_importance(model, tasks))
reveal_type(bm.dissociation(model, tasks, bm.head_importance(model, tasks)))
run = bm.run("brodmann.toml", changes={"seed": 1})
reveal_type(run)
reveal_type(run.scores)
reveal_type(run.heads)
reveal_type(run.load_model())
reveal_type(bm.compare("study.toml"))
reveal_type(bm.relate(tasks))
reveal_type(bm.plan("spec-table3").rows)
reveal_type(bm.predict(run, ["A film."])[0]["topic"]["label"])
reveal_type(bm.predict(run, ["A film."], "topic")[0]["entities"][0]["start"])
reveal_type(bm.predict(run, Path("x.csv")))
reveal_type(bm.load_task("own", train=[{"text": "a", "label": 1}], kind="classification"))
reveal_type(bm.export(run, "topic"))
reveal_type(bm.report([run]))
bm.fit(model, tasks, epoch=1)
bm.fit(model, tasks, keep="worst")
bm.load_task("own", knid="classification")
bm.IAT(alhpa=0.3)
"""
REVEALED = """
list[Task]
MultiTaskModel
History
dict[str, Evaluation]
HeadScores
Dissociation
Run
dict[str, dict[str, float]]
HeadScores | None
MultiTaskModel
Outcome
Outcome
Sequence[dict[str, str | float | int | bool | None]]
str
int
Path
Task
Path
Page
"""


@pytest.mark.slow
def test_mypy_knows_the_types_of_a_users_script(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    # Whether torch's own types are right is not the question, and takes minutes.
    settings = tmp_path / "mypy.ini"
    skipped = "[mypy-torch.*,transformers.*,datasets.*,scipy.*,matplotlib.*,pandas.*]"
    settings.write_text(f"[mypy]\nstrict = true\n{skipped}\nfollow_imports = skip\n")
    arguments = ["--config-file", settings, "--cache-dir", tmp_path / "cache", script]
    found = subprocess.run(
        [sys.executable, "-m", "mypy", *arguments],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    lines = found.stdout.splitlines()
    revealed = [line.split('"')[1] for line in lines if "Revealed type" in line]
    for module in ("brodmann.", "builtins.", "typing.", "pathlib.", "collections.abc."):
        revealed = [text.replace(module, f"~{module}") for text in revealed]
    plain = ["".join(_without_modules(text)) for text in revealed]
    assert plain == REVEALED.split("\n")[1:-1], found.stdout
    errors = [line for line in lines if ": error:" in line]
    assert len(errors) == 4, found.stdout
    assert 'Unexpected keyword argument "epoch" for "fit"' in errors[0]
    assert 'Argument "keep" to "fit" has incompatible type' in errors[1]
    assert 'Unexpected keyword argument "knid" for "load_task"' in errors[2]
    assert 'Unexpected keyword argument "alhpa" for "IAT"' in errors[3]


def _without_modules(text: str) -> list[str]:
    """The type without the modules that its names come from."""
    import re

    return [re.sub(r"[\w.~]+\.", "", text).replace("~", "")]


def test_type_checkers_see_every_public_name() -> None:
    source = Path(bm.__file__).read_text()
    imported = {
        line.split(" as ")[1].strip()
        for line in source.splitlines()
        if line.startswith("    from brodmann.") and " as " in line
    }
    assert imported == set(bm._PUBLIC)
    assert (Path(bm.__file__).parent / "py.typed").is_file()
    assert all(getattr(bm, name) is not None for name in bm.__all__)


# Names that stand for values which only their reader knows, each declared once, with a comment.
ALIASES = {
    "Array": "numpy's own way to leave the type of numbers open",
    "Document": "what a JSON file holds",
    "Example": "one row: which values it has depends on the kind of its task",
}


def test_no_public_signature_holds_any() -> None:
    """Neither in parameters nor in results, fields included, of every public name and verb."""
    verbs = Path(bm.__file__).parent / "verbs"
    modules = [importlib.import_module(f"brodmann.verbs.{p.stem}") for p in verbs.glob("[a-z]*.py")]
    found = [place for name in bm._PUBLIC for place in untyped(getattr(bm, name), name)]
    for module in modules:
        for name, value in vars(module).items():
            if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__:
                found += untyped(value, name)
    assert found == []


class Odd:
    """What the walk has to find."""

    field: list[Any]

    def of(self, value: "dict[str, Any]") -> int:
        return len(value)


Hidden = dict[str, Any]


def hidden(value: Hidden) -> int:
    return len(value)


def test_any_in_a_signature_is_found() -> None:
    assert list(untyped(Odd, "Odd")) == ["Odd.field: list[Any]", "Odd.of: 'dict[str, Any]'"]
    assert list(untyped(hidden, "hidden")) == ["hidden: Hidden"]


def untyped(value: object, label: str) -> Iterator[str]:
    """The annotations with Any of a function, or of a class's fields and public methods."""
    if inspect.isclass(value):
        for base in value.__mro__:
            if base.__module__.startswith(("brodmann.", __name__)):
                yield from _of_class(base, label)
    elif inspect.isfunction(value):
        yield from _of_function(inspect.unwrap(value), label)


def _of_class(value: type, label: str) -> Iterator[str]:
    names = _names(sys.modules[value.__module__])
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(value))).body
    assert isinstance(tree, ast.ClassDef)
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            if not node.target.id.startswith("_") and _holds_any(node.annotation, names):
                yield f"{label}.{node.target.id}: {ast.unparse(node.annotation)}"
        elif isinstance(node, ast.FunctionDef) and _is_public(node.name):
            yield from _of_signature(node, names, f"{label}.{node.name}")


def _is_public(name: str) -> bool:
    return not name.startswith("_") or name in ("__init__", "__call__")


def _of_function(value: Any, label: str) -> Iterator[str]:
    names = _names(sys.modules[value.__module__])
    for one in typing.get_overloads(value) or [value]:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(one))).body
        assert isinstance(tree, ast.FunctionDef)
        yield from _of_signature(tree, names, label)


def _of_signature(node: ast.FunctionDef, names: dict[str, object], label: str) -> Iterator[str]:
    given = node.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    annotations = [one.annotation for one in every if one is not None]
    for annotation in (*annotations, node.returns):
        if annotation is not None and _holds_any(annotation, names):
            yield f"{label}: {ast.unparse(annotation)}"


@functools.cache
def _names(module: ModuleType) -> dict[str, object]:
    """The names of a module, also those that only type checkers import."""
    names = dict(vars(module))
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            exec(compile(ast.Module(node.body, []), module.__name__, "exec"), names)
    return names


def _holds_any(annotation: ast.expr, names: dict[str, object]) -> bool:
    for node in ast.walk(annotation):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                inner = ast.parse(node.value, mode="eval").body
            except SyntaxError:  # the words of a Literal
                continue
            if _holds_any(inner, names):
                return True
        elif isinstance(node, ast.Name) and node.id not in ALIASES:
            found = Any in _parts(names.get(node.id))
            if found:
                return True
    return False


def _parts(value: Any) -> list[object]:
    """A type and the types that it is made of, those of the keys of a typed dict included."""
    inner = [] if value == Array else list(typing.get_args(value))
    inner = [part for one in inner for part in (one if isinstance(one, list) else [one])]
    if typing.is_typeddict(value):
        inner += typing.get_type_hints(value).values()
    return [value, *(part for one in inner for part in _parts(one))]


def test_the_type_of_answers_has_every_key_that_answers_have(
    tasks_of_every_kind: list[bm.Task],
) -> None:
    model = bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks_of_every_kind)
    found: set[str] = set()
    for task in tasks_of_every_kind:
        kind = KINDS[task.spec.kind]
        row = kind.as_row(task.splits["train"][0], task.spec)
        asked = {task.spec.columns[role]: row[role] for role in row if role in task.spec.columns}
        (answer,) = model.predict(task.name, [asked])
        found |= set(answer)
        for entity in answer.get("entities", ()):
            assert set(entity) <= set(Entity.__annotations__)
    calibrated = {"set", "interval", "in_domain", "abstained"}
    assert found == set(Answer.__annotations__) - calibrated
