"""What every example adds to a score gives the score itself, and that of every resample."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import brodmann as bm
from brodmann.analysis.statistics import bootstrap_weights
from brodmann.data.kinds import KINDS, every_score, outcomes, resampled_scores


@pytest.mark.parametrize("place", range(7))
def test_outcomes_give_every_metric_and_every_resample(
    place: int, tasks_of_every_kind: list[Any]
) -> None:
    task = tasks_of_every_kind[place]
    kind, examples = KINDS[task.spec.kind], task.splits["train"]
    guesses = _some_guesses(task)
    weights = bootstrap_weights(len(examples), 20, seed=0)
    for metric in kind.METRICS:
        if metric == "exact_match" and task.spec.kind == "classification":
            continue  # only where examples come in sets: below
        spec = replace(task.spec, metric=metric)
        values = outcomes(guesses, examples, spec)
        whole = resampled_scores(values, np.ones((1, len(examples))), spec)[0]
        assert whole == pytest.approx(every_score(guesses, examples, spec)[metric], abs=1e-9), (
            metric
        )
        for row, score in zip(weights, resampled_scores(values, weights, spec), strict=True):
            drawn = np.repeat(np.arange(len(examples)), row.astype(int))
            again = every_score([guesses[i] for i in drawn], [examples[i] for i in drawn], spec)
            assert score == pytest.approx(again[metric], abs=1e-9), metric


def test_outcomes_of_sets_are_drawn_as_whole_sets() -> None:
    """MultiRC: the resampled unit is a question with all its answers."""
    rows = [{"text": f"t {i}", "label": i % 2, "set": f"q{i // 3}"} for i in range(24)]
    task = bm.load_task("q", kind="classification", train=rows, validation=rows, set="set")
    examples = task.splits["train"]
    guesses = [
        {"label": str(example["label"] ^ (i % 5 == 0))} for i, example in enumerate(examples)
    ]
    weights = bootstrap_weights(8, 20, seed=0)
    for metric in KINDS["classification"].METRICS:
        spec = replace(task.spec, metric=metric)
        values = outcomes(guesses, examples, spec)
        assert len(values) == 8
        for row, score in zip(weights, resampled_scores(values, weights, spec), strict=True):
            drawn = [
                (3 * q + i, copy)
                for q, times in enumerate(row.astype(int))
                for copy in range(times)
                for i in range(3)
            ]
            again = every_score(
                [guesses[i] for i, _ in drawn],
                [{**examples[i], "set": (examples[i]["set"], copy)} for i, copy in drawn],
                spec,
            )
            assert score == pytest.approx(again[metric], abs=1e-9), metric


def _some_guesses(task: Any) -> list[dict[str, Any]]:
    """Right, wrong and half-right answers."""
    found = []
    for place, example in enumerate(task.splits["train"]):
        off = place % 3 == 0
        if task.spec.kind == "classification":
            found.append({"label": task.spec.label_list[example["label"] ^ off]})
        elif task.spec.kind == "multilabel":
            kept = [n for n, on in zip(task.spec.label_list, example["label"], strict=True) if on]
            found.append({"labels": kept[:1] if off else kept})
        elif task.spec.kind == "regression":
            found.append({"value": example["label"] + (place % 5) * (-1) ** place})
        elif task.spec.kind == "choice":
            found.append({"choice": example["label"] ^ off})
        elif task.spec.kind == "span":
            words = example["answers"][0][0] if example["answers"] else ""
            found.append({"answer": "the cat" if off else words})
        else:
            tags = [task.spec.label_list[tag] for tag in example["tags"]]
            found.append({"tags": ["O", *tags[1:2], *tags[2:]] if not off else tags[::-1]})
    return found
