"""Students for distillation: models of other sizes than their teacher, or from a checkpoint."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from brodmann.errors import InputError, did_you_mean
from brodmann.models.backbone import load as backbones
from brodmann.models.backbone.anatomy import forget_cuts, layers_of
from brodmann.models.encoders import names_with
from brodmann.models.heads.trained_gates import folded
from brodmann.models.multitask import MultiTaskModel
from brodmann.models.saving import is_model_folder

Student = Mapping[str, object] | str | Path  # sizes, or a checkpoint


def make_student(teacher: MultiTaskModel, student: Student, *, seed: int = 0) -> MultiTaskModel:
    """A model for the same tasks, not yet trained on them: of other sizes, or from a checkpoint."""
    if isinstance(student, str | Path):
        return _from_checkpoint(teacher, str(student), seed)
    return _of_other_sizes(teacher, student, seed)


def _from_checkpoint(teacher: MultiTaskModel, name: str, seed: int) -> MultiTaskModel:
    """The encoder that `name` holds with new output heads; one encoder per task if the teacher has
    one per task."""
    check_teacher(teacher)
    path = Path(name)
    if is_model_folder(path) or is_model_folder(path / "model"):
        trained = MultiTaskModel.from_pretrained(path, device=teacher.device)
        bare = trained.for_tasks(list(teacher.specs.values()), seed=seed).bare_models()[0]
        loaded = backbones.Backbone(name, bare, trained.tokenizer)
    else:
        loaded = backbones.load_backbone(name, seed=seed)
    if loaded.tokenizer.get_vocab() != teacher.tokenizer.get_vocab():
        raise InputError(
            f"student: '{name}' has another vocabulary than the teacher: both read the same tokens"
        )
    _check_layers(loaded.model.config, teacher.bare_models()[0].config)
    settings = copy.copy(teacher.settings)
    settings.backbone, settings.freeze, settings.seed, settings.gates = name, 0.0, seed, ""
    return MultiTaskModel(loaded, list(teacher.specs.values()), settings).to(teacher.device)


def _check_layers(config: Any, source: Any) -> None:
    if config.num_hidden_layers > source.num_hidden_layers:
        raise InputError(
            f"student: {config.num_hidden_layers} layers are more than the teacher's "
            f"{source.num_hidden_layers}"
        )


def _of_other_sizes(teacher: MultiTaskModel, sizes: Mapping[str, Any], seed: int) -> MultiTaskModel:
    source = teacher_encoder(teacher)
    config = copy.deepcopy(source.config)
    forget_cuts(config)  # of the teacher: the student has its own sizes
    for name, value in sizes.items():
        if not hasattr(config, name):
            known = [key for key in config.to_dict() if "num" in key or "size" in key]
            raise InputError(
                f"student: {type(config).__name__} has no '{name}'{did_you_mean(name, known)}"
            )
        setattr(config, name, value)
    if config.hidden_size % config.num_attention_heads:
        raise InputError(
            f"student: hidden_size = {config.hidden_size} is not a multiple of "
            f"num_attention_heads = {config.num_attention_heads}"
        )
    _check_layers(config, source.config)
    try:
        bare = backbones.build_bare(config, None, seed)
    except (ValueError, TypeError, RuntimeError) as error:
        raise InputError(f"student: cannot be built ({' '.join(str(error).split())})") from error
    if config.hidden_size == source.config.hidden_size:
        _start_from_teacher(bare, folded(source, teacher.gates))
    settings = copy.copy(teacher.settings)
    settings.freeze, settings.seed, settings.gates = 0.0, seed, ""
    backbone = backbones.Backbone(teacher.settings.backbone, bare, teacher.tokenizer)
    return MultiTaskModel(backbone, list(teacher.specs.values()), settings).to(teacher.device)


def teacher_encoder(teacher: MultiTaskModel) -> Any:
    """The one encoder whose family and layers a student of other sizes takes."""
    if not teacher.architecture.is_shared:
        raise InputError(
            f"architecture '{teacher.settings.architecture}': distillation needs one encoder for "
            f"all tasks ({names_with('is_shared')}), or a student that is a checkpoint"
        )
    return teacher.bare_models()[0]


def check_teacher(teacher: MultiTaskModel) -> None:
    """Raise InputError unless the teacher has one encoder for all tasks, or one per task."""
    if not teacher.architecture.plain:
        raise InputError(
            f"architecture '{teacher.settings.architecture}': distillation needs a teacher that "
            f"is {names_with('plain')}"
        )


def _start_from_teacher(student: Any, teacher: Any) -> None:
    """Copy everything of equal shape; layers come from those that the student learns from."""
    below = {
        name: value
        for name, value in teacher.state_dict().items()
        if name in student.state_dict() and value.shape == student.state_dict()[name].shape
    }
    student.load_state_dict(below, strict=False)
    ours, theirs = layers_of(student), layers_of(teacher)
    for place, layer in enumerate(ours):
        source = theirs[teacher_layer(place + 1, len(ours), len(theirs)) - 1].state_dict()
        if all(source[name].shape == value.shape for name, value in layer.state_dict().items()):
            layer.load_state_dict(source)


def teacher_layer(layer: int, student_layers: int, teacher_layers: int) -> int:
    """g(m): the teacher's layer that layer m of the student learns from; 0 is the embeddings."""
    return layer * teacher_layers // student_layers
