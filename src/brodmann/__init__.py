"""Brodmann: one Transformer encoder for many language tasks, and the map of its heads.

Public names load on first use, so that `import brodmann` stays fast; editors and type checkers read
the imports below.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from brodmann.data.loading import load_task as load_task
    from brodmann.data.loading import load_tasks as load_tasks
    from brodmann.data.tasks import Task as Task
    from brodmann.data.tasks import TaskSpec as TaskSpec
    from brodmann.errors import InputError as InputError
    from brodmann.errors import RunError as RunError
    from brodmann.measuring.explaining import explain_heads as explain_heads
    from brodmann.measuring.finding_mistakes import mistakes as mistakes
    from brodmann.measuring.iap import dissociation as dissociation
    from brodmann.measuring.importance import head_importance as head_importance
    from brodmann.measuring.zero_shot import zero_shot as zero_shot
    from brodmann.models.backbone.anatomy import anatomy as anatomy
    from brodmann.models.evaluation import evaluate as evaluate
    from brodmann.models.heads.gates import gated as gated
    from brodmann.models.heads.gates import head_gates as head_gates
    from brodmann.models.heads.removal import load_pruned as load_pruned
    from brodmann.models.heads.removal import prune_heads as prune_heads
    from brodmann.models.multitask import MultiTaskModel as MultiTaskModel
    from brodmann.reporting.figures import plot as plot
    from brodmann.results import AttentionMaps as AttentionMaps
    from brodmann.results import Dissociation as Dissociation
    from brodmann.results import HeadScores as HeadScores
    from brodmann.results import Mistakes as Mistakes
    from brodmann.serving.server import serve as serve
    from brodmann.training.method_settings import IAT as IAT
    from brodmann.training.methods.distillation import distill as distill
    from brodmann.training.output_heads import fit_output_heads as fit_output_heads
    from brodmann.verbs.advising_verb import Advice as Advice
    from brodmann.verbs.advising_verb import advise as advise
    from brodmann.verbs.calibrating import calibrate as calibrate
    from brodmann.verbs.callbacks import Callback as Callback
    from brodmann.verbs.callbacks import TrainingState as TrainingState
    from brodmann.verbs.compressing import compress as compress
    from brodmann.verbs.fitting import History as History
    from brodmann.verbs.fitting import fit as fit
    from brodmann.verbs.outcomes import Outcome as Outcome
    from brodmann.verbs.outcomes import Page as Page
    from brodmann.verbs.outcomes import Run as Run
    from brodmann.verbs.running import adapt as adapt
    from brodmann.verbs.running import compare as compare
    from brodmann.verbs.running import grid as grid
    from brodmann.verbs.running import meta as meta
    from brodmann.verbs.running import plan as plan
    from brodmann.verbs.running import report as report
    from brodmann.verbs.running import reproduce as reproduce
    from brodmann.verbs.running import run as run
    from brodmann.verbs.running import study as study
    from brodmann.verbs.running import train as train
    from brodmann.verbs.running import transfer as transfer
    from brodmann.verbs.using import export as export
    from brodmann.verbs.using import predict as predict
    from brodmann.verbs.using import prune as prune
    from brodmann.verbs.using import push as push
    from brodmann.verbs.using import relate as relate

__version__ = "0.2.0"

_PUBLIC = {
    "Task": "brodmann.data.tasks",
    "TaskSpec": "brodmann.data.tasks",
    "load_task": "brodmann.data.loading",
    "load_tasks": "brodmann.data.loading",
    "MultiTaskModel": "brodmann.models.multitask",
    "evaluate": "brodmann.models.evaluation",
    "zero_shot": "brodmann.measuring.zero_shot",
    "fit_output_heads": "brodmann.training.output_heads",
    "fit": "brodmann.verbs.fitting",
    "Callback": "brodmann.verbs.callbacks",
    "TrainingState": "brodmann.verbs.callbacks",
    "History": "brodmann.verbs.fitting",
    "IAT": "brodmann.training.method_settings",
    "distill": "brodmann.training.methods.distillation",
    "anatomy": "brodmann.models.backbone.anatomy",
    "head_gates": "brodmann.models.heads.gates",
    "gated": "brodmann.models.heads.gates",
    "prune_heads": "brodmann.models.heads.removal",
    "load_pruned": "brodmann.models.heads.removal",
    "head_importance": "brodmann.measuring.importance",
    "mistakes": "brodmann.measuring.finding_mistakes",
    "explain_heads": "brodmann.measuring.explaining",
    "dissociation": "brodmann.measuring.iap",
    "plot": "brodmann.reporting.figures",
    "run": "brodmann.verbs.running",
    "train": "brodmann.verbs.running",
    "study": "brodmann.verbs.running",
    "grid": "brodmann.verbs.running",
    "compare": "brodmann.verbs.running",
    "transfer": "brodmann.verbs.running",
    "adapt": "brodmann.verbs.running",
    "meta": "brodmann.verbs.running",
    "plan": "brodmann.verbs.running",
    "reproduce": "brodmann.verbs.running",
    "advise": "brodmann.verbs.advising_verb",
    "report": "brodmann.verbs.running",
    "calibrate": "brodmann.verbs.calibrating",
    "predict": "brodmann.verbs.using",
    "serve": "brodmann.serving.server",
    "export": "brodmann.verbs.using",
    "compress": "brodmann.verbs.compressing",
    "prune": "brodmann.verbs.using",
    "push": "brodmann.verbs.using",
    "relate": "brodmann.verbs.using",
    "Run": "brodmann.verbs.outcomes",
    "Outcome": "brodmann.verbs.outcomes",
    "Advice": "brodmann.verbs.advising_verb",
    "Page": "brodmann.verbs.outcomes",
    "HeadScores": "brodmann.results",
    "Dissociation": "brodmann.results",
    "Mistakes": "brodmann.results",
    "AttentionMaps": "brodmann.results",
    "InputError": "brodmann.errors",
    "RunError": "brodmann.errors",
}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'brodmann' has no attribute '{name}'")
    import importlib

    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
