"""Write all tasks of a model as one package that `brodmann.runtime` answers from without torch."""

import copy
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from brodmann.data.answering.rules_file import write_rules
from brodmann.data.kinds import KINDS
from brodmann.data.tasks import Task
from brodmann.errors import InputError, note
from brodmann.files import whole_folder, write_checksums, write_json, write_text
from brodmann.pipeline.int8_layers import Bench, choose_int8
from brodmann.pipeline.package_parity import Trial, check_same_ids, compare, make_trials
from brodmann.runtime.onnx_reader import OnnxReader
from brodmann.runtime.package_files import STATES, Description, Place, write_description

if TYPE_CHECKING:
    from brodmann.models.card_metadata import CardFacts
    from brodmann.models.multitask import MultiTaskModel
    from brodmann.models.onnx_graphs import Graph

PARITY = "parity.json"
EDITABLE = ("README.md",)


@dataclass(frozen=True)
class Packaged:
    """A written package, and how it compares with the model."""

    folder: Path
    parity: Mapping[str, Any]
    size: int  # bytes


def write_package(
    model: "MultiTaskModel",
    folder: Path,
    tasks: Sequence[Task],
    facts: "CardFacts",
    tolerance: float | None = None,
) -> Packaged:
    """Write the package, completely or not at all; `tasks` have validation examples.

    With a `tolerance`, in points, it is in int8 as far as no task loses more.
    """
    from brodmann.models.exports import refuse_foreign
    from brodmann.models.onnx_graphs import check_onnx, graphs_of, write_graphs

    check_onnx()
    refuse_foreign(folder)
    with whole_folder(folder) as temporary:
        graphs = graphs_of(model, {name: output_of(name) for name in model.specs}, STATES)
        write_graphs(graphs, temporary)
        _write_companions(model, graphs, temporary, facts)
        write_checksums(temporary, but=EDITABLE)
        trials = make_trials(model, tasks)
        parity = _checked(OnnxReader(temporary), model, trials)
        if tolerance is not None:
            parity = _lower(temporary, graphs, model, trials, tolerance)
        write_json(temporary / PARITY, parity)
        write_checksums(temporary, but=EDITABLE)
        size = sum(path.stat().st_size for path in temporary.iterdir())
    return Packaged(folder, parity, size)


def _write_companions(
    model: "MultiTaskModel", graphs: "Sequence[Graph]", folder: Path, facts: "CardFacts"
) -> None:
    """Everything besides the graphs: description, tokenizer, configuration, rules, card."""
    from brodmann.models.card import model_card, public_name
    from brodmann.models.exports import OUTPUTS, own_tokenizer
    from brodmann.models.saving import public_spec, system_errors

    tokenizer, settings = own_tokenizer(model), model.settings
    specs = {name: public_spec(spec) for name, spec in model.specs.items()}
    axes = {name: tuple(OUTPUTS[KINDS[spec.kind].HEAD]) for name, spec in specs.items()}
    file_of = {name: graph.file for graph in graphs for name in graph.tasks}
    description = Description(
        specs=specs,
        places={name: Place(file_of[name], output_of(name), axes[name]) for name in specs},
        inputs=graphs[0].inputs,
        one_pass=model.architecture.one_pass,
        width=int(model.config.hidden_size),
        max_length=settings.max_length,
        stride=settings.stride,
        padding_id=int(tokenizer.pad_token_id),
        cut_from=tokenizer.truncation_side,
        split_special_tokens=bool(tokenizer.split_special_tokens),
        backbone=public_name(settings.backbone),
    )
    write_description(folder, description)
    config = copy.deepcopy(model.config)
    config.name_or_path = ""  # may be a folder of this machine
    with system_errors():
        tokenizer.save_pretrained(folder)
        config.save_pretrained(folder)
    if model.rules:
        write_rules(folder, model.rules)
    write_text(folder / "README.md", model_card(model, replace(facts, packaged=True)))


def _lower(
    folder: Path,
    graphs: "Sequence[Graph]",
    model: "MultiTaskModel",
    trials: Sequence[Trial],
    tolerance: float,
) -> dict[str, Any]:
    """Turn the package in `folder` into int8; return how it compares with the model."""
    from brodmann.models.onnx_graphs import write_graphs

    reader = OnnxReader(folder)
    for trial in trials:
        if not trial.judged:
            note(f"int8: task '{trial.spec.name}' has no validation examples: its loss is unknown")
    with tempfile.TemporaryDirectory() as scratch:
        chosen = [
            choose_int8(
                Bench(graph, reader, trials, model.rules, Path(scratch, graph.file)), tolerance
            )
            for graph in graphs
        ]
        write_graphs([one.graph for one in chosen], folder)
    write_description(folder, replace(reader.description, int8=True))
    write_checksums(folder, but=EDITABLE)
    small = OnnxReader(folder)
    found = {trial.spec.name: compare(trial, small, model.rules) for trial in trials}
    for entry in found.values():
        del entry["agrees"]
    forms = {one.graph.file: one.document() for one in chosen}
    return {"tasks": found, "int8": {"tolerance": tolerance, "graphs": forms}}


def output_of(task: str) -> str:
    """The name of a task's output in its graph; a bare name could be that of another value."""
    return f"task:{task}"


def _checked(
    reader: OnnxReader, model: "MultiTaskModel", trials: Sequence[Trial]
) -> dict[str, Any]:
    """Compare the package with the model; InputError if it computes something else."""
    check_same_ids(reader, trials)
    found = {trial.spec.name: compare(trial, reader, model.rules) for trial in trials}
    for name, entry in found.items():
        if not entry.pop("agrees"):
            raise InputError(
                f"task '{name}': ONNX Runtime differs from torch by "
                f"{entry['largest_difference']:.2g}: not written"
            )
    return {"tasks": found}
