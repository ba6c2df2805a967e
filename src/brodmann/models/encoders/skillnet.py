r"""`skillnet`: seven feed-forward blocks per layer, one per skill; a task uses a few of them.

$$\mathrm{FFN}(a) = \frac{1}{|S_i|} \sum_{s \in S_i} \mathrm{FFN}_s(a)$$

where $S_i$ are the skills of task $i$, always including the general one. All start from the
pretrained block, so that every task starts as the backbone. BERT-base then has 450 M parameters and
activates 166 M with two skills.

Skills follow from a task's kind and `group`, or are given (`skills = { task = ["topic"] }`).

Reference: Zhang et al. 2022, "SkillNet-NLU: A Sparsely Activated Model for General-Purpose Natural
Language Understanding".
"""

import copy
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from brodmann.data.batches import Part
from brodmann.data.tasks import TaskSpec
from brodmann.errors import InputError, did_you_mean
from brodmann.models.backbone.anatomy import layers_of, residual_slots
from brodmann.models.encoders.shared import SharedEncoder, rows_of
from brodmann.models.encoders.task_context import current, of_parts, task_context

GENERAL = "general"
SKILLS = ("tokens", "sequence", "interaction", "sentiment", "questions", "topic")  # and general
BY_WORD = {  # a word in a task's group → a skill
    "sentiment": "sentiment",
    "opinion": "sentiment",
    "topic": "topic",
    "news": "topic",
    "question": "questions",
    "reading": "questions",
    "qa": "questions",
}


class SkillsEncoder(SharedEncoder):
    """A backbone whose own feed-forward blocks are the general skill, with six more beside each."""

    PARTS: ClassVar[dict[str, str]] = {"blocks.": "skills"}
    RATES: ClassVar[dict[str, float]] = {}

    def __init__(self, backbone: Any, skills: Mapping[str, Sequence[str]]) -> None:
        super().__init__(backbone)
        residual_slots(backbone, "skillnet")  # raises if the family is unknown
        self.skills = {task: tuple(chosen) for task, chosen in skills.items()}
        self.blocks = nn.ModuleDict({skill: nn.ModuleList() for skill in SKILLS})
        for place, layer in enumerate(layers_of(backbone)):
            inner = layer.get_submodule("intermediate")
            outer = layer.get_submodule("output.dense")
            for skill in SKILLS:
                pair = nn.Sequential(copy.deepcopy(inner), copy.deepcopy(outer))
                blocks = self.blocks[skill]
                assert isinstance(blocks, nn.ModuleList)
                blocks.append(pair)
            inner.register_forward_pre_hook(partial(_remember, place))
            outer.register_forward_hook(partial(_average, self.blocks, self.skills, place))

    def forward(self, inputs: dict[str, Tensor], parts: Sequence[Part]) -> list[Any]:
        with task_context(of_parts(parts, inputs["input_ids"].device)):
            states = self.backbone(**inputs)
        return [states] if len(parts) == 1 else [rows_of(states, part.rows) for part in parts]

    def activated_parameters(self) -> int:
        """Number of parameters that the task with the most skills uses."""
        block = sum(p.numel() for p in self.blocks[SKILLS[0]].parameters())
        most = max(len(chosen) for chosen in self.skills.values()) - 1
        whole: int = sum(p.numel() for p in self.backbone.parameters())
        return whole + most * block

    def describe(self, given: dict[str, Any] | None) -> dict[str, Any]:
        """Its parameters in full, including new tasks."""
        return {"skills": {task: list(chosen) for task, chosen in self.skills.items()}}

    def add_task(self, name: str, like: str) -> None:
        """Give the new task the skills of another."""
        if like not in self.skills:
            raise InputError(
                f"like = '{like}': in 'skillnet' a new task takes the skills of another task"
            )
        self.skills[name] = self.skills[like]


def _remember(place: int, _: nn.Module, args: tuple[Any, ...]) -> None:
    current().kept["attended", place] = args[0]


def _average(
    blocks: nn.ModuleDict,
    skills: Mapping[str, Sequence[str]],
    place: int,
    _: nn.Module,
    __: Any,
    general: Tensor,
) -> Tensor:
    context = current()
    before = context.kept["attended", place]
    parts = []
    for task, rows in zip(context.tasks, context.rows, strict=True):
        total = general[rows]
        for skill in skills[task]:
            if skill != GENERAL:
                own = blocks[skill]
                assert isinstance(own, nn.ModuleList)
                total = total + own[place](before[rows])
        parts.append(total / len(skills[task]))
    return torch.cat(parts)


def skills_of(spec: TaskSpec) -> tuple[str, ...]:
    """The general skill, those of the kind, and those that the group's name implies."""
    chosen = [GENERAL]
    if spec.kind == "tokens":
        chosen.append("tokens")
    elif spec.kind in ("span", "choice"):
        chosen += ["interaction", "questions"]
    elif spec.pair:
        chosen.append("interaction")
    else:
        chosen.append("sequence")
    words = f"{spec.group or ''} {spec.name}".lower()
    chosen += [skill for word, skill in BY_WORD.items() if word in words]
    return tuple(dict.fromkeys(chosen))


def build(
    backbone: Any,
    specs: Sequence[TaskSpec],
    max_length: int,
    *,
    skills: Mapping[str, Sequence[str]] | None = None,
) -> SkillsEncoder:
    """Build the encoder; `skills` replaces a task's skills that follow from its kind and group."""
    chosen = {spec.name: skills_of(spec) for spec in specs}
    known = (*SKILLS, GENERAL)
    if skills is not None and not isinstance(skills, Mapping):
        raise InputError('skillnet: skills: expected a table, e.g. { sst2 = ["sentiment"] }')
    for task, given in (skills or {}).items():
        if task not in chosen:
            raise InputError(f"skillnet: skills: no task '{task}'{did_you_mean(task, chosen)}")
        if not isinstance(given, list | tuple):
            raise InputError(f"skillnet: skills of '{task}': expected a list, found {given!r:.40}")
        for skill in given:
            if skill not in known:
                raise InputError(f"skillnet: no skill '{skill}'{did_you_mean(str(skill), known)}")
        chosen[task] = tuple(dict.fromkeys([GENERAL, *given]))
        if len(chosen[task]) < 2:
            raise InputError(f"skillnet: task '{task}' needs a skill beside the general one")
    return SkillsEncoder(backbone, chosen)
