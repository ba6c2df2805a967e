"""The whole chain; a stage whose result is there is not done again."""

import os
from pathlib import Path
from typing import Any

from brodmann.artifacts import read_json
from brodmann.config import Config
from brodmann.errors import InputError
from brodmann.pipeline.evaluate import evaluate_in
from brodmann.pipeline.run_folder import opened
from brodmann.pipeline.train import prepare, train_in


def run(config: Config, base: Path, report: Any) -> dict[str, Any]:
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InputError("run is for one process: under torchrun use `train`, then `run` alone")
    tasks, model = prepare(config, base, report)
    with opened(config, tasks) as folder:
        train_in(folder, config, tasks, model, report)
        if (folder / "metrics.json").is_file():
            document = read_json(folder / "metrics.json")
            report("scores", {"tasks": tasks, "splits": document["splits"], "folder": folder})
            return document
        return evaluate_in(folder, config, tasks, report)
