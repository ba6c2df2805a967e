"""How the tasks relate → `relevance-….json` (data or trainings), `covsim.json`, `similarity.json`.

`words` and `groups` need the tasks only; `covsim` a trained run; `dse`, `cra`, `ahp` and `cnm` a
trained run with an encoder for every task (`architecture = "single"`). Trainings of pairs are in
`studies/pair_trainings.py`, attention maps of two runs in `attention.py`.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from brodmann.analysis.clusters import (
    check_clusters,
    cluster_tasks,
    dendrogram,
    suggested_clusters,
)
from brodmann.analysis.covsim import covsim_matrix
from brodmann.analysis.cra import cra
from brodmann.analysis.dse import dse
from brodmann.analysis.relevance import (
    Splitter,
    group_matrix,
    vocabulary,
    vocabulary_matrix,
    words,
)
from brodmann.config import Config
from brodmann.data.corpus import Corpus, about_corpus, corpus_sentences, drawn_sentences
from brodmann.data.tasks import Task
from brodmann.errors import InputError
from brodmann.files import Array, read_json, write_json
from brodmann.pipeline.run import one_process
from brodmann.pipeline.run_folder import opened, timed, trained
from brodmann.pipeline.train import tasks_of

RELEVANCE, COVSIM, SIMILARITY = "relevance-{}.json", "covsim.json", "similarity.json"
FROM_SENTENCES = ("dse", "cra")  # compare encoders on sentences, which may be the user's
FROM_DATA, FROM_RUN = ("words", "groups"), ("covsim", "dse", "cra", "ahp", "cnm")
TEXT_COLUMNS = ("text", "text_pair", "question", "context", "tokens", "choices")


def relate(
    config: Config,
    base: Path,
    report: Any,
    *,
    by: str = "words",
    clusters: int | None = None,
    examples: int = 1000,
    voxels: Path | None = None,
    pieces: bool = False,
    corpus: Corpus | None = None,
) -> dict[str, Any]:
    """Measure, write and show one way of relating the tasks.

    `voxels` is the folder for `cnm`; `pieces` takes the backbone's word pieces for words. `corpus`
    (a text file with one sentence per line, or a list of sentences) takes the place of the tasks'
    own held-out sentences for `dse` and `cra`; `examples` of its sentences are drawn.
    """
    one_process("relate")
    if corpus is not None and by not in FROM_SENTENCES:
        raise InputError(f"corpus: only for {' and '.join(FROM_SENTENCES)}, not for '{by}'")
    sentences = None if corpus is None else corpus_sentences(corpus)
    about = None if corpus is None or sentences is None else about_corpus(corpus, sentences)
    if examples < 2:
        raise InputError(f"examples = {examples}: expected at least 2")
    if by == "cnm" and voxels is None:
        raise InputError("cnm: needs the folder of the fMRI files (--voxels FOLDER)")
    if by in FROM_RUN:
        trained(config)
    report("stage", {"text": "reading tasks"})
    tasks = tasks_of(config, base)
    if len(tasks) < 2:
        raise InputError(f"{config.folder}: relations need at least two tasks")
    check_clusters(clusters, len(tasks))
    with opened(config, tasks, keep=True) as folder:
        if by in FROM_DATA:
            matrix = from_data(tasks, by, _pieces_of(config) if pieces else words)
            result = described(matrix, [task.name for task in tasks], by, clusters, config.seed)
            if pieces:
                result["pieces"] = config.model.backbone
            file = folder / RELEVANCE.format(by)
            write_json(file, result)
            report("relevance", {"result": result, "file": file})
            return result
        file = folder / (COVSIM if by == "covsim" else SIMILARITY)
        known = read_json(file) if file.is_file() else {}
        before = known if by == "covsim" else known.get(by, {})
        same = before.get("examples") == examples and before.get("corpus") == about
        if not same or voxels is not None:
            with timed(folder, by):
                if voxels is not None:
                    found = _from_voxels(folder, config, tasks, voxels)
                else:
                    found = _from_run(folder, config, tasks, by, examples, report, sentences)
            found |= {} if about is None else {"corpus": about}
            # One file for dse, cra, ahp and cnm: each keeps its own settings, and the others stay.
            known = found if by == "covsim" else {**known, "tasks": found.pop("tasks"), by: found}
            known.pop("schema_version", None)
            write_json(file, known)
        report("relations", {"result": known, "by": by, "file": file})
        return known


def _pieces_of(config: Config) -> Splitter:
    """Texts as the backbone's tokenizer cuts them."""
    if config.adapt is not None:
        raise InputError("--pieces: [adapt] takes the model of a trained run and names none itself")
    from brodmann.models.backbone.load import load_backbone

    cut = load_backbone(config.model.backbone).tokenizer.backend_tokenizer
    return lambda text: cut.encode(text, add_special_tokens=False).tokens


def from_data(tasks: list[Task], by: str, split: Splitter = words) -> Array:
    if by == "groups":
        if not any(task.spec.group for task in tasks):
            raise InputError("no task names a group: give some (group = ...), or use --by words")
        return group_matrix([task.spec.group for task in tasks])
    return vocabulary_matrix([vocabulary(training_texts(task), split) for task in tasks])


def training_texts(task: Task) -> Iterable[str]:
    """Every text of the training examples, one after the other."""
    for example in task.splits["train"]:
        for column in TEXT_COLUMNS:
            value = example.get(column)
            if isinstance(value, str):
                yield value
            elif isinstance(value, list):
                yield " ".join(str(one) for one in value)


def described(
    matrix: Array, names: list[str], by: str, clusters: int | None, seed: int
) -> dict[str, Any]:
    """A relevance matrix with its clusters, given or suggested, and who joins whom.

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
        "matrix": _plain(matrix),
        "clusters": cluster_tasks(rows, known, chosen, seed) if known else [],
        "suggested": {"clusters": count, "silhouette": clear},
        "dendrogram": dendrogram(rows, known) if known else {"joins": [], "order": []},
    }


def _from_run(
    folder: Path,
    config: Config,
    tasks: list[Task],
    by: str,
    examples: int,
    report: Any,
    sentences: list[str] | None = None,
) -> dict[str, Any]:
    from brodmann.models.first_layer import first_layer_inputs
    from brodmann.models.multitask import MultiTaskModel
    from brodmann.models.representations import sentence_representations

    model = MultiTaskModel.from_pretrained(folder / "model")
    names = [task.name for task in tasks]
    size = config.training.evaluation_batch_size
    if by == "covsim":
        inputs = [
            first_layer_inputs(model, task, examples=examples, seed=config.seed, batch_size=size)
            for task in tasks
        ]
        matrix, means = covsim_matrix(inputs)
        return {
            "tasks": names,
            "examples": examples,
            "covsim": matrix.tolist(),
            "mean": means.tolist(),
        }
    _check_single(model, folder, by)
    if by == "ahp":
        from brodmann.analysis.ahp import ahp
        from brodmann.training.tournament import transfer_losses

        report("measuring starts", {"what": "transfers", "examples": len(tasks) * (len(tasks) - 1)})
        losses = transfer_losses(
            model,
            tasks,
            examples=examples,
            precision=config.training.precision,
            seed=config.seed,
            progress=lambda items: report("measuring goes on", {"items": items}),
        )
        transferable, alike = ahp(losses, names)
        return {
            "tasks": names,
            "examples": examples,
            "transferability": _plain(transferable),
            "matrix": _plain(alike),
        }
    if sentences is None:
        texts = held_out_sentences(tasks, examples, config.seed)
    else:
        texts = drawn_sentences(sentences, examples, config.seed)
    found = [sentence_representations(model, name, texts, batch_size=size) for name in names]
    measure = dse if by == "dse" else cra
    matrix = np.array([[measure(a, b) for b in found] for a in found])
    return {"tasks": names, "examples": examples, "matrix": matrix.tolist()}


def _from_voxels(folder: Path, config: Config, tasks: list[Task], voxels: Path) -> dict[str, Any]:
    from brodmann.analysis.cnm import cnm_matrix, read_sentences, read_voxels
    from brodmann.models.multitask import MultiTaskModel
    from brodmann.models.representations import sentence_representations

    measured, texts = read_voxels(voxels), read_sentences(voxels)
    model = MultiTaskModel.from_pretrained(folder / "model")
    _check_single(model, folder, "cnm")
    names = [task.name for task in tasks]
    size = config.training.evaluation_batch_size
    found = [sentence_representations(model, name, texts, batch_size=size) for name in names]
    return {
        "tasks": names,
        "examples": len(texts),
        "voxels": {participant: matrix.shape[1] for participant, matrix in measured.items()},
        "matrix": cnm_matrix(found, measured, config.seed).tolist(),
    }


def _check_single(model: Any, folder: Path, by: str) -> None:
    if not model.architecture.separate:
        raise InputError(
            f"{folder}: {by} compares the encoders of single tasks: train with "
            'model.architecture = "single"'
        )


def _plain(matrix: Array) -> list[list[float | None]]:
    return [[None if np.isnan(value) else float(value) for value in row] for row in matrix]


def held_out_sentences(tasks: list[Task], count: int, seed: int) -> list[str]:
    """Validation texts, equally many of each task, `count` in all at most."""
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
