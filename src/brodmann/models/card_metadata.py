"""What a model card tells beyond the model itself, and the header that the hub reads.

The header has the form of huggingface_hub's `ModelCardData`: base model, datasets, languages,
licence and one `EvalResult` per task, split and metric.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from brodmann.data.catalogue import Entry, entries
from brodmann.data.sources.hub import is_hub_id
from brodmann.data.tasks import TaskSpec

if TYPE_CHECKING:
    from brodmann.models.multitask import MultiTaskModel

BASES = {"builtin:minilm": "sentence-transformers/all-MiniLM-L6-v2"}  # their ids on the hub
HUB_TASKS = {  # the hub's name for each kind
    "classification": "text-classification",
    "multilabel": "text-classification",
    "regression": "text-classification",
    "choice": "multiple-choice",
    "span": "question-answering",
    "tokens": "token-classification",
}
HUB_METRICS = {  # metrics that the hub knows by another name
    "matthews": "matthews_correlation",
    "spearman": "spearmanr",
    "pearson": "pearsonr",
    "mean_squared_error": "mse",
    "micro_f1": "f1",
    "macro_f1": "f1",
    "entity_f1": "f1",
    "entity_precision": "precision",
    "entity_recall": "recall",
}


@dataclass(frozen=True)
class CardFacts:
    """What a card tells beyond the model itself; a run knows it."""

    splits: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    """split → task → `scores` and, if known, `interval` and `examples`, as in `metrics.json`"""
    sizes: Mapping[str, int] = field(default_factory=dict)  # training examples of each task
    dissociation: float | None = None  # mean D
    picture: str = ""  # file name of the head map, beside the card
    licence: str | None = None
    place: str = "path/to/this/folder"  # where to load the model from
    packaged: bool = False  # whether the folder is an export with ONNX graphs

    @classmethod
    def of(cls, scores: Mapping[str, Mapping[str, float]], licence: str | None = None) -> Self:
        """The facts of a model of which only validation scores are known."""
        measured = {name: {"scores": dict(found)} for name, found in scores.items()}
        return cls(splits={"validation": measured} if measured else {}, licence=licence)


def header(model: "MultiTaskModel", facts: CardFacts) -> str:
    """The card's header in YAML, between its lines of dashes."""
    from huggingface_hub import ModelCardData

    specs = list(model.specs.values())
    forms = dict.fromkeys(HUB_TASKS[spec.kind] for spec in specs)
    results = list(_results(specs, facts))
    data = ModelCardData(
        base_model=base_model(model.settings.backbone),
        datasets=list(dict.fromkeys(filter(None, map(dataset_of, specs)))) or None,
        language=languages_of(specs) or None,
        library_name="brodmann",
        license=facts.licence,
        pipeline_tag=next(iter(forms)) if len(forms) == 1 else None,
        tags=["brodmann", "multi-task-learning", *forms],
        model_name=facts.place.rpartition("/")[2] if results else None,
        eval_results=results or None,
    )
    return f"---\n{data.to_yaml()}\n---\n"


def _results(specs: Iterable[TaskSpec], facts: CardFacts) -> Iterator[Any]:
    from huggingface_hub import EvalResult

    for spec in specs:
        entry = _entry(spec)
        for split, measured in facts.splits.items():
            for metric, value in measured.get(spec.name, {}).get("scores", {}).items():
                if value is None or not math.isfinite(value):
                    continue
                yield EvalResult(
                    task_type=HUB_TASKS[spec.kind],
                    task_name=spec.name,
                    dataset_type=dataset_of(spec) or spec.name,
                    dataset_name=spec.name if is_own(spec) else spec.named or spec.name,
                    dataset_config=_configuration(spec, entry),
                    dataset_split=split,
                    metric_type=HUB_METRICS.get(metric, metric),
                    metric_name=metric,
                    metric_value=round(float(value), 6),
                )


def base_model(backbone: str) -> str | None:
    """The backbone's id on the hub; None if it is a folder or has random weights."""
    if backbone.startswith("builtin:"):
        return BASES.get(backbone)
    return None if is_path(backbone) else backbone


def is_path(name: str) -> bool:
    """Whether the name is a place on this machine rather than an id on the hub."""
    return not is_hub_id(name) or Path(name).exists()


def dataset_of(spec: TaskSpec) -> str | None:
    """The id on the hub of the task's dataset; None for files of the user's own."""
    entry = _entry(spec)
    if entry is not None and not is_own(spec):
        return entry.hub
    if spec.source.startswith("hub:"):
        return "/".join(spec.source.removeprefix("hub:").split("/")[:2])
    return None


def is_own(spec: TaskSpec) -> bool:
    """Whether a named task was read from other rows: the user's own files, in its form."""
    return bool(spec.named) and spec.source not in ("", spec.named) and "hub:" not in spec.source


def _entry(spec: TaskSpec) -> Entry | None:
    return entries().get(spec.named.partition(":")[0])


def _configuration(spec: TaskSpec, entry: Entry | None) -> str | None:
    if entry is None or entry.hub_config is None:
        return None
    languages = languages_of([spec])
    return entry.hub_config.format(language=languages[0]) if len(languages) == 1 else None


def languages_of(specs: Iterable[TaskSpec]) -> list[str]:
    """The codes of the tasks' languages, as far as they are known."""
    found = (code for spec in specs for code in (spec.language or "").split("+"))
    return [code for code in dict.fromkeys(found) if re.fullmatch("[a-z]{2,3}", code)]
