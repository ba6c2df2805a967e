"""Beliefs as a commented configuration that the user corrects, and the corrected one read again."""

from collections.abc import Sequence
from pathlib import Path

from brodmann.advising.given import Given
from brodmann.config import Config, load_config
from brodmann.errors import InputError, visible
from brodmann.files import write_text
from brodmann.text import counted

FILE = "tasks.toml"
HEAD = """\
# What `brodmann advise` believes about your files. Correct what is wrong here, then continue with:
#   brodmann advise --to {folder}
# It is an ordinary configuration: `brodmann run {folder}/{file}` trains all tasks together.

name = "together"
output = {output}
seed = {seed}
"""
MODEL = """
[model]
backbone = {backbone}
"""


def write_tasks(given: Sequence[Given], folder: Path, *, backbone: str, seed: int) -> Path:
    """Write the beliefs; return the file."""
    parts = [_head(folder, seed)]
    parts += [_described(one) for one in given]
    parts.append(MODEL.format(backbone=_text(backbone)))
    write_text(folder / FILE, "".join(parts))
    return folder / FILE


def _head(folder: Path, seed: int) -> str:
    place = folder.as_posix()
    return HEAD.format(folder=place, output=_text(place), file=FILE, seed=seed)


def _described(one: Given) -> str:
    belief = one.belief
    lines = ["", "[[tasks]]"]
    lines.append(f"# {counted(len(one.whole.rows), 'row')} in {_names(one)}")
    lines.append(f"# {belief.kind} ({belief.confidence}): {'; '.join(belief.reasons)}")
    lines += [f"# {note}" for note in one.notes]
    lines += [f"# another reading: {other}" for other in belief.others]
    lines.append(f"name = {_text(one.name)}")
    lines.append(f"kind = {_text(belief.kind)}")
    lines += [f"{split} = {_text(str(path.resolve()))}" for split, path in one.paths.items()]
    for role, column in belief.columns.items():
        lines.append(f"{role} = {_text(column)}")
    return "".join(f"{_printable(line)}\n" for line in lines)


def _printable(line: str) -> str:
    """The line without characters that a comment of TOML must not have."""
    return visible(" ".join(line.splitlines())) if line.startswith("#") else line


def _names(one: Given) -> str:
    return ", ".join(
        path.name if split == "train" else f"{path.name} ({split})"
        for split, path in one.paths.items()
    )


def _text(value: str | Sequence[str]) -> str:
    """A value as TOML writes it."""
    import tomli_w

    found = tomli_w.dumps({"x": value if isinstance(value, str) else list(value)})
    return (
        " ".join(found.removeprefix("x = ").split())
        if not isinstance(value, str)
        else (found.removeprefix("x = ").rstrip("\n"))
    )


def read_tasks(folder: Path) -> Config:
    """The configuration with the user's corrections."""
    config, _ = load_config(folder / FILE)
    for task in config.given_tasks():
        if isinstance(task, str):
            raise InputError(
                f"{folder / FILE}: the task '{task}' is only a name: describe its file and columns"
            )
    for section in ("grid", "compare", "adapt", "distill", "transfer", "meta", "study", "off"):
        if getattr(config, section) is not None:
            raise InputError(f"{folder / FILE}: [{section}]: advise tries arrangements itself")
    return config
