"""Export one task of a trained model for use without Brodmann."""

from pathlib import Path

from brodmann.errors import InputError, did_you_mean

FORMS = ("transformers", "onnx")


def export(
    source: Path, task: str, form: str, out: Path | None, *, zeroed: bool = False
) -> tuple[Path, float | None]:
    """Write the export; return its folder and, for ONNX, its largest difference from torch."""
    from brodmann.models.exports import export_onnx, export_transformers
    from brodmann.models.multitask import MultiTaskModel

    if form not in FORMS:
        raise InputError(
            f"--to {form}: unknown form{did_you_mean(form, FORMS)} (the folder is set with --out)"
        )
    if zeroed and form == "onnx":
        raise InputError("--zeroed needs --to transformers: ONNX stores removed heads as they are")
    model = MultiTaskModel.from_pretrained(source, device="cpu")  # files are the same anywhere
    model.spec(task)
    folder = out or source / f"{task}-{form}"
    if form == "onnx":
        return folder, export_onnx(model, task, folder)
    export_transformers(model, task, folder, zeroed=zeroed)
    return folder, None
