"""Tables of settings: common checks, and one line for each kind of error.

A `Section` is one table of a TOML file. `Settings` is a section that Python code also fills in, by
keyword: configuration and Python share its defaults, bounds and error messages.
"""

import difflib
import itertools
import re
import tomllib
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo

from brodmann.errors import InputError, did_you_mean

DEEPEST = 50  # tables in tables
_QUOTED = re.compile(  # TOML strings and comments
    r'"""(?:\\.|[^\\])*?"""|\'{3}.*?\'{3}|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*', re.DOTALL
)
PositiveInt = Annotated[int, Field(gt=0, le=10**9)]
PositiveFloat = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
PositiveShare = Annotated[float, Field(gt=0, le=1)]
Seed = Annotated[int, Field(ge=0, lt=2**31)]


class Section(BaseModel):
    """A table: undeclared keys are errors, and strings are never silently converted to numbers."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    in_memory: ClassVar[tuple[str, ...]] = ()  # keys that may hold rows instead of a path


class Settings(Section):
    """A section for Python as well: immutable; wrong keywords raise `InputError`.

    Tuples, mappings and NumPy numbers are converted to lists, tables and numbers.
    """

    model_config = ConfigDict(frozen=True)

    if not typing.TYPE_CHECKING:  # type checkers derive the keywords from the fields

        def __init__(self, /, **values: Any) -> None:
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise InputError(explain(error, type(self), type(self).__name__)) from None

        # Inside another section, pydantic validates in place, so that a message has the whole path.
        __init__.__pydantic_base_init__ = True

    @model_validator(mode="before")
    @classmethod
    def _plain_values(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        return {key: _plain(value) for key, value in values.items()}


SectionType = TypeVar("SectionType", bound=Section)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML into a dict; any problem is a ValueError."""
    # tomllib recurses, and how deep it may go depends on what else the process has loaded.
    brackets = (1 if b in "[{" else -1 for b in re.findall(r"[\[{}\]]", _QUOTED.sub("", text)))
    if max(itertools.accumulate(brackets), default=0) > DEEPEST:
        raise ValueError("tables or lists are nested too deeply")
    return tomllib.loads(text)


def read_settings(path: Path) -> dict[str, Any]:
    """The configuration that a run stored."""
    try:
        return parse_toml(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: damaged ({error}): remove the folder, or restore it") from None


def checked(section: type[SectionType], values: Mapping[str, Any], where: str) -> SectionType:
    """`values` as a `section`; an error is one line: where, which key, found and expected."""
    _check_no_nul(values, section.in_memory, where)
    try:
        return section.model_validate(values)
    except ValidationError as error:
        raise InputError(explain(error, section, where)) from None


def _check_no_nul(values: Mapping[str, Any], in_memory: tuple[str, ...], where: str) -> None:
    """Raise InputError for NUL in a path or name: the system takes it for the end of the text."""
    left: list[tuple[tuple[str, ...], Any]] = [
        ((key,), value)
        for key, value in values.items()
        if isinstance(value, str) or key not in in_memory
    ]
    while left:
        keys, value = left.pop()
        if isinstance(value, str) and "\0" in value:
            raise InputError(f"{where}: {'.'.join(keys)} = {value!r:.80}: contains a NUL character")
        if len(keys) > DEEPEST:
            raise InputError(f"{where}: {keys[0]}: tables or lists are nested too deeply")
        if isinstance(value, dict):
            left += [((*keys, str(key)), inner) for key, inner in value.items()]
        elif isinstance(value, list):
            left += [((*keys, str(place)), inner) for place, inner in enumerate(value)]


def explain(error: ValidationError, section: type[BaseModel], where: str) -> str:
    """One line for a validation error: where, which key, what was found and what was expected."""
    # A union reports one problem per member: the deepest one is closest to what the user meant.
    problems = error.errors(include_url=False)
    deepest = max(problems, key=lambda p: len(p["loc"]))
    problem = next((p for p in problems if p["type"] == "extra_forbidden"), deepest)
    path = _keys(problem["loc"])
    key = ".".join(str(part) for part in path)
    if problem["type"] == "extra_forbidden":
        table = isinstance(problem["input"], dict)  # then no key of a single value was meant
        known = _keys_at(section, path[:-1], only_tables=table)
        elsewhere = _tables_with(section, str(path[-1]), only_tables=table)
        misspelt = difflib.get_close_matches(str(path[-1]), known, n=1, cutoff=0.85)
        if elsewhere and not misspelt:
            return f"{where}: unknown key '{key}'; did you mean {' or '.join(elsewhere)}?"
        return f"{where}: unknown key '{key}'{did_you_mean(str(path[-1]), known)}"
    if problem["type"] == "missing":
        return f"{where}: the key '{key}' is missing"
    found = problem["input"]
    if isinstance(found, dict) and problem["type"] == "value_error" and _section_at(section, path):
        place = f"{where}: {key}" if key else where  # keys that do not agree with each other
        return f"{place}: {_sentence(problem['msg'])}"
    shown = f"{found!r:.80}" if not isinstance(found, dict) else "a table"
    same_place = [p for p in problems if _keys(p["loc"]) == path]  # one per member of a union
    expected = " or ".join(dict.fromkeys(_sentence(p["msg"]) for p in same_place))
    return f"{where}: {key} = {shown}: {expected}"


def _sentence(message: str) -> str:
    text = message.removeprefix("Value error, ")
    return text[0].lower() + text[1:]


def _keys(location: tuple[int | str, ...]) -> list[int | str]:
    """The keys of a location, without the type names that pydantic adds for members of a union."""
    types_of_unions = ("str", "float", "int", "bool")
    return [
        part
        for part in location
        if isinstance(part, int)
        or (part.isidentifier() and part.islower() and part not in types_of_unions)
    ]


def _keys_at(section: type[BaseModel], path: list[Any], *, only_tables: bool) -> list[str]:
    """The keys of the table at `path`; `only_tables`: those whose values are tables themselves."""
    found = _section_at(section, path)
    fields = {} if found is None else found.model_fields
    tables = [name for name, field in fields.items() if _may_be_table(field.annotation)]
    return tables if only_tables and tables else list(fields)


def _section_at(section: type[BaseModel], path: list[Any]) -> type[BaseModel] | None:
    """The section that the table at `path` must be, or None if it may be any value."""
    for part in path:
        if isinstance(part, int):
            continue
        field = section.model_fields.get(part)
        inner = (
            next((t for t in _members(field.annotation) if _is_section(t)), None) if field else None
        )
        if inner is None:
            return None
        section = inner
    return section


def _tables_with(section: type[BaseModel], key: str, *, only_tables: bool) -> list[str]:
    """The tables that have a key, as `'table.key'`, or the top level; `only_tables`: if the value
    of the key is a table, too."""

    def fits(fields: Mapping[str, FieldInfo]) -> bool:
        return key in fields and (not only_tables or _may_be_table(fields[key].annotation))

    found = [f"'{key}' at the top level"] if fits(section.model_fields) else []
    # Tables that every configuration has come before optional ones.
    tables = sorted(section.model_fields.items(), key=lambda item: item[1].default_factory is None)
    for name, field in tables:
        inner = next((t for t in _members(field.annotation) if _is_section(t)), None)
        if inner is not None and name != "tasks" and fits(inner.model_fields):
            found.append(f"'{name}.{key}'")
    return found


def _may_be_table(annotation: Any) -> bool:
    """Whether a value of this type may be a table, or a list of tables."""
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType, list, Annotated):
        return any(_may_be_table(inner) for inner in typing.get_args(annotation))
    return annotation is Any or origin is dict or _is_section(annotation)


def _members(annotation: Any) -> list[Any]:
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType, list, dict, Annotated):
        return [m for argument in typing.get_args(annotation) for m in _members(argument)]
    return [annotation]


def _is_section(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
