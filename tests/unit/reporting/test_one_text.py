"""One explained text on the page: whether the answer is right, and numbers that are not all 0."""

import io
from typing import Any

import pytest

from brodmann.reporting.blocks import Matrix, Words
from brodmann.reporting.sections.one_text import explained
from brodmann.terminal.drawing import drawn_blocks
from brodmann.terminal.width import LastingConsole


def found(**more: Any) -> dict[str, Any]:
    plain = {"text": "a fine film", "pair": None, "answer": "good", "truth": "good", "score": 0.9}
    return {**plain, "gradients": [[0.5, -0.25]], "tokens": ["a"], "attention": [], **more}


@pytest.mark.parametrize(("truth", "words"), [("good", "right"), ("bad", "wrong: bad")])
def test_the_answer_is_compared_with_the_true_label(truth: str, words: str) -> None:
    line = explained("mood", found(truth=truth))[0]
    assert isinstance(line, Words)
    assert line.text == f"mood: “a fine film” → good (90.0 %, {words})"


@pytest.mark.parametrize(("strongest", "digits"), [(2.5, 2), (0.05, 3), (0.0012, 4), (0.0, 2)])
def test_the_strongest_head_is_never_shown_as_zero(strongest: float, digits: int) -> None:
    matrix = explained("mood", found(gradients=[[strongest, -strongest / 4]]))[1]
    assert isinstance(matrix, Matrix) and matrix.digits == digits
    assert matrix.colours[0].isupper() and matrix.colours.endswith(".")


def test_twelve_heads_fit_a_terminal() -> None:
    """No number is broken, and no name of a layer stands on two lines."""
    blocks = explained("mood", found(gradients=[[-0.12] * 12] * 6))
    file = io.StringIO()
    console = LastingConsole(file=file, width=80, force_terminal=True, color_system=None)
    for part in drawn_blocks(blocks[1:]):
        console.print(part)
    rows = [line.split() for line in file.getvalue().splitlines() if "-0.12" in line]
    assert rows == [[str(layer), *["-0.12"] * 12] for layer in range(6)]
