r"""What `epochs = "auto"` and `learning_rate = "auto"` mean.

*Steps.* A pretrained encoder needs some hundred steps, whatever the size of the data:

$$E = \min(20, \max(3, \lceil 300 / b \rceil))$$

epochs for $b$ batches per epoch, over all tasks together.

*Learning rate.* Larger encoders need smaller rates:

$$\eta = 2 \cdot 10^{-4} \cdot (384 / d)^{2}, \qquad d \text{ the width of its states},$$

at least $2 \cdot 10^{-5}$, which the papers used for BERT-base and -large. What is measured about
these rules so far, and the command that measures it, is in docs/training.md.
"""

FEWEST_EPOCHS, MOST_EPOCHS = 3, 20
STEPS = 300  # that a run should have
RATE, WIDTH = 2e-4, 384  # measured on encoders of this width
LOWEST_RATE = 2e-5
AUTO = "auto"


def choose_epochs(asked: int | str, batches_per_epoch: int) -> int:
    """As asked, or enough of them for `STEPS` steps.

    >>> [choose_epochs("auto", batches) for batches in (5, 36, 94, 800)]
    [20, 9, 4, 3]
    """
    if asked != AUTO:
        return int(asked)
    wanted = -(-STEPS // max(1, batches_per_epoch))
    return min(MOST_EPOCHS, max(FEWEST_EPOCHS, wanted))


def choose_rate(asked: float | str, width: int) -> float:
    """As asked, or by the width of the encoder's states.

    >>> [f"{choose_rate('auto', width):.2g}" for width in (128, 384, 768, 1024)]
    ['0.0002', '0.0002', '5e-05', '2.8e-05']
    """
    if asked != AUTO:
        return float(asked)
    return min(RATE, max(LOWEST_RATE, RATE * (WIDTH / width) ** 2))
