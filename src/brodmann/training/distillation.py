r"""Distillation: a small student learns from a trained multi-task teacher, all tasks at once.

Two phases over the tasks' own texts. *Layers*: student layer $m$ of $M$ learns from teacher layer
$g(m) = \lfloor mN/M \rfloor$ of $N$, with a learned projection $W$ where the widths differ,

$$\mathcal{L} = \sum_{m=0}^{M} \mathrm{MSE}(W h_m^S, h_{g(m)}^T)
  + \sum_{m=1}^{M} \mathrm{MSE}(\log A_m^S, \log A_{g(m)}^T),$$

$m = 0$ being the embeddings and $A$ the attention, over real tokens. *Prediction*: the student's
output learns the teacher's, by cross-entropy with its softened probabilities (temperature $T$).

Reference: Jiao et al. 2020, "TinyBERT: Distilling BERT for Natural Language Understanding", §3.
Departures: attention is compared in log-probabilities, since transformers returns no raw scores,
and averaged over heads where the two have different numbers of them; teacher and student read
several tasks in one run.
"""

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from brodmann.data.batches import Batch
from brodmann.data.encoding import IGNORED
from brodmann.data.tasks import Task
from brodmann.errors import InputError, did_you_mean
from brodmann.models import backbone as backbones
from brodmann.models.families import REMOVED, kept_heads, layers_of
from brodmann.models.multitask import MultiTaskModel, Outputs
from brodmann.models.stored import weights_digest
from brodmann.models.trained_gates import folded
from brodmann.training.trainer import fit

SMALLEST = 1e-6  # of an attention probability, before its logarithm
PHASES = ("layers", "prediction")


def distill(
    teacher: MultiTaskModel,
    tasks: Sequence[Task],
    student: Mapping[str, Any],
    *,
    layer_epochs: int = 2,
    prediction_epochs: int = 3,
    temperature: float = 1.0,
    seed: int = 0,
    folder: str | Path | None = None,
    **options: Any,
) -> MultiTaskModel:
    """A trained student: the teacher's family with other sizes (`{"num_hidden_layers": 3, ...}`).

    Of equal width, it begins with the teacher's embeddings and every N/M-th of its layers;
    otherwise with random weights. The options are those of `fit`.
    """
    if options.get("sampling") == "uncertainty":
        raise InputError("distillation reads batches of one task: use another sampler")
    small = make_student(teacher, student, seed=seed)
    for phase, epochs in zip(PHASES, (layer_epochs, prediction_epochs), strict=True):
        objective = Distillation(teacher, small, phase, temperature=temperature, seed=seed)
        chosen = dict(options)
        if phase == "layers":  # no answer is learnt yet: scores say nothing about the best step
            chosen |= {"keep": "last", "early_stopping": None}
        place = None if folder is None else Path(folder) / phase
        with objective:
            fit(small, tasks, objective=objective, folder=place, epochs=epochs, seed=seed, **chosen)
    return small


def make_student(
    teacher: MultiTaskModel, sizes: Mapping[str, Any], *, seed: int = 0
) -> MultiTaskModel:
    """A model of the same family and tasks, of other sizes, not trained yet."""
    source = teacher_encoder(teacher)
    config = copy.deepcopy(source.config)
    if hasattr(config, REMOVED):  # heads that the teacher has lost; the student has its own
        delattr(config, REMOVED)
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
    if config.num_hidden_layers > source.config.num_hidden_layers:
        raise InputError(
            f"student: {config.num_hidden_layers} layers are more than the teacher's "
            f"{source.config.num_hidden_layers}"
        )
    try:
        bare = backbones.build_bare(config, None, seed)
    except (ValueError, TypeError, RuntimeError) as error:
        raise InputError(f"student: cannot be built ({' '.join(str(error).split())})") from error
    if config.hidden_size == source.config.hidden_size:
        _start_from_teacher(bare, folded(source, teacher.gates))
    settings = copy.copy(teacher.settings)
    settings.freeze, settings.seed, settings.gates = 0.0, seed, ""
    backbone = backbones.Backbone(teacher.settings.backbone, bare, teacher.tokenizer)
    return MultiTaskModel(backbone, list(teacher.specs.values()), settings)


def teacher_encoder(teacher: MultiTaskModel) -> Any:
    if teacher.settings.architecture != "shared":
        raise InputError(
            f"architecture '{teacher.settings.architecture}': distillation needs one encoder for "
            "all tasks ('shared')"
        )
    return teacher.bare_models()[0]


def _start_from_teacher(student: Any, teacher: Any) -> None:
    """Everything of equal shape, the layers being those the student learns from."""
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


class Distillation(nn.Module):
    """The student with its loss: what a phase trains, as one module.

    Used as a context: inside, both models return what the phase compares.
    """

    def __init__(
        self,
        teacher: MultiTaskModel,
        student: MultiTaskModel,
        phase: str,
        *,
        temperature: float = 1.0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if phase not in PHASES:
            raise InputError(f"unknown phase '{phase}'{did_you_mean(phase, PHASES)}")
        if not temperature > 0:
            raise InputError(f"temperature = {temperature}: expected a number above 0")
        if phase == "layers" and not all(kept_heads(teacher_encoder(teacher))):
            raise InputError(
                "the teacher has layers without a head, which have no attention to learn from: "
                "prune the student instead"
            )
        self.phase, self.temperature = phase, temperature
        self.student = student
        self._teacher = [teacher.eval()]  # in a list: no part of this module, never trained
        widths = [int(model.config.hidden_size) for model in (student, teacher)]
        self.projection: nn.Linear | None = None
        if phase == "layers" and widths[0] != widths[1]:
            with torch.random.fork_rng():
                torch.manual_seed(seed)
                self.projection = nn.Linear(widths[0], widths[1], bias=False)
        self._before: list[Any] = []

    @property
    def teacher(self) -> MultiTaskModel:
        return self._teacher[0]

    def settings(self) -> dict[str, Any]:
        """What sets this training apart from an ordinary one."""
        return {
            "phase": self.phase,
            "temperature": self.temperature,
            "teacher": weights_digest(self.teacher.state_dict()),
        }

    def __enter__(self) -> Self:
        if self.phase == "layers":
            for bare in (*self.student.bare_models(), *self.teacher.bare_models()):
                config = bare.config
                kept = (config._attn_implementation, config.output_attentions)
                self._before.append((bare, *kept, config.output_hidden_states))
                bare.set_attn_implementation("eager")  # others return no attention
                config.output_attentions = config.output_hidden_states = True
        return self

    def __exit__(self, *_: object) -> None:
        for bare, attention, attentions, states in self._before:
            bare.set_attn_implementation(attention)
            bare.config.output_attentions = attentions
            bare.config.output_hidden_states = states
        self._before = []

    def forward(self, batch: Batch) -> Outputs:
        with torch.no_grad():
            taught = self.teacher.to(self.student.device).states(batch.inputs, batch.parts)
        learnt = self.student.states(batch.inputs, batch.parts)
        logits, losses = [], []
        for part, ours, theirs in zip(batch.parts, learnt, taught, strict=True):
            inputs = {name: tensor[part.rows] for name, tensor in batch.inputs.items()}
            if self.phase == "layers":
                rows = self._layer_losses(ours, theirs, inputs["attention_mask"])
                owner = torch.repeat_interleave(
                    torch.arange(len(part.rows_per_item)), torch.as_tensor(part.rows_per_item)
                ).to(rows.device)
                total = rows.new_zeros(len(part.rows_per_item)).index_add(0, owner, rows)
                losses.append(total / torch.bincount(owner, minlength=len(part.rows_per_item)))
                logits.append(rows.detach())
            else:
                output = self.student.read_off(part, ours, inputs)
                with torch.no_grad():
                    target = self.teacher.read_off(part, theirs, inputs)
                kind = self.student.spec(part.task).kind
                losses.append(self._soft_losses(output, target, kind, part.labels))
                logits.append(output)
        return Outputs(logits, losses)

    def _layer_losses(self, ours: Any, theirs: Any, mask: Tensor) -> Tensor:
        """(row,) hidden states and attention of every student layer."""
        layers, source = len(ours.attentions), len(theirs.attentions)
        real = mask.float()
        tokens = real.sum(dim=1)
        total = real.new_zeros(len(real))
        for m in range(layers + 1):
            state = ours.hidden_states[m]
            state = state if self.projection is None else self.projection(state)
            target = theirs.hidden_states[teacher_layer(m, layers, source)]
            error = (state.float() - target.float()).square().mean(dim=2)
            total = total + (error * real).sum(dim=1) / tokens
        both = real[:, :, None] * real[:, None, :]
        for m in range(1, layers + 1):
            maps = [
                attention.float().clamp(min=SMALLEST).log()
                for attention in (
                    ours.attentions[m - 1],
                    theirs.attentions[teacher_layer(m, layers, source) - 1],
                )
            ]
            if maps[0].shape[1] != maps[1].shape[1]:
                maps = [attention.mean(dim=1, keepdim=True) for attention in maps]
            error = (maps[0] - maps[1]).square().mean(dim=1)
            total = total + (error * both).sum(dim=(1, 2)) / both.sum(dim=(1, 2))
        return total

    def _soft_losses(
        self, output: Tensor, target: Tensor, kind: str, labels: Mapping[str, Tensor]
    ) -> Tensor:
        """(item,) cross-entropy with the teacher's softened answers, scaled back by T²."""
        ours, theirs = output.float() / self.temperature, target.float() / self.temperature
        scale = self.temperature**2
        if kind == "regression":
            return (output.float() - target.float()).square()[:, 0]
        if kind == "multilabel":
            each = functional.binary_cross_entropy_with_logits(
                ours, theirs.sigmoid(), reduction="none"
            )
            return scale * each.mean(dim=1)
        if kind == "span":  # (item, token, 2): which token is the first, which the last
            return scale * _soft_entropy(ours, theirs, dim=1).mean(dim=1)
        if kind == "tokens":
            each = _soft_entropy(ours, theirs, dim=2)
            counted = (labels["tags"] != IGNORED).float()
            return scale * (each * counted).sum(dim=1) / counted.sum(dim=1).clamp(min=1)
        return scale * _soft_entropy(ours, theirs, dim=1)


def _soft_entropy(ours: Tensor, theirs: Tensor, dim: int) -> Tensor:
    """-Σ p log q; where p is 0 (padding, choices that are not there) nothing is added."""
    p, log_q = theirs.softmax(dim=dim), ours.log_softmax(dim=dim)
    return -torch.where(p > 0, p * log_q, torch.zeros_like(p)).sum(dim=dim)
