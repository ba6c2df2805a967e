r"""Suspected label errors, by confident learning on probabilities of examples not trained on.

With $n$ examples, the label $\tilde y_k$ of example $k$ in the data and the model's probability
$\hat p_j(x_k)$ of class $j$, the threshold of a class is the mean probability of the examples that
have its label,

$$t_j = \frac{1}{|X_j|} \sum_{x \in X_j} \hat p_j(x), \qquad
  X_j = \{x_k : \tilde y_k = j\},$$

and an example with the label $i$ counts as one of class

$$\hat y = \arg\max_{j\,:\,\hat p_j(x) \ge t_j} \hat p_j(x).$$

It is suspected if $\hat y$ exists and $\hat y \ne i$: these are the off-diagonal cells of the
confident joint $C_{\tilde y, y^*}$. The thresholds make a class of which the model is never sure
comparable with one of which it always is. Suspects are ranked by the normalized margin
$\hat p_i - \max_{j \ne i} \hat p_j$, the clearest first.

Reference: Northcutt et al. 2021, "Confident Learning: Estimating Uncertainty in Dataset Labels",
§3.1 (confident joint) and §3.2 (method 2; ranking by the normalized margin).
Departures: an example whose label is also the model's first choice is never suspected, which would
happen in classes that have one or two examples. If classes have no meaning of their own (the places
of choices), all share one threshold. Probabilities come from held-out examples instead of
cross-validation.
"""

import numpy as np

from brodmann.files import Array


def class_thresholds(given: Array, chances: Array, *, alike: bool = False) -> Array:
    """The threshold of each class, (class,); infinite for a class that no example has."""
    own = chances[np.arange(len(given)), given]
    classes = chances.shape[1]
    if alike:
        return np.full(classes, own.mean() if len(own) else np.inf)
    count = np.bincount(given, minlength=classes)
    total = np.bincount(given, own, minlength=classes)
    means = np.divide(total, count, out=np.full(classes, np.inf), where=count > 0)
    return np.asarray(means)


def suspected(given: Array, chances: Array, *, alike: bool = False) -> tuple[Array, Array, Array]:
    """Suspected examples, the class that each seems to have, and its margin (below 0).

    `given` is (example,) and `chances` (example, class).
    """
    chances = np.asarray(chances, np.float64)
    reached = chances >= class_thresholds(given, chances, alike=alike) - 1e-12  # a mean of one
    believed = np.where(reached, chances, -1.0).argmax(axis=1)
    rows = np.arange(len(given))
    first_choice = chances.argmax(axis=1)
    wrong = reached[rows, believed] & (believed != given) & (first_choice != given)
    places = np.flatnonzero(wrong)
    margin = chances[places, given[places]] - chances[places].max(axis=1)
    order = np.argsort(margin, kind="stable")
    return places[order], believed[places][order], margin[order]
