"""Sizes of the models of a table: parameters as the papers count them."""

from typing import Any

from brodmann.models.encoders import Architecture, architecture_of
from brodmann.papers.readers.common import cases_of, scores_of
from brodmann.papers.recipes import Numbers

TOTAL, TRAINED = "total params (×)", "trained params/task (%)"  # relative to the backbone
OVERALL, ACTIVATED = "overall params (M)", "activated params (M)"
SIZES = (TOTAL, TRAINED, OVERALL, ACTIVATED)


def sizes_of(grid: dict[str, Any]) -> Numbers:
    """One row per case whose runs counted their parameters, output heads left out.

    The unit of a multiple is the backbone of the case: its single-task encoder, or the encoder
    itself if nothing was added. The parameters a task trains are the trained part of the encoder
    over the number of scores in the row, which counts both sets of MNLI (Pilault et al. 2021,
    Table 2); with one encoder per task, all of it is trained.
    """
    cases = {
        case: cells[0]
        for case, cells in cases_of(grid).items()
        if cells[0].get("parameters") and cells[0].get("configuration")
    }
    backbones = _backbones(cases)
    rows: Numbers = {}
    for case, cell in cases.items():
        counts = cell["parameters"]
        separate = _architecture(cell).separate
        tasks, scores = len(cell["splits"]["validation"]), len(scores_of(cell["splits"]))
        activated = counts.get("activated")
        if activated is None:
            activated = counts["encoder"] / tasks if separate else counts["encoder"]
        rows[case] = {OVERALL: counts["encoder"] / 1e6, ACTIVATED: activated / 1e6}
        unit = backbones.get(_model(cell).get("backbone", ""))
        if unit is not None:
            trained = (counts["trainable"] - counts["heads"]) / unit
            share = 1.0 if separate else trained / scores
            rows[case] |= {TOTAL: counts["encoder"] / unit, TRAINED: 100 * share}
    return rows


def _backbones(cases: dict[str, dict[str, Any]]) -> dict[str, float]:
    """Parameters of the bare encoders in any case: a shared one, or one per task."""
    found: dict[str, float] = {}
    for cell in cases.values():
        model, encoder = _model(cell), float(cell["parameters"]["encoder"])
        architecture = _architecture(cell)
        if architecture.is_shared and not model.get("gates"):
            found[model.get("backbone", "")] = encoder
        elif architecture.separate:
            tasks = len(cell["splits"]["validation"])
            found.setdefault(model.get("backbone", ""), encoder / tasks)
    return found


def _architecture(cell: dict[str, Any]) -> Architecture:
    return architecture_of(_model(cell).get("architecture", "shared"))


def _model(cell: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = cell["configuration"].get("model", {})
    return found
