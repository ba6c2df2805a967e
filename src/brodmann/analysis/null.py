r"""A null distribution for D: the same heads, assigned to the tasks at random.

Heads that matter to every task hurt more than random heads, too, so a test against random heads
does not show that tasks have separated. D claims more: that the heads which task $i$ chose serve
task $i$ in particular. If they do not, it makes no difference which of the tasks chose a head.

Write the choice as a matrix $M$ with $M_{ih} = 1$ if head $h$ is in $H_i$. Its rows sum to $K$, its
columns to the number of tasks that chose the head. Under the null hypothesis every matrix with
these sums is as likely as the observed $M_0$: as many heads per task, the same heads in total, and
heads that all tasks chose still belong to all; only ownership is assigned again. With
$M_1, \dots, M_r$ drawn from these matrices and $\sigma$ running over the orders of the $T$ tasks,

$$D(\sigma M) = \frac{1}{T} \sum_i \Big[ \frac{1}{T-1} \sum_{j \ne \sigma(i)} RP_i(H_j)
  - RP_i(H_{\sigma(i)}) \Big], \qquad
  p = \frac{\#\{(m, \sigma) : D(\sigma M_m) \ge D(M_0)\}}{(r + 1)\,T!}.$$

The observed choice is among those counted, so p is valid for every r; it is never below
$1 / ((r + 1)\,T!)$. A matrix takes forward passes with T choices of heads, its orders take none:
four or more tasks have at least 24 orders of their own choices and can be tested without any pass.
Above six tasks, a random sample of the orders is used.

Matrices are drawn by trades: two tasks pool the heads that only one of them has and divide them
again at random, each getting as many as before. For two tasks, one trade is an exact draw. For
more, a chain of trades is reversible with the uniform distribution, and all draws start from a
matrix that the same number of trades has reached from the observed one: they are exchangeable with
it however well the chain mixes.

What the test does not show: heads of one task may act as a group. Orders keep groups whole, trades
break them up, so for two and three tasks, which have few orders, a group of heads can pass for
ownership.

References: Li et al. 2023, "Interpreting and Exploiting Functional Specialization in Multi-Head
Attention under Multi-task Learning" (D); Strona et al. 2014, "A fast and unbiased procedure to
randomize ecological binary matrices with fixed row and column totals" (trades); Besag & Clifford
1989, "Generalized Monte Carlo Significance Tests" (draws around a common start).
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from brodmann.analysis.statistics import FEWEST_DRAWS, SMALLEST
from brodmann.files import Array
from brodmann.results import Head

TRADES = 10  # per task, from one draw to the next
EVERY_ORDER = 6  # tasks: up to this many, all T! orders are used
SOME_ORDERS = 1000  # sampled orders for more tasks


def exchanges_needed(tasks: int) -> int:
    """Number of random matrices from which p can fall to 0.05."""
    return max(0, -(-FEWEST_DRAWS // orders_counted(tasks)) - 1)


def orders_counted(tasks: int) -> int:
    return math.factorial(tasks) if tasks <= EVERY_ORDER else SOME_ORDERS


def exchanged(heads: Sequence[Sequence[Head]], count: int, seed: int) -> list[list[list[Head]]]:
    """`count` assignments of the same heads to the tasks, each a list of heads per task."""
    generator = np.random.default_rng(seed)
    hub = _traded([set(chosen) for chosen in heads], generator)
    return [[sorted(own) for own in _traded(hub, generator)] for _ in range(count)]


def _traded(heads: Sequence[set[Head]], generator: np.random.Generator) -> list[set[Head]]:
    """The heads after a number of trades between two tasks each."""
    found = [set(own) for own in heads]
    for _ in range(TRADES * len(found)):
        one, other = (int(i) for i in generator.choice(len(found), 2, replace=False))
        apart = sorted(found[one] ^ found[other])
        shared, own = found[one] & found[other], len(found[one] - found[other])
        order = generator.permutation(len(apart))
        found[one] = shared | {apart[int(place)] for place in order[:own]}
        found[other] = shared | {apart[int(place)] for place in order[own:]}
    return found


def orders_of(tasks: int, seed: int) -> Array:
    """(order, task): whose heads each task gets; the first order gives each task its own."""
    if tasks <= EVERY_ORDER:
        return np.array(list(itertools.permutations(range(tasks))))
    generator = np.random.default_rng(seed)
    others = [generator.permutation(tasks) for _ in range(SOME_ORDERS - 1)]
    return np.array([np.arange(tasks), *others])


def reordered(relative: Array, orders: Array) -> Array:
    """(order, task): every task's D with the heads that each order gives it.

    `relative[i][j]` is RP of task i with the j-th choice of heads off.
    """
    count = len(relative)
    own = relative[np.arange(count), orders]  # (order, task)
    return np.asarray((relative.sum(axis=1) - own) / (count - 1) - own)


def null_distribution(relative: Sequence[Array], seed: int = 0) -> dict[str, Any]:
    """D over all matrices and orders, and its p-value.

    `relative[0]` is the observed matrix of RP; the others belong to exchanged heads. With fewer
    than 20 values p could not be below 0.05, so none is computed.
    """
    count = len(relative[0])
    orders = orders_of(count, seed)
    whole = np.concatenate(
        [reordered(np.asarray(matrix, float), orders).mean(axis=1) for matrix in relative]
    )
    reached = float(np.mean(whole >= whole[0] - SMALLEST))  # including the observed one
    return {
        "exchanges": len(relative) - 1,
        "orders": len(orders),
        "values": len(whole),
        "mean": float(whole.mean()),
        "spread": float(whole.std()),
        "highest": float(np.quantile(whole, 0.95)),
        "p": reached if len(whole) >= FEWEST_DRAWS else None,
    }
