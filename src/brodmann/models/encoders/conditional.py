r"""Modules conditioned on a task embedding: one pretrained network, adapted slightly to each task.

$$\varphi(W \mid z) = (1 + \gamma(z)) \odot W + \beta(z)$$

where $z$ is the task's embedding and $\gamma$, $\beta$ are linear in it (FiLM, Perez et al. 2018).
Both start at zero, so that every module starts as the identity (except the bottleneck, which has
new weights). Everything is computed once per task of the batch and then expanded to its rows.

Reference: Pilault et al. 2021, "Conditionally Adaptive Multi-Task Learning", §2.1.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from brodmann.models.encoders.task_context import TaskContext, current
from brodmann.models.task_heads import module_key

EMBEDDING_SPREAD = 1.0  # of a new task embedding: with 0.02, tasks stayed alike in training
FILMS = ("columns", "blocks", "side")
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": nn.functional.gelu,
    "relu": nn.functional.relu,
    "tanh": torch.tanh,
}


class TaskEmbedding(nn.Module):
    """$z_i$: one row per task, through one linear map that all tasks share.

    `one` gives all tasks a single row: a control that has every conditional parameter but does not
    know its task.
    """

    def __init__(self, tasks: Sequence[str], size: int, spread: float, *, one: bool) -> None:
        super().__init__()
        # One parameter per task: that of a task outside the batch has no gradient and stays.
        names = ["all"] if one else [module_key(task) for task in tasks]
        self.one, self.spread = one, spread
        self.rows = nn.ParameterDict({name: spread * torch.randn(size) for name in names})
        self.transform = nn.Linear(size, size, bias=False)

    def key(self, task: str) -> str:
        return "all" if self.one else module_key(task)

    def forward(self, context: TaskContext) -> Tensor:
        """(task of the batch, size); computed once per forward pass, kept in its context as "z"."""
        rows = torch.stack([self.rows[self.key(task)] for task in context.tasks])
        with in_float32(rows):
            z: Tensor = self.transform(rows)
        return z


def in_float32(like: Tensor) -> torch.autocast:
    """Autocast to float32: bfloat16 has steps of 1/128 near 1, which would swallow a small γ."""
    return torch.autocast(like.device.type, enabled=False)


class FiLM(nn.Module):
    """$\\gamma(z)$ and $\\beta(z)$, both zero at the start."""

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.both = nn.Linear(size, 2 * width)
        nn.init.zeros_(self.both.weight)
        nn.init.zeros_(self.both.bias)

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        with in_float32(z):
            scale, shift = self.both(z).chunk(2, dim=-1)
        return scale, shift


class ConditionalAttention(nn.Module):
    r"""$\mathrm{softmax}[M(z) + QK^T/\sqrt{d}]V$ with $M(z) = \bigoplus_n \varphi(A_n \mid z)$.

    $N$ blocks of ⌈L/N⌉ square along the diagonal, cut to L; outside the blocks M adds nothing. All
    heads of a layer share it. The paper's text leaves open how γ and β spread over a block:

    | `film` | values of γ and β |
    |---|---|
    | `columns` | L: one per column of M |
    | `blocks` | L²/N²: one per entry of a block, the same in all blocks (the paper's dimensions) |
    | `side` | L/N: one per column of a block, the same in all blocks (the published code) |
    """

    inside: Tensor

    def __init__(self, size: int, length: int, blocks: int | None, film: str = "columns") -> None:
        super().__init__()
        self.count = max(1, size // length) if blocks is None else blocks
        self.side = side = -(-length // self.count)
        self.form = film
        self.blocks = nn.Parameter(torch.zeros(self.count, side, side))
        self.film = FiLM(size, {"columns": length, "blocks": side * side, "side": side}[film])
        place = torch.arange(length) // side
        inside = (place[:, None] == place[None, :]).float()
        self.register_buffer("inside", inside, persistent=False)

    def forward(self, z: Tensor, context: TaskContext, tokens: int) -> Tensor:
        """(row or 1, 1, token, token) bias to add to the scores."""
        scale, shift = (self._over_matrix(values, tokens) for values in self.film(z))
        base = _block_diagonal(self.blocks)[:tokens, :tokens]
        bias = (1 + scale) * base + shift * self.inside[:tokens, :tokens]
        return context.spread(bias)[:, None]

    def _over_matrix(self, values: Tensor, tokens: int) -> Tensor:
        """(task, value of γ or β) → (task, token or 1, token)"""
        if self.form == "blocks":
            block = values.view(len(values), self.side, self.side)
            return block.repeat(1, self.count, self.count)[:, :tokens, :tokens]
        if self.form == "side":
            values = values.repeat(1, self.count)
        return values[:, None, :tokens]


def _block_diagonal(blocks: Tensor) -> Tensor:
    """(block, side, side) → (block · side, block · side)"""
    count, side, _ = blocks.shape
    whole = blocks.new_zeros(count, side, count, side)
    each = torch.arange(count, device=blocks.device)
    whole[each, :, each, :] = blocks
    return whole.reshape(count * side, count * side)


class ConditionalAlignment(nn.Module):
    r"""$x R\, \mathrm{diag}(1 + \gamma(z)) + \beta(z)$ between the embeddings and the first layer.

    `form`: "linear" has one $R$, the identity at the start; "film" has none; "separate" has one
    $R_i$ per task and no embedding (Wu et al. 2020). The parameter is $R - I$, so that weight decay
    pulls towards the identity.
    """

    def __init__(self, tasks: Sequence[str], size: int, form: str) -> None:
        super().__init__()
        self.form = form
        self.film = None if form == "separate" else FiLM(size, size)
        keys = {"linear": ["all"], "film": [], "separate": [module_key(task) for task in tasks]}
        self.matrices = nn.ParameterDict({key: torch.zeros(size, size) for key in keys[form]})

    def forward(self, states: Tensor, z: Tensor, context: TaskContext) -> Tensor:
        if self.form == "separate":
            parts = [
                states[rows] + states[rows] @ self.matrices[module_key(task)]
                for task, rows in zip(context.tasks, context.rows, strict=True)
            ]
            return torch.cat(parts)
        assert self.film is not None
        if self.form == "linear":
            states = states + states @ self.matrices["all"]
        scale, shift = (context.spread(value)[:, None] for value in self.film(z))
        return torch.addcmul(shift, states, 1 + scale)


class ConditionalNorm(nn.Module):
    r"""Gain $(1 + \gamma(z))\,w$ and bias $b + \beta(z)$, with $w$, $b$ of the pretrained norm.

    Written in terms of the norm's own output $y = w\hat{x} + b$: $(1 + \gamma) y + \beta -
    \gamma b$, which is exactly $y$ if γ and β are zero.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.film = FiLM(size, size)

    def forward(
        self, normed: Tensor, norm: nn.LayerNorm, z: Tensor, context: TaskContext
    ) -> Tensor:
        """Condition the output of the pretrained `norm`.

        The norm is passed as a module: torch counts operations by a module's tensor arguments and
        fails if one of them is another module's parameter.
        """
        scale, shift = self.film(z)
        shift = shift - scale * norm.bias
        gain = 1 + context.spread(scale)[:, None]
        return torch.addcmul(context.spread(shift)[:, None], normed, gain)


class ConditionalBottleneck(nn.Module):
    """CFF: FiLM, then down to a third of the width and up again."""

    def __init__(self, size: int, activation: str | None) -> None:
        super().__init__()
        self.film = FiLM(size, size)
        self.down = nn.Linear(size, size // 3)
        self.up = nn.Linear(size // 3, size)
        self.activation = None if activation is None else ACTIVATIONS[activation]

    def forward(self, states: Tensor, z: Tensor, context: TaskContext) -> Tensor:
        scale, shift = (context.spread(value)[:, None] for value in self.film(z))
        narrow = self.down(torch.addcmul(shift, states, 1 + scale))
        found: Tensor = self.up(narrow if self.activation is None else self.activation(narrow))
        return found


def conditioned() -> tuple[Tensor, TaskContext]:
    """z of the tasks in the current batch, and the batch's context."""
    context = current()
    return context.kept["z"], context
