"""Readers of statistics: datasets and models of a paper, without any training."""

from typing import Any

from brodmann.papers.recipes import Numbers


def dataset_statistics(found: dict[str, Any]) -> Numbers:
    """One row per dataset: its classes and training examples."""
    return {
        name: {
            **({"classes": about["classes"]} if about["classes"] is not None else {}),
            "training examples": about["train"],
        }
        for name, about in found["datasets"].items()
    }


def model_statistics(found: dict[str, Any]) -> Numbers:
    """One row per model: layers, heads per layer, all heads, millions of parameters."""
    return {
        title: {
            "layers": about["layers"],
            "heads per layer": about["heads"],
            "heads": about["layers"] * about["heads"],
            "parameters (M)": about["parameters"] / 1e6,
        }
        for title, about in found["models"].items()
    }
