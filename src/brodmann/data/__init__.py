"""From labelled files to batches: tasks, their examples, and the order they are trained in."""

from brodmann.data.sampling.samplers import SAMPLERS, task_probabilities

__all__ = ["SAMPLERS", "task_probabilities"]
