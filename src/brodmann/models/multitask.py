"""The multi-task model: an encoder, one output head per task, the tokenizer and the tasks' names.

It is saved as one folder (safetensors, JSON, tokenizer, model card) and loaded again from it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from brodmann.data.answering.predicts import Predicts
from brodmann.data.answering.reader import Reader
from brodmann.data.answering.rules import Rules
from brodmann.data.batches import Batch, Part
from brodmann.data.encoding import Encoded, encode_task
from brodmann.data.kinds import KINDS
from brodmann.data.schema import checked
from brodmann.data.tasks import Example, Task, TaskSpec
from brodmann.errors import InputError, did_you_mean
from brodmann.models.backbone import load as backbones
from brodmann.models.backbone.anatomy import AroundBackbones, bare_models
from brodmann.models.backbone.checkpointing import enable_checkpointing
from brodmann.models.backbone.devices import choose_device
from brodmann.models.card_metadata import CardFacts
from brodmann.models.derived import add_task, merged_model, model_for_tasks, train_only
from brodmann.models.encoders import ARCHITECTURES, Architecture, check_architecture
from brodmann.models.encoders.task_context import checkpoint_contexts
from brodmann.models.finding_trained import folder_of_trained
from brodmann.models.heads.trained_gates import gates_for, through
from brodmann.models.model_settings import (
    USUAL_HEAD,
    USUAL_START,
    Blueprint,
    ModelSettings,
    check_length,
)
from brodmann.models.pooling import resolve_pooling
from brodmann.models.saving import load_model, save_model
from brodmann.models.task_heads import (
    TaskHead,
    by_item,
    check_shared,
    module_key,
    new_head,
    reads_pooler,
)
from brodmann.results import Head

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from transformers.modeling_outputs import BaseModelOutputWithPooling as States

USUAL = ModelSettings()


@dataclass
class Outputs:
    """Per part of the batch: logits, and one loss per item if the batch has labels."""

    logits: list[Tensor]
    losses: list[Tensor]


class MultiTaskModel(AroundBackbones, Predicts):
    """One encoder for many tasks. Build it with `from_pretrained`."""

    def __init__(
        self, backbone: backbones.Backbone, specs: Sequence[TaskSpec], settings: Blueprint
    ) -> None:
        super().__init__()
        check_architecture(settings.architecture, settings.parameters)
        self.specs = {spec.name: spec for spec in specs}
        self.settings = settings
        self.tokenizer = backbone.tokenizer
        self.config = backbone.model.config
        check_length(settings, backbones.longest_input(self.config, self.tokenizer))
        with torch.random.fork_rng():  # new modules start from the seed
            torch.manual_seed(settings.seed)
            self.encoder = self.architecture.build(
                backbone.model, specs, settings.max_length, **settings.parameters
            )
        self.settings.parameters = self.encoder.describe(settings.parameters)
        self.gates = gates_for(self.encoder, settings.gates)
        self.rules: dict[str, Rules] = {}  # fitted after training; another training ends them
        self.heads = nn.ModuleDict()
        check_shared(specs)
        for place, spec in enumerate(specs):
            if (key := module_key(spec.output_head)) not in self.heads:
                seed = settings.seed * 1000 + place
                self.heads[key] = new_head(self.config, spec, seed, settings.pooling)
        for inner in self.bare_models():
            backbones.freeze(inner, settings.freeze)

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path,
        tasks: Sequence[Task | TaskSpec] | None = None,
        *,
        architecture: str = USUAL.architecture,
        parameters: Mapping[str, object] | None = None,
        lora: Mapping[str, object] | None = None,
        freeze: float | str = USUAL.freeze,
        max_length: int = USUAL.max_length,
        stride: int = USUAL.stride,
        dropout: float | None = USUAL.dropout,
        attention: str | None = USUAL.attention,
        gates: str | None = USUAL.gates,
        pooling: str = USUAL.pooling,
        seed: int = 0,
        device: str | torch.device = "auto",
        revision: str | None = None,
        token: str | bool | None = None,
    ) -> "MultiTaskModel":
        """Build a model for `tasks` on the backbone `name`, or load a trained one.

        Without `tasks`, `name` is the folder of a trained model or of a run, or a trained model's
        id on the hub; with `tasks`, the backbone's id or folder. `revision` is a branch, tag or
        commit on the hub, and `token` opens what is private there (default: the token of
        `hf auth login`, or HF_TOKEN).

        `freeze` is "encoder" (the backbone does not train: only the output heads and modules that
        an architecture adds do) or the share of the layers, from the bottom, that do not train.
        `dropout` overrides the backbone's own. `gates` are "trained" with the model, or a "mask".
        `pooling` chooses the vector for a text: "auto", "pooler", "first" or "mean" (see
        `models/pooling.py`). `device` is where the model trains and is measured: "auto" (the best
        one here), "cpu", "cuda", "cuda:1", "mps" or "xpu".
        """
        place = choose_device(device)
        folder = folder_of_trained(name, revision, token, tasks_given=tasks is not None)
        if folder is not None:
            return load_model(cls, folder).to(place)
        if isinstance(tasks, Task | TaskSpec):
            raise InputError("tasks: expected a list, found one task: put it in [ ]")
        if not tasks:
            raise InputError(f"{name}: not a trained multi-task model: give the tasks to build one")
        asked = {
            "backbone": str(name),
            "architecture": architecture,
            "parameters": dict(parameters or {}),
            "lora": lora,
            "freeze": freeze,
            "max_length": max_length,
            "stride": stride,
            "dropout": dropout,
            "attention": attention,
            "gates": gates or None,
            "pooling": pooling,
        }
        settings = checked(ModelSettings, asked, "from_pretrained")
        check_architecture(settings.architecture, settings.parameters)
        loaded = backbones.load_backbone(
            settings.backbone,
            dropout=settings.dropout,
            attention=settings.attention,
            seed=seed,
            revision=revision,
            token=token,
        )
        read = resolve_pooling(
            settings.pooling, loaded.model, reads_pooler=reads_pooler(loaded.model.config)
        )
        specs = [task.spec if isinstance(task, Task) else task for task in tasks]
        return cls(loaded, specs, Blueprint.of(settings, pooling=read, seed=seed)).to(place)

    def for_tasks(
        self,
        tasks: Sequence[Task | TaskSpec],
        *,
        encoder_of: str | None = None,
        max_length: int | None = None,
        seed: int = 0,
    ) -> "MultiTaskModel":
        """A new model for other tasks: a copy of this model's encoder with new output heads.

        `encoder_of` names the task whose encoder to copy if every task has its own (`single`).
        """
        return model_for_tasks(self, tasks, encoder_of, max_length, seed)

    def merged(self) -> "MultiTaskModel":
        """The same model without LoRA adapters: one encoder, or one per task (`task_lora`)."""
        return merged_model(self)

    def switch_off(self, heads: Iterable[Head]) -> None:
        """Switch heads off permanently: they are saved as off and stay off in training."""
        self.rules.clear()
        if self.gates is None:
            self.settings.gates = "mask"
            self.gates = gates_for(self.encoder, "mask")
        assert self.gates is not None
        self.gates.switch_off(heads)

    def head_of(self, task: str) -> TaskHead:
        """The task's output head, its own or a shared one."""
        head = self.heads[module_key(self.spec(task).output_head)]
        assert isinstance(head, TaskHead)
        return head

    def add_task(
        self, task: Task | TaskSpec, *, like: str = USUAL_START, head: str = USUAL_HEAD
    ) -> None:
        """Add a task to a trained model; everything else in the model stays unchanged.

        `like` names the task whose own parameters are copied, or is "random" or "xavier"; `head` is
        "new", or "like" for a copy of that task's output head, if it has the same form.
        """
        add_task(self, task.spec if isinstance(task, Task) else task, like, head)

    def train_only(self, *tasks: str) -> None:
        """Freeze everything that does not belong to these tasks alone (heads and own modules)."""
        train_only(self, tasks)

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def spec(self, task: str) -> TaskSpec:
        if task not in self.specs:
            raise InputError(f"the model has no task '{task}'{did_you_mean(task, self.specs)}")
        return self.specs[task]

    def bare_models(self) -> "list[PreTrainedModel]":
        """The transformers models inside the encoder (a single one if it is shared)."""
        return bare_models(self)

    def paths(self) -> "list[PreTrainedModel]":
        return list(self.encoder.paths())

    @property
    def architecture(self) -> Architecture:
        return ARCHITECTURES[self.settings.architecture]

    def enable_gradient_checkpointing(self) -> None:
        """Recompute activations instead of storing them: less memory, more time."""
        for inner in self.bare_models():
            enable_checkpointing(inner, {"use_reentrant": False, "context_fn": checkpoint_contexts})

    def encode(self, spec: TaskSpec, examples: Sequence[Example], *, cache: bool = True) -> Encoded:
        """Encode examples as this model reads them."""
        return encode_task(
            examples,
            spec,
            self.tokenizer,
            max_length=self.settings.max_length,
            stride=self.settings.stride,
            cache=cache,
        )

    def states(self, inputs: dict[str, Tensor], parts: Sequence[Part]) -> "list[States]":
        """The encoder's states for every part, through the model's own gates."""
        with through(self.encoder, self.gates):
            found: list[States] = self.encoder(inputs, parts)
        return found

    def forward(self, batch: Batch) -> Outputs:
        states = self.states(batch.inputs, batch.parts)
        logits, losses = [], []
        for part, part_states in zip(batch.parts, states, strict=True):
            inputs = {name: tensor[part.rows] for name, tensor in batch.inputs.items()}
            output = self.read_off(part, part_states, inputs)
            logits.append(output)
            if part.labels:
                spec = self.specs[part.task]
                losses.append(KINDS[spec.kind].loss(output, part.labels, spec))
        return Outputs(logits, losses)

    def read_off(self, part: Part, states: "States", inputs: dict[str, Tensor]) -> Tensor:
        """One task's logits from the states of its rows, one entry per item."""
        head = self.head_of(part.task)
        logits: Tensor = head(states, inputs)
        if head.form == "choice":
            return by_item(logits, part)
        if head.form == "span":
            padding = inputs["attention_mask"][..., None] == 0
            return logits.masked_fill(padding, torch.finfo(logits.dtype).min)
        return logits

    def parameter_counts(self) -> dict[str, int]:
        def count(module: nn.Module) -> int:
            return sum(parameter.numel() for parameter in module.parameters())

        activated = self.encoder.activated_parameters()
        return {
            **({} if activated is None else {"activated": activated}),
            "encoder": count(self.encoder),
            "heads": count(self.heads),
            "total": count(self),
            "trainable": sum(p.numel() for p in self.parameters() if p.requires_grad),
        }

    def reader(self) -> Reader:
        from brodmann.models.predicting import TorchReader

        return TorchReader(self)

    def save_pretrained(
        self, folder: str | Path, *, scores: Mapping[str, Mapping[str, float]] | None = None
    ) -> None:
        """Write the model folder, completely or not at all; `scores` appear in the model card."""
        save_model(self, Path(folder), CardFacts.of(scores or {}))

    def push_to_hub(
        self,
        repo_id: str,
        *,
        private: bool = True,
        token: str | bool | None = None,
        revision: str | None = None,
        commit_message: str | None = None,
        scores: Mapping[str, Mapping[str, float]] | None = None,
        licence: str | None = None,
    ) -> str:
        """Upload the model and its card to the hub; return the commit's address.

        A repository that does not exist is created, private unless `private` is false. `revision`
        is the branch to write. The card shows `scores`, as that of `save_pretrained`.
        """
        from brodmann.models.publishing import push

        facts = CardFacts.of(scores or {}, licence)
        return push(self, repo_id, facts, private=private, token=token, revision=revision,
                    message=commit_message)  # fmt: skip
