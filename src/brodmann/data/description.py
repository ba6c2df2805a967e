"""How a task is described: in a configuration, in a file of its own, or as keyword arguments.

One schema for all three, so that a wrong key gets the same answer everywhere.
"""

import difflib
import tomllib
import types
import typing
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from brodmann.errors import InputError, did_you_mean

Columns = str | list[str]
IN_MEMORY = ("data", "train", "validation", "test")  # these may be rows instead of a path
DEEPEST = 50  # tables in tables
PositiveInt = Annotated[int, Field(gt=0, le=10**9)]


class Section(BaseModel):
    """Keys that nobody declared are an error; numbers are not silently made from strings."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


SectionType = TypeVar("SectionType", bound=Section)


class TaskDescription(Section):
    """Where a task's examples are, which columns hold what, and how it counts."""

    use: str | None = Field(None, description="a named task to start from, e.g. builtin/sentiment")
    name: str | None = Field(None, description="its name in scores, files and predict")
    kind: str | None = Field(None, description="what is asked: classification, regression, ...")

    data: Any = Field(None, description="file with all examples, or a folder of splits")
    train: Any = None
    validation: Any = None
    test: Any = None
    hub: str | None = Field(None, description="dataset id of the Hugging Face hub")
    hub_config: str | None = None
    hub_revision: str | None = None
    splits: dict[str, str] | None = Field(
        None, description='our split = the source\'s, e.g. { validation = "dev" }'
    )
    shape: str | None = Field(None, description="how rows of odd datasets are read: wic, copa, ...")
    pair_of: Any = Field(None, description="a classification task: do two texts share a class?")
    encoding: str = "utf-8"

    text: Columns | None = Field(None, description="column; several are joined by a space")
    text_pair: Columns | None = None
    label: str | None = None
    set: str | None = Field(None, description="examples scored together (MultiRC's questions)")
    choices: Columns | None = Field(None, description="a column with a list, or several columns")
    choice_names: str | None = Field(None, description="what each choice is called in answers")
    question: Columns | None = None
    context: str | None = None
    answer: str | None = Field(None, description="text, or the hub's {text, answer_start}")
    answer_start: str | None = None
    aliases: str | None = Field(None, description="right answers that need not be in the context")
    tokens: str | None = None
    tags: str | None = None

    labels: list[str] | None = Field(None, description="label names in order; found if left out")
    separator: str = Field(
        "|", min_length=1, description="between the labels of a multi-label cell"
    )
    skip_unlabelled: bool = Field(False, description="leave out rows with an empty label")
    validation_share: float = Field(0.1, gt=0, lt=1, description="held out if no validation set")
    limit: PositiveInt | dict[Literal["train", "validation", "test"], PositiveInt] | None = None

    metric: str | None = Field(None, description="the primary metric")
    metrics: list[str] | None = Field(None, description="those to show; the first is primary")
    tag_scheme: Literal["bio", "iob1", "iob2", "bioes"] | None = Field(
        None, description="of the tags in the data; converted to BIO and checked"
    )
    answer_rules: Literal["squad", "mlqa"] | None = Field(
        None, description="how answers are compared; by language if left out"
    )
    weight: float = Field(1.0, gt=0, description="multiplies the task's loss")
    class_weights: Literal["balanced"] | dict[str, float] | None = None
    group: str | None = Field(None, description="a family of tasks, for clusters")
    language: str | None = None
    head: str | None = Field(
        None, min_length=1, description="an output head shared with tasks that name the same"
    )

    @field_validator("labels")
    @classmethod
    def _labels_are_distinct(cls, labels: list[str] | None) -> list[str] | None:
        if labels is not None and len(set(labels)) < len(labels):
            raise ValueError("a label name stands twice")
        if labels is not None and len(labels) < 2:
            raise ValueError("expected at least two label names")
        return labels

    @field_validator("splits")
    @classmethod
    def _splits_are_ours(cls, splits: dict[str, str] | None) -> dict[str, str] | None:
        for split in splits or {}:
            if split not in ("train", "validation", "test") and not split.startswith(
                ("validation_", "test_")
            ):
                raise ValueError(
                    f"'{split}' is not a split: expected train, validation, test, or further ones "
                    "such as validation_dialect"
                )
        return splits

    @field_validator("class_weights")
    @classmethod
    def _weights_are_positive(cls, weights: Any) -> Any:
        if isinstance(weights, dict) and any(not weight > 0 for weight in weights.values()):
            raise ValueError("every class weight must be above 0")
        return weights


def parse_toml(text: str) -> dict[str, Any]:
    """TOML as a dict; whatever is wrong with it is a ValueError."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("tables or lists are nested too deeply") from None


def read_settings(path: Path) -> dict[str, Any]:
    """The configuration that a run has stored."""
    try:
        return parse_toml(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: damaged ({error}): remove the folder, or restore it") from None


def checked(section: type[SectionType], values: dict[str, Any], where: str) -> SectionType:
    """`values` as a `section`, or one line: where, which key, what was found and expected."""
    _check_no_nul(values, where)
    try:
        return section.model_validate(values)
    except ValidationError as error:
        raise InputError(explain(error, section, where)) from None


def _check_no_nul(values: dict[str, Any], where: str) -> None:
    """No path and no name may hold a NUL: the system takes it for the end of the text."""
    left: list[tuple[tuple[str, ...], Any]] = [
        ((key,), value)
        for key, value in values.items()
        if isinstance(value, str) or key not in IN_MEMORY
    ]
    while left:
        keys, value = left.pop()
        if isinstance(value, str) and "\0" in value:
            raise InputError(f"{where}: {'.'.join(keys)} = {value!r:.80}: holds a NUL character")
        if len(keys) > DEEPEST:
            raise InputError(f"{where}: {keys[0]}: tables or lists are nested too deeply")
        if isinstance(value, dict):
            left += [((*keys, str(key)), inner) for key, inner in value.items()]
        elif isinstance(value, list):
            left += [((*keys, str(place)), inner) for place, inner in enumerate(value)]


def explain(error: ValidationError, section: type[BaseModel], where: str) -> str:
    # A union reports one problem per member: the deepest one is nearest to what the user meant.
    problems = error.errors(include_url=False)
    deepest = max(problems, key=lambda p: len(p["loc"]))
    problem = next((p for p in problems if p["type"] == "extra_forbidden"), deepest)
    path = _keys(problem["loc"])
    key = ".".join(str(part) for part in path)
    if problem["type"] == "extra_forbidden":
        known = _keys_at(section, path[:-1])
        elsewhere = _tables_with(section, str(path[-1]))
        misspelt = difflib.get_close_matches(str(path[-1]), known, n=1, cutoff=0.85)
        if elsewhere and not misspelt:
            return f"{where}: unknown key '{key}'; did you mean {' or '.join(elsewhere)}?"
        return f"{where}: unknown key '{key}'{did_you_mean(str(path[-1]), known)}"
    found = problem["input"]
    shown = f"{found!r:.80}" if not isinstance(found, dict) else "a table"
    if problem["type"] == "missing":
        return f"{where}: the key '{key}' is missing"
    same_place = [p for p in problems if _keys(p["loc"]) == path]  # one a member of a union
    expected = " or ".join(dict.fromkeys(_sentence(p["msg"]) for p in same_place))
    return f"{where}: {key} = {shown}: {expected}"


def _sentence(message: str) -> str:
    text = message.removeprefix("Value error, ")
    return text[0].lower() + text[1:]


def _keys(location: tuple[int | str, ...]) -> list[int | str]:
    """Members of a union stand in a location by their type's name, which no user wrote."""
    types_of_unions = ("str", "float", "int", "bool")
    return [
        part
        for part in location
        if isinstance(part, int)
        or (part.isidentifier() and part.islower() and part not in types_of_unions)
    ]


def _keys_at(section: type[BaseModel], path: list[Any]) -> list[str]:
    """The keys that the table at `path` knows."""
    for part in path:
        if isinstance(part, int):
            continue
        field = section.model_fields.get(part)
        inner = (
            next((t for t in _members(field.annotation) if _is_section(t)), None) if field else None
        )
        if inner is None:
            return []
        section = inner
    return list(section.model_fields)


def _tables_with(section: type[BaseModel], key: str) -> list[str]:
    """Where a key has its place, as `'table.key'`: in tables of the section, or on its top."""
    found = [f"'{key}' at the top level"] if key in section.model_fields else []
    # Tables that every configuration has come before those that one may add.
    tables = sorted(section.model_fields.items(), key=lambda item: item[1].default_factory is None)
    for name, field in tables:
        inner = next((t for t in _members(field.annotation) if _is_section(t)), None)
        if inner is not None and name != "tasks" and key in inner.model_fields:
            found.append(f"'{name}.{key}'")
    return found


def _members(annotation: Any) -> list[Any]:
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType, list, dict, Annotated):
        return [m for argument in typing.get_args(annotation) for m in _members(argument)]
    return [annotation]


def _is_section(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
