"""Compare the attention maps of two runs → `attention-maps.json` in the first one's folder."""

from pathlib import Path

import numpy as np

from brodmann.config import Config
from brodmann.errors import InputError
from brodmann.pipeline.run import one_process
from brodmann.pipeline.run_folder import opened, timed, trained, trained_model
from brodmann.pipeline.train import tasks_of
from brodmann.results import AttentionMaps
from brodmann.training.events import Report

FILE = "attention-maps.json"


def relate_attention(
    config: Config, base: Path, report: Report, *, other: Path, examples: int = 1000
) -> AttentionMaps:
    """Mean cosine of the two models' attention maps per (layer, head), for every common task.

    At most `examples` validation texts per task are read.
    """
    from brodmann.models.heads.attention_maps import attention_map_similarity

    one_process("relate")
    if examples < 1:
        raise InputError(f"examples = {examples}: expected at least 1")
    trained(config)
    report("stage", {"text": "reading tasks"})
    tasks = tasks_of(config, base)
    second = trained_model(str(other), config.device)
    first = trained_model(str(config.folder), config.device)
    common = [task for task in tasks if task.name in second.specs]
    if not common:
        raise InputError(
            f"{other}: has none of the tasks of {config.folder} ({', '.join(second.specs)})"
        )
    for task in common:
        if second.specs[task.name].kind != task.spec.kind:
            raise InputError(f"{other}: its task '{task.name}' has another kind")
    with opened(config, tasks, keep=True) as folder:
        report("measuring starts", {"what": "attention maps", "examples": len(common)})
        maps = []
        with timed(folder, "attention"):
            for task in common:
                found = attention_map_similarity(
                    first,
                    second,
                    task,
                    examples=examples,
                    batch_size=config.training.evaluation_batch_size,
                    seed=config.seed,
                )
                maps.append(found)
                report("measuring goes on", {"items": 1})
        runs = (folder.resolve().name, other.resolve().name)
        names = tuple(task.name for task in common)
        result = AttentionMaps(names, np.array(maps), runs, examples)
        result.save(folder / FILE)
        report("attention maps", {"result": result, "file": folder / FILE})
    return result
