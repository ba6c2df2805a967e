"""From descriptions to tasks: read, check, divide, limit, and say what was decided on the way."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from brodmann.data import catalogue
from brodmann.data.catalogue import COLUMNS
from brodmann.data.description import TaskDescription
from brodmann.data.draws.division import Split, draw, with_validation
from brodmann.data.draws.pairs import balanced_pairs
from brodmann.data.kinds import KINDS, Kind
from brodmann.data.schema import checked, parse_toml
from brodmann.data.sources.dataset_shapes import MAKES, SHAPES
from brodmann.data.sources.named import HUB_KEYS, Loading, has_files, substitute, tables_of
from brodmann.data.sources.readers import SPLITS, Table
from brodmann.data.sources.table_rows import read_rows
from brodmann.data.suspicions import check_learnable, suspicions
from brodmann.data.tag_schemes import loose_beginnings
from brodmann.data.tasks import Example, Task, TaskSpec
from brodmann.errors import InputError, did_you_mean

SAME_CLASS = ["different", "same"]  # the labels of a task made with pair_of


def load_tasks(
    tasks: Sequence[str | Mapping[str, Any] | Task],
    *,
    base: str | Path = ".",
    seed: int = 0,
    where: str = "tasks",
) -> list[Task]:
    """Named tasks, task files (`x.toml`), descriptions and ready tasks, in the order given.

    `base` is the folder that relative paths start from, and in which named datasets are looked for
    (`<base>/<dataset>/<split>.jsonl.gz`) before the hub is asked; `seed` decides divisions and
    limits, so that all runs over the same files see the same examples whatever their training seed.
    """
    if isinstance(tasks, str | Mapping | Task):
        raise InputError(f"{where}: expected a list of tasks, found one {type(tasks).__name__}")
    loading = Loading(Path(base), seed)
    for place, entry in enumerate(tasks):  # what is written wrong, before anything is read
        if isinstance(entry, str) and not entry.endswith(".toml"):
            catalogue.find(entry, f"{where}[{place}]")
        elif isinstance(entry, Mapping) and entry.get("pair_of") is None:
            resolve(entry, f"{where}[{place}]")
    loaded: list[Task] = []
    for place, entry in enumerate(tasks):
        label = f"{where}[{place}]"
        task = entry if isinstance(entry, Task) else _load_entry(entry, label, loading)
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


def _load_entry(entry: Any, where: str, loading: Loading) -> Task:
    """A name, the path of a task file, or a description."""
    if not isinstance(entry, str | Mapping):
        raise InputError(f"{where}: expected a name or a description, found {entry!r:.60}")
    if isinstance(entry, str) and entry.endswith(".toml"):
        path = loading.base / entry
        values = read_task_file(path)
        if path.resolve() in loading.files:
            raise InputError(f"{path}: its pair_of leads back to itself")
        opened = (*loading.files, path.resolve())
        return _load(values, str(path), replace(loading, base=path.parent, files=opened))
    return _load({"use": entry} if isinstance(entry, str) else dict(entry), where, loading)


def read_task_file(path: Path) -> dict[str, Any]:
    try:
        return parse_toml(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise InputError(f"{path}: not TOML ({error})") from None


def resolve(values: Mapping[str, Any], where: str) -> tuple[TaskDescription, str]:
    """The description with its named task filled in, and the task's name; reads no data."""
    named = values.get("use")
    if named is not None and (not isinstance(named, str) or not named):
        raise InputError(f"{where}: use = {named!r}: expected the name of a task")
    base = catalogue.description(named, where) if named else {}
    if "metric" in values or "kind" in values:
        base.pop("metrics", None)
    task = checked(TaskDescription, {**base, **values}, where)
    name = task.name or (catalogue.short_name(named) if named else None)
    if not name:
        raise InputError(f"{where}: the key 'name' is missing")
    if not all(c.isalnum() or c in "_-/:" for c in name) or not name[0].isalnum():
        raise InputError(f"{where}: name = '{name}': expected letters, digits, '_', '-', '/', ':'")
    if task.head and not all(c.isalnum() or c in "_-/:" for c in task.head):
        raise InputError(
            f"{where}: head = '{task.head}': expected letters, digits, '_', '-', '/', ':'"
        )
    if task.kind is None:
        raise InputError(f"{where}: the key 'kind' is missing, expected one of {', '.join(KINDS)}")
    if task.kind not in KINDS:
        raise InputError(f"{where}: unknown kind '{task.kind}'{did_you_mean(task.kind, KINDS)}")
    if task.shape is not None and task.shape not in SHAPES:
        raise InputError(f"{where}: unknown shape '{task.shape}'{did_you_mean(task.shape, SHAPES)}")
    _check_columns(task, KINDS[task.kind], where)
    _check_metrics(task, KINDS[task.kind].METRICS, where)
    for key, kind in (("tag_scheme", "tokens"), ("answer_rules", "span")):
        if getattr(task, key) is not None and task.kind != kind:
            raise InputError(f"{where}: {key}: only for the kind '{kind}'")
    if task.class_weights is not None and not KINDS[task.kind].WEIGHTED_CLASSES:
        raise InputError(f"{where}: class_weights: not possible for the kind '{task.kind}'")
    given = [key for key in ("data", "hub", *SPLITS) if getattr(task, key) is not None]
    for key in given:
        if isinstance(getattr(task, key), str) and not getattr(task, key).strip():
            raise InputError(f"{where}: {key} = '': expected a path")
    asked = next((key for key in HUB_KEYS if getattr(task, key) is not None), None)
    if named and catalogue.is_generated(named) and asked:
        raise InputError(
            f"{where}: use = '{named}' is generated here: leave '{asked}' out, or describe the "
            "task without 'use'"
        )
    if not given and not named and task.pair_of is None:
        raise InputError(f"{where}: no source: give 'data', 'train' or 'hub'")
    if task.pair_of is not None:
        others = ("use", "splits", "shape", *HUB_KEYS[1:])
        given = [key for key in ("pair_of", *others, *given) if getattr(task, key) is not None]
    if ({"data", "hub", "pair_of"} & set(given)) and len(given) > 1:
        raise InputError(f"{where}: {' and '.join(given)} exclude each other")
    if len(given) > 1 and "train" not in given:
        raise InputError(f"{where}: {' and '.join(given)} but no 'train'")
    return task, name


def _check_metrics(task: TaskDescription, known: Sequence[str], where: str) -> None:
    made = MAKES.get(task.shape or "", ())
    without_sets = task.kind == "classification" and task.set is None and "set" not in made
    for metric in ([task.metric] if task.metric is not None else []) + (task.metrics or []):
        if metric == "exact_match" and without_sets:
            raise InputError(f"{where}: metric = 'exact_match' needs the column 'set'")
        if metric not in known:
            possible = [name for name in known if name != "exact_match" or not without_sets]
            raise InputError(f"{where}: unknown metric '{metric}'{did_you_mean(metric, possible)}")
    primary = task.metric or (task.metrics[0] if task.metrics else None)
    if primary == "mean_squared_error":
        raise InputError(f"{where}: metric = 'mean_squared_error': the primary metric must be one "
                         "where higher is better, for example 'r2'")  # fmt: skip


def _check_columns(task: TaskDescription, kind: Kind, where: str) -> None:
    for role in COLUMNS:
        column = getattr(task, role)
        if column is not None and role not in kind.REQUIRED + kind.OPTIONAL:
            hint = did_you_mean(role, kind.REQUIRED + kind.OPTIONAL)
            raise InputError(f"{where}: the kind '{task.kind}' has no column '{role}'{hint}")
        if column == []:
            raise InputError(f"{where}: {role} = []: expected the name of a column")


def _load(values: dict[str, Any], where: str, loading: Loading) -> Task:
    if values.get("pair_of") is not None:
        return _load_pairs(values, where, loading)
    description, name = resolve(values, where)
    if description.use is not None and not has_files(description):
        entry, languages = catalogue.find(description.use, where)
        other = substitute(entry, languages[0], loading)
        if other is not None and not any(getattr(description, key) for key in HUB_KEYS):
            task = _load({**values, "use": other.name, "name": name}, where, loading)
            task.notes.append(f"{name}: read from {other.name} in its place")
            return replace(task, spec=replace(task.spec, named=description.use))
    tables, notes = tables_of(description, name, loading)
    return _from_tables(description, name, where, loading, tables, notes)


def _load_pairs(values: dict[str, Any], where: str, loading: Loading) -> Task:
    """Whether two texts of a classification task share their class (AG-Pair).

    `limit` chooses the texts that are paired: drawing from finished pairs would leave most of the
    texts standing in one pair instead of two.
    """
    base = _load_entry(values["pair_of"], f"{where}: pair_of", loading)
    if base.spec.kind != "classification" or base.spec.pair:
        raise InputError(f"{where}: pair_of needs a classification of single texts")
    filled = {
        "name": f"{base.name}_pair",
        "kind": "classification",
        "text_pair": "text_pair",
        "labels": SAME_CLASS,
        "language": base.spec.language,
        **values,
    }
    description, name = resolve(filled, where)
    tables, notes = {}, list(base.notes)
    for split, examples in base.splits.items():
        most = _limit_of(description, split)
        pairs = balanced_pairs([example["label"] for example in examples], loading.seed, most)
        if not pairs:
            raise InputError(
                f"{where}: pair_of: {split} has too few texts or classes for pairs, or a limit "
                "below 4"
            )
        rows = [
            {
                "text": examples[one]["text"],
                "text_pair": examples[two]["text"],
                "label": SAME_CLASS[same],
            }
            for one, two, same in pairs
        ]
        tables[split] = Table(f"pairs of {base.name} ({split})", rows, range(1, len(rows) + 1))
        if len(pairs) < len(examples):
            limited = "" if most is None or most >= len(examples) else f" (limit {most:,})"
            notes.append(
                f"{name}: {len(pairs):,} pairs of {len(examples):,} {split} texts{limited}: the "
                "most in which every text stands twice and half share their class"
            )
    description = description.model_copy(update={"limit": None})
    return _from_tables(description, name, where, loading, tables, notes)


def _from_tables(
    description: TaskDescription,
    name: str,
    where: str,
    loading: Loading,
    tables: dict[str, Table],
    notes: list[str],
) -> Task:
    kind = KINDS[str(description.kind)]
    made = MAKES.get(description.shape or "", ())
    columns = {
        # A column that is not named is looked for under the role's own name.
        role: getattr(description, role) or role
        for role in (*kind.REQUIRED, *kind.OPTIONAL)
        if getattr(description, role) is not None or role in kind.REQUIRED or role in made
    }
    labels = description.labels or _stated_labels(tables, columns)
    spec = TaskSpec(
        name=name,
        kind=str(description.kind),
        columns=columns,
        labels=None if labels is None else tuple(labels),
        weight=description.weight,
        group=description.group,
        language=description.language,
        head=description.head or "",
        source=_source(description),
        named=description.use or "",
        shape=description.shape or "",
        generated=description.use is not None and catalogue.is_generated(description.use),
        separator=description.separator,
        answer_rules=description.answer_rules or "",
        tag_scheme=description.tag_scheme or "",
    )
    splits = {
        split: read_rows(table, spec, kind, description.skip_unlabelled, notes)
        for split, table in tables.items()
    }
    for part in splits.values():
        if part.table.counted:
            continue
        for example, row in zip(part.examples, part.rows, strict=True):
            found = part.table.rows[row]  # of a union of languages: every example knows its own
            example |= {key: found[key] for key in ("language", "parallel") if key in found}
    if not spec.generated:
        check_learnable(spec, splits["train"].examples)
    if "validation" not in splits:
        targets = (*kind.TARGETS, "answers")
        share = description.validation_share
        splits |= with_validation(splits["train"], name, targets, share, loading, notes)
    spec = kind.settle(spec, {split: part.examples for split, part in splits.items()})
    primary = description.metric or (description.metrics or [_primary(spec, kind)])[0]
    shown = (primary, *(m for m in description.metrics or [] if m != primary))
    spec = replace(spec, metric=primary, metrics=shown)
    if spec.scheme == "words" and any(metric.startswith("entity_") for metric in shown):
        raise InputError(
            f"{where}: metric = '{shown[0]}': entities need tags such as B-PER and I-PER, found "
            f"{', '.join(spec.label_list[:4])}"
        )
    if spec.scheme == "words" and all(label.isdecimal() for label in spec.label_list):
        notes.append(f"{name}: tags are numbers without names: give 'labels' to score entities")
    drawn: list[str] = []
    for split, part in splits.items():
        count = _limit_of(description, split)
        if count is not None and count < len(part.rows):
            whole = len(part.rows)
            strata = [
                (stratum, example.get("language"))
                for stratum, example in zip(
                    kind.strata(part.examples, spec), part.examples, strict=True
                )
            ]
            part = splits[split] = draw(part, count, strata, loading.seed)
            drawn.append(f"{len(part.rows):,} of {whole:,} {split}")
        for index, example in enumerate(part.examples):
            try:
                part.examples[index] = kind.target(example, spec)
            except InputError as error:
                raise InputError(f"{part.where(index)}: task '{name}': {error}") from None
    if drawn:
        notes.append(f"{name}: {', '.join(drawn)} examples drawn (seed {loading.seed})")
    if spec.scheme == "entities":
        _note_loose_tags(spec, splits, notes)
    train = splits["train"].examples
    spec = replace(spec, class_weights=_class_weights(description, spec, train, where))
    examples = {split: part.examples for split, part in splits.items()}
    if not spec.generated:
        notes += suspicions(spec, examples)
    return Task(spec, examples, notes)


def _note_loose_tags(spec: TaskSpec, splits: Mapping[str, Split], notes: list[str]) -> None:
    """Tags that are not quite BIO are scored as conlleval does, but their writer may not know."""
    loose = sum(
        loose_beginnings([spec.label_list[tag] for tag in example["tags"]])
        for part in splits.values()
        for example in part.examples
    )
    if loose:
        notes.append(
            f'{spec.name}: {loose:,} entities begin with I-: tag_scheme = "iob1" converts them'
        )


def _limit_of(description: TaskDescription, split: str) -> int | None:
    """`limit = 2000` is about the training examples; a table names the splits."""
    limits = description.limit
    if isinstance(limits, dict):
        # validation_mismatched is limited as validation is
        return {str(name): count for name, count in limits.items()}.get(split.partition("_")[0])
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


def _stated_labels(tables: Mapping[str, Table], columns: Mapping[str, Any]) -> list[str] | None:
    column = columns.get("label") or columns.get("tags")
    return next((t.label_names[column] for t in tables.values() if column in t.label_names), None)


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
