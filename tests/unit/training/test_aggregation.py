"""Gradients of several tasks made one: against torchjd's own aggregators, and plain sums."""

from typing import Any

import pytest
import torch
from tests.checkers import assert_other_bits, weights
from torch import nn

import brodmann as bm
from brodmann.training.methods.aggregation import TaskGradients
from brodmann.training.settings import AGGREGATIONS


class Net(nn.Module):
    """A shared layer and a head a task."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.shared = nn.Linear(5, 4)
        self.heads = nn.ModuleList(nn.Linear(4, 1) for _ in range(3))

    def loss(self, task: int, x: torch.Tensor) -> torch.Tensor:
        return (self.heads[task](self.shared(x).tanh()) - task).square().mean()


@pytest.mark.parametrize("name", AGGREGATIONS)
def test_shared_parameters_get_what_torchjd_makes_of_the_tasks_gradients(name: str) -> None:
    from torchjd import aggregation

    net, x = Net(), torch.randn(6, 5)
    rows, heads = [], []
    for task in range(3):
        net.zero_grad()
        net.loss(task, x).backward()
        rows.append(torch.cat([p.grad.flatten() for p in net.shared.parameters()]))  # type: ignore[union-attr]
        heads.append(net.heads[task].weight.grad.clone())  # type: ignore[union-attr,operator]
    aggregator: Any = {
        "upgrad": aggregation.UPGrad, "pcgrad": aggregation.PCGrad,
        "cagrad": lambda: aggregation.CAGrad(c=0.5), "mgda": aggregation.MGDA,
    }[name]()  # fmt: skip
    torch.manual_seed(1)
    expected = aggregator(torch.stack(rows).double()) * (1 if name == "pcgrad" else 3)
    net.zero_grad()
    gradients = TaskGradients(net, name)
    for task in range(3):
        net.loss(task, x).backward()
        gradients.collect(str(task))
    torch.manual_seed(1)
    gradients.combine()
    found = torch.cat([p.grad.flatten() for p in net.shared.parameters()])  # type: ignore[union-attr]
    torch.testing.assert_close(found.double(), expected, atol=1e-4, rtol=1e-4)
    for task in range(3):
        assert torch.equal(net.heads[task].weight.grad, heads[task])  # type: ignore[arg-type,union-attr]


def test_tasks_that_agree_are_simply_added() -> None:
    net, x = Net(), torch.randn(6, 5)
    gradients = TaskGradients(net, "upgrad")
    net.loss(0, x).backward()
    alone = net.shared.weight.grad.clone()  # type: ignore[union-attr]
    gradients.collect("a")
    net.loss(0, x).backward()
    gradients.collect("b")
    gradients.combine()
    torch.testing.assert_close(net.shared.weight.grad, 2 * alone)


@pytest.mark.parametrize("name", AGGREGATIONS)
def test_training_goes_through(tasks_of_every_kind: list[Any], name: str) -> None:
    tasks = tasks_of_every_kind[:3]
    model = bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks, max_length=32)
    before = weights(model)
    progress = bm.fit(
        model, tasks, epochs=1, max_steps=2, batch_size=4, accumulation=3,
        aggregation=name,
    )  # fmt: skip
    assert progress.step == 2
    assert_other_bits(before, model)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"aggregation": "upgrd"}, "aggregation = 'upgrd': input should be 'upgrad'"),
        ({"aggregation": "mgda"}, "set accumulation to the number of tasks"),
        (
            {"aggregation": "mgda", "accumulation": 2, "sampling": "uncertainty"},
            "cannot be combined with",
        ),
        (
            {"aggregation": "mgda", "accumulation": 2, "specialize": bm.IAT(alpha=0.3, delta=0.1)},
            "cannot be combined with",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(
    tasks_of_every_kind: list[Any], options: dict[str, Any], words: str
) -> None:
    model = bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks_of_every_kind[:2])
    with pytest.raises(bm.InputError, match=words):
        bm.fit(model, tasks_of_every_kind[:2], **options)
