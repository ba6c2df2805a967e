"""From descriptions to tasks: read, check, divide, limit, and say what was decided on the way."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from brodmann.artifacts import digest
from brodmann.data import catalogue
from brodmann.data.description import TaskDescription, checked
from brodmann.data.division import Split, divide, draw, hold_out
from brodmann.data.kinds import KINDS, Kind
from brodmann.data.readers import SPLITS, Table, from_memory, read_file, read_folder, read_hub
from brodmann.data.tasks import Example, Task, TaskSpec
from brodmann.errors import InputError, did_you_mean

ROLES: tuple[str, ...] = (
    "text",
    "text_pair",
    "label",
    "choices",
    "question",
    "context",
    "answer",
    "answer_start",
)
ROLES += ("tokens", "tags")


@dataclass
class Loading:
    """What the tasks of one call share: the same file read once and divided once."""

    base: Path
    seed: int
    tables: dict[str, dict[str, Table]] = field(default_factory=dict)
    held_out: dict[int, set[int]] = field(default_factory=dict)  # validation rows, by table


def load_tasks(
    tasks: Sequence[str | Mapping[str, Any] | Task],
    *,
    base: str | Path = ".",
    seed: int = 0,
    where: str = "tasks",
) -> list[Task]:
    """Named tasks, task files (`x.toml`), descriptions and ready tasks, in the order given.

    `base` is the folder that relative paths start from; `seed` decides divisions and limits, so
    that all runs over the same files see the same examples whatever their training seed.
    """
    if isinstance(tasks, str | Mapping | Task):
        raise InputError(f"{where}: expected a list of tasks, found one {type(tasks).__name__}")
    loading = Loading(Path(base), seed)
    loaded: list[Task] = []
    for place, entry in enumerate(tasks):
        label = f"{where}[{place}]"
        if isinstance(entry, Task):
            task = entry
        elif not isinstance(entry, str | Mapping):
            raise InputError(f"{label}: expected a name or a description, found {entry!r:.60}")
        elif isinstance(entry, str) and entry.endswith(".toml"):
            path = loading.base / entry
            task = _load(read_task_file(path), str(path), replace(loading, base=path.parent))
        else:
            values = {"use": entry} if isinstance(entry, str) else dict(entry)
            task = _load(values, label, loading)
        if any(task.name == other.name for other in loaded):
            raise InputError(
                f"{label}: a second task is called '{task.name}': give it another 'name'"
            )
        loaded.append(task)
    if not loaded:
        raise InputError(f"{where}: expected at least one task, found none")
    return loaded


def load_task(name: str, *, base: str | Path = ".", seed: int = 0, **description: Any) -> Task:
    """One task from keyword arguments; `train`, `validation`, `test` and `data` take paths,
    lists of dicts, dicts of lists or DataFrames."""
    return _load({"name": name, **description}, f"task '{name}'", Loading(Path(base), seed))


def read_task_file(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not TOML ({error})") from None


def resolve(values: Mapping[str, Any], where: str) -> tuple[TaskDescription, str]:
    """The description with its named task filled in, and the task's name; reads no data."""
    named = values.get("use")
    if named is not None and not isinstance(named, str):
        raise InputError(f"{where}: use = {named!r}: expected the name of a task")
    base = catalogue.description(named, where) if named else {}
    task = checked(TaskDescription, {**base, **values}, where)
    name = task.name or (catalogue.short_name(named) if named else None)
    if not name:
        raise InputError(f"{where}: the key 'name' is missing")
    if not all(c.isalnum() or c in "_-/:" for c in name):
        raise InputError(f"{where}: name = '{name}': expected letters, digits, '_', '-', '/', ':'")
    if task.kind is None:
        raise InputError(f"{where}: the key 'kind' is missing, expected one of {', '.join(KINDS)}")
    if task.kind not in KINDS:
        raise InputError(f"{where}: unknown kind '{task.kind}'{did_you_mean(task.kind, KINDS)}")
    _check_columns(task, KINDS[task.kind], where)
    metrics = KINDS[task.kind].METRICS
    if task.metric is not None and task.metric not in metrics:
        raise InputError(
            f"{where}: unknown metric '{task.metric}'{did_you_mean(task.metric, metrics)}"
        )
    if task.metric == "mean_squared_error":
        raise InputError(f"{where}: metric = 'mean_squared_error': the primary metric must be one "
                         "where higher is better, for example 'r2'")  # fmt: skip
    if task.class_weights is not None and not KINDS[task.kind].WEIGHTED_CLASSES:
        raise InputError(f"{where}: class_weights: not possible for the kind '{task.kind}'")
    given = [key for key in ("data", "hub", *SPLITS) if getattr(task, key) is not None]
    for key in given:
        if isinstance(getattr(task, key), str) and not getattr(task, key).strip():
            raise InputError(f"{where}: {key} = '': expected a path")
    if not given and not (named and catalogue.is_generated(named)):
        raise InputError(f"{where}: no source: give 'data', 'train' or 'hub'")
    if ("data" in given or "hub" in given) and len(given) > 1:
        raise InputError(f"{where}: {' and '.join(given)} exclude each other")
    if len(given) > 1 and "train" not in given:
        raise InputError(f"{where}: {' and '.join(given)} but no 'train'")
    return task, name


def _check_columns(task: TaskDescription, kind: Kind, where: str) -> None:
    for role in ROLES:
        column = getattr(task, role)
        if column is not None and role not in kind.REQUIRED + kind.OPTIONAL:
            hint = did_you_mean(role, kind.REQUIRED + kind.OPTIONAL)
            raise InputError(f"{where}: the kind '{task.kind}' has no column '{role}'{hint}")
        if column == []:
            raise InputError(f"{where}: {role} = []: expected the name of a column")


def _load(values: dict[str, Any], where: str, loading: Loading) -> Task:
    description, name = resolve(values, where)
    kind = KINDS[str(description.kind)]
    columns = {
        # A column that is not named is looked for under the role's own name.
        role: getattr(description, role) or role
        for role in (*kind.REQUIRED, *kind.OPTIONAL)
        if getattr(description, role) is not None or role in kind.REQUIRED
    }
    tables, notes = _tables(description, name, loading)
    labels = description.labels or _stated_labels(tables, columns)
    spec = TaskSpec(
        name=name,
        kind=str(description.kind),
        columns=columns,
        labels=None if labels is None else tuple(labels),
        weight=description.weight,
        group=description.group,
        language=description.language,
        source=_source(description),
        generated=description.use is not None and catalogue.is_generated(description.use),
        separator=description.separator,
    )
    splits = {
        split: _read_rows(table, spec, kind, description.skip_unlabelled, notes)
        for split, table in tables.items()
    }
    if "validation" not in splits:
        _hold_out(splits, spec, kind, description.validation_share, loading, notes)
    spec = kind.settle(spec, {split: part.examples for split, part in splits.items()})
    spec = replace(spec, metric=description.metric or _primary(spec, kind))
    if spec.scheme == "words" and all(label.isdecimal() for label in spec.label_list):
        notes.append(f"{name}: tags are numbers without names: give 'labels' to score entities")
    for split, part in splits.items():
        count = _limit_of(description, split)
        if count is not None and count < len(part.rows):
            notes.append(
                f"{name}: {count:,} of {len(part.rows):,} {split} examples drawn "
                f"(seed {loading.seed})"
            )
            part = splits[split] = draw(part, count, loading.seed)
        for index, example in enumerate(part.examples):
            try:
                part.examples[index] = kind.target(example, spec)
            except InputError as error:
                raise InputError(f"{part.where(index)}: task '{name}': {error}") from None
    train = splits["train"].examples
    spec = replace(spec, class_weights=_class_weights(description, spec, train, where))
    return Task(spec, {split: part.examples for split, part in splits.items()}, notes)


def _hold_out(
    splits: dict[str, Split],
    spec: TaskSpec,
    kind: Kind,
    share: float,
    loading: Loading,
    notes: list[str],
) -> None:
    whole = splits["train"]
    key = id(whole.table)  # alive as long as the call: `loading` holds it
    rule = "the same rows as the task before it"
    if key not in loading.held_out:
        strata = kind.strata(whole.examples, spec)
        targets = (*kind.TARGETS, "answers")
        loading.held_out[key] = hold_out(whole, strata, targets, share, loading.seed)
        rule = "stratified"
    train, validation = divide(whole, loading.held_out[key], spec.name)
    splits |= {"train": train, "validation": validation}
    notes.append(
        f"{spec.name}: no validation split: {len(validation.rows):,} of {len(whole.rows):,} "
        f"training examples held out ({rule}, seed {loading.seed})"
    )


def _limit_of(description: TaskDescription, split: str) -> int | None:
    """`limit = 2000` is about the training examples; a table names the splits."""
    limits = description.limit
    if isinstance(limits, dict):
        return {str(name): count for name, count in limits.items()}.get(split)
    return limits if split == "train" else None


def _primary(spec: TaskSpec, kind: Kind) -> str:
    return "accuracy" if spec.scheme == "words" else kind.METRICS[0]


def _source(description: TaskDescription) -> str:
    if description.hub:
        return f"hub:{description.hub}" + (
            f"/{description.hub_config}" if description.hub_config else ""
        )
    for key in ("data", "train"):
        if isinstance(getattr(description, key), str | Path):
            return str(getattr(description, key))
    return description.use or "memory"


def _tables(
    description: TaskDescription, name: str, loading: Loading
) -> tuple[dict[str, Table], list[str]]:
    notes: list[str] = []
    encoding = description.encoding
    if description.use and catalogue.is_generated(description.use):
        return catalogue.generate(description.use, description.limit, loading.seed), notes
    if description.hub:
        key = digest([description.hub, description.hub_config])
        if key not in loading.tables:
            loading.tables[key] = read_hub(description.hub, description.hub_config)
        tables = loading.tables[key]
    elif description.data is not None:
        tables = _read_once(description.data, name, encoding, loading)
    else:
        tables = {}
        for split in SPLITS:
            source = getattr(description, split)
            if source is not None:
                read = _read_once(source, f"{name}.{split}", encoding, loading)
                if len(read) > 1:
                    raise InputError(
                        f"{loading.base / source}: holds several splits ({', '.join(read)}): "
                        f"give the folder as 'data', or one of its files as '{split}'"
                    )
                tables[split] = next(iter(read.values()))
    if len(tables) == 1 and "train" not in tables:
        only = next(iter(tables))
        notes.append(f"{name}: only a {only} split: it is divided into training and validation")
        tables = {"train": tables[only]}
    if "train" not in tables:
        found = ", ".join(tables)
        raise InputError(f"task '{name}': no split called 'train', found {found}")
    unlabelled = [s for s, table in tables.items() if s != "train" and _hidden(table, description)]
    unused = [split for split in tables if split not in SPLITS]
    if unlabelled or unused:
        reasons = [f"{split} (labels not public)" for split in unlabelled] + unused
        notes.append(f"{name}: splits not used: {', '.join(reasons)}")
    return {s: tables[s] for s in SPLITS if s in tables and s not in unlabelled}, notes


def _hidden(table: Table, description: TaskDescription) -> bool:
    """The hub writes -1 for every label of a test set whose labels are kept back."""
    column = description.label or "label"
    return all(row.get(column) == -1 for row in table.rows)


def _read_once(source: Any, name: str, encoding: str, loading: Loading) -> dict[str, Table]:
    in_memory = not isinstance(source, str | Path)
    key = f"memory {id(source)}" if in_memory else f"{loading.base / source} {encoding}"
    if key not in loading.tables:
        path = loading.base if in_memory else loading.base / source
        if in_memory:
            loading.tables[key] = {"train": from_memory(source, name)}
        elif path.is_dir():
            loading.tables[key] = read_folder(path, encoding)
        else:
            loading.tables[key] = {"train": read_file(path, encoding)}
    return loading.tables[key]


def _stated_labels(tables: Mapping[str, Table], columns: Mapping[str, Any]) -> list[str] | None:
    column = columns.get("label") or columns.get("tags")
    return next((t.label_names[column] for t in tables.values() if column in t.label_names), None)


def _read_rows(
    table: Table, spec: TaskSpec, kind: Kind, skip_unlabelled: bool, notes: list[str]
) -> Split:
    present = set(table.columns())
    for role, column in spec.columns.items():
        for single in [column] if isinstance(column, str) else column:
            if single not in present:
                raise InputError(
                    f"{table.source}: task '{spec.name}' needs the column '{single}' ({role}), "
                    f"found {', '.join(sorted(present))}{_hint(single, present)}"
                )
    split = Split(table, [], [])
    for index, row in enumerate(table.rows):
        by_role = {role: _cell(row, column, role) for role, column in spec.columns.items()}
        target = kind.TARGETS[0]
        if _missing(by_role[target], spec.kind):
            if skip_unlabelled:
                continue
            raise InputError(
                f"{table.where(index)}: task '{spec.name}': the {target} is empty "
                "(skip_unlabelled = true leaves such rows out)"
            )
        try:
            split.examples.append(kind.read(by_role, spec, True))
        except InputError as error:
            raise InputError(f"{table.where(index)}: task '{spec.name}': {error}") from None
        split.rows.append(index)
    if not split.rows:
        raise InputError(f"{table.source}: task '{spec.name}': no row has a label")
    blank = sum(not str(example.get("text", "-")).strip() for example in split.examples)
    if blank:
        notes.append(f"{spec.name}: {blank:,} examples of {table.source} have an empty text")
    if len(split.rows) < len(table.rows):
        skipped = len(table.rows) - len(split.rows)
        notes.append(f"{spec.name}: {skipped:,} rows without a label left out of {table.source}")
    return split


def _missing(value: Any, kind: str) -> bool:
    """No label. An empty answer (span) and an empty list of labels (multilabel) are answers."""
    if value is None:
        return kind != "span"
    return isinstance(value, str) and not value.strip() and kind not in ("span", "multilabel")


def _hint(column: str, present: set[str]) -> str:
    hint = did_you_mean(column, sorted(present))
    return hint if "did you mean" in hint else ""


def _cell(row: Mapping[str, Any], column: str | list[str], role: str) -> Any:
    """A column's value; several columns are a list of choices, or one text joined by spaces."""
    if isinstance(column, str):
        return row.get(column)
    values = [row.get(single) for single in column]
    if role == "choices":
        return values
    missing = next((c for c, v in zip(column, values, strict=True) if not isinstance(v, str)), None)
    if missing is not None:
        return row.get(missing)  # the kind's own reader says what is wrong with it
    return " ".join(value for value in values if value)


def _class_weights(
    description: TaskDescription, spec: TaskSpec, train: Sequence[Example], where: str
) -> tuple[float, ...] | None:
    """Weights by label, scaled so that the mean over the training examples is 1."""
    given = description.class_weights
    if given is None:
        return None
    if isinstance(given, dict):
        unknown = next((name for name in given if name not in spec.label_list), None)
        if unknown is not None:
            hint = did_you_mean(unknown, spec.label_list)
            raise InputError(f"{where}: class_weights: unknown label '{unknown}'{hint}")
    key = "tags" if spec.kind == "tokens" else "label"
    indices = np.concatenate([np.atleast_1d(example[key]) for example in train])
    counts = np.bincount(indices, minlength=len(spec.label_list))
    if isinstance(given, dict):
        weights = np.array([given.get(name, 1.0) for name in spec.label_list])
    else:
        weights = 1.0 / np.maximum(counts, 1)
    weights = weights / ((weights * counts).sum() / counts.sum())
    return tuple(float(weight) for weight in weights)
