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

from brodmann.data.kinds import KINDS
from brodmann.data.sources.readers import ENDINGS, read_file
from brodmann.data.tasks import TaskSpec
from brodmann.errors import InputError
from brodmann.training.events import Report

CHUNK = 256  # lines per batch: enough to sort by length, few enough for a live pipe
DIGITS = 4  # of a probability: more would differ between machines
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
    """Iterates over one answer per input and counts the inputs without an answer."""

    def __init__(
        self,
        model: Any,
        task: str | None,
        inputs: Iterable[Any],
        *,
        full: bool = False,
        batch_size: int = 32,
    ) -> None:
        self.model, self.task, self.inputs, self.full = model, task, inputs, full
        self.batch_size = batch_size
        self.count = 0
        self.blank = 0
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
            left = [] if self.task is not None else [n for n in self.model.specs if n not in answer]
            self.unanswered.update(left)
            answer = answer if self.full else rounded(answer)
            yield {"input": entry, **answer, **({"not_answered": left} if left else {})}

    def _found(self, asked: list[Any]) -> list[dict[str, Any]]:
        if not asked:
            return []
        if self.task is None:
            answers: list[dict[str, Any]]
            answers = self.model.predict_all(asked, batch_size=self.batch_size)
        else:
            answers = self.model.predict(self.task, asked, batch_size=self.batch_size)
        return answers

    def _is_blank(self, entry: Any) -> bool:
        """Whether there is nothing to read: an empty line, or a row whose texts are empty."""
        if isinstance(entry, str):
            return not entry.strip()
        if not isinstance(entry, Mapping):
            return False
        specs = [self.model.specs[self.task]] if self.task else self.model.specs.values()
        read = {name for spec in specs for name in input_columns(spec)}
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
                f"{needed_columns(self.model.specs[name])}"
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
    return float(f"{value:.6g}") if key == "value" else round(value, DIGITS)
