"""Brodmann: one Transformer encoder for many language tasks, and the map of its heads.

Public names load on first use, so that `import brodmann` stays fast.
"""

from typing import Any

__version__ = "0.1.0"

_PUBLIC = {
    "Task": "brodmann.data.tasks",
    "TaskSpec": "brodmann.data.tasks",
    "load_task": "brodmann.data.loading",
    "load_tasks": "brodmann.data.loading",
    "MultiTaskModel": "brodmann.models.multitask",
    "evaluate": "brodmann.models.evaluation",
    "zero_shot": "brodmann.measuring.zero_shot",
    "fit_output_heads": "brodmann.training.output_heads",
    "fit": "brodmann.terminal.watched",
    "IAT": "brodmann.training.method_settings",
    "distill": "brodmann.training.methods.distillation",
    "anatomy": "brodmann.models.backbone.anatomy",
    "head_gates": "brodmann.models.heads.gates",
    "gated": "brodmann.models.heads.gates",
    "prune_heads": "brodmann.models.heads.removal",
    "load_pruned": "brodmann.models.heads.removal",
    "head_importance": "brodmann.measuring.importance",
    "explain_heads": "brodmann.measuring.explaining",
    "dissociation": "brodmann.measuring.iap",
    "plot": "brodmann.reporting.figures",
    "HeadScores": "brodmann.results",
    "Dissociation": "brodmann.results",
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
