"""A package of ONNX graphs as a `Reader`, and the same `predict` that a trained model has."""

import copy
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from brodmann.data.answering.predicts import Predicts
from brodmann.data.answering.reader import Gathered, Reader, Reading
from brodmann.data.answering.rules import Rules
from brodmann.data.answering.rules_file import read_rules
from brodmann.data.batches import evaluation_order, padded_rows, rows_of_items
from brodmann.data.encoding import Encoded
from brodmann.data.kinds import KINDS
from brodmann.data.tasks import Example, TaskSpec
from brodmann.errors import InputError
from brodmann.files import Array
from brodmann.runtime.package_files import STATES, TOKENIZER, read_description
from brodmann.runtime.text_tokenizer import TextTokenizer

INSTALL = "pip install onnxruntime tokenizers numpy"


def load(folder: str | os.PathLike[str], *, threads: int | None = None) -> "OnnxReader":
    """Open a package that `brodmann export RUN --to onnx` wrote.

    `threads` is the number that one reading may use (default: one per core).
    """
    _check_installed()
    return OnnxReader(Path(folder), threads)


def _check_installed() -> None:
    for name in ("onnxruntime", "tokenizers"):
        try:
            __import__(name)
        except ImportError:
            raise InputError(f"brodmann.runtime needs the package {name}: {INSTALL}") from None


class OnnxReader(Predicts):
    """The tasks of a package. Graphs are opened when they are first asked."""

    def __init__(self, folder: Path, threads: int | None = None) -> None:
        self.folder, self.threads = folder, threads
        self.description = read_description(folder)
        self.rules: Mapping[str, Rules] = read_rules(folder)
        self.tokenizer = TextTokenizer(
            folder / TOKENIZER,
            segments="token_type_ids" in self.description.inputs,
            cut_from=self.description.cut_from,
            split_special_tokens=self.description.split_special_tokens,
        )
        self._sessions: dict[str, Any] = {}
        self._opening = threading.Lock()

    def __repr__(self) -> str:
        form = "int8" if self.description.int8 else "float32"
        return f"OnnxReader({str(self.folder)!r}, {', '.join(self.specs)}; {form})"

    @property
    def specs(self) -> Mapping[str, TaskSpec]:
        return self.description.specs

    @property
    def one_pass(self) -> bool:
        return self.description.one_pass

    def reader(self) -> Reader:
        return self

    def encode(self, spec: TaskSpec, examples: Sequence[Example]) -> Encoded:
        found = self.description
        return KINDS[spec.kind].encode(
            examples, spec, self.tokenizer, found.max_length, found.stride
        )

    def read(
        self, encoded: Encoded, tasks: Sequence[str], *, batch_size: int
    ) -> dict[str, Reading]:
        found = self.description
        session = self.session(found.places[tasks[0]].graph)
        read = [value.name for value in session.get_inputs()]
        names = [found.places[task].output for task in tasks]
        gathered = Gathered(encoded, [self.specs[task] for task in tasks], found.width)
        for items in evaluation_order(encoded, batch_size):
            rows = rows_of_items(encoded, items)
            inputs = padded_rows(encoded, rows, found.padding_id)
            *logits, states = session.run([*names, STATES], {name: inputs[name] for name in read})
            counts = encoded.item_rows[items + 1] - encoded.item_rows[items]
            outputs = {
                task: self._by_item(task, values, counts)
                for task, values in zip(tasks, logits, strict=True)
            }
            gathered.add(items, outputs, states)
        return gathered.readings()

    def _by_item(self, task: str, values: Array, counts: Array) -> list[Array]:
        """Outputs per item; those of a question are the numbers of its choices."""
        if KINDS[self.specs[task].kind].HEAD == "choice":
            return np.split(values, np.cumsum(counts)[:-1])
        return list(values)

    def using(self, graph: str, session: Any) -> "OnnxReader":
        """The same package with another form of one graph."""
        twin = copy.copy(self)
        twin._sessions = {**self._sessions, graph: session}
        return twin

    def session(self, graph: str) -> Any:
        """The open graph of this file."""
        with self._opening:
            if graph not in self._sessions:
                self._sessions[graph] = open_graph(self.folder / graph, self.threads)
            return self._sessions[graph]


def open_graph(path: Path, threads: int | None = None) -> Any:
    """Open a graph on the CPU."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors
    if threads is not None:
        options.intra_op_num_threads = threads
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the runtime's errors share no class
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            f"{path}: the installed onnxruntime {onnxruntime.__version__} cannot open it "
            f"({reason}): update onnxruntime"
        ) from error
