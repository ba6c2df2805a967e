"""`ca_mtl`: one encoder, conditioned on the task in four places, with half of its layers frozen.

The modules, with their equations, are in `models/encoders/conditional.py`; this file puts them in
place. The backbone itself stays as transformers built it: hooks at its slots pass the states on.

- attention: a bias on the scores of every layer;
- alignment: between the embeddings and the first layer;
- norms: the output norms of the top half of the layers (`norms="both"`: attention norms, too);
- bottleneck: `"base"` inside the top layer, before its last residual; `"published"` after it, as
  in the published code, $CLN_2(a + CFF(CLN_1(a + FFN(a))))$ with $a$ the output of the attention
  block; `"large"` a stack of skip connections along all layers, $c_j = CFF_j(h_j + c_{j-1})$, whose
  last element is the encoder's output.

With `bottleneck="none"` the model equals the pretrained one at the start. Embeddings and the lowest
`frozen` share of layers do not train; all conditional modules do.

Conditioning has an effect only if task embeddings differ. They are initialised with a spread of
their own (`spread`) and may have their own learning rate (`training.rates`). Two controls show
whether they are used: scores with each task given the embedding of another (`models/controls.py`),
and `embeddings="one"`, a single embedding for all tasks.

Reference: Pilault et al. 2021, "Conditionally Adaptive Multi-Task Learning: Improving Transfer
Learning in NLP Using Fewer Parameters & Less Data", §2.1.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from brodmann.data.batches import Part
from brodmann.data.tasks import TaskSpec
from brodmann.errors import InputError, did_you_mean
from brodmann.models.backbone.anatomy import layers_of, residual_slots
from brodmann.models.backbone.load import freeze
from brodmann.models.encoders.conditional import (
    ACTIVATIONS,
    EMBEDDING_SPREAD,
    FILMS,
    ConditionalAlignment,
    ConditionalAttention,
    ConditionalBottleneck,
    ConditionalNorm,
    TaskEmbedding,
    conditioned,
)
from brodmann.models.encoders.shared import SharedEncoder, rows_of
from brodmann.models.encoders.task_context import current, of_parts, task_context
from brodmann.models.task_heads import module_key

FROZEN = 0.5  # share of the layers
BIASED = ("eager", "sdpa")  # implementations whose mask may be a bias


@dataclass(frozen=True)
class Conditioning:
    """Which of the four places are conditioned, and how."""

    attention: bool
    blocks: int | None
    alignment: str
    norms: str
    bottleneck: str
    activation: str | None
    film: str
    embeddings: str
    spread: float


class ConditionedEncoder(SharedEncoder):
    """A backbone whose slots are conditioned on the tasks of the batch."""

    PARTS: ClassVar[dict[str, str]] = {
        "embedding.rows.": "task_embeddings",
        "embedding.": "conditional",
        "attention.": "conditional",
        "alignment.": "conditional",
        "norms.": "conditional",
        "bottlenecks.": "conditional",
    }
    RATES: ClassVar[dict[str, float]] = {}

    def __init__(
        self, backbone: Any, names: Sequence[str], max_length: int, how: Conditioning
    ) -> None:
        super().__init__(backbone)
        size = int(backbone.config.hidden_size)
        layers = layers_of(backbone)
        slots = residual_slots(backbone, "ca_mtl")
        self.embedding = TaskEmbedding(names, size, how.spread, one=how.embeddings == "one")
        self.attention = nn.ModuleList()
        self.norms = nn.ModuleList()
        self.bottlenecks = nn.ModuleList()
        self.alignment: ConditionalAlignment | None = None
        if how.alignment != "none":
            self.alignment = ConditionalAlignment(names, size, how.alignment)
            hook = partial(_align, self.alignment)
            layers[0].register_forward_pre_hook(hook, with_kwargs=True)
        if how.attention:
            for layer in layers:
                bias = ConditionalAttention(size, max_length, how.blocks, how.film)
                self.attention.append(bias)
                hook = partial(_add_bias, bias)
                layer.register_forward_pre_hook(hook, with_kwargs=True)
        top = range(len(layers) - len(layers) // 2, len(layers))
        for place in top if how.norms != "none" else ():
            named = slots[place] if how.norms == "both" else slots[place][1:]
            for slot in named:
                norm = ConditionalNorm(size)
                self.norms.append(norm)
                slot.norm.register_forward_hook(partial(_condition_norm, norm))
        self._add_bottlenecks(how.bottleneck, size, how.activation, layers, slots[-1])

    def _add_bottlenecks(
        self, form: str, size: int, activation: str | None, layers: Any, top: Any
    ) -> None:
        """Add bottlenecks; `top` are the top layer's slots, after its attention and at its end."""
        attended, whole = top
        for place, layer in enumerate(layers) if form == "large" else ():
            narrow = ConditionalBottleneck(size, activation)
            self.bottlenecks.append(narrow)
            last = place == len(layers) - 1
            layer.register_forward_hook(partial(_skip, narrow, place, last))
        if form in ("base", "published"):
            narrow = ConditionalBottleneck(size, activation)
            self.bottlenecks.append(narrow)
        if form == "base":
            whole.added.register_forward_hook(partial(_narrow, narrow))
        elif form == "published":
            second = copy.deepcopy(whole.norm)
            conditional = ConditionalNorm(size)
            self.norms.extend([second, conditional])
            attended.norm.register_forward_hook(_remember_attended)
            whole.norm.register_forward_hook(partial(_publish, narrow, second, conditional))

    def forward(self, inputs: dict[str, Tensor], parts: Sequence[Part]) -> list[Any]:
        context = of_parts(parts, inputs["input_ids"].device)
        context.kept["z"] = self.embedding(context)
        with task_context(context):
            states = self.backbone(**inputs)
        return [states] if len(parts) == 1 else [rows_of(states, part.rows) for part in parts]

    def task_parameters(self, task: str) -> list[nn.Parameter]:
        """The parameters that belong to this task alone."""
        key = module_key(task)
        own = [] if self.embedding.one else [self.embedding.rows[key]]
        if self.alignment is not None and key in self.alignment.matrices:
            own.append(self.alignment.matrices[key])
        return own

    def add_task(self, name: str, like: str) -> None:
        """Add a row to the task embedding: a copy of another task's, or a random one."""
        rows, key = self.embedding.rows, module_key(like)
        if self.embedding.one:
            new = rows["all"]
        elif key in rows:
            new = rows[key].detach().clone()
        else:
            new = torch.empty_like(next(iter(rows.values())))
            if like == "random":
                nn.init.normal_(new, std=self.embedding.spread)
            else:
                nn.init.xavier_uniform_(new[None])
        if not self.embedding.one:
            rows[module_key(name)] = nn.Parameter(new)
        if self.alignment is not None and self.alignment.form == "separate":
            matrices = self.alignment.matrices
            fresh = new.new_zeros(len(new), len(new))
            start = matrices[key].detach().clone() if key in matrices else fresh
            matrices[module_key(name)] = nn.Parameter(start)


def _align(
    alignment: ConditionalAlignment,
    _: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    z, context = conditioned()
    if args:
        return (alignment(args[0], z, context), *args[1:]), kwargs
    return args, kwargs | {"hidden_states": alignment(kwargs["hidden_states"], z, context)}


def _add_bias(
    bias: ConditionalAttention,
    _: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Add the task's bias to the layer's mask: none, boolean (SDPA) or additive (eager)."""
    z, context = conditioned()
    states = args[0] if args else kwargs["hidden_states"]
    mask = args[1] if len(args) > 1 else kwargs.get("attention_mask")
    added = bias(z, context, states.shape[1])
    if mask is not None and mask.dtype == torch.bool:
        added = torch.where(mask, added, torch.finfo(added.dtype).min)
    elif mask is not None:
        added = mask + added
    if len(args) > 1:
        return (args[0], added, *args[2:]), kwargs
    return args, kwargs | {"attention_mask": added}


def _condition_norm(
    norm: ConditionalNorm,
    module: nn.LayerNorm,
    _: Any,
    normed: Tensor,
) -> Tensor:
    z, context = conditioned()
    found: Tensor = norm(normed, module, z, context)
    return found


def _narrow(narrow: ConditionalBottleneck, _: nn.Module, __: Any, states: Tensor) -> Tensor:
    z, context = conditioned()
    found: Tensor = narrow(states, z, context)
    return found


def _remember_attended(_: nn.Module, __: Any, states: Tensor) -> None:
    current().kept["attended"] = states


def _publish(
    narrow: ConditionalBottleneck,
    second: Any,  # a copy of the layer's own norm
    conditional: ConditionalNorm,
    _: nn.Module,
    __: Any,
    normed: Tensor,
) -> Tensor:
    z, context = conditioned()
    added = second(context.kept["attended"] + narrow(normed, z, context))
    found: Tensor = conditional(added, second, z, context)
    return found


def _skip(
    narrow: ConditionalBottleneck,
    place: int,
    last: bool,
    _: nn.Module,
    __: Any,
    output: Any,
) -> Any:
    """One level of the skip stack, stored by place because checkpointing recomputes layers."""
    z, context = conditioned()
    states = output[0] if isinstance(output, tuple) else output
    below = context.kept.get(("skip", place - 1))
    found = narrow(states if below is None else states + below, z, context)
    context.kept["skip", place] = found
    if not last:
        return None
    return (found, *output[1:]) if isinstance(output, tuple) else found


def backward_passes(freeze: float | str, parameters: Mapping[str, Any]) -> float:
    """Conditional modules below the frozen layers need the gradients of all activations."""
    return 2 - float(parameters.get("frozen", FROZEN))


def build(
    backbone: Any,
    specs: Sequence[TaskSpec],
    max_length: int,
    *,
    attention: bool = True,
    blocks: int | None = None,
    alignment: str = "linear",
    norms: str = "output",
    bottleneck: str = "base",
    activation: str | None = None,
    film: str = "columns",
    embeddings: str = "own",
    spread: float = EMBEDDING_SPREAD,
    frozen: float = FROZEN,
) -> ConditionedEncoder:
    """Build the encoder; `blocks=1` is the full-block variant, `frozen` a share of the layers."""
    for name, value, allowed in (
        ("alignment", alignment, ("linear", "film", "separate", "none")),
        ("norms", norms, ("output", "both", "none")),
        ("bottleneck", bottleneck, ("base", "published", "large", "none")),
        ("film", film, FILMS),
        ("embeddings", embeddings, ("own", "one")),
        ("activation", activation, (None, *ACTIVATIONS)),
        ("attention", attention, (True, False)),
    ):
        if value not in allowed:
            words = ", ".join(str(one) for one in allowed if one is not None)
            hint = did_you_mean(str(value), [str(one) for one in allowed])
            raise InputError(f"ca_mtl: {name} = {value!r}{hint}: expected one of {words}")
    whole = isinstance(blocks, int) and not isinstance(blocks, bool)
    if blocks is not None and (not whole or not 1 <= blocks <= max_length):
        raise InputError(f"ca_mtl: blocks = {blocks!r}: expected a number from 1 to {max_length}")
    if isinstance(frozen, bool) or not isinstance(frozen, int | float) or not 0 <= frozen <= 1:
        raise InputError(f"ca_mtl: frozen = {frozen!r}: expected a share from 0 to 1")
    if isinstance(spread, bool) or not isinstance(spread, int | float) or not spread > 0:
        raise InputError(f"ca_mtl: spread = {spread!r}: expected a number above 0")
    used = backbone.config._attn_implementation
    if attention and used not in BIASED:
        raise InputError(
            f"ca_mtl: attention = '{used}' of the backbone accepts no bias on its scores: use one "
            f"of {', '.join(BIASED)}, or parameters = {{ attention = false }}"
        )
    how = Conditioning(
        attention=attention,
        blocks=blocks,
        alignment=alignment,
        norms=norms,
        bottleneck=bottleneck,
        activation=activation,
        film=film,
        embeddings=embeddings,
        spread=spread,
    )
    encoder = ConditionedEncoder(backbone, [spec.name for spec in specs], max_length, how)
    freeze(backbone, frozen)
    return encoder
