"""Task probabilities: the formulas, their limits, and who may ask for what."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brodmann.data import SAMPLERS, task_probabilities
from brodmann.errors import InputError

BY_SIZE = sorted(name for name, sampler in SAMPLERS.items() if sampler.weights is not None)


def test_values() -> None:
    sizes = [100, 400]
    values = {name: task_probabilities(name, sizes).round(4).tolist() for name in BY_SIZE}
    assert values == {
        "proportional": [0.2, 0.8],
        "uniform": [0.5, 0.5],
        "sqrt": [0.3333, 0.6667],
        "temperature": [0.3333, 0.6667],
        "annealed": [0.2, 0.8],
    }
    assert task_probabilities("temperature", sizes, tau=1.0).tolist() == pytest.approx([0.2, 0.8])
    # The last of several epochs has the exponent 0.2, the middle one of three 0.6.
    last = task_probabilities("annealed", sizes, epoch=3, epochs=3)
    assert last[1] / last[0] == pytest.approx(4**0.2)
    middle = task_probabilities("annealed", sizes, epoch=2, epochs=3)
    assert middle[1] / middle[0] == pytest.approx(4**0.6)


@given(
    st.sampled_from(BY_SIZE),
    st.lists(st.integers(1, 10**7), min_size=1, max_size=30),
    st.integers(1, 9),
)
def test_probabilities_sum_to_one_and_keep_the_order_of_sizes(
    name: str, sizes: list[int], epoch: int
) -> None:
    p = task_probabilities(name, sizes, epoch=epoch, epochs=9)
    assert p.sum() == pytest.approx(1) and (p > 0).all()
    order = np.argsort(sizes, kind="stable")
    assert (np.diff(p[order]) >= -1e-15).all()


def test_wrong_calls_are_named() -> None:
    for call, message in (
        (lambda: task_probabilities("squrt", [1]), "unknown sampler 'squrt'; did you mean 'sqrt'?"),
        (
            lambda: task_probabilities("temperature", [1], taw=2),
            "sampler 'temperature' has no parameter 'taw'; did you mean 'tau'?",
        ),
        (
            lambda: task_probabilities("temperature", [1], tau=0.0),
            "sampling: tau = 0.0: expected a number above 0",
        ),
        (
            lambda: task_probabilities("sqrt", [1, 0]),
            "sampling: expected a positive size for every task, found [1, 0]",
        ),
        (
            lambda: task_probabilities("sqrt", [1], epoch=2),
            "sampling: epoch 2 is not between 1 and 1",
        ),
    ):
        with pytest.raises(InputError) as caught:
            call()
        assert str(caught.value) == message


def test_importing_samplers_and_formulas_loads_no_torch() -> None:
    import subprocess
    import sys

    code = "import sys, brodmann.analysis, brodmann.data; "
    code += "brodmann.data.task_probabilities('sqrt', [1]); "
    code += "sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
