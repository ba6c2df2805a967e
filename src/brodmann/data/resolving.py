"""Resolve: fill in the named task of a description, and check it before any data are read."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from brodmann.data import catalogue
from brodmann.data.catalogue import COLUMNS
from brodmann.data.description import HUB_KEYS, TaskDescription
from brodmann.data.kinds import KINDS, Kind
from brodmann.data.metrics import Metric
from brodmann.data.schema import checked, parse_toml
from brodmann.data.sources.dataset_shapes import MAKES, SHAPES
from brodmann.data.sources.table import SPLITS
from brodmann.data.tasks import TaskSpec
from brodmann.errors import InputError, did_you_mean

SAME_CLASS = ["different", "same"]  # the labels of a task made with pair_of


@dataclass(frozen=True)
class Request:
    """A checked description, the name of its task, and the place where it is written."""

    description: TaskDescription
    name: str
    where: str
    asked: str = ""  # the named task asked for, if another one is read instead

    @property
    def kind(self) -> Kind:
        return KINDS[str(self.description.kind)]


def resolve(values: Mapping[str, Any], where: str) -> Request:
    """Fill in the named task that `values` starts from, and check all keys."""
    named = values.get("use")
    if named is not None and (not isinstance(named, str) or not named):
        raise InputError(f"{where}: use = {named!r}: expected the name of a task")
    base = catalogue.description(named, where) if named else {}
    if "metric" in values or "kind" in values:
        base.pop("metrics", None)
    task = checked(TaskDescription, {**base, **values}, where)
    name = task.name or (catalogue.short_name(named) if named else None)
    _check_names(task, name, where)
    _check_kind(task, where)
    _check_sources(task, where)
    return Request(task, str(name), where)


def resolve_here(values: Mapping[str, Any], where: str, base: Path) -> Request:
    """Resolve; if the folder of a named dataset is missing, another may be read instead."""
    request = resolve(values, where)
    description = request.description
    if description.use is None or description.has_files or description.asks_hub:
        return request
    entry, languages = catalogue.find(description.use, where)
    other = catalogue.substitute(entry, languages[0], base)
    if other is None:
        return request
    again = resolve({**values, "use": other.name, "name": request.name}, where)
    return replace(again, asked=description.use)


def resolve_pairs(values: Mapping[str, Any], base: TaskSpec, where: str) -> Request:
    """Resolve a task over pairs of texts of another task (`pair_of`), which is already read."""
    if base.kind != "classification" or base.pair:
        raise InputError(f"{where}: pair_of needs a classification of single texts")
    filled = {
        "name": f"{base.name}_pair",
        "kind": "classification",
        "text_pair": "text_pair",
        "labels": SAME_CLASS,
        "language": base.language,
        **values,
    }
    return resolve(filled, where)


def read_task_file(path: Path) -> dict[str, Any]:
    try:
        return parse_toml(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise InputError(f"{path}: not TOML ({error})") from None


def _check_names(task: TaskDescription, name: str | None, where: str) -> None:
    expected = "expected letters, digits, '_', '-', '/', ':'"
    if not name:
        raise InputError(f"{where}: the key 'name' is missing")
    if not _is_name(name) or not name[0].isalnum():
        raise InputError(f"{where}: name = '{name}': {expected}")
    if task.head and not _is_name(task.head):
        raise InputError(f"{where}: head = '{task.head}': {expected}")


def _is_name(text: str) -> bool:
    return all(c.isalnum() or c in "_-/:" for c in text)


def _check_kind(task: TaskDescription, where: str) -> None:
    """Check that the kind is known, and that it has the columns, metrics and options asked for."""
    if task.kind is None:
        raise InputError(f"{where}: the key 'kind' is missing, expected one of {', '.join(KINDS)}")
    if task.kind not in KINDS:
        raise InputError(f"{where}: unknown kind '{task.kind}'{did_you_mean(task.kind, KINDS)}")
    if task.shape is not None and task.shape not in SHAPES:
        raise InputError(f"{where}: unknown shape '{task.shape}'{did_you_mean(task.shape, SHAPES)}")
    _check_columns(task, KINDS[task.kind], where)
    _check_metrics(task, KINDS[task.kind].METRICS, where)
    for key, kind in (("tag_scheme", "tokens"), ("misaligned", "tokens"), ("answer_rules", "span")):
        if getattr(task, key) is not None and task.kind != kind:
            raise InputError(f"{where}: {key}: is allowed only for the kind '{kind}'")
    if task.class_weights is not None and not KINDS[task.kind].WEIGHTED_CLASSES:
        raise InputError(f"{where}: class_weights are not supported for the kind '{task.kind}'")


def _check_columns(task: TaskDescription, kind: Kind, where: str) -> None:
    for role in COLUMNS:
        column = getattr(task, role)
        if column is not None and role not in kind.REQUIRED + kind.OPTIONAL:
            hint = did_you_mean(role, kind.REQUIRED + kind.OPTIONAL)
            raise InputError(f"{where}: the kind '{task.kind}' has no column '{role}'{hint}")
        if column == []:
            raise InputError(f"{where}: {role} = []: expected the name of a column")


def _check_metrics(task: TaskDescription, known: Mapping[str, Metric], where: str) -> None:
    made = MAKES.get(task.shape or "", ())
    without_sets = task.kind == "classification" and task.set is None and "set" not in made
    for metric in ([task.metric] if task.metric is not None else []) + (task.metrics or []):
        if metric == "exact_match" and without_sets:
            raise InputError(f"{where}: metric = 'exact_match' needs the column 'set'")
        if metric not in known:
            possible = [name for name in known if name != "exact_match" or not without_sets]
            raise InputError(f"{where}: unknown metric '{metric}'{did_you_mean(metric, possible)}")
    primary = task.metric or (task.metrics[0] if task.metrics else None)
    if primary is not None and known[primary].lower_is_better:
        better = [name for name, metric in known.items() if not metric.lower_is_better]
        raise InputError(
            f"{where}: metric = '{primary}': the primary metric must be one where higher is "
            f"better, for example '{better[-1]}'"
        )


def _check_sources(task: TaskDescription, where: str) -> None:
    """Check that the description names exactly one source of rows."""
    given = [key for key in ("data", "hub", *SPLITS) if getattr(task, key) is not None]
    for key in given:
        if isinstance(getattr(task, key), str) and not getattr(task, key).strip():
            raise InputError(f"{where}: {key} = '': expected a path")
    asked = next((key for key in HUB_KEYS if getattr(task, key) is not None), None)
    if task.use and catalogue.is_generated(task.use) and asked:
        raise InputError(
            f"{where}: use = '{task.use}' is generated here: leave '{asked}' out, or describe the "
            "task without 'use'"
        )
    if not given and not task.use and task.pair_of is None:
        raise InputError(f"{where}: no source: set 'data', 'train' or 'hub'")
    if task.pair_of is not None:
        others = ("use", "splits", "shape", *HUB_KEYS[1:])
        given = [key for key in ("pair_of", *others, *given) if getattr(task, key) is not None]
    if ({"data", "hub", "pair_of"} & set(given)) and len(given) > 1:
        raise InputError(f"{where}: {' and '.join(given)} cannot be combined")
    if len(given) > 1 and "train" not in given:
        raise InputError(f"{where}: {' and '.join(given)} are given without 'train'")
