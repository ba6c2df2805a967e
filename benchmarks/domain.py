"""Which score tells a task's own texts from others: the states of which layer, and which distance.

    python benchmarks/domain.py RUN FOLDER --out benchmarks/results/domain.json

RUN is a trained run of five real tasks (examples/glue_small.toml) on the datasets of FOLDER. Each
score is fitted on training texts; its p-values count validation texts. For every task it reports
the AUROC of its own texts (half of the validation split, which fits nothing) against texts of the
model's other tasks and of datasets that the model never saw, and the share of own texts whose
p-value is below 0.05.
"""

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import torch
from sklearn.metrics import roc_auc_score

import brodmann as bm
from brodmann.data.answering.conformal import p_values
from brodmann.data.answering.inputs import fits, plain_inputs, read_inputs
from brodmann.data.batches import evaluation_order
from brodmann.models.evaluation import evaluating, unlabelled

UNSEEN = ("ag_news", "imdb", "glue/cola", "superglue/boolq", "glue/rte", "snli", "wikigold")
ROWS = 500  # texts per task, to fit on and to judge


def loaded(use: str, folder: str) -> bm.Task:
    limit = {"train": ROWS, "validation": ROWS}
    (task,) = bm.load_tasks([{"use": use, "limit": limit}], base=folder)
    return task


def texts_of(task: bm.Task, split: str) -> list[Any]:
    """The split's texts as inputs of any shape: strings or pairs."""
    return plain_inputs(task.splits[split][:ROWS])


@torch.inference_mode()
def states(model: Any, name: str, texts: list[Any]) -> np.ndarray:
    """(layer, text, width): the mean of every layer over the real tokens."""
    spec = model.spec(name)
    encoded = model.encode(spec, read_inputs(spec, texts), cache=False)
    firsts = np.unique(encoded.item_example, return_index=True)[1]
    found: dict[int, np.ndarray] = {}
    with evaluating(model):
        for items in evaluation_order(encoded, 64):
            batch = unlabelled(model, name, encoded, items)
            inner = model.bare_models()[0](**batch.inputs, output_hidden_states=True)
            mask = batch.inputs["attention_mask"][..., None].float()
            mean = torch.stack([(h * mask).sum(1) / mask.sum(1) for h in inner.hidden_states])
            for place, item in enumerate(items):
                found[int(item)] = mean[:, place].numpy()
    return np.stack([found[int(item)] for item in firsts], axis=1)


def mahalanobis(train: np.ndarray, groups: np.ndarray, others: np.ndarray) -> Callable:
    means = np.stack([train[groups == g].mean(0) for g in np.unique(groups)])
    centred = train - means[np.searchsorted(np.unique(groups), groups)]
    whiten = whitening(centred)
    return lambda x: ((x[:, None] - means[None]) @ whiten).__pow__(2).sum(-1).min(1)


def whitening(centred: np.ndarray, shrink: float = 0.1) -> np.ndarray:
    covariance = centred.T @ centred / len(centred)
    covariance = (1 - shrink) * covariance + shrink * np.trace(covariance) / len(
        covariance
    ) * np.eye(len(covariance))
    values, vectors = np.linalg.eigh(covariance)
    return vectors / np.sqrt(values)


def one_gaussian(train: np.ndarray, groups: np.ndarray, others: np.ndarray) -> Callable:
    return mahalanobis(train, np.zeros(len(train)), others)


def relative(train: np.ndarray, groups: np.ndarray, others: np.ndarray) -> Callable:
    own = mahalanobis(train, groups, others)
    everything = np.concatenate([train, others])
    background = one_gaussian(everything, groups, others)
    return lambda x: own(x) - background(x)


def neighbours(train: np.ndarray, groups: np.ndarray, others: np.ndarray, k: int = 10) -> Callable:
    unit = train / np.linalg.norm(train, axis=1, keepdims=True)

    def score(x: np.ndarray) -> np.ndarray:
        near = np.sort(x / np.linalg.norm(x, axis=1, keepdims=True) @ unit.T, axis=1)
        return 1 - near[:, -k]

    return score


def whitened_neighbours(train: np.ndarray, groups: np.ndarray, others: np.ndarray) -> Callable:
    centre = train.mean(0)
    whiten = whitening(train - centre)
    inner = neighbours((train - centre) @ whiten, groups, others)
    return lambda x: inner((x - centre) @ whiten)


def nearest(train: np.ndarray, groups: np.ndarray, others: np.ndarray) -> Callable:
    """Distance to the own training texts minus that to the other tasks' texts."""
    own, other = neighbours(train, groups, others), neighbours(others, groups, others)
    return lambda x: own(x) - other(x)


def nearest_strange(train: np.ndarray, groups: np.ndarray, others: np.ndarray) -> Callable:
    """The same, with only those texts of other tasks that are unlike the task's own.

    Tasks may share their texts; what is usual for both says nothing against either.
    """
    own = neighbours(train, groups, others)
    near = train / np.linalg.norm(train, axis=1, keepdims=True)
    usual = np.sort(1 - np.sort(near @ near.T, axis=1)[:, -11])  # the 10th, without itself
    strange = others[p_values(usual, own(others)) < 0.05]
    return nearest(train, groups, strange) if len(strange) >= 10 else own


SCORES = {
    "Mahalanobis by class": mahalanobis,
    "Mahalanobis": one_gaussian,
    "relative Mahalanobis": relative,
    "10th neighbour": neighbours,
    "10th neighbour, whitened": whitened_neighbours,
    "neighbours, own minus others": nearest,
    "neighbours, own minus strange others": nearest_strange,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("data")
    parser.add_argument("--out", default="domain.json")
    chosen = parser.parse_args()
    model = bm.MultiTaskModel.from_pretrained(chosen.run, device="cpu")
    sources = {"sst2": "glue/sst2", "qnli": "glue/qnli", "mrpc": "glue/mrpc", "stsb": "glue/stsb"}
    own = {name: loaded(sources.get(name, name), chosen.data) for name in model.specs}
    unseen = []
    for use in UNSEEN:
        try:
            unseen.append(loaded(use, chosen.data))
        except bm.InputError as error:
            print(f"left out: {error}")
    rows = []
    for name, task in own.items():
        spec = model.spec(name)
        train = states(model, name, texts_of(task, "train"))
        held = states(model, name, texts_of(task, "validation"))
        labels = [str(e.get("label", 0)) if spec.kind == "classification" else "0"
                  for e in task.splits["train"][:ROWS]]  # fmt: skip
        groups = np.unique(labels, return_inverse=True)[1]
        others = {}
        for kind, tasks, split in (
            ("other tasks", [t for n, t in own.items() if n != name], "validation"),
            ("unseen", unseen, "validation"),
            ("background", [t for n, t in own.items() if n != name], "train"),
        ):
            texts = [t for other in tasks for t in shaped(spec, texts_of(other, split))]
            others[kind] = states(model, name, texts)
        order = np.random.default_rng(0).permutation(held.shape[1])
        fit, judge = order[::2], order[1::2]
        for layer in sorted({0, len(train) // 2, len(train) - 1}):
            for label, method in SCORES.items():
                score = method(train[layer], groups, others["background"][layer])
                usual = np.sort(score(held[layer][fit]))
                mine = score(held[layer][judge])
                row = {"task": name, "layer": layer, "score": label}
                row["refused"] = float((p_values(usual, mine) < 0.05).mean())
                for kind in ("other tasks", "unseen"):
                    foreign = score(others[kind][layer])
                    truth = np.r_[np.zeros(len(mine)), np.ones(len(foreign))]
                    row[kind] = float(roc_auc_score(truth, np.r_[mine, foreign]))
                    row[f"{kind} refused"] = float((p_values(usual, foreign) < 0.05).mean())
                rows.append(row)
                print(json.dumps(row), flush=True)
    Path(chosen.out).write_text(json.dumps({"schema_version": 1, "rows": rows}, indent=1) + "\n")
    print_table(rows)


def shaped(spec: Any, texts: list[Any]) -> list[Any]:
    """The texts in the shape that the task reads: a pair's first text, or two texts as a pair."""
    flat = [text if fits(spec, text) else None for text in texts]
    if spec.pair:
        singles = [text for text in texts if isinstance(text, str)]
        made = list(zip(singles[::2], singles[1::2], strict=False))
    else:
        made = [text[0] for text in texts if not isinstance(text, str)]
    return [text for text in flat if text is not None] + made


def print_table(rows: list[dict[str, Any]]) -> None:
    """Means over tasks."""
    for layer in sorted({row["layer"] for row in rows}):
        for label in SCORES:
            found = [r for r in rows if r["layer"] == layer and r["score"] == label]
            columns = ("other tasks", "unseen", "refused", "other tasks refused", "unseen refused")
            values = [np.mean([row[column] for row in found]) for column in columns]
            shown = " | ".join(f"{100 * v:.1f}" for v in values)
            print(f"| {layer} | {label} | {shown} |")


if __name__ == "__main__":
    main()
