"""Relations inside a trained run: how its encoders represent texts."""

from collections.abc import Callable
from typing import Any

import numpy as np

from brodmann.analysis.cnm import cnm_matrix, read_sentences, read_voxels
from brodmann.analysis.covsim import covsim_matrix
from brodmann.analysis.cra import cra
from brodmann.analysis.dse import dse
from brodmann.files import Array
from brodmann.measuring.relations import Inputs


def measure_covsim(inputs: Inputs) -> dict[str, Any]:
    """Similarity of the covariances of texts at the first layer."""
    from brodmann.models.first_layer import first_layer_inputs

    received = [
        first_layer_inputs(
            inputs.model,
            task,
            examples=inputs.examples,
            seed=inputs.seed,
            batch_size=inputs.batch_size,
        )
        for task in inputs.tasks
    ]
    matrix, means = covsim_matrix(received)
    return {"examples": inputs.examples, "covsim": matrix.tolist(), "mean": means.tolist()}


def measure_dse(inputs: Inputs) -> dict[str, Any]:
    return _compare_encoders(inputs, dse)


def measure_cra(inputs: Inputs) -> dict[str, Any]:
    return _compare_encoders(inputs, cra)


def _compare_encoders(inputs: Inputs, measure: Callable[[Array, Array], float]) -> dict[str, Any]:
    found = _representations(inputs, list(inputs.sentences))
    matrix = np.array([[measure(a, b) for b in found] for a in found])
    return {"examples": inputs.examples, "matrix": matrix.tolist()}


def measure_cnm(inputs: Inputs) -> dict[str, Any]:
    """Similarity of how well encoders predict fMRI voxels."""
    assert inputs.voxels is not None
    measured, texts = read_voxels(inputs.voxels), read_sentences(inputs.voxels)
    found = _representations(inputs, texts)
    return {
        "examples": len(texts),
        "voxels": {participant: matrix.shape[1] for participant, matrix in measured.items()},
        "matrix": cnm_matrix(found, measured, inputs.seed).tolist(),
    }


def _representations(inputs: Inputs, texts: list[str]) -> list[Array]:
    from brodmann.models.representations import sentence_representations

    return [
        sentence_representations(inputs.model, name, texts, batch_size=inputs.batch_size)
        for name in inputs.names
    ]
