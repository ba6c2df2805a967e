"""Layers of a graph in int8: weights stored in 8 bits, states rounded to 8 bits as they arrive.

ONNX Runtime's dynamic quantisation of `MatMul`: every column of a weight has its own scale, and the
scale of the states is found in each batch. Weights use 7 of the 8 bits: processors without VNNI
add pairs of products in 16 bits, which would overflow, and the answers would depend on the machine.
Embeddings and output heads stay in float32.

Reference: Jacob et al. 2018, "Quantization and Training of Neural Networks for Efficient
Integer-Arithmetic-Only Inference".
"""

import contextlib
import logging
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from brodmann.models.onnx_graphs import Graph, weight_of

HEADS = "heads."  # start of the names of output heads


def layers_of_graph(graph: Graph) -> list[str]:
    """The names of the layers that can be in int8, in the order in which they compute."""
    return [node.name for node in graph.content.graph if is_layer(node)]


def is_layer(node: Any) -> bool:
    return weight_of(node) is not None and not node.name.startswith(HEADS)


def quantise(source: Path, target: Path, layers: Collection[str]) -> None:
    """Write the graph `source`, beside which its weights are, with these layers in int8."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    model = onnx.load(source)
    # The quantiser turns weights of output heads around, which then contradict the stored shapes.
    del model.graph.value_info[:]
    with _quiet():
        quantize_dynamic(
            model,
            target,
            op_types_to_quantize=["MatMul"],
            nodes_to_quantize=list(layers),
            weight_type=QuantType.QInt8,
            per_channel=True,
            reduce_range=True,
            use_external_data_format=True,
        )


def read_graph(graph: Graph, path: Path) -> Graph:
    """The same graph in the form that a file has; weights are read when they are written."""
    import onnx_ir

    return Graph(graph.file, graph.tasks, onnx_ir.load(path))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence the advice to prepare the graph first, which the exporter has done."""
    logger = logging.getLogger()
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
