"""Export one task of a trained model for use without Brodmann."""

from pathlib import Path
from typing import TYPE_CHECKING

from brodmann.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from brodmann.models.multitask import MultiTaskModel

FORMS = ("transformers", "onnx", "peft")


def export(
    source: "Path | MultiTaskModel", task: str, form: str, out: Path | None, *, zeroed: bool = False
) -> tuple[Path, float | None]:
    """Write the export; return its folder and, for ONNX, its largest difference from torch.

    `source` is the folder of a run or model, or a model; a folder is also where the export goes
    unless `out` names another one.
    """
    from brodmann.models.exports import export_onnx, export_transformers
    from brodmann.models.multitask import MultiTaskModel
    from brodmann.models.peft_export import export_peft

    if form not in FORMS:
        raise InputError(
            f"--to {form}: unknown form{did_you_mean(form, FORMS)} (the folder is set with --out)"
        )
    if zeroed and form == "onnx":
        raise InputError("--zeroed needs --to transformers: ONNX stores removed heads as they are")
    if zeroed and form == "peft":
        raise InputError("--zeroed needs --to transformers: an adapter holds no heads")
    if isinstance(source, Path):
        # On the CPU: the files are the same anywhere.
        model = MultiTaskModel.from_pretrained(source, device="cpu")
        if out is None and source.is_dir():
            out = source / f"{task}-{form}"
    else:
        model = source
    model.spec(task)
    if out is None:
        raise InputError("export: only a folder on this machine can hold the export: name one")
    folder = out
    if form == "onnx":
        return folder, export_onnx(model, task, folder)
    if form == "peft":
        export_peft(model, task, folder)
        return folder, None
    export_transformers(model, task, folder, zeroed=zeroed)
    return folder, None
