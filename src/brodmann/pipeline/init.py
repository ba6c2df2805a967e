"""`brodmann init`: a starter configuration and small sample files that it runs on."""

import csv
import io
import json
from pathlib import Path

from brodmann.artifacts import write_text
from brodmann.config import STARTER
from brodmann.data import builtin
from brodmann.errors import InputError

SAMPLES = 400


def write_starter(folder: Path) -> list[Path]:
    contents = {"brodmann.toml": STARTER, "reviews.csv": _reviews(), "names.jsonl": _names()}
    for name in contents:
        if (folder / name).exists():
            raise InputError(f"{folder / name}: is there already, nothing was written")
    for name, text in contents.items():
        write_text(folder / name, text)
    return [folder / name for name in contents]


def _reviews() -> str:
    """One text column with two label columns: two tasks over the same texts."""
    rows = builtin.generate("sentiment", "en", sizes={"train": SAMPLES}, seed=0)["train"]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["text", "mood", "subject"])
    for row in rows:
        writer.writerow([row["text"], row["label"], _subject(row["text"])])
    return buffer.getvalue()


def _subject(text: str) -> str:
    words = {word.strip(".,'").lower() for word in text.split()}
    people = words & {"i", "my", "we", "our", "me", "us"}
    return "personal" if people else "general"


def _names() -> str:
    rows = builtin.generate("entities", "en", sizes={"train": SAMPLES}, seed=0)["train"]
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
