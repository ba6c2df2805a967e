"""The whole chain; a stage whose result is there is not done again."""

from pathlib import Path
from typing import Any

from brodmann.artifacts import read_json
from brodmann.config import Config
from brodmann.pipeline.evaluate import evaluate_in
from brodmann.pipeline.run_folder import opened
from brodmann.pipeline.train import check_methods, tasks_of, train_in


def run(config: Config, base: Path, report: Any) -> dict[str, Any]:
    check_methods(config)
    report("stage", {"text": "reading tasks"})
    tasks = tasks_of(config, base)
    report("tasks", {"tasks": tasks})
    with opened(config, tasks) as folder:
        train_in(folder, config, tasks, report)
        if (folder / "metrics.json").is_file():
            document = read_json(folder / "metrics.json")
            report("scores", {"tasks": tasks, "splits": document["splits"], "folder": folder})
            return document
        return evaluate_in(folder, config, tasks, report)
