r"""Head importance: how sensitive each task's loss is to each head.

$$I_{i,l,h} = \mathbb{E}_{(x,y) \sim \mathrm{task}\ i}
  \left| \partial \mathcal{L}_i(x, y) / \partial \xi_{l,h} \right|_{\xi = 1}$$

where $\xi_{l,h}$ scales the output of head $h$ in layer $l$. There is one loss per example, and the
absolute value is taken before the mean, so that opposite signs do not cancel; training data, no
dropout.

Reference: Michel et al. 2019, "Are Sixteen Heads Really Better than One?", §4.1; Li et al. 2023,
"Interpreting and Exploiting Functional Specialization in Multi-Head Attention under Multi-task
Learning", §3.2, eq. 4.
Departures: the latter's published code takes the absolute value at every token
(`granularity="token"`), and its training script does not divide the last layer by the count; here
every layer is divided.
Other estimators of the same quantity: `leave_one_out`, `integrated_gradients`, `iterative`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from brodmann.data.schema import checked
from brodmann.data.tasks import Task
from brodmann.errors import InputError, did_you_mean
from brodmann.files import Array
from brodmann.measuring.measuring_settings import ImportanceSettings
from brodmann.results import Head, HeadScores, share_of

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PreTrainedTokenizerBase

USUAL = ImportanceSettings()
STEP = 0.1  # share of the heads that `iterative` removes at a time
Progress = Callable[[int], None]


def head_importance(
    model: "nn.Module",
    tasks: Sequence[Task] | Mapping[str, Iterable[object]] | Iterable[object],
    *,
    tokenizer: "PreTrainedTokenizerBase | None" = None,
    text: str = "text",
    pair: str | None = None,
    label: str = "label",
    examples: int | Sequence[int] | None = USUAL.examples,
    split: str = "train",
    estimator: str = USUAL.estimator,
    granularity: str = USUAL.granularity,
    normalize: str = USUAL.normalize,
    step: float = STEP,
    alpha: float = 1.0,
    loss: "Callable[..., Tensor] | None" = None,
    seed: int = 0,
    batch_size: int = USUAL.batch_size,
    precision: str = "float32",
    progress: Progress | None = None,
) -> HeadScores:
    """Measure the importance of every head for every task.

    With a multi-task model, `tasks` are its tasks, and `examples` of each are drawn from `split` by
    `seed` (all if None; a list gives their indices). With any other transformers model, `tasks`
    maps names to lists of batches (dicts of tensors), and `loss(outputs, batch)` returns one loss
    per row; by default, it is that of the model's own labels. With its `tokenizer`, `tasks` is a
    dataset of rows, or maps names to datasets, whose columns `text`, `pair` and `label` hold texts
    and labels. The estimator `iterative` removes the
    least important `step` of the heads and scores again until the share `alpha` is removed; its
    scores are the positions in that order.
    """
    asked: dict[str, Any] = {
        "estimator": estimator,
        "granularity": granularity,
        "normalize": normalize,
        "batch_size": batch_size,
    }
    if examples is None or isinstance(examples, int):
        asked["examples"] = examples
    checked(ImportanceSettings, asked, "head_importance")
    if granularity == "token" and estimator not in ("gradient", "iterative"):
        raise InputError(f"granularity 'token' cannot be combined with the estimator '{estimator}'")
    from brodmann.models.backbone.precision import check_precision
    from brodmann.models.heads.trained_gates import gone_heads

    check_precision(precision)
    if not tasks:
        raise InputError("head_importance: no task was given")
    if tokenizer is not None:
        from brodmann.models.labelled_batches import Columns

        columns = Columns(text, pair, label)
        tasks = _batches_of(model, tokenizer, tasks, columns, examples, seed, batch_size)
    probes = _probes(model, tasks, examples, split, loss, seed, batch_size, precision)
    removed = gone_heads(model)
    found = [
        _estimate(model, of_task, estimator, granularity, step, alpha, removed, progress)
        for of_task in probes.values()
    ]
    settings: dict[str, Any] = {
        "estimator": estimator,
        "granularity": granularity,
        "normalize": "none",
    }
    if not isinstance(tasks, Mapping):  # the caller's own batches are used unchanged
        count = examples if examples is None or isinstance(examples, int) else list(examples)
        settings |= {"examples": count, "split": split, "seed": seed, "precision": precision}
    if estimator == "iterative":
        settings |= {"step": step, "alpha": alpha}
    values = np.stack([scores for scores, _ in found])
    parts: tuple[Any, Any] = (None, None)
    if estimator != "iterative":
        parts = (np.stack([sums for _, (sums, _) in found]), np.stack([c for _, (_, c) in found]))
    scores = HeadScores(tuple(probes), values, settings, tuple(removed), *parts)
    return scores.normalized(normalize)


def passes(estimator: str, heads: int) -> int:
    """How often an estimator reads the examples, for progress bars."""
    return -(-heads // max(1, share_of(STEP, heads))) if estimator == "iterative" else 1


def _batches_of(
    model: Any,
    tokenizer: Any,
    datasets: Any,
    columns: Any,
    examples: int | Sequence[int] | None,
    seed: int,
    batch_size: int,
) -> dict[str, list[Any]]:
    """Batches of datasets, {name: dataset} or one alone, each with a seeded draw of its rows."""
    from brodmann.data.sources.in_memory import from_memory
    from brodmann.models.heads.probes import drawn
    from brodmann.models.labelled_batches import labelled_batches

    named = datasets if isinstance(datasets, Mapping) else {"task": datasets}
    if columns.text in named:  # a table by columns is one dataset
        named = {"task": datasets}
    found = {}
    for name, rows in named.items():
        listed = from_memory(rows, name).rows
        chosen = [listed[int(place)] for place in drawn(len(listed), examples, seed)]
        found[name] = labelled_batches(model, tokenizer, chosen, columns, batch_size=batch_size)
    return found


def _probes(
    model: Any,
    tasks: Any,
    examples: int | Sequence[int] | None,
    split: str,
    loss: Any,
    seed: int,
    batch_size: int,
    precision: str,
) -> dict[str, list[Any]]:
    from brodmann.models.heads.probes import example_probes, plain_probes
    from brodmann.models.multitask import MultiTaskModel

    if isinstance(tasks, Mapping):
        from brodmann.models.backbone.anatomy import unwrapped
        from brodmann.models.stock_losses import stock_loss

        config = getattr(unwrapped(model), "config", None)
        chosen = partial(stock_loss, config=config) if loss is None else loss
        return {name: plain_probes(model, list(batches), chosen) for name, batches in tasks.items()}
    if not isinstance(model, MultiTaskModel):
        raise InputError(
            f"{type(model).__name__} is not a multi-task model: pass its tokenizer= with "
            'labelled rows, or batches as {"name": [batch, ...]}'
        )
    found = {}
    for task in tasks:
        model.spec(task.name)
        if split not in task.splits:
            raise InputError(
                f"task '{task.name}' has no split '{split}'{did_you_mean(split, task.splits)}"
            )
        found[task.name] = example_probes(
            model, task, split, examples, seed, batch_size=batch_size, precision=precision
        )
    return found


def _estimate(
    model: Any,
    probes: list[Any],
    estimator: str,
    granularity: str,
    step: float,
    alpha: float,
    removed: list[Head],
    progress: Progress | None,
) -> tuple[Array, Any]:
    """One task's scores, and the sums over parts of the examples whose mean they are.

    `iterative` returns positions in an order, which have no such sums.
    """
    from brodmann.models.heads import measure
    from brodmann.models.heads.part_sums import mean_of

    if estimator == "iterative":

        def score(off: Sequence[Head]) -> Array:
            return measure.importance(
                model, probes, granularity=granularity, off=off, progress=progress
            )

        return iterative_places(score, step, alpha, removed), None
    if estimator == "leave_one_out":
        sums = measure.leave_one_out(model, probes, progress=progress)
    elif estimator == "integrated_gradients":
        sums = measure.integrated_gradients(model, probes, progress=progress)
    else:
        sums = measure.importance_sums(model, probes, granularity=granularity, progress=progress)
    return mean_of(*sums), sums


def iterative_places(
    score: Callable[[Sequence[Head]], Array],
    step: float,
    alpha: float = 1.0,
    removed: Sequence[Head] = (),
) -> Array:
    """Positions of the heads in (0, 1], the first removed lowest; each round calls `score(off)`.

    Reference: Michel et al. 2019, "Are Sixteen Heads Really Better than One?", §4.2 (iterative
    pruning by importance).
    """
    first = score([])
    every = [head for head in np.ndindex(first.shape) if head not in set(removed)]
    at_once = share_of(step, len(every))
    if at_once < 1:
        raise InputError(f"step = {step} of {len(every)} heads is less than one head")
    order: list[Head] = []
    current = first
    while len(order) < share_of(alpha, len(every)):
        left = sorted((h for h in every if h not in set(order)), key=lambda h: (current[h], h))
        room = share_of(alpha, len(every)) - len(order)
        order += [(int(h[0]), int(h[1])) for h in left[: min(at_once, room)]]
        if len(order) < len(every):
            current = score(order)
    rest = sorted((h for h in every if h not in set(order)), key=lambda h: (current[h], h))
    places = np.zeros(first.shape)
    for place, head in enumerate([*order, *rest], start=1):
        places[head] = place / len(every)
    return places
