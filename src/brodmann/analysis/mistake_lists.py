"""What a model gets wrong on one task, as a document: counts, scores of labels, lists of examples.

Lists are cut: the document stays small whatever the number of examples and labels, and says how
many there are. A row is the place of an example in its split, counted from 0. What quotes a text is
under `texts` and nowhere else.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from brodmann.analysis.label_errors import suspected
from brodmann.analysis.label_scores import confusion_matrix, confusions, label_scores
from brodmann.data.judging import NOTHING, Case, Judged
from brodmann.data.kinds import KINDS
from brodmann.data.metrics import Prediction
from brodmann.data.tasks import Example, TaskSpec
from brodmann.files import Array

MOST_CASES = 100  # of each list
MOST_LABELS = 200
MOST_CONFUSIONS = 50
MOST_CELLS = 20  # labels of a confusion matrix
NOTHING_NAME = "nothing"
FIFTHS = 5


def mistakes_of(
    predictions: Sequence[Prediction],
    examples: Sequence[Example],
    spec: TaskSpec,
    *,
    texts: bool = True,
) -> dict[str, Any]:
    """Compare all answers with the right ones; without `texts`, only rows and labels are named."""
    kind = KINDS[spec.kind]
    judged = kind.judge(predictions, examples, spec)

    def shown(row: int) -> dict[str, Any]:
        return _case(row, kind.case(predictions[row], examples[row], spec), judged, texts)

    pairs = confusions(judged)
    suspects = _suspects(judged)
    numbers = None if judged.values is None else _numbers(judged.values)
    wrong = None if numbers is not None else int((judged.wrong > 0).sum())
    labels = label_scores(judged)
    return {
        "kind": spec.kind,
        "unit": judged.unit,
        "examples": len(examples),
        "wrong": wrong,
        "sorts": dict(judged.sorts),
        "numbers": numbers,
        "labels": labels[:MOST_LABELS],
        "labels_in_all": len(labels),
        "matrix": _matrix(judged, pairs),
        "confusions": [
            {"truth": _name(truth, judged), "answer": _name(answer, judged), "count": count}
            for truth, answer, count in pairs[:MOST_CONFUSIONS]
        ],
        "confusions_in_all": len(pairs),
        "mistakes": [shown(row) for row in _worst(judged)],
        "uncertain": [shown(row) for row in _least_certain(judged)],
        "suspects": [
            _suspect(shown(row), given, believed, chance)
            for _, row, given, believed, chance in suspects[:MOST_CASES]
        ],
        "suspects_in_all": None if judged.beliefs is None else len(suspects),
    }


def _case(row: int, case: Case, judged: Judged, texts: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "row": row,
        "truth": case.truth,
        "answer": case.answer,
        "wrong": float(judged.wrong[row]),
        "sure": _known(judged.sure[row]),
        "certainty": _known(judged.certainty[row]),
    }
    if texts:
        truth, answer = case.quoted or (case.truth, case.answer)
        found["texts"] = {"text": case.text, "truth": truth, "answer": answer}
    return found


def _known(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _name(place: int, judged: Judged) -> str | None:
    return None if place == NOTHING else judged.names[place]


def _worst(judged: Judged) -> list[int]:
    """Mistakes of which the model was most sure or, where that is not known, the largest."""
    rows = np.flatnonzero(judged.wrong > 0)
    sure = np.nan_to_num(judged.sure[rows], nan=-1.0)
    order = np.lexsort((rows, -judged.wrong[rows], -sure))
    return [int(row) for row in rows[order][:MOST_CASES]]


def _least_certain(judged: Judged) -> list[int]:
    rows = np.flatnonzero(~np.isnan(judged.certainty))
    order = np.argsort(judged.certainty[rows], kind="stable")
    return [int(row) for row in rows[order][:MOST_CASES]]


Suspect = tuple[float, int, str, str, float]  # margin, row, label, label it seems to have, chance


def _suspects(judged: Judged) -> list[Suspect]:
    """Suspected label errors of all decisions, the clearest first."""
    return sorted(_suspects_unordered(judged))


def _suspects_unordered(judged: Judged) -> Iterable[Suspect]:
    for beliefs in judged.beliefs or ():
        found = suspected(beliefs.given, beliefs.chances, alike=beliefs.alike)
        for place, believed, margin in zip(*found, strict=True):
            yield (
                float(margin),
                int(beliefs.example[place]),
                beliefs.names[beliefs.given[place]],
                beliefs.names[believed],
                float(beliefs.chances[place, believed]),
            )


def _suspect(case: dict[str, Any], given: str, believed: str, chance: float) -> dict[str, Any]:
    """A case that shows the doubted label and the one that the example seems to have."""
    changed = (case["truth"], case["answer"]) != (given, believed)
    found = {**case, "truth": given, "answer": believed, "sure": chance}
    if changed and "texts" in case:
        found["texts"] = {**case["texts"], "truth": given, "answer": believed}
    return found


def _matrix(judged: Judged, pairs: Sequence[tuple[int, int, int]]) -> dict[str, Any] | None:
    """All labels against all, or those most often confused; None if labels exclude nothing."""
    if not any(NOTHING not in pair[:2] for pair in pairs) or len(judged.names) < 2:
        return None
    count = len(judged.names)
    none = any(NOTHING in pair[:2] for pair in pairs)
    chosen = list(range(count))
    if count > MOST_CELLS:
        first = dict.fromkeys(place for pair in pairs for place in pair[:2] if place != NOTHING)
        chosen = sorted(list(first)[:MOST_CELLS])
    names = [judged.names[place] for place in chosen] + [NOTHING_NAME] * none
    counts = confusion_matrix(judged, [*chosen, *([count] if none else [])])
    return {"labels": names, "counts": counts.tolist(), "shown": len(chosen), "of": count}


def _numbers(values: Array) -> dict[str, Any]:
    """How far numbers are off: in all, and in each fifth of the right values."""
    error = values[:, 1] - values[:, 0]
    order = np.argsort(values[:, 0], kind="stable")
    parts = [part for part in np.array_split(order, FIFTHS) if len(part)]
    return {
        "mean_error": float(error.mean()),
        "mean_absolute_error": float(np.abs(error).mean()),
        "median_absolute_error": float(np.median(np.abs(error))),
        "fifths": [
            {
                "from": float(values[part, 0].min()),
                "to": float(values[part, 0].max()),
                "examples": len(part),
                "mean_error": float(error[part].mean()),
                "mean_absolute_error": float(np.abs(error[part]).mean()),
            }
            for part in parts
        ],
    }
