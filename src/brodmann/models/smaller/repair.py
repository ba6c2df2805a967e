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


def repair(
    model: nn.Module,
    blocks: Sequence[Block],
    kept: Sequence[Array],
    moments: Sequence[Sequence[Tensor]],
    ridge: float = RIDGE,
) -> None:
    """Change the maps of blocks that will lose units, which must not be cut yet."""
    for bare, of_bare in zip(bare_models(model), moments, strict=True):
        for block, mask, moment in zip(blocks, kept, of_bare, strict=True):
            if not mask.all():
                stays = torch.as_tensor(block.inputs(mask), device=moment.device)
                _repair_map(bare.get_submodule(block.output), stays, moment, ridge)


@torch.no_grad()
def _repair_map(output: nn.Module, stays: Tensor, moment: Tensor, ridge: float) -> None:
    weight = output.get_parameter("weight")
    matrix = (weight.T if is_transposed(output) else weight).double()
    bias = getattr(output, "bias", None)
    speaks = torch.cat([stays, stays.new_tensor([bias is not None])])
    goes = torch.cat([~stays, stays.new_zeros(1)])
    moment = moment.double()
    here = moment[speaks][:, speaks]
    here.diagonal().add_(ridge * float(moment.diagonal()[:-1].mean()))
    share = torch.linalg.solve(here, moment[speaks][:, goes]).T  # (gone, what speaks for it)
    added = matrix[:, ~stays] @ share
    matrix = matrix.clone()
    matrix[:, stays] += added[:, : int(stays.sum())]
    matrix[:, ~stays] = 0.0
    weight.copy_(matrix.T if is_transposed(output) else matrix)
    if bias is not None:
        bias += added[:, -1].to(bias.dtype)
