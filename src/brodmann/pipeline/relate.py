"""Relate the tasks → `relevance-….json` (data or trainings), `covsim.json`, `similarity.json`.

The measures are in `RELATIONS` (`measuring/relations`): some need only the tasks, some a trained
run, some a run with one encoder per task (`separate` architectures). Pair trainings are in
`studies/pair_trainings.py`, attention maps of two runs in `pipeline/attention.py`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from brodmann.analysis.clusters import (
    check_clusters,
    cluster_tasks,
    dendrogram,
    suggested_clusters,
)
from brodmann.analysis.relevance import Splitter
from brodmann.config import Config
from brodmann.data.corpus import Corpus, about_corpus, corpus_sentences, drawn_sentences
from brodmann.data.task_cache import TaskCache
from brodmann.data.tasks import TEXT_COLUMNS, Task
from brodmann.errors import InputError
from brodmann.files import Array, read_json, without_nan, write_json
from brodmann.measuring.relations import RELATIONS, Inputs, Relation
from brodmann.models.encoders import names_with
from brodmann.pipeline.run import one_process
from brodmann.pipeline.run_folder import opened, timed, trained
from brodmann.pipeline.train import tasks_of
from brodmann.training.events import Report

RELEVANCE = "relevance-{}.json"


def relate(
    config: Config,
    base: Path,
    report: Report,
    *,
    by: str = "words",
    clusters: int | None = None,
    examples: int = 1000,
    voxels: Path | None = None,
    pieces: bool = False,
    corpus: Corpus | None = None,
    cache: TaskCache | None = None,
) -> dict[str, Any]:
    """Measure, write and show one relation of the tasks.

    `voxels` is the folder for `cnm`; `pieces` compares the backbone's word pieces instead of words.
    `corpus` (a text file with one sentence per line, or a list of sentences) replaces the tasks'
    own held-out sentences for `dse` and `cra`; `examples` of its sentences are drawn.
    """
    one_process("relate")
    relation = RELATIONS[by]
    _check_asked(by, corpus, examples, voxels)
    sentences = None if corpus is None else corpus_sentences(corpus)
    about = None if corpus is None or sentences is None else about_corpus(corpus, sentences)
    if relation.of == "run":
        trained(config)
    report("stage", {"text": "reading tasks"})
    tasks = tasks_of(config, base, cache)
    if len(tasks) < 2:
        raise InputError(f"{config.folder}: relations need at least two tasks")
    check_clusters(clusters, len(tasks))
    with opened(config, tasks, keep=True) as folder:
        if relation.of == "data":
            split = _pieces_of(config) if pieces else None
            inputs = Inputs(**_settings(config, tasks, examples), split=split)
            matrix = relation.run(inputs)["matrix"]
            result = described(matrix, inputs.names, by, clusters, config.seed)
            if pieces:
                result["pieces"] = config.model.backbone
            file = folder / RELEVANCE.format(by)
            write_json(file, result)
            report("relevance", {"result": result, "file": file})
            return result
        file = folder / relation.file
        known = read_json(file) if file.is_file() else {}
        before = known if relation.alone else known.get(by, {})
        same = before.get("examples") == examples and before.get("corpus") == about
        if not same or voxels is not None:
            with timed(folder, by):
                inputs = _inputs_of(folder, config, tasks, by, examples, report)
                inputs.sentences = _sentences(inputs, relation, sentences)
                inputs.voxels = voxels
                found = relation.run(inputs) | ({} if about is None else {"corpus": about})
            known = _joined(known, found, inputs.names, by)
            write_json(file, known)
        report("relations", {"result": known, "by": by, "file": file})
        return known


def relate_tasks(
    tasks: Sequence[Task], report: Report, *, by: str, clusters: int | None, seed: int = 0
) -> dict[str, Any]:
    """Relate loaded tasks by their data alone."""
    if len(tasks) < 2:
        raise InputError("relations need at least two tasks")
    check_clusters(clusters, len(tasks))
    inputs = Inputs(tasks=tasks, examples=0, batch_size=1, precision="float32", seed=seed)
    matrix = RELATIONS[by].run(inputs)["matrix"]
    result = described(matrix, inputs.names, by, clusters, seed)
    report("relevance", {"result": result, "file": None})
    return result


def _check_asked(by: str, corpus: Corpus | None, examples: int, voxels: Path | None) -> None:
    if corpus is not None and not RELATIONS[by].sentences:
        able = [name for name, one in RELATIONS.items() if one.sentences]
        raise InputError(f"corpus: only works for {' and '.join(able)}, not for '{by}'")
    if examples < 2:
        raise InputError(f"examples = {examples}: expected at least 2")
    if RELATIONS[by].voxels and voxels is None:
        raise InputError(f"{by}: needs the folder of the fMRI files (--voxels FOLDER)")


def _joined(
    known: dict[str, Any], found: dict[str, Any], names: list[str], by: str
) -> dict[str, Any]:
    """Merge several relations into one file: each keeps its own settings, and the others stay."""
    named = {"tasks": names}
    result = named | found if RELATIONS[by].alone else {**known, **named, by: found}
    result.pop("schema_version", None)
    return result


def _inputs_of(
    folder: Path, config: Config, tasks: list[Task], by: str, examples: int, report: Report
) -> Inputs:
    """Inputs for a relation that is measured on a trained run."""
    from brodmann.models.multitask import MultiTaskModel
    from brodmann.training.fit import fit

    model = MultiTaskModel.from_pretrained(folder / "model", device=config.device)
    if RELATIONS[by].separate and not model.architecture.separate:
        raise InputError(
            f"{folder}: {by} compares the encoders of single tasks: train with "
            f"model.architecture = {names_with('separate')}"
        )

    def starts(what: str, count: int) -> None:
        report("measuring starts", {"what": what, "examples": count})

    return Inputs(
        **_settings(config, tasks, examples),
        model=model,
        fit=fit,
        starts=starts,
        progress=lambda items: report("measuring goes on", {"items": items}),
    )


def _settings(config: Config, tasks: list[Task], examples: int) -> dict[str, Any]:
    return {
        "tasks": tasks,
        "examples": examples,
        "batch_size": config.training.evaluation_batch_size,
        "precision": config.training.precision,
        "seed": config.seed,
    }


def _sentences(inputs: Inputs, relation: Relation, given: list[str] | None) -> list[str]:
    """The sentences to compare encoders on: the user's, or held-out ones of the tasks."""
    if not relation.sentences:
        return []
    if given is None:
        return held_out_sentences(list(inputs.tasks), inputs.examples, inputs.seed)
    return drawn_sentences(given, inputs.examples, inputs.seed)


def _pieces_of(config: Config) -> Splitter:
    """A function that splits texts with the backbone's tokenizer."""
    if config.adapt is not None:
        raise InputError(
            "--pieces: [adapt] takes the model of a trained run, so there is no backbone to read"
        )
    from brodmann.models.backbone.load import load_backbone

    cut = load_backbone(config.model.backbone).tokenizer.backend_tokenizer
    return lambda text: cut.encode(text, add_special_tokens=False).tokens


def described(
    matrix: Array, names: list[str], by: str, clusters: int | None, seed: int
) -> dict[str, Any]:
    """A relevance matrix with its clusters, given or suggested, and its dendrogram.

    A task whose column is undefined (nan) is in no cluster.
    """
    defined = np.flatnonzero(np.isfinite(matrix).all(axis=0))
    known = [names[place] for place in defined]
    rows = matrix[np.ix_(defined, defined)]
    count, clear = suggested_clusters(rows, known, seed) if known else (0, 0.0)
    chosen = min(clusters if clusters is not None else count, len(known))
    return {
        "tasks": names,
        "by": by,
        "matrix": without_nan(matrix),
        "clusters": cluster_tasks(rows, known, chosen, seed) if known else [],
        "suggested": {"clusters": count, "silhouette": clear},
        "dendrogram": dendrogram(rows, known) if known else {"joins": [], "order": []},
    }


def held_out_sentences(tasks: list[Task], count: int, seed: int) -> list[str]:
    """Validation texts, equally many per task, at most `count` in total."""
    generator = np.random.default_rng(seed)
    share = max(1, count // len(tasks))
    found: list[str] = []
    for task in tasks:
        examples = task.splits["validation"]
        places = generator.permutation(len(examples))[:share]
        for place in places:
            example = examples[int(place)]
            values = [example[column] for column in TEXT_COLUMNS if column in example]
            text = " ".join(
                value if isinstance(value, str) else " ".join(map(str, value)) for value in values
            )
            found.append(text)
    return found
