"""Input that nobody writes by hand: still one clear line, exit code 2, and nothing written."""

import datetime
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

Command = Callable[..., tuple[int, str, str]]
Write = Callable[[Path], object]

COUNT = 30
TEXTS = [f"text {i}" for i in range(COUNT)]
LABELS = [i % 2 for i in range(COUNT)]
DAYS = [datetime.date(2020, 1, 1 + i // 2) for i in range(COUNT)]
TINY = '[model]\nbackbone = "builtin:tiny"\n[training]\nmax_steps = 2\n'


def described(kind: str, file: str, more: str = "") -> str:
    return f'[[tasks]]\nname = "t"\nkind = "{kind}"\ndata = "{file}"\n{more}\n{TINY}'


def lines(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def labelled(*labels: Any) -> bytes:
    return lines([{"text": text, "label": labels[i % len(labels)]} for i, text in enumerate(TEXTS)])


def table(**columns: Any) -> Write:
    return lambda path: pyarrow.parquet.write_table(pyarrow.table(columns), path)


def not_utf8() -> Any:
    """A column of strings whose bytes are none."""
    offsets = b"".join(i.to_bytes(4, "little") for i in range(COUNT + 1))
    buffers = [None, pyarrow.py_buffer(offsets), pyarrow.py_buffer(b"\xff" * COUNT)]
    return pyarrow.Array.from_buffers(pyarrow.string(), COUNT, buffers)


def large_when_unpacked(path: Path) -> None:
    path.write_bytes(gzip.compress(b"text,label\n" + b"a" * 150_000_000, 9))


def saved(change: Callable[[Path], object]) -> Write:
    """What datasets' save_to_disk writes, then changed."""

    def write(path: Path) -> None:
        import datasets

        parts = {"train": datasets.Dataset.from_dict({"text": TEXTS, "label": LABELS})}
        datasets.disable_progress_bars()
        datasets.DatasetDict(parts).save_to_disk(str(path))
        change(path)

    return write


def flip(path: Path, first: int, last: int) -> None:
    content = bytearray(path.read_bytes())
    content[first:last] = bytes(byte ^ 255 for byte in content[first:last])
    path.write_bytes(content)


HALF = "contains half a character (a lone surrogate)"
SPAN = {"question": "q", "context": "a cat", "answer": "cat"}
DEEP = "tables or lists are nested too deeply"
NO_TABLE = "damaged: not what datasets' save_to_disk wrote"
UTF8 = "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"
MANY_DIGITS = "Exceeds the limit (4300 digits) for integer string conversion"
ARROW = "train/data-00000-of-00001.arrow"
CASES: dict[str, tuple[str, dict[str, bytes | Write], str]] = {
    # Labels and texts
    "a choice of 5,000 digits": (
        described("choice", "d.jsonl"),
        {"d.jsonl": lines([{"text": "a", "choices": ["b", "c"], "label": "9" * 5000}])},
        "d.jsonl line 1: task 't': label: expected the number of a choice (0 to 1) or its text, "
        f"found '{'9' * 59}",
    ),
    "an infinite place": (
        described("span", "d.jsonl", 'answer_start = "at"'),
        {"d.jsonl": b'{"question": "q", "context": "a cat", "answer": "cat", "at": Infinity}\n'},
        "d.jsonl line 1: task 't': answer_start: expected a whole number, found inf",
    ),
    "a value beyond all floats": (
        described("regression", "d.jsonl"),
        {"d.jsonl": labelled(10**400)},
        f"d.jsonl line 1: task 't': label: expected a finite number, found 1{'0' * 59}",
    ),
    "half a character in a label": (
        described("classification", "d.jsonl"),
        {"d.jsonl": labelled("x", "\ud800")},
        f"d.jsonl line 2: task 't': label: {HALF}: '\\ud800'",
    ),
    "half a character in one of several labels": (
        described("multilabel", "d.jsonl"),
        {"d.jsonl": labelled(["x"], ["y", "\ud800"])},
        f"d.jsonl line 2: task 't': label: {HALF}: '\\ud800'",
    ),
    "half a character in a tag": (
        described("tokens", "d.jsonl"),
        {"d.jsonl": lines([{"tokens": ["a"], "tags": ["B-\ud800"]}])},
        f"d.jsonl line 1: task 't': tags: {HALF}: 'B-\\ud800'",
    ),
    "half a character in a set": (
        described("classification", "d.jsonl", 'set = "s"'),
        {"d.jsonl": lines([{"text": "a", "label": "x", "s": "\ud800"}])},
        f"d.jsonl line 1: task 't': set: {HALF}: '\\ud800'",
    ),
    "half a character in an alias": (
        described("span", "d.jsonl", 'aliases = "also"'),
        {"d.jsonl": lines([{**SPAN, "also": ["\ud800"]}])},
        f"d.jsonl line 1: task 't': aliases: {HALF}: '\\ud800'",
    ),
    "a list that Python's parser chokes on": (
        described("tokens", "d.jsonl"),
        {"d.jsonl": lines([{"tokens": "[" + "-" * 20000 + "1]", "tags": "O X"}])},
        "d.jsonl line 1: task 't': 1 tokens but 2 tags, expected one tag per token",
    ),
    # Parquet
    "Parquet with texts that are not UTF-8": (
        described("classification", "d.parquet"),
        {"d.parquet": table(text=TEXTS, label=LABELS, note=not_utf8())},
        f"d.parquet: the column 'note' cannot be read ({UTF8})",
    ),
    "Parquet with a date beyond 9999": (
        described("classification", "d.parquet"),
        {
            "d.parquet": table(
                text=TEXTS,
                label=LABELS,
                day=pyarrow.array([10**7] * COUNT, pyarrow.int32()).cast(pyarrow.date32()),
            )
        },
        "d.parquet: the column 'day' cannot be read (date value out of range)",
    ),
    "Parquet with bytes as a set": (
        described("classification", "d.parquet", 'set = "s"'),
        {"d.parquet": table(text=TEXTS, label=LABELS, s=[b"x"] * COUNT)},
        "d.parquet row 1: task 't': set: expected names or numbers, found b'x'",
    ),
    "Parquet with bytes as labels": (
        described("classification", "d.parquet"),
        {"d.parquet": table(text=TEXTS, label=[b"x"] * COUNT)},
        "d.parquet row 1: task 't': label: expected names or numbers, found b'x'",
    ),
    "Parquet with bytes as words": (
        described("tokens", "d.parquet"),
        {"d.parquet": table(tokens=[[b"x"]] * COUNT, tags=[["O"]] * COUNT)},
        "d.parquet row 1: task 't': tokens: expected words, found b'x'",
    ),
    # Files that cannot be read
    "an encoding that is none": (
        described("classification", "t.csv", 'encoding = "undefined"'),
        {},
        "t.csv: cannot be read as undefined (decoding with 'undefined' codec failed (UnicodeError: "
        "undefined encoding)): save the file as UTF-8 or set 'encoding'",
    ),
    "a read error": (
        described("classification", "d.csv"),
        {"d.csv": lambda path: path.symlink_to("/proc/self/mem")},
        "d.csv: cannot be read (Input/output error)",
    ),
    "a folder of datasets, nested": (
        described("classification", "ds"),
        {"ds": saved(lambda path: (path / "dataset_dict.json").write_text("[" * 100_000))},
        f"ds: {NO_TABLE} (maximum recursion depth exceeded while decoding a JSON array from a "
        "unicode string)",
    ),
    "a folder of datasets, cut": (
        described("classification", "ds"),
        {"ds": saved(lambda path: (path / ARROW).write_bytes((path / ARROW).read_bytes()[:-200]))},
        f"ds: {NO_TABLE} (Expected to be able to read 568 bytes for message body, got 376)",
    ),
    "a gzip file that fills the memory": (
        described("classification", "d.csv.gz"),
        {"d.csv.gz": large_when_unpacked},
        "d.csv.gz: unpacks to more than 200 times its size: not a table of texts",
    ),
    # Configurations
    "deep TOML": ("x = " + "[" * 5000, {}, f"c.toml: not TOML: {DEEP}"),
    "deep tables": (f"[x{'.a' * 5000}]\n", {}, f"c.toml: x: {DEEP}"),
    "a deep task file": (
        f'tasks = ["x.toml"]\n{TINY}',
        {"x.toml": b"x = " + b"[" * 5000},
        f"x.toml: not TOML ({DEEP})",
    ),
    "a number of 5,000 digits": (
        f"seed = {'9' * 5000}\n{described('classification', 't.csv')}",
        {},
        f"c.toml: not TOML: {MANY_DIGITS}: value has 5000 digits; use "
        "sys.set_int_max_str_digits() to increase the limit",
    ),
    "NUL in a backbone": (
        described("classification", "t.csv").replace("builtin:tiny", "a\\u0000b"),
        {},
        "c.toml: model.backbone = 'a\\x00b': contains a NUL character",
    ),
    "NUL in a task file": (
        f'tasks = ["x\\u0000.toml"]\n{TINY}',
        {},
        "c.toml: tasks.0 = 'x\\x00.toml': contains a NUL character",
    ),
    "a task file that pairs itself": (
        f'tasks = ["x.toml"]\n{TINY}',
        {"x.toml": b'pair_of = "x.toml"\n'},
        "x.toml: its pair_of leads back to itself",
    ),
    "task files that pair each other": (
        f'tasks = ["x.toml"]\n{TINY}',
        {"x.toml": b'pair_of = "y.toml"\n', "y.toml": b'pair_of = "x.toml"\n'},
        "x.toml: its pair_of leads back to itself",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_odd_input_is_one_line(tmp_path: Path, command: Command, case: str) -> None:
    text, files, message = CASES[case]
    rows = "".join(f"text {i},{'ab'[i % 2]}\n" for i in range(40))
    (tmp_path / "t.csv").write_text(f"text,label\n{rows}")
    for name, content in files.items():
        if isinstance(content, bytes):
            (tmp_path / name).write_bytes(content)
        else:
            content(tmp_path / name)
    config = tmp_path / "c.toml"
    config.write_text(f'name = "r"\noutput = "{tmp_path / "runs"}"\n{text}', encoding="utf-8")
    code, out, err = command("run", config)
    assert code == 2 and "Traceback" not in out
    assert err.replace(f"{tmp_path}/", "") == f"brodmann: {message}\n"
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("setting", ["output", "name", "data_dir"])
def test_a_nul_in_a_path(tmp_path: Path, command: Command, setting: str) -> None:
    config = tmp_path / "c.toml"
    values = {"name": "r", "output": f"{tmp_path}/runs", setting: "a\\u0000b"}
    settings = "".join(f'{key} = "{value}"\n' for key, value in values.items())
    config.write_text(settings + 'tasks = ["builtin/topic"]\n')
    message = f"brodmann: {config}: {setting} = 'a\\x00b': contains a NUL character\n"
    assert command("run", config) == (2, "", message)


def test_deep_overrides(tmp_path: Path, command: Command) -> None:
    config = tmp_path / "c.toml"
    config.write_text('name = "r"\ntasks = ["builtin/topic"]\n')
    code, _, err = command("run", config, "--set", "tasks=" + "[" * 5000)
    assert (code, err) == (2, f"brodmann: --set tasks={'[' * 54}: {DEEP}\n")
    code, _, err = command("run", config, "--set", "a" + ".a" * 5000 + "=1")
    assert (code, err) == (2, f"brodmann: {config}: a: {DEEP}\n")


def test_labels_that_only_look_like_numbers(tmp_path: Path, command: Command) -> None:
    """`--5` and 5,000 digits are names; dates of a Parquet file are theirs."""
    import brodmann as bm

    rows = [{"text": t, "label": ["--5", "3", "9" * 5000][i % 3]} for i, t in enumerate(TEXTS)]
    task = bm.load_task("t", kind="classification", train=rows, validation=rows)
    assert task.spec.labels == ("--5", "3", "9" * 5000)
    with pytest.raises(bm.InputError) as error:
        bm.load_task("t", kind="classification", train=rows, validation=rows, labels=["--5", "3"])
    assert str(error.value) == (
        f"t.train row 3: task 't': label '{'9' * 60}' is not one of the task's 2 labels; known: "
        "--5, 3"
    )
    table(text=TEXTS, label=LABELS, s=DAYS)(tmp_path / "d.parquet")
    path = str(tmp_path / "d.parquet")
    task = bm.load_task("t", kind="classification", train=path, validation=path, set="s")
    assert task.splits["train"][2]["set"] == "2020-01-02"
    assert task.fingerprint()
