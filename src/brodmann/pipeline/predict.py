"""Use a trained model in a pipe or on a file: one answer per input, in the order of the inputs.

Every input has one line in the output, so that both can be joined line by line: a blank input gets
an empty answer with a note. Tasks that cannot read an input are named beside the answers of those
that can.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from brodmann.data.answering.answer_texts import Request, answer_task, answer_tasks
from brodmann.data.answering.reader import Reader
from brodmann.data.kinds import KINDS
from brodmann.data.sources.readers import ENDINGS, read_file
from brodmann.data.tasks import TaskSpec
from brodmann.errors import InputError
from brodmann.training.events import Report

CHUNK = 256  # lines per batch: enough to sort by length, few enough for a live pipe
DIGITS = 4  # of a probability: more would differ between machines
OWN_UNITS = ("value", "interval")  # not probabilities
BLANK = "empty input: no answer"


def inputs_from_file(path: Path) -> list[Any]:
    """Rows of a table as dicts by column, or the lines of a plain text file."""
    if any(path.name.lower().endswith(ending) for ending in ENDINGS):
        return read_file(path).rows
    try:
        with open(path, encoding="utf-8") as lines:
            return list(inputs_from_lines(lines, str(path)))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None


def inputs_from_lines(lines: Iterable[str], source: str) -> Iterator[Any]:
    """Parse lines: each is a text, a JSON object with the task's columns, or a JSON list."""
    for number, line in enumerate(_decoded(lines, source), start=1):
        text = line.rstrip("\r\n")
        if text.lstrip().startswith(("{", "[")):
            try:
                yield json.loads(text)
                continue
            except (ValueError, RecursionError) as error:
                if text.lstrip().startswith('{"'):
                    raise InputError(f"{source} line {number}: broken JSON ({error})") from None
        yield text


def _decoded(lines: Iterable[str], source: str) -> Iterator[str]:
    try:
        yield from lines
    except UnicodeDecodeError as error:
        raise InputError(f"{source}: not UTF-8 text ({error.reason}, byte {error.start})") from None


class Answers:
    """Iterates over one answer per input and counts the inputs without an answer.

    With `alone`, an answer is that of the only task; otherwise it has one entry per task.
    """

    def __init__(
        self,
        reader: Reader,
        request: Request,
        inputs: Iterable[Any],
        *,
        alone: bool,
        full: bool = False,
    ) -> None:
        self.reader, self.request, self.inputs = reader, request, inputs
        self.alone, self.full = alone, full
        self.count = 0
        self.blank = 0
        self.refused: Counter[str] = Counter()  # inputs too unusual for a task
        self.unanswered: Counter[str] = Counter()  # inputs that a task could not read

    def __iter__(self) -> Iterator[dict[str, Any]]:
        chunk: list[Any] = []
        for entry in self.inputs:
            chunk.append(entry)
            if len(chunk) == CHUNK:
                yield from self._answer(chunk)
                chunk = []
        if chunk:
            yield from self._answer(chunk)

    def reported(self, report: Report, total: int) -> Iterator[dict[str, Any]]:
        """The same answers, with their progress."""
        report("measuring starts", {"what": "answering", "examples": total})
        for answer in self:
            yield answer
            report("measuring goes on", {"items": 1})

    def _answer(self, chunk: list[Any]) -> Iterator[dict[str, Any]]:
        places = [place for place, entry in enumerate(chunk) if not self._is_blank(entry)]
        try:
            found = dict(zip(places, self._found([chunk[p] for p in places]), strict=True))
        except InputError as error:
            raise InputError(self._renumbered(str(error), places)) from None
        for place, entry in enumerate(chunk):
            self.count += 1
            if place not in found:
                self.blank += 1
                yield {"input": entry, "note": BLANK}
                continue
            answer = found[place]
            judged = {self.request.tasks[0]: answer} if self.alone else answer
            left = [name for name in self.request.tasks if name not in judged]
            self.unanswered.update(left)
            self.refused.update(name for name, found in judged.items() if "abstained" in found)
            answer = answer if self.full else rounded(answer)
            yield {"input": entry, **answer, **({"not_answered": left} if left else {})}

    def _found(self, asked: list[Any]) -> list[dict[str, Any]]:
        if not asked:
            return []
        answer = answer_task if self.alone else answer_tasks
        answers: list[dict[str, Any]] = answer(self.reader, asked, self.request)
        return answers

    def _is_blank(self, entry: Any) -> bool:
        """Whether there is nothing to read: an empty line, or a row whose texts are empty."""
        if isinstance(entry, str):
            return not entry.strip()
        if not isinstance(entry, Mapping):
            return False
        specs = self.reader.specs
        read = {name for task in self.request.tasks for name in input_columns(specs[task])}
        texts = [value for name, value in entry.items() if name in read]
        return bool(texts) and all(text is None or not str(text).strip() for text in texts)

    def _renumbered(self, message: str, places: list[int]) -> str:
        """Replace the number in `input 3: …`, which counts one batch, by that among all inputs."""
        words, colon, rest = message.partition(":")
        number = words.removeprefix("input ")
        if not number.isdecimal():
            return message
        return f"input {self.count + places[int(number) - 1] + 1}{colon}{rest}"

    def remarks(self) -> list[str]:
        """Sentences about unanswered inputs, one per reason."""
        from brodmann.data.answering.inputs import needed_columns

        found = []
        if self.blank:
            inputs = "1 input is empty" if self.blank == 1 else f"{self.blank:,} inputs are empty"
            found.append(f"{inputs}: no answer")
        for name, count in self.unanswered.items():
            found.append(
                f"task '{name}' did not answer {count:,} of {self.count:,} inputs: it needs "
                f"{needed_columns(self.reader.specs[name])}"
            )
        for name, count in self.refused.items():
            found.append(
                f"task '{name}' refused {count:,} of {self.count:,} inputs: they are unlike the "
                "texts it was trained on"
            )
        return found


def input_columns(spec: TaskSpec) -> set[str]:
    """Columns that a task reads, by their names in the data and by ours."""
    roles = [role for role in spec.columns if role not in KINDS[spec.kind].TARGETS]
    named = [spec.columns[role] for role in roles]
    return {
        *roles,
        *(n for column in named for n in ([column] if isinstance(column, str) else column)),
    }


def rounded(value: Any, *, key: str = "") -> Any:
    """Round probabilities to four decimal places and a task's own values to six digits."""
    if isinstance(value, dict):
        return {name: rounded(inner, key=name) for name, inner in value.items()}
    if isinstance(value, list):
        return [rounded(inner, key=key) for inner in value]
    if not isinstance(value, float):
        return value
    return float(f"{value:.6g}") if key in OWN_UNITS else round(value, DIGITS)
