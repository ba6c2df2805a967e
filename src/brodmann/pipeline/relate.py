"""How the tasks of a run relate → `covsim.json`: how alike their inputs are to the first layer."""

from pathlib import Path
from typing import Any

from brodmann.analysis.covsim import covsim_matrix
from brodmann.artifacts import read_json, write_json
from brodmann.config import Config
from brodmann.errors import InputError
from brodmann.pipeline.run_folder import opened, timed, trained
from brodmann.pipeline.train import tasks_of

FILE = "covsim.json"


def relate(config: Config, base: Path, report: Any, *, examples: int = 1000) -> dict[str, Any]:
    """CovSim of every pair of a trained run's tasks; measured once for the same settings."""
    from brodmann.models.first_layer import first_layer_inputs
    from brodmann.models.multitask import MultiTaskModel

    trained(config)
    if examples < 2:
        raise InputError(f"examples = {examples}: expected at least 2")
    tasks = tasks_of(config, base)
    if len(tasks) < 2:
        raise InputError(f"{config.folder}: relations need at least two tasks")
    with opened(config, tasks, keep=True) as folder:
        known = read_json(folder / FILE) if (folder / FILE).is_file() else {}
        if known.get("examples") != examples:
            model = MultiTaskModel.from_pretrained(folder / "model")
            size = config.training.evaluation_batch_size
            with timed(folder, "covsim"):
                inputs = [
                    first_layer_inputs(
                        model, task, examples=examples, seed=config.seed, batch_size=size
                    )
                    for task in tasks
                ]
                matrix, means = covsim_matrix(inputs)
            known = {
                "tasks": [task.name for task in tasks],
                "examples": examples,
                "covsim": matrix.tolist(),
                "mean": means.tolist(),
            }
            write_json(folder / FILE, known)
        report("relations", {"result": known, "file": folder / FILE})
        return known
