r"""Meta-learning: find a start from which a few steps on a few examples suffice.

For a task with support set $S$ and query set $Q$, adaptation takes $k$ SGD steps from $\theta$,

$$\phi_0 = \theta, \qquad \phi_{j+1} = \phi_j - \eta\, \nabla_{\phi_j} L_S(\phi_j),$$

and the outer gradient is, by `algorithm`,

| | |
|---|---|
| `maml` | $\nabla_\theta L_Q(\phi_k(\theta))$, through the inner steps, second order and exact |
| `fomaml` | $\nabla_{\phi_k} L_Q(\phi_k)$, as if the inner steps had no slope |
| `reptile` | $(\theta - \phi_k) / (\eta k)$, the mean of the inner gradients |

Everything is functional: $\theta$ itself is never written to, and only one pair at a time is held
in memory. Parameters named in `still` (gates) take no inner steps: their outer gradient is that of
the query loss; `reptile`, which uses only the inner steps, leaves them unchanged.

References: Finn et al. 2017, "Model-Agnostic Meta-Learning"; Nichol et al. 2018, "On First-Order
Meta-Learning Algorithms".
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch
from torch import Tensor

from brodmann.errors import InputError, did_you_mean
from brodmann.training.meta.meta_settings import ALGORITHMS

Parameters = Mapping[str, Tensor]
Loss = Callable[[Parameters, Any], Tensor]  # (parameters, examples) → one number


def check_algorithm(name: str) -> None:
    if name not in ALGORITHMS:
        raise InputError(f"unknown algorithm '{name}'{did_you_mean(name, ALGORITHMS)}")


def adapted(
    loss: Loss,
    start: Parameters,
    support: Any,
    *,
    steps: int,
    rate: float,
    through: bool = False,
    still: Collection[str] = (),
) -> dict[str, Tensor]:
    """φ after `steps` of SGD from `start`, which is not changed.

    With `through`, the graph is kept, so that gradients reach `start` through the steps.
    """
    names = [name for name, value in start.items() if value.requires_grad and name not in still]
    current = dict(start)
    if not through:
        current |= {name: start[name].detach().clone().requires_grad_() for name in names}
        current |= {
            name: start[name].detach().requires_grad_(start[name].requires_grad) for name in still
        }
    for _ in range(steps):
        values = [current[name] for name in names]
        gradients = torch.autograd.grad(
            loss(current, support), values, create_graph=through, allow_unused=True
        )
        moved = [
            (name, value, gradient)
            for name, value, gradient in zip(names, values, gradients, strict=True)
            if gradient is not None
        ]
        if through:
            current |= {name: value - rate * gradient for name, value, gradient in moved}
        elif moved:  # in place: new memory for every weight would cost as much as the step itself
            with torch.no_grad():
                torch._foreach_add_(
                    [value for _, value, _ in moved], [grad for _, _, grad in moved], alpha=-rate
                )
    return current


def outer_gradients(
    loss: Loss,
    start: Parameters,
    support: Any,
    query: Any,
    *,
    algorithm: str = "fomaml",
    steps: int,
    rate: float,
    still: Collection[str] = (),
) -> tuple[dict[str, Tensor], float]:
    """The outer gradient of one pair for every trained parameter, and its query loss."""
    check_algorithm(algorithm)
    if steps < 0 or not rate > 0:  # an outer gradient without inner steps is a plain one
        raise InputError(
            f"meta: {steps} inner steps at a rate of {rate}: expected at least 0 "
            "steps and a rate above 0"
        )
    through = algorithm == "maml"
    moving = [name for name, value in start.items() if value.requires_grad]
    ends = adapted(loss, start, support, steps=steps, rate=rate, through=through, still=still)
    if algorithm == "reptile":
        with torch.no_grad():
            value = float(loss(ends, query))
            scale = rate * max(steps, 1)
            return {name: (start[name] - ends[name]).detach() / scale for name in moving}, value
    at = start if through else ends
    found = loss(ends, query)
    gradients = torch.autograd.grad(found, [at[name] for name in moving], allow_unused=True)
    return {
        name: torch.zeros_like(start[name]) if gradient is None else gradient
        for name, gradient in zip(moving, gradients, strict=True)
    }, float(found.detach())
