r"""Let the units that stay speak for those that go: least squares on a block's last linear map.

A map $y = Wx + b$ that keeps the inputs $S$ and loses $R$ becomes the one that comes nearest to its
old output, over the tokens of the moments $A$ (`sensitivity.py`):

$$[W_S', b'] = [W_S, b] + W_R\, A_{R\tilde S} (A_{\tilde S \tilde S} + \varepsilon I)^{-1},
  \qquad \tilde S = S \cup \{1\}.$$

Reference: Kwon et al. 2022, "A Fast Post-Training Pruning Framework for Transformers", §4.3, which
fits one factor per unit. Here the whole map is fitted, in closed form and with its bias, which a
block without any unit keeps as its mean output.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from brodmann.files import Array
from brodmann.models.backbone.anatomy import bare_models, is_transposed
from brodmann.models.smaller.units import Block

RIDGE = 1e-3  # of the mean of A's diagonal
SMALLEST = 1e-30


def repair(
    model: nn.Module,
    blocks: Sequence[Block],
    kept: Sequence[Array],
    moments: Sequence[Sequence[Tensor]],
) -> None:
    """Change the maps of blocks that will lose units, which must not be cut yet."""
    for bare, of_bare in zip(bare_models(model), moments, strict=True):
        for block, mask, moment in zip(blocks, kept, of_bare, strict=True):
            if not mask.all():
                stays = torch.as_tensor(block.inputs(mask), device=moment.device)
                repair_map(bare.get_submodule(block.output), stays, moment)


@torch.no_grad()
def repair_map(output: nn.Module, stays: Tensor, moment: Tensor) -> None:
    """Fit a linear map that keeps only some of its inputs to its old output."""
    weight = output.get_parameter("weight")
    matrix = (weight.T if is_transposed(output) else weight).double()
    bias = getattr(output, "bias", None)
    speaks = torch.cat([stays, stays.new_tensor([bias is not None])])
    goes = torch.cat([~stays, stays.new_zeros(1)])
    steady = with_ridge(moment)
    share = torch.linalg.solve(steady[speaks][:, speaks], steady[speaks][:, goes]).T
    added = matrix[:, ~stays] @ share  # (output, what speaks for those that go)
    matrix = matrix.clone()
    matrix[:, stays] += added[:, : int(stays.sum())]
    matrix[:, ~stays] = 0.0
    weight.copy_(matrix.T if is_transposed(output) else matrix)
    if bias is not None:
        bias += added[:, -1].to(bias.dtype)


def with_ridge(moment: Tensor) -> Tensor:
    """Moments that can be inverted, also those of a block that no token of any task needs."""
    found = moment.double().clone()
    found.diagonal().add_(RIDGE * float(found.diagonal()[:-1].mean()) + SMALLEST)
    return found
