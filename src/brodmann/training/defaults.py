r"""The meaning of `epochs = "auto"` and `learning_rate = "auto"`.

*Steps.* A pretrained encoder needs a few hundred steps, whatever the size of the data:

$$E = \min(20, \max(3, \lceil 300 / b \rceil))$$

epochs for $b$ batches per epoch, over all tasks together.

*Learning rate.* Larger encoders need smaller rates:

$$\eta = 2 \cdot 10^{-4} \cdot (384 / d)^{2}, \qquad d \text{ the width of its states},$$

at least $2 \cdot 10^{-5}$, which the papers used for BERT-base and -large. docs/training.md has the
measurements behind these rules so far, and the command that repeats them.
"""

FEWEST_EPOCHS, MOST_EPOCHS = 3, 20
STEPS = 300  # target number of steps per run
RATE, WIDTH = 2e-4, 384  # measured on encoders of this width
LOWEST_RATE = 2e-5
AUTO = "auto"


def choose_epochs(asked: int | str, batches_per_epoch: int) -> int:
    """The number asked for or, for "auto", enough epochs for `STEPS` steps.

    >>> [choose_epochs("auto", batches) for batches in (5, 36, 94, 800)]
    [20, 9, 4, 3]
    """
    if asked != AUTO:
        return int(asked)
    wanted = -(-STEPS // max(1, batches_per_epoch))
    return min(MOST_EPOCHS, max(FEWEST_EPOCHS, wanted))


def choose_rate(asked: float | str, width: int) -> float:
    """The rate asked for or, for "auto", one chosen by the width of the encoder's states.

    >>> [f"{choose_rate('auto', width):.2g}" for width in (128, 384, 768, 1024)]
    ['0.0002', '0.0002', '5e-05', '2.8e-05']
    """
    if asked != AUTO:
        return float(asked)
    return min(RATE, max(LOWEST_RATE, RATE * (WIDTH / width) ** 2))
