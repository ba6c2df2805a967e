"""Models derived from a model: the same encoder for other tasks, and tasks added to it."""

import copy
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from brodmann.data.kinds import KINDS
from brodmann.data.tasks import Task, TaskSpec
from brodmann.errors import InputError, did_you_mean
from brodmann.models.backbone import load as backbones
from brodmann.models.encoders import names_with
from brodmann.models.model_settings import (
    NEW_HEADS,
    STARTS,
)
from brodmann.models.task_heads import (
    check_shared,
    module_key,
    new_head,
    same_form,
)

if TYPE_CHECKING:
    from brodmann.models.multitask import MultiTaskModel


def plain_backbone(model: Any, task: str) -> Any:
    """One transformers model that gives a task what its encoder gives it: its own, or merged."""
    if model.architecture.merges:
        return model.encoder.merged(task)
    return model.encoder.backbone_of(task)


def merged_model(model: "MultiTaskModel") -> "MultiTaskModel":
    """A plain model with the same answers: one encoder, or one per task if they had adapters.

    A model without adapters is returned as it is.
    """
    if not model.architecture.merges:
        return model
    one = model.architecture.one_pass
    settings = replace(
        model.settings, architecture="shared" if one else "single", parameters={}, freeze=0.0
    )
    specs = list(model.specs.values())
    first = plain_backbone(model, specs[0].name)
    backbone = backbones.Backbone(model.settings.backbone, first, model.tokenizer)
    new = type(model)(backbone, specs, settings)
    for spec in specs:
        state = (first if one else plain_backbone(model, spec.name)).state_dict()
        new.encoder.backbone_of(spec.name).load_state_dict(state)
    new.heads.load_state_dict(model.heads.state_dict())
    new.rules = dict(model.rules)
    if model.gates is not None and new.gates is not None:
        new.gates.load_state_dict(model.gates.state_dict())
    return new.to(model.device).train(model.training)


def model_for_tasks(
    model: "MultiTaskModel",
    tasks: Sequence[Task | TaskSpec],
    encoder_of: str | None,
    max_length: int | None,
    seed: int,
) -> "MultiTaskModel":
    """A new model for other tasks around a copy of this one's encoder."""
    able = model.architecture
    known = able.serves_others if encoder_of is None else able.stands_alone
    if not known:
        raise InputError(
            f"architecture '{model.settings.architecture}': its encoder knows the tasks it was "
            "trained on, so it cannot be used for others: train with "
            f"{names_with('serves_others')}, or give the model new tasks (`brodmann adapt`; for "
            "shares of their data set [adapt] shares)"
        )
    whose = next(iter(model.specs)) if encoder_of is None else model.spec(encoder_of).name
    bare = copy.deepcopy(plain_backbone(model, whose))
    settings = replace(
        model.settings,
        architecture="shared",
        parameters={},
        max_length=max_length or model.settings.max_length,
        freeze=0.0,
        seed=seed,
    )
    bare.requires_grad_(True)
    specs = [task.spec if isinstance(task, Task) else task for task in tasks]
    backbone = backbones.Backbone(model.settings.backbone, bare, model.tokenizer)
    new = type(model)(backbone, specs, settings)
    if model.gates is not None and new.gates is not None:
        new.gates.load_state_dict(model.gates.state_dict())
    return new.to(model.device)


def without_tasks(model: "MultiTaskModel", names: Collection[str]) -> "MultiTaskModel":
    """A copy without the output heads of these tasks."""
    if not model.architecture.serves_others:
        raise InputError(
            f"architecture '{model.settings.architecture}': its encoder knows the tasks it was "
            f"trained on, so none can be dropped: drop them with {names_with('serves_others')}"
        )
    small = copy.deepcopy(model)
    for name in names:
        key = module_key(small.specs.pop(name).output_head)
        if all(module_key(spec.output_head) != key for spec in small.specs.values()):
            del small.heads[key]
        small.rules.pop(name, None)
    return small


def add_task(model: "MultiTaskModel", spec: TaskSpec, like: str, head: str) -> None:
    """Make room for a new task; see `MultiTaskModel.add_task`."""
    new = _head_for_new_task(model, spec, like, head)
    key, seed = module_key(spec.output_head), model.settings.seed * 1000 + len(model.specs)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model.encoder.add_task(spec.name, like)
    model.settings.parameters = model.encoder.describe(model.settings.parameters)
    model.heads[key] = new.to(model.device)
    model.specs[spec.name] = spec
    model.train(model.training)  # new modules get the mode of the rest


def train_only(model: "MultiTaskModel", tasks: Sequence[str]) -> None:
    """Freeze everything that does not belong to these tasks alone (heads and own modules)."""
    own = own_parameters(model, tasks)
    model.requires_grad_(False)
    for parameter in own:
        parameter.requires_grad_(True)


def own_parameters(model: "MultiTaskModel", tasks: Sequence[str]) -> list[nn.Parameter]:
    """What belongs to these tasks alone."""
    others = {spec.output_head for spec in model.specs.values() if spec.name not in tasks}
    own: list[nn.Parameter] = []
    for task in tasks:
        own += model.encoder.task_parameters(task)
        if model.spec(task).output_head not in others:
            own += model.head_of(task).parameters()
    return own


def forget_rules(model: "MultiTaskModel") -> None:
    """Forget how tasks answer if what trains now is not other tasks' own: it would not hold."""
    trained = {id(parameter) for parameter in model.parameters() if parameter.requires_grad}
    for task in list(model.rules):
        others = own_parameters(model, [name for name in model.specs if name != task])
        if trained - {id(parameter) for parameter in others}:
            del model.rules[task]


def _head_for_new_task(model: Any, spec: TaskSpec, like: str, head: str) -> Any:
    """The output head of an added task: a shared one, a copy, or a new one."""
    if spec.name in model.specs:
        raise InputError(f"the model already has a task '{spec.name}'")
    if like not in (*model.specs, *STARTS):
        raise InputError(f"like = '{like}'{did_you_mean(like, [*model.specs, *STARTS])}")
    if head not in NEW_HEADS:
        raise InputError(f"head = '{head}'{did_you_mean(head, NEW_HEADS)}")
    check_shared([*model.specs.values(), spec])
    key, seed = module_key(spec.output_head), model.settings.seed * 1000 + len(model.specs)
    if key in model.heads:  # it names an existing one
        return model.heads[key]
    if head == "like":
        source = model.specs.get(like)
        if source is None or not same_form(source, spec):
            raise InputError(
                f"head = 'like': '{like}' has no output head of the form of {spec.name} "
                f"({KINDS[spec.kind].HEAD}, {KINDS[spec.kind].outputs(spec)} outputs)"
            )
        return copy.deepcopy(model.head_of(like))
    return new_head(model.config, spec, seed, model.settings.pooling)
