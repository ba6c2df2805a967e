"""Export a trained model for use without Brodmann or without torch: one task, or all together."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from brodmann.data.tasks import Task
from brodmann.errors import MOST_SHOWN, InputError, did_you_mean, note
from brodmann.pipeline.int8_layers import TOLERANCE
from brodmann.text import listed, percent

if TYPE_CHECKING:
    from brodmann.models.multitask import MultiTaskModel

FORMS = ("transformers", "onnx", "peft")


@dataclass(frozen=True)
class Exported:
    """What was written; `difference` is ONNX Runtime's from torch, `parity` that of all tasks."""

    folder: Path
    difference: float | None = None
    parity: dict[str, Any] | None = None
    size: int = 0  # bytes, of a package

    def lines(self) -> list[str]:
        """What a terminal shows of a package: its size, and every task beside the model."""
        if self.parity is None:
            return []
        tasks = self.parity["tasks"]
        graphs = "int8" if self.parity.get("int8") else "float32"
        head = f"{len(tasks)} tasks, {graphs}, {self.size / 1e6:.1f} MB; beside the torch model:"
        lines = [head, *(f"  {name}: {_beside(entry)}" for name, entry in tasks.items())]
        for file, found in self.parity.get("int8", {}).get("graphs", {}).items():
            if kept := found["float_layers"]:
                names = listed(kept, MOST_SHOWN)
                lines.append(f"{file}: {len(kept)} of {found['layers']} layers in float32: {names}")
        return lines


def _beside(entry: dict[str, Any]) -> str:
    """How one task of a package compares with the model."""
    far = f"outputs differ by at most {entry['largest_difference']:.1g}"
    if "metric" not in entry:
        return f"{far} (on random texts)"
    here, there = percent(entry["export"]), percent(entry["torch"])
    changed = f", {percent(entry['changed'])} % of the answers changed" if entry["changed"] else ""
    return (
        f"{entry['metric']} {here} (torch {there}; {entry['examples']:,} examples), {far}{changed}"
    )


def export(
    source: "Path | MultiTaskModel",
    task: str | None,
    form: str,
    out: Path | None,
    *,
    zeroed: bool = False,
    data: Sequence[Task] | None = None,
    int8: bool = False,
    tolerance: float | None = None,
) -> Exported:
    """Write the export of one task or, with ONNX and no task, of all.

    `source` is the folder of a run or model, or a model; a folder is also where the export goes
    unless `out` names another one. A package of all tasks is compared with the model on the
    validation examples of `data`, or of the run.
    """
    from brodmann.models.exports import export_onnx, export_transformers
    from brodmann.models.multitask import MultiTaskModel
    from brodmann.models.peft_export import export_peft

    allowed = _allowed(task, form, int8, tolerance)
    _check_form(form, task, zeroed)
    if isinstance(source, Path):
        # On the CPU: the files are the same anywhere.
        model = MultiTaskModel.from_pretrained(source, device="cpu")
        if out is None and source.is_dir():
            name = form if task is None else f"{task}-{form}"
            out = source / (f"{name}-int8" if int8 else name)
    else:
        model = source
    if task is not None:
        model.spec(task)
    if out is None:
        raise InputError("export: only a folder on this machine can hold the export: name one")
    if task is None:
        return _export_all(source, model, out, data, allowed)
    if form == "onnx":
        return Exported(out, export_onnx(model, task, out))
    if form == "peft":
        export_peft(model, task, out)
    else:
        export_transformers(model, task, out, zeroed=zeroed)
    return Exported(out)


def _check_form(form: str, task: str | None, zeroed: bool) -> None:
    if form not in FORMS:
        raise InputError(
            f"--to {form}: unknown form{did_you_mean(form, FORMS)} (the folder is set with --out)"
        )
    if task is None and form != "onnx":
        raise InputError(
            f"--to {form} holds one task: name it with --task, or export all tasks with --to onnx"
        )
    if zeroed and form == "onnx":
        raise InputError("--zeroed needs --to transformers: ONNX stores removed heads as they are")
    if zeroed and form == "peft":
        raise InputError("--zeroed needs --to transformers: an adapter holds no heads")


def _allowed(task: str | None, form: str, int8: bool, tolerance: float | None) -> float | None:
    """The points that a task may lose in int8; None for an export in float32."""
    if int8 and (task is not None or form != "onnx"):
        raise InputError("--int8 needs --to onnx without --task: it is measured on all tasks")
    if tolerance is not None and not int8:
        raise InputError("--tolerance needs --int8: nothing is lost in float32")
    if tolerance is not None and not tolerance >= 0:
        raise InputError(f"--tolerance {tolerance:g}: expected points that a task may lose, from 0")
    if not int8:
        return None
    return TOLERANCE if tolerance is None else tolerance


def _export_all(
    source: "Path | MultiTaskModel",
    model: "MultiTaskModel",
    out: Path,
    data: Sequence[Task] | None,
    tolerance: float | None,
) -> Exported:
    from brodmann.models.card_metadata import CardFacts
    from brodmann.pipeline.package import write_package
    from brodmann.pipeline.push import facts_of_run

    facts = CardFacts()
    if isinstance(source, Path):
        facts = facts_of_run(source, None, None)
        data = _data_of_run(source) if data is None else data
    found = write_package(model, out, data or [], facts, tolerance)
    return Exported(found.folder, parity=dict(found.parity), size=found.size)


def _data_of_run(folder: Path) -> list[Task]:
    """The run's tasks; none if it is no run or its data is not at hand."""
    from brodmann.config import load_config
    from brodmann.pipeline.train import tasks_of

    if not (folder / "config.toml").is_file():
        return []
    try:
        return tasks_of(*load_config(folder))
    except InputError as error:
        note(f"the run's data cannot be read ({error}): comparing on random texts")
        return []
