"""How often tests reject a true null hypothesis, at a nominal 5 %.

    python benchmarks/significance.py --out benchmarks/results/significance.json

Three null hypotheses, simulated: two arms whose scores over seeds are drawn from the same normal
distribution; two systems that answer equally well, four fifths of the examples alike; and heads
that matter to all tasks alike. The papers' paired bootstrap (one-sided) is compared with the
two-sided tests that `compare`, `transfer` and `grid` use, and the last row is the p-value of D.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.unit.analysis.test_null import a_model, null_of

from brodmann.analysis import paired_bootstrap, paired_permutation, paired_t
from brodmann.analysis.null import exchanges_needed

ROUNDS, RESAMPLES = 4000, 1000
LEVEL = 0.05


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    result = {
        "rounds": given.rounds,
        "over seeds": {str(n): over_seeds(n, given.rounds) for n in (3, 5, 10, 30)},
        "over examples": {str(n): over_examples(n, given.rounds) for n in (100, 300, 1000)},
        "D, tasks": {str(n): {"null": over_heads(n, given.rounds // 4)} for n in (2, 3, 4, 5)},
    }
    for title in ("over seeds", "over examples", "D, tasks"):
        for size, rates in result[title].items():
            shown = ", ".join(f"{name} {100 * rate:.1f} %" for name, rate in rates.items())
            print(f"{title}, {size}: {shown}")
    if given.out is not None:
        given.out.write_text(json.dumps(result, indent=1) + "\n")


def over_seeds(seeds: int, rounds: int) -> dict[str, float]:
    generator = np.random.default_rng(seeds)
    a, b = generator.standard_normal((2, rounds, seeds))
    papers = [paired_bootstrap(x, y, RESAMPLES, i) < LEVEL for i, (x, y) in _pairs(a, b)]
    t_test = [(paired_t(x, y) or 1.0) < LEVEL for _, (x, y) in _pairs(a, b)]
    return {"paired bootstrap": float(np.mean(papers)), "t-test": float(np.mean(t_test))}


def over_examples(examples: int, rounds: int) -> dict[str, float]:
    """Two systems, each right on 80 % of the examples; on one fifth they answer independently."""
    generator = np.random.default_rng(examples)
    apart = generator.random((rounds, examples)) < 0.2
    common = (generator.random((rounds, examples)) < 0.8).astype(float)
    a, b = (np.where(apart, generator.random((rounds, examples)) < 0.8, common) for _ in range(2))
    papers = [paired_bootstrap(x, y, RESAMPLES, i) < LEVEL for i, (x, y) in _pairs(a, b)]
    exchange = [paired_permutation(x, y, RESAMPLES, i) < LEVEL for i, (x, y) in _pairs(a, b)]
    return {"paired bootstrap": float(np.mean(papers)), "permutation": float(np.mean(exchange))}


def over_heads(tasks: int, rounds: int) -> float:
    generator = np.random.default_rng(tasks)
    found = []
    for number in range(rounds):
        heads, relative = a_model(generator, tasks, own=0.0)
        found.append(null_of(heads, relative, exchanges_needed(tasks), seed=number)["p"] <= LEVEL)
    return float(np.mean(found))


def _pairs(a: np.ndarray, b: np.ndarray) -> "enumerate[tuple[np.ndarray, np.ndarray]]":
    return enumerate(zip(a, b, strict=True))


if __name__ == "__main__":
    main()
