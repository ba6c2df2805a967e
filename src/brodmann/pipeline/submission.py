"""Write the zip that the GLUE and SuperGLUE servers accept, from a model and the unlabelled tests.

GLUE: one TSV file per test set, with `index` and `prediction`; SuperGLUE: one JSON Lines file per
test set. File names and labels are those of the benchmarks' own toolkit (jiant's submission
writer).
"""

import io
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brodmann.data import catalogue
from brodmann.data.catalogue import Entry
from brodmann.data.kinds import KINDS
from brodmann.data.sources.dataset_shapes import shaped
from brodmann.data.sources.named import raw_split
from brodmann.data.sources.table import Table
from brodmann.errors import InputError, did_you_mean
from brodmann.files import write_bytes
from brodmann.training.events import Report

Row = dict[str, Any]
Answer = Mapping[str, Any]
ZIP_TIME = (1980, 1, 1, 0, 0, 0)  # the same answers, the same bytes


@dataclass(frozen=True)
class TestFile:
    """One file of a submission: its test rows, the task that answers them, and its format."""

    name: str
    rows: str | Entry  # a task of the catalogue, or a diagnostic set
    task: str  # the task that answers
    split: str
    lines: Callable[[Sequence[Row], Sequence[Answer]], str]
    required: bool = True


def submission(
    model_folder: Path,
    benchmark: str,
    to: Path,
    base: Path,
    *,
    partial: bool = False,
    report: Report,
    device: str = "auto",
) -> dict[str, int]:
    """Write the zip; return the number of predictions in each of its files."""
    from brodmann.data.answering.inputs import read_inputs
    from brodmann.models.multitask import MultiTaskModel

    if benchmark not in BENCHMARKS:
        raise InputError(f"unknown benchmark '{benchmark}'{did_you_mean(benchmark, BENCHMARKS)}")
    if to.is_dir():
        raise InputError(f"{to}: is a folder, expected the name of a zip file")
    if to.exists() and not zipfile.is_zipfile(to):
        raise InputError(f"{to}: already exists and is not a zip file: name another one")
    model = MultiTaskModel.from_pretrained(model_folder, device=device)
    files = BENCHMARKS[benchmark]
    named = _named_tasks(model, {file.task for file in files})
    wanted = [file for file in files if file.task in named]
    missing = sorted({file.task for file in files if file.required} - set(named))
    if not wanted:
        raise InputError(f"{model_folder}: the model has none of the tasks of {benchmark}")
    if missing and not partial:
        raise InputError(
            f"{model_folder}: the model has no task {', '.join(missing)}: the server accepts only "
            "complete submissions (--partial writes the tasks that it has)"
        )
    tests: dict[str, tuple[Table, list[Row]]] = {}
    for file in wanted:  # all test sets, before the first answer is computed
        entry = file.rows if isinstance(file.rows, Entry) else catalogue.find(file.rows)[0]
        try:
            source, table = raw_split(entry, file.split, base)
            check_index(table, file)
            rows = [by_role(row, source, table.where(i)) for i, row in enumerate(table.rows)]
            read_inputs(model.spec(named[file.task]), rows)
        except InputError as error:
            if file.required and not partial:
                raise
            report("note", {"text": f"{file.name} left out: {error}"})
            continue
        tests[file.name] = table, rows
        official = entry.sizes.get("test_mismatched" if "mm" in file.name else "test")
        if official is not None and len(rows) != official:
            text = f"{file.name}: {len(rows):,} rows, the official test set has {official:,}"
            report("note", {"text": text})
    if not tests:
        raise InputError(f"{benchmark}: no test set was found: nothing to write")
    content: dict[str, str] = {}
    for file in wanted:
        if file.name in tests:
            table, rows = tests[file.name]
            report("stage", {"text": f"{file.name}: {len(rows):,} predictions"})
            content[file.name] = file.lines(table.rows, model.predict(named[file.task], rows))
    write_bytes(to, _zipped(content))
    return {name: len(tests[name][1]) for name in content}


def _named_tasks(model: Any, wanted: set[str]) -> dict[str, str]:
    """The model's task by catalogue name; each must answer with labels that the server knows."""
    found: dict[str, str] = {}
    for name, spec in model.specs.items():
        if spec.named not in wanted:
            continue
        if spec.named in found:
            raise InputError(f"tasks '{found[spec.named]}' and '{name}' are both {spec.named}")
        entry, _ = catalogue.find(spec.named)
        if spec.kind != entry.kind or (entry.labels and spec.labels != entry.labels):
            raise InputError(
                f"task '{name}': its kind or labels are not those of {spec.named}: the server "
                "would not understand its answers"
            )
        found[spec.named] = name
    return found


def check_index(table: Table, file: "TestFile") -> None:
    """Raise InputError unless every row has the number by which the server knows it."""
    seen: set[Any] = set()
    for place, row in enumerate(table.rows):
        index: Any = row.get("idx")
        if isinstance(index, dict):
            keys = ("paragraph", "question", "answer") if file.lines is _multirc else ("query",)
            index = tuple(index.get(key) for key in keys)
        numbers = index if isinstance(index, tuple) else (index,)
        if not all(isinstance(n, int) and not isinstance(n, bool) for n in numbers):
            found = f"{row.get('idx')!r:.60}"
            raise InputError(f"{table.where(place)}: idx: expected the row's number, found {found}")
        if index in seen:
            raise InputError(f"{table.where(place)}: idx: {index} occurs twice")
        seen.add(index)


def by_role(row: Row, entry: Entry, where: str) -> Row:
    """The columns of an unlabelled row that the task reads, by role."""
    try:
        shaped_row = shaped(row, entry.shape) if entry.shape else row
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    kind = KINDS[entry.kind]
    roles = [r for r in (*kind.REQUIRED, *kind.OPTIONAL) if r not in kind.TARGETS]
    columns = {role: entry.columns.get(role, role) for role in (*roles, "choice_names")}
    return {role: shaped_row[c] for role, c in columns.items() if shaped_row and c in shaped_row}


def _zipped(content: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in content.items():
            archive.writestr(zipfile.ZipInfo(name, ZIP_TIME), text)
    return buffer.getvalue()


def _tsv(word: Callable[[Answer], str]) -> Callable[[Sequence[Row], Sequence[Answer]], str]:
    def lines(rows: Sequence[Row], answers: Sequence[Answer]) -> str:
        pairs = sorted(
            (row["idx"], word(answer)) for row, answer in zip(rows, answers, strict=True)
        )
        return "index\tprediction\n" + "".join(f"{index}\t{text}\n" for index, text in pairs)

    return lines


def _jsonl(label: Callable[[Answer], Any]) -> Callable[[Sequence[Row], Sequence[Answer]], str]:
    def lines(rows: Sequence[Row], answers: Sequence[Answer]) -> str:
        ordered = sorted(zip(rows, answers, strict=True), key=lambda pair: _index(pair[0]))
        return "".join(
            json.dumps({"idx": _index(row), "label": label(answer)}) + "\n"
            for row, answer in ordered
        )

    return lines


def _index(row: Row) -> int:
    """The row's own number; in ReCoRD, rows are queries of a passage."""
    return int(row["idx"]["query"] if isinstance(row["idx"], dict) else row["idx"])


def _multirc(rows: Sequence[Row], answers: Sequence[Answer]) -> str:
    """One line per paragraph, with its questions and their answers inside."""
    passages: dict[int, dict[int, dict[int, int]]] = {}
    for row, answer in zip(rows, answers, strict=True):
        place = row["idx"]
        questions = passages.setdefault(place["paragraph"], {})
        questions.setdefault(place["question"], {})[place["answer"]] = int(
            answer["label"] == "True"
        )
    lines = []
    for passage, questions in sorted(passages.items()):
        inside = [
            {
                "idx": question,
                "answers": [{"idx": i, "label": label} for i, label in sorted(labels.items())],
            }
            for question, labels in sorted(questions.items())
        ]
        lines.append(json.dumps({"idx": passage, "passage": {"questions": inside}}) + "\n")
    return "".join(lines)


def _word(answer: Answer) -> str:
    return str(answer["label"])


def _number(*labels: str) -> Callable[[Answer], str]:
    return lambda answer: str(labels.index(answer["label"]))


def _rating(answer: Answer) -> str:
    return f"{min(max(answer['value'], 0.0), 5.0):.3f}"


def _lower(answer: Answer) -> str:
    return str(answer["label"]).lower()


def _glue(name: str, task: str, word: Callable[[Answer], str]) -> TestFile:
    return TestFile(f"{name}.tsv", f"glue/{task}", f"glue/{task}", "test", _tsv(word))


def _superglue(name: str, task: str, label: Callable[[Answer], Any]) -> TestFile:
    named = f"superglue/{task}"
    return TestFile(f"{name}.jsonl", named, named, "test", _jsonl(label))


PREMISE = {"text": "premise", "text_pair": "hypothesis"}
SENTENCES = {"text": "sentence1", "text_pair": "sentence2"}
# Diagnostic sets: answered by the inference task, scored by the server, never trained on.
AX, AX_B, AX_G = (
    Entry(
        name=f"{benchmark}/{config}",
        kind="classification",
        group="inference",
        columns=columns,
        hub=hub,
        hub_config=config,
        folder=config,
    )
    for benchmark, config, columns, hub in (
        ("glue", "ax", PREMISE, "nyu-mll/glue"),
        ("superglue", "axb", SENTENCES, "aps/super_glue"),
        ("superglue", "axg", PREMISE, "aps/super_glue"),
    )
)
BENCHMARKS: dict[str, tuple[TestFile, ...]] = {
    "glue": (
        _glue("CoLA", "cola", _number("unacceptable", "acceptable")),
        _glue("SST-2", "sst2", _number("negative", "positive")),
        _glue("MRPC", "mrpc", _number("not_equivalent", "equivalent")),
        _glue("STS-B", "stsb", _rating),
        _glue("QQP", "qqp", _number("not_duplicate", "duplicate")),
        TestFile("MNLI-m.tsv", "glue/mnli", "glue/mnli", "test_matched", _tsv(_word)),
        TestFile("MNLI-mm.tsv", "glue/mnli", "glue/mnli", "test_mismatched", _tsv(_word)),
        _glue("QNLI", "qnli", _word),
        _glue("RTE", "rte", _word),
        _glue("WNLI", "wnli", _number("not_entailment", "entailment")),
        TestFile("AX.tsv", AX, "glue/mnli", "test", _tsv(_word), required=False),
    ),
    "superglue": (
        _superglue("BoolQ", "boolq", _lower),
        _superglue("CB", "cb", _word),
        _superglue("COPA", "copa", lambda answer: int(answer["choice"])),
        TestFile("MultiRC.jsonl", "superglue/multirc", "superglue/multirc", "test", _multirc),
        _superglue("ReCoRD", "record", lambda answer: str(answer["text"])),
        _superglue("RTE", "rte", _word),
        _superglue("WiC", "wic", _lower),
        _superglue("WSC", "wsc", _word),
        TestFile("AX-b.jsonl", AX_B, "superglue/rte", "test", _jsonl(_word), required=False),
        TestFile("AX-g.jsonl", AX_G, "superglue/rte", "test", _jsonl(_word), required=False),
    ),
}
