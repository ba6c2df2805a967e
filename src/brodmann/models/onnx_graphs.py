"""All tasks of a model as ONNX graphs with one file of weights.

If one pass through the encoder serves all tasks, there is one graph with an output per task. In the
other architectures every task is read in its own way (another path, other modules, another row of a
task embedding), so each task gets a graph of its own. Such a graph is what the model computes for a
batch of that task alone, which `MultiTaskModel.states` already does for every architecture: nothing
here knows any of them. A single graph with the task as an input would need a branch inside every
conditioned module.

Weights are stored by their content, once each, in `weights.bin` beside the graphs, so the layers
that tasks share take no more room than in the model. Adapters of LoRA are merged first.

Besides its logits, a graph returns the mean of its middle layer over the real tokens, by which
rules judge how usual a text is.
"""

import ast
import contextlib
import copy
import hashlib
import logging
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from brodmann.data.batches import Part
from brodmann.errors import InputError
from brodmann.models.evaluation import evaluating
from brodmann.models.heads.trained_gates import through
from brodmann.models.representations import keeping_layers, mean_over_tokens, middle_layer

ONNX_INSTALL = "pip install 'brodmann[onnx]'"
WEIGHTS = "weights.bin"
INLINE = 1024  # bytes; smaller tensors stay in the graph, where the runtime can fold them
ALIGNED = 64  # bytes; where a tensor may begin


@dataclass
class Graph:
    """A graph in memory, and the tasks that it answers."""

    file: str
    tasks: tuple[str, ...]
    content: Any  # onnx_ir.Model

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(value.name for value in self.content.graph.inputs)


class _Tasks(nn.Module):
    """Some tasks of a model with plain tensors as inputs and outputs."""

    def __init__(self, model: Any, tasks: Sequence[str]) -> None:
        super().__init__()
        self.model = model
        self.tasks = tasks

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        inputs = {"input_ids": input_ids, "attention_mask": attention_mask}
        if token_type_ids is not None:
            inputs["token_type_ids"] = token_type_ids
        rows = slice(0, input_ids.shape[0])
        part = Part(self.tasks[0], rows, np.zeros(0, int), {}, np.zeros(0, int), 0)
        states = self.model.encoder(inputs, [part])[0]
        # Without `read_off`: joining the rows of a question is left to who makes the batches.
        logits = (self.model.head_of(task)(states, inputs) for task in self.tasks)
        return (*logits, mean_over_tokens(middle_layer(states), attention_mask))


def check_onnx() -> None:
    try:
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError:
        raise InputError(f"export --to onnx needs more packages: {ONNX_INSTALL}") from None


def graphs_of(model: Any, outputs: Mapping[str, str], states: str) -> list[Graph]:
    """Draw the graphs; `outputs` names the output of every task, `states` that of the states."""
    model = model.merged()
    if model.device.type != "cpu":
        model = copy.deepcopy(model).to("cpu")
    tasks = list(outputs)
    if model.architecture.one_pass:
        groups = [("model.onnx", tasks)]
    else:
        groups = [(f"{n}-{_plain(task)}.onnx", [task]) for n, task in enumerate(tasks, start=1)]
    found = []
    for file, group in groups:
        names = [*(outputs[task] for task in group), states]
        found.append(Graph(file, tuple(group), _drawn(model, group, names)))
    return found


def _plain(task: str) -> str:
    """The task's name as part of a file's name."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", task)[:60].strip("-.")


def _drawn(model: Any, tasks: list[str], names: list[str]) -> Any:
    whole = through(model.encoder, model.gates)
    with evaluating(model), torch.no_grad(), keeping_layers(model), whole:
        module = _Tasks(model, tasks).eval()
        program = draw(module, example_inputs(model, 3, 19), names, ", ".join(tasks))
    return program.model


def draw(module: nn.Module, inputs: dict[str, Tensor], outputs: list[str], what: str) -> Any:
    """torch's exporter; texts and tokens may be of any number."""
    axes = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    try:
        with quiet_exporter():
            program = torch.onnx.export(
                module,
                kwargs=inputs,
                dynamo=True,
                dynamic_shapes=dict.fromkeys(inputs, axes),
                input_names=list(inputs),
                output_names=outputs,
                verbose=False,
            )
    except OSError:  # a full disk is not the model's fault
        raise
    except Exception as error:  # the exporter's errors share no class
        raise cannot_express(what, error) from error
    assert program is not None
    _tidy(program.model)
    return program


def _tidy(content: Any) -> None:
    """Name layers as the model does; drop what the exporter notes, such as places of source files.

    The names are those of int8 layers in messages.
    """
    known: set[str] = set()
    for node in content.graph:
        scopes = node.metadata_props.get("pkg.torch.onnx.name_scopes")
        if weight_of(node) is not None and scopes:
            path = ast.literal_eval(scopes)
            name = (path[-2] if len(path) > 1 else path[-1]).removeprefix("model.")
            node.name = name if name not in known else f"{name} ({node.name})"
            known.add(name)
        for noted in (node, *node.outputs):
            noted.metadata_props.clear()
    for noted in (content, content.graph, *content.graph.inputs):
        noted.metadata_props.clear()


def weight_of(node: Any) -> Any:
    """The weight by which a node multiplies states; None for any other node."""
    if node.op_type != "MatMul" or node.inputs[1] is None:
        return None
    return node.inputs[1].const_value


def cannot_express(what: str, error: Exception) -> InputError:
    reason = " ".join(str(error).split())[:200]
    return InputError(f"task '{what:.60}': ONNX cannot express or run it ({reason})")


def write_graphs(graphs: Iterable[Graph], folder: Path) -> None:
    """Write graphs and, once each, their weights; the graphs then refer to the file."""
    import onnx_ir

    places: dict[bytes, int] = {}  # digest of a tensor's bytes → where they begin
    with open(folder / WEIGHTS, "wb") as file:
        for graph in graphs:
            for value in graph.content.graph.initializers.values():
                tensor = value.const_value
                if tensor.nbytes < INLINE:
                    continue
                content = tensor.tobytes()
                key = hashlib.sha256(content).digest()
                if key not in places:
                    file.write(bytes(-file.tell() % ALIGNED))
                    places[key] = file.tell()
                    file.write(content)
                value.const_value = onnx_ir.ExternalTensor(
                    WEIGHTS,
                    places[key],
                    len(content),
                    tensor.dtype,
                    shape=tensor.shape,
                    name=value.name,
                    base_dir=folder,
                )
    for graph in graphs:
        onnx_ir.save(graph.content, folder / graph.file)


def example_inputs(model: Any, rows: int, length: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    size = int(model.config.vocab_size)
    inputs = {
        "input_ids": torch.randint(5, size, (rows, length), generator=generator),
        "attention_mask": torch.ones(rows, length, dtype=torch.long),
    }
    inputs["attention_mask"][0, length - 3 :] = 0
    if "token_type_ids" in model.tokenizer.model_input_names:
        inputs["token_type_ids"] = torch.zeros(rows, length, dtype=torch.long)
    return inputs


@contextlib.contextmanager
def quiet_exporter() -> Iterator[None]:
    """Silence torch's exporter, which warns about optional packages and its own deprecations."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
