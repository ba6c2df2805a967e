"""Tasks known by name: the built-in suite, and the public datasets listed in `catalogue.toml`.

A name is `group/dataset` or `dataset`, with `:language` (or `:en+es`, a union of languages) if the
dataset has several. A named task is simply a description that ships with the package.
"""

import tomllib
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from brodmann.data import builtin
from brodmann.errors import InputError, did_you_mean

BUILTIN_SIZES = {"train": 2000, "validation": 500, "test": 500}
COLUMNS: tuple[str, ...] = ("text", "text_pair", "label", "set", "choices", "choice_names")
COLUMNS += ("question", "context", "answer", "answer_start", "aliases", "tokens", "tags")


@dataclass(frozen=True)
class Entry:
    """One block of `catalogue.toml` (its head explains the keys), or a built-in task."""

    name: str
    kind: str
    group: str
    languages: tuple[str, ...] = ("en",)  # the first is the default
    columns: dict[str, str] = field(default_factory=dict)
    labels: tuple[str, ...] | None = None
    metrics: tuple[str, ...] = ()
    shape: str | None = None
    tag_scheme: str | None = None
    answer_rules: str | None = None
    skip_unlabelled: bool = False
    hub: str | None = None
    hub_config: str | None = None
    hub_revision: str | None = None
    folder: str = ""
    splits: dict[str, str] = field(default_factory=dict)
    only: dict[str, str] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()
    sizes: dict[str, int] = field(default_factory=dict)
    train_sizes: dict[str, int] = field(default_factory=dict)
    train_of: str | None = None
    translated: dict[str, str] | None = None
    instead: str | None = None
    licence: str = ""
    citation: str = ""
    tried: bool = False
    generated: bool = False
    description: str = ""

    @property
    def benchmark(self) -> str:
        """`glue` for `glue/sst2`; empty for a dataset outside any benchmark."""
        return self.name.rpartition("/")[0]

    def named(self, language: str) -> str:
        return self.name if language == self.languages[0] else f"{self.name}:{language}"

    def folder_in(self, base: Path, language: str) -> Path:
        """The folder of the dataset inside a folder of datasets."""
        return base / self.folder.format(language=language)

    def train_size(self, language: str) -> int | None:
        """Official number of training rows, if known."""
        return self.train_sizes.get(language, self.sizes.get("train"))


@cache
def entries() -> dict[str, Entry]:
    """Every entry by its name without a language, built-in ones first."""
    table = tomllib.loads(Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8"))
    listed = [*_builtin(), *(_entry(block) for block in table["task"])]
    return {entry.name: entry for entry in listed}


def _builtin() -> list[Entry]:
    return [
        Entry(
            name=f"builtin/{name}",
            kind=task.kind,
            group=task.group,
            languages=builtin.LANGUAGES,
            columns=dict(task.columns),
            labels=task.labels,
            sizes=BUILTIN_SIZES,
            generated=True,
            description=task.description,
        )
        for name, task in builtin.TASKS.items()
    ]


def _entry(block: dict[str, Any]) -> Entry:
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in block.items()}
    columns = {role: values.pop(role) for role in COLUMNS if role in values}
    values.setdefault("folder", values["name"].rpartition("/")[2])
    return Entry(columns=columns, **values)


def find(name: str, where: str = "") -> tuple[Entry, tuple[str, ...]]:
    """The entry and the languages that a name asks for."""
    base, colon, asked = name.partition(":")
    prefix = f"{where}: " if where else ""
    if base not in entries():
        raise InputError(
            f"{prefix}unknown task '{name}'{_near(base)}"
            " (`brodmann tasks` lists the named ones; for your own data, use a table with "
            "'name' and 'kind')"
        )
    entry = entries()[base]
    languages = tuple(asked.split("+")) if colon else entry.languages[:1]
    for language in languages:
        if language not in entry.languages:
            known = did_you_mean(language, entry.languages)
            raise InputError(f"{prefix}'{base}' has no language '{language}'{known}")
    if len(set(languages)) < len(languages):
        raise InputError(f"{prefix}'{name}': a language occurs twice")
    return entry, languages


def chosen(group: str | None, kind: str | None, language: str | None) -> list[Entry]:
    """Entries of a benchmark or family, of a kind, or with a language."""
    listed = list(entries().values())
    groups = {entry.group for entry in listed} | {e.benchmark for e in listed if e.benchmark}
    for option, value, known in (
        ("group", group, groups),
        ("kind", kind, {entry.kind for entry in listed}),
        ("language", language, {code for entry in listed for code in entry.languages}),
    ):
        if value is not None and value not in known:
            hint = did_you_mean(value, sorted(known))
            raise InputError(f"--{option} {value}: no such task{hint}")
    return [
        entry
        for entry in listed
        if (group is None or group in (entry.group, entry.benchmark))
        and (kind is None or entry.kind == kind)
        and (language is None or language in entry.languages)
    ]


def facts(entry: Entry) -> dict[str, Any]:
    """All known facts about an entry; empty ones are left out."""
    values = {**asdict(entry), "tried": entry.tried, "names": _names(entry)}
    if entry.generated:
        values.pop("tried")
    return {key: v for key, v in values.items() if v not in (None, "", (), [], {})}


def _names(entry: Entry) -> list[str]:
    return [entry.named(language) for language in entry.languages]


def _near(base: str) -> str:
    """Suggest `glue/sst2` for `sst2`; otherwise the nearest spelling, if one is near."""
    same = [name for name in entries() if name.rpartition("/")[2] == base.rpartition("/")[2]]
    if same:
        return f"; did you mean {' or '.join(repr(name) for name in same)}?"
    hint = did_you_mean(base, list(entries()))
    return hint if "did you mean" in hint else ""


def description(name: str, where: str) -> dict[str, Any]:
    """The named task as a configuration would write it, without the location of its rows."""
    entry, languages = find(name, where)
    result: dict[str, Any] = {
        "use": name,
        "kind": entry.kind,
        "group": entry.group,
        "language": "+".join(languages),
        **entry.columns,
    }
    for key in ("shape", "tag_scheme", "answer_rules"):
        if getattr(entry, key) is not None:
            result[key] = getattr(entry, key)
    if entry.skip_unlabelled:
        result["skip_unlabelled"] = True
    for key in ("labels", "metrics"):
        if getattr(entry, key):
            result[key] = list(getattr(entry, key))
    return result


def substitute(entry: Entry, language: str, base: Path) -> Entry | None:
    """The entry whose folder is read instead if this one's is missing."""
    if entry.instead is None or entry.folder_in(base, language).is_dir():
        return None
    other = entries()[entry.instead]
    return other if other.folder_in(base, language).is_dir() else None


def short_name(name: str) -> str:
    """`builtin/sentiment:es` → `sentiment:es`, `xtreme/xnli:en+es` → `xnli:en-es`."""
    return name.rpartition("/")[2].replace("+", "-")


def is_generated(name: str) -> bool:
    return name.startswith("builtin/")
