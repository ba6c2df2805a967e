r"""Distillation: a small student learns from a trained multi-task teacher, all tasks at once.

Two phases over the tasks' own texts. *Layers*: student layer $m$ of $M$ learns from teacher layer
$g(m) = \lfloor mN/M \rfloor$ of $N$, with a learned projection $W$ where the widths differ,

$$\mathcal{L} = \sum_{m=0}^{M} \mathrm{MSE}(W h_m^S, h_{g(m)}^T)
  + \sum_{m=1}^{M} \mathrm{MSE}(\log A_m^S, \log A_{g(m)}^T),$$

$m = 0$ being the embeddings and $A$ the attention, over real tokens. *Prediction*: the student's
output learns the teacher's, by cross-entropy with its softened probabilities (temperature $T$).
A student that was cut from its teacher learns both at once (*recovery*): answers, and the mean over
layers of the hidden states' error.

A student is the teacher's family with other sizes, or starts from the weights of a checkpoint (as
TinyBERT's task-specific distillation starts from its general one). With `specialize` (IAT) the last
$\\delta$ of all steps, both phases counted, moves only a task's important heads; importance is that
of the task's own loss.

Reference: Jiao et al. 2020, "TinyBERT: Distilling BERT for Natural Language Understanding", §3.
Departures: attention is compared in log-probabilities, since transformers returns no raw scores,
and averaged over heads where the two have different numbers of them; teacher and student read
several tasks in one run.
"""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Self, Unpack

import torch
from torch import Tensor, nn
from torch.nn import functional

from brodmann.data.batches import Batch
from brodmann.data.encoding import IGNORED
from brodmann.data.sampling.samplers import SAMPLERS, check_sampler
from brodmann.data.schema import checked
from brodmann.data.tasks import Task
from brodmann.errors import InputError, did_you_mean
from brodmann.models.backbone.anatomy import kept_heads
from brodmann.models.multitask import MultiTaskModel, Outputs
from brodmann.models.saving import weights_digest
from brodmann.training.fit import fit
from brodmann.training.fit_options import DistillationOptions
from brodmann.training.method_settings import IAT, DistillationSettings
from brodmann.training.methods import Method
from brodmann.training.methods.students import Student, check_teacher, make_student, teacher_layer
from brodmann.training.settings import TrainingSettings

SMALLEST = 1e-6  # of an attention probability, before its logarithm
PHASES = ("layers", "prediction")
RECOVERY = "recovery"  # hidden states and answers at once, for a student that was cut from it
USUAL = DistillationSettings()


def distill(
    teacher: MultiTaskModel,
    tasks: Sequence[Task],
    student: Student,
    *,
    layer_epochs: int = USUAL.layer_epochs,
    prediction_epochs: int = USUAL.prediction_epochs,
    temperature: float = USUAL.temperature,
    seed: int = 0,
    folder: str | Path | None = None,
    **options: Unpack[DistillationOptions],
) -> MultiTaskModel:
    """Train a student: the teacher's family with other sizes (`{"num_hidden_layers": 3, ...}`), or
    the checkpoint (folder, hub id or run) that `student` names.

    A student of other sizes starts with the teacher's embeddings and every N/M-th of its layers if
    it is as wide, otherwise with random weights. The options are those of `fit`;
    `specialize=IAT(...)` counts its share of the steps over both phases.
    """
    asked = {"layer_epochs": layer_epochs, "prediction_epochs": prediction_epochs}
    checked(DistillationSettings, {**asked, "temperature": temperature}, "distill")
    sampling = options.get("sampling", TrainingSettings().sampling)
    check_sampler(sampling, options.get("sampling_parameters", {}))
    if SAMPLERS[sampling].by_example:
        raise InputError("distillation reads batches of one task: use another sampler")
    special = specialized_phase(options.pop("specialize", None), layer_epochs, prediction_epochs)
    small = make_student(teacher, student, seed=seed)
    for phase, epochs in zip(PHASES, (layer_epochs, prediction_epochs), strict=True):
        objective = Distillation(teacher, small, phase, temperature=temperature, seed=seed)
        chosen = options.copy()
        if phase == "layers":  # answers are not learnt yet: scores cannot choose the best step
            chosen["keep"], chosen["early_stopping"] = "last", None
        elif special is not None:
            chosen["specialize"] = special
        place = None if folder is None else Path(folder) / phase
        with objective:
            fit(small, tasks, methods=[objective], folder=place, epochs=epochs, seed=seed, **chosen)
    return small


def specialized_phase(special: IAT | None, layer_epochs: int, prediction_epochs: int) -> IAT | None:
    """The settings for the prediction phase alone, for the same last steps of both phases."""
    if special is None or special.is_plain:
        return special
    if special.variant == "ticket_share":
        raise InputError(
            "specialize: variant 'ticket_share' trains only some heads from the first step on, so "
            "that the other layers could not learn from the teacher: use 'important'"
        )
    share = Fraction(str(special.delta)) * (layer_epochs + prediction_epochs) / prediction_epochs
    if share > 1:
        part = prediction_epochs / (layer_epochs + prediction_epochs)
        raise InputError(
            f"specialize: delta = {special.delta}: the prediction phase is the last {part:.3g} of "
            "the steps, expected no more than that"
        )
    # Rounded down, so that a whole number of steps remains one.
    return special.model_copy(update={"delta": math.floor(share * 10**12) / 10**12})


class Distillation(nn.Module, Method):
    """The student with its loss: the module that a phase trains.

    Use as a context: inside, both models return the outputs that the phase compares.
    """

    def __init__(
        self,
        teacher: MultiTaskModel,
        student: MultiTaskModel,
        phase: str,
        *,
        temperature: float = USUAL.temperature,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if phase not in (*PHASES, RECOVERY):
            raise InputError(f"unknown phase '{phase}'{did_you_mean(phase, PHASES)}")
        checked(DistillationSettings, {"temperature": temperature}, "distill")
        check_teacher(teacher)
        emptied = any(not all(kept_heads(bare)) for bare in teacher.bare_models())
        if phase == "layers" and emptied:
            raise InputError(
                "the teacher has layers without a head, which have no attention to learn from: "
                "prune the student instead"
            )
        self.phase, self.temperature = phase, temperature
        self.student = student
        self._teacher = [teacher.eval()]  # in a list, so not part of this module and never trained
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

    def wrapped(self, model: nn.Module) -> nn.Module:
        return self

    def identity(self, *, shared_steps: bool) -> dict[str, Any]:
        return {
            "objective": {
                "phase": self.phase,
                "temperature": self.temperature,
                "teacher": weights_digest(self.teacher.state_dict()),
            }
        }

    def __enter__(self) -> Self:
        if self.phase == "prediction":
            return self
        for bare in (*self.student.bare_models(), *self.teacher.bare_models()):
            config = bare.config
            kept = (config._attn_implementation, config.output_attentions)
            self._before.append((bare, *kept, config.output_hidden_states))
            config.output_hidden_states = True
            if self.phase == "layers":
                bare.set_attn_implementation("eager")  # others return no attention
                config.output_attentions = True
        return self

    def __exit__(self, *_: object) -> None:
        for bare, attention, attentions, states in reversed(self._before):
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
            each: Any = 0.0
            output: Any = None
            if self.phase != "prediction":
                rows = self._layer_losses(ours, theirs, inputs["attention_mask"])
                counts = torch.as_tensor(part.rows_per_item)
                owner = torch.repeat_interleave(torch.arange(len(counts)), counts).to(rows.device)
                total = rows.new_zeros(len(counts)).index_add(0, owner, rows)
                each, output = total / counts.to(rows.device), rows.detach()
            if self.phase != "layers":
                output = self.student.read_off(part, ours, inputs)
                with torch.no_grad():
                    target = self.teacher.read_off(part, theirs, inputs)
                kind = self.student.spec(part.task).kind
                each = each + self._soft_losses(output, target, kind, part.labels)
            losses.append(each)
            logits.append(output)
        return Outputs(logits, losses)

    def _layer_losses(self, ours: Any, theirs: Any, mask: Tensor) -> Tensor:
        """(row,) losses of hidden states of every student layer and, if returned, of attention."""
        layers, source = (len(states.hidden_states) - 1 for states in (ours, theirs))
        real = mask.float()
        tokens = real.sum(dim=1)
        total = real.new_zeros(len(real))
        for m in range(layers + 1):
            state = ours.hidden_states[m]
            state = state if self.projection is None else self.projection(state)
            target = theirs.hidden_states[teacher_layer(m, layers, source)]
            error = (state.float() - target.float()).square().mean(dim=2)
            total = total + (error * real).sum(dim=1) / tokens
        if self.phase == RECOVERY:
            return total / (layers + 1)
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
        if kind == "span":  # (item, token, 2): logits of the first and of the last token
            return scale * _soft_entropy(ours, theirs, dim=1).mean(dim=1)
        if kind == "tokens":
            each = _soft_entropy(ours, theirs, dim=2)
            counted = (labels["tags"] != IGNORED).float()
            return scale * (each * counted).sum(dim=1) / counted.sum(dim=1).clamp(min=1)
        return scale * _soft_entropy(ours, theirs, dim=1)


def _soft_entropy(ours: Tensor, theirs: Tensor, dim: int) -> Tensor:
    """-Σ p log q; terms with p = 0 (padding, missing choices) add nothing."""
    p, log_q = theirs.softmax(dim=dim), ours.log_softmax(dim=dim)
    return -torch.where(p > 0, p * log_q, torch.zeros_like(p)).sum(dim=dim)
