"""Pinned values: what every method gives on a fixed small case, in `pinned_values.json`.

A change that moves one of them changes results that users have: state it in the changelog, then
write the file anew with `python -m tests.test_pinned_values`.
"""

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch

import brodmann as bm
from brodmann.analysis import relevance
from brodmann.analysis.ahp import tournament, transferability
from brodmann.analysis.cnm import cnm
from brodmann.analysis.covsim import covsim
from brodmann.analysis.cra import cra
from brodmann.analysis.dse import dse
from brodmann.data import task_probabilities
from brodmann.data.batches import make_batch
from brodmann.data.kinds import KINDS
from brodmann.data.sampling.samplers import SAMPLERS
from brodmann.measuring.measuring_settings import Estimator
from brodmann.measuring.relations import RELATIONS
from brodmann.models.encoders import ARCHITECTURES
from brodmann.training.methods import METHODS
from tests.conftest import every_kind

FILE = Path(__file__).with_name("pinned_values.json")
CLUSTERS = {"clusters": [["single", "pair"], ["tag"]], "shared": 1}
OPTIONS: dict[str, dict[str, Any]] = {  # what a method needs beside its name
    "hmnet": {"parameters": CLUSTERS},
    "specialize": {"specialize": bm.IAT(alpha=0.5, delta=0.5, examples=8)},
    "aggregation": {"aggregation": "upgrad", "accumulation": 3},
    "sparsity": {"sparsity": 0.1},
}


def three_tasks() -> list[Any]:
    chosen = ("single", "pair", "tag")
    return bm.load_tasks([task for task in every_kind() if task["name"] in chosen])


def trained(
    architecture: str = "shared", model: Mapping[str, Any] | None = None, **options: Any
) -> Any:
    """A tiny model after six steps in float32, and its tasks."""
    tasks = three_tasks()
    built = bm.MultiTaskModel.from_pretrained(
        "builtin:tiny", tasks, architecture=architecture, max_length=32, seed=0, **(model or {})
    )
    settings = {"max_steps": 6, "batch_size": 4, "learning_rate": 1e-3, "precision": "float32"}
    bm.fit(built, tasks, seed=0, keep="last", epochs=2, **settings, **options)
    return built.eval(), tasks


def losses(built: Any, tasks: list[Any]) -> list[float]:
    """The mean loss of each task over its validation rows."""
    rows = [(t.name, built.encode(t.spec, t.splits["validation"]), np.arange(8)) for t in tasks]
    with torch.no_grad():
        return [float(loss.mean()) for loss in built(make_batch(rows, pad_id=0)).losses]


def of_architecture(name: str) -> list[float]:
    return losses(*trained(name, OPTIONS.get(name, {})))


def of_sampler(name: str) -> list[float]:
    if SAMPLERS[name].by_example:
        return losses(*trained(sampling=name))
    shares = task_probabilities(name, [100, 400, 50], epoch=2, epochs=3)
    return [float(share) for share in shares]


def of_method(name: str) -> list[float]:
    gates = {"gates": "trained"} if name == "sparsity" else {}
    return losses(*trained(model=gates, **OPTIONS[name]))


def of_estimator(name: str) -> list[float]:
    built, tasks = trained()
    found = bm.head_importance(built, tasks, examples=6, estimator=name, precision="float32")
    return [float(value) for value in found.values[0].ravel()]


def of_dissociation() -> list[float]:
    built, tasks = trained()
    heads = bm.head_importance(built, tasks, examples=6, precision="float32")
    found = bm.dissociation(built, tasks, heads, alpha=0.3, draws=2, resamples=0)
    return [float(score) for row in found.performance for score in row]


def of_metrics(kind: str) -> list[float]:
    tasks = [task for task in bm.load_tasks(every_kind()) if task.spec.kind == kind]
    built = bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks, seed=0).eval()
    scores = bm.evaluate(built, tasks, precision="float32")
    return [score for task in tasks for _, score in sorted(scores[task.name].scores.items())]


def of_relation(name: str) -> list[float]:
    generator = np.random.default_rng(0)
    a, b = generator.normal(size=(2, 8, 4))
    texts = [{"red", "cat", "sat"}, {"red", "dog"}, {"sat", "dog", "ran", "cat"}]
    found: Any = {
        "words": lambda: relevance.vocabulary_matrix(texts),
        "groups": lambda: relevance.group_matrix(["x", None, "x"]),
        "pairs": lambda: relevance.improvement_matrix(
            ["x", "y"], {"x": 0.5, "y": 0.6}, {frozenset("xy"): {"x": 0.7, "y": 0.4}}
        ),
        "covsim": lambda: covsim(a, b),
        "dse": lambda: dse(a, b),
        "cra": lambda: cra(a, b),
        "ahp": lambda: transferability(tournament(np.abs(a[:3]))),
        "cnm": lambda: cnm(a[:, 0], b[:, 0]),
    }[name]()
    return [float(value) for value in np.ravel(found)]


CASES: dict[str, Callable[[], list[float]]] = {
    **{f"architecture {name}": partial(of_architecture, name) for name in ARCHITECTURES},
    **{f"sampler {name}": partial(of_sampler, name) for name in SAMPLERS},
    **{f"method {name}": partial(of_method, name) for name in METHODS},
    **{f"importance by {name}": partial(of_estimator, name) for name in get_args(Estimator)},
    **{f"metrics of {kind}": partial(of_metrics, kind) for kind in KINDS},
    # Attention maps compare two whole runs: test_attention_maps.py.
    **{f"relation {name}": partial(of_relation, name) for name in RELATIONS if name != "attention"},
    "dissociation": of_dissociation,
}


@pytest.mark.parametrize("name", CASES)
def test_pinned(name: str) -> None:
    pinned = json.loads(FILE.read_text(encoding="utf-8"))
    assert CASES[name]() == pytest.approx(pinned[name], rel=1e-3, abs=1e-5)


def test_nothing_is_pinned_that_is_no_longer_here() -> None:
    assert set(json.loads(FILE.read_text(encoding="utf-8"))) == set(CASES)


if __name__ == "__main__":
    torch.set_num_threads(1)
    values = {name: [float(f"{value:.6g}") for value in case()] for name, case in CASES.items()}
    text = ",\n".join(f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in values.items())
    FILE.write_text(f"{{\n{text}\n}}\n", encoding="utf-8")
