"""What a table is: kinds, columns under odd names, doubts that are visible, and bad input."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from brodmann.advising.cell_forms import describe_columns
from brodmann.advising.given import read_given
from brodmann.advising.look import look
from brodmann.data import builtin
from brodmann.data.sources.table import Table
from brodmann.errors import InputError

COUNT = 120
Rows = list[dict[str, Any]]


def generated(task: str) -> Rows:
    return builtin.generate(task, "en", sizes={"train": COUNT}, seed=0)["train"]


def table(rows: Rows) -> Table:
    return Table("x.jsonl", rows, range(1, len(rows) + 1))


def one_text() -> Rows:
    return [{"zeta": r["text"], "n": i, "q": r["label"]} for i, r in enumerate(generated("topic"))]


def numbers() -> Rows:
    rows = generated("similarity")
    return [
        {"a": r["text"], "b": r["text_pair"], "s": r["label"] + i % 7 / 10}
        for i, r in enumerate(rows)
    ]


def pairs() -> Rows:
    rows = generated("entailment")
    return [{"k": r["label"], "p": r["text"], "h": r["text_pair"]} for r in rows]


def spans() -> Rows:
    rows = generated("question")
    keys = {"question": "u", "context": "w", "answer": "x", "answer_start": "y"}
    return [{keys[key]: r[key] for key in keys} for r in rows]


def tags() -> Rows:
    return [{"x": r["tokens"], "y": r["tags"]} for r in generated("entities")]


def sets(separator: str) -> Rows:
    draw = random.Random(0)
    names = ["fast", "cheap", "loud", "small"]
    return [
        {"m": separator.join(draw.sample(names, draw.randint(1, 3))), "t": r["text"]}
        for r in generated("sentiment")
    ]


def marks() -> Rows:
    draw = random.Random(0)
    return [
        {"t": r["text"], **{name: draw.randint(0, 1) for name in ("g1", "g2", "g3")}}
        for r in generated("sentiment")
    ]


def listed_choices() -> Rows:
    draw = random.Random(0)
    texts = [r["text"] for r in generated("topic")]
    return [
        {"ask": r["text"], "opts": draw.sample(texts, 3), "r": draw.randint(0, 2)}
        for r in generated("sentiment")
    ]


def choices_in_columns() -> Rows:
    names = {"ask": "q0", "opts": "", "r": "q9"}
    return [
        {
            names["ask"]: row["ask"],
            **{f"alt{n}": t for n, t in enumerate(row["opts"])},
            "q9": row["r"],
        }
        for row in listed_choices()
    ]


EXPECTED: list[tuple[Callable[[], Rows], str, dict[str, Any]]] = [
    (one_text, "classification", {"text": "zeta", "label": "q"}),
    (numbers, "regression", {"text": "a", "text_pair": "b", "label": "s"}),
    (pairs, "classification", {"text": "p", "text_pair": "h", "label": "k"}),
    (spans, "span", {"question": "u", "context": "w", "answer": "x", "answer_start": "y"}),
    (tags, "tokens", {"tokens": "x", "tags": "y"}),
    (lambda: sets("|"), "multilabel", {"text": "t", "label": "m"}),
    (lambda: sets("; "), "multilabel", {"text": "t", "label": "m"}),
    (marks, "multilabel", {"text": "t", "label": ["g1", "g2", "g3"]}),
    (listed_choices, "choice", {"text": "ask", "choices": "opts", "label": "r"}),
    (
        choices_in_columns,
        "choice",
        {"text": "q0", "choices": ["alt0", "alt1", "alt2"], "label": "q9"},
    ),
]


@pytest.mark.parametrize(("rows", "kind", "columns"), EXPECTED)
def test_kinds_and_columns_are_recognised_under_odd_names(
    rows: Callable[[], Rows], kind: str, columns: dict[str, Any]
) -> None:
    belief = look(table(rows()))
    assert (belief.kind, belief.columns) == (kind, columns)
    assert belief.reasons and 0 < belief.sure <= 1


@pytest.mark.parametrize(("rows", "kind", "columns"), EXPECTED)
def test_lists_written_as_texts_are_read_alike(
    rows: Callable[[], Rows], kind: str, columns: dict[str, Any]
) -> None:
    written = [
        {k: json.dumps(v) if isinstance(v, list) else str(v) for k, v in row.items()}
        for row in rows()
    ]
    belief = look(table(written))
    assert (belief.kind, belief.columns) == (kind, columns)


def test_character_spans_are_tokens() -> None:
    rows = [
        {"raw": f"{i} people met Ann in Rome .", "ann": [{"start": 11, "end": 14, "label": "PER"}]}
        for i in range(30)
    ]
    belief = look(table(rows))
    assert (belief.kind, belief.columns) == ("tokens", {"tokens": "raw", "tags": "ann"})


def test_a_second_label_column_makes_the_guess_less_sure_and_is_named() -> None:
    rows = [{**row, "w": "xy"[i % 2]} for i, row in enumerate(one_text())]
    belief = look(table(rows))
    assert belief.columns["label"] in ("q", "w")
    assert belief.confidence != "sure"
    assert any('label = "' in other for other in belief.others)


def test_few_whole_numbers_may_be_a_scale_and_that_is_said() -> None:
    rows = [{"t": r["text"], "stars": i % 5} for i, r in enumerate(generated("sentiment"))]
    belief = look(table(rows))
    assert belief.kind == "classification" and belief.confidence == "likely"
    assert 'kind = "regression", if the numbers are a scale' in belief.others


def test_row_numbers_and_codes_are_no_labels() -> None:
    forms = {c.name: c.form for c in describe_columns(table(one_text()))}
    assert forms == {"zeta": "text", "n": "identifier", "q": "label"}


def test_without_texts_or_labels_the_columns_are_named() -> None:
    with pytest.raises(InputError) as wrong:
        look(table([{"n": i, "y": i % 2} for i in range(30)]))
    assert str(wrong.value) == (
        "x.jsonl: no column holds texts (its columns: 'n' (identifier), 'y' (label)): expected at "
        "least one column of texts and one of labels"
    )
    with pytest.raises(InputError) as wrong:
        look(table([{"t": r["text"]} for r in generated("sentiment")]))
    assert str(wrong.value) == (
        "x.jsonl: no column looks like labels (its columns: 't' (text)): expected a column with "
        "few different values, numbers, or lists of labels"
    )


def write(path: Path, rows: Rows) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_files_that_differ_in_the_name_of_a_split_are_one_task(tmp_path: Path) -> None:
    rows = one_text()
    files = [
        write(tmp_path / "mood-train.jsonl", rows[:80]),
        write(tmp_path / "mood-test.jsonl", rows[80:]),
        write(tmp_path / "Other Task.jsonl", pairs()),
    ]
    given = read_given(files, tmp_path / "out")
    assert [(one.name, list(one.paths)) for one in given] == [
        ("mood", ["train", "test"]),
        ("other-task", ["train"]),
    ]


def test_a_table_without_a_header_gets_numbered_columns(tmp_path: Path) -> None:
    path = tmp_path / "truth.txt"
    lines = [f"{i}\t{i % 9 / 4 - 1}\t{r['text']}" for i, r in enumerate(generated("sentiment"))]
    path.write_text("\n".join(lines) + "\n")
    (one,) = read_given([path], tmp_path / "out")
    assert one.belief.kind == "regression"
    assert one.belief.columns == {"text": "column 3", "label": "column 2"}
    assert one.notes == ("truth.txt: its first line is data, so columns are numbered",)
    first = json.loads(one.paths["train"].read_text().splitlines()[0])
    assert first["column 1"] == "0" and len(one.paths["train"].read_text().splitlines()) == COUNT


def test_one_column_per_label_becomes_lists_of_labels(tmp_path: Path) -> None:
    rows = marks()
    (one,) = read_given([write(tmp_path / "m.jsonl", rows)], tmp_path / "out")
    assert one.belief.columns == {"text": "t", "label": "labels"}
    again = [json.loads(line) for line in one.paths["train"].read_text().splitlines()]
    assert [row["labels"] for row in again] == [
        [name for name in ("g1", "g2", "g3") if row[name]] for row in rows
    ]


def test_too_few_rows_are_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "few.jsonl", one_text()[:5])
    with pytest.raises(InputError) as wrong:
        read_given([path], tmp_path / "out")
    assert str(wrong.value) == f"{path}: 5 rows, expected at least 20 labelled ones"
