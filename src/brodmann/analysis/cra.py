r"""`cra`: do two models judge the same sentences similar? Representational similarity analysis.

$$\mathrm{CRA}(a, b) = \rho_{\mathrm{Spearman}}(\triangle R^a, \triangle R^b), \quad
  R^a_{kl} = 1 - r_{\mathrm{Pearson}}(x_k^a, x_l^a)$$

where $\triangle$ is the upper triangle of the dissimilarity matrix over sentences.

Reference: Luo et al. 2022, "CogTaskonomy"; Kriegeskorte et al. 2008, "Representational similarity
analysis"; as in Li et al. 2023, "Interpreting and Exploiting Functional Specialization in
Multi-Head Attention under Multi-task Learning", appendix D.
"""

import numpy as np

from brodmann.errors import InputError
from brodmann.files import Array


def cra(a: Array, b: Array) -> float:
    """CRA of two models' representations of the same sentences; their sizes may differ."""
    from scipy.stats import spearmanr

    first, second = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if first.ndim != 2 or second.ndim != 2 or len(first) != len(second) or len(first) < 3:
        raise InputError(
            "cra: expected two matrices (sentence, size) of the same sentences, at least three, "
            f"found {first.shape} and {second.shape}"
        )
    upper = np.triu_indices(len(first), k=1)
    return float(spearmanr(dissimilarity(first)[upper], dissimilarity(second)[upper]).statistic)


def dissimilarity(x: Array) -> Array:
    """1 - Pearson between every two sentences."""
    if np.ptp(x, axis=1).min() == 0:
        raise InputError("cra: a sentence is represented by one number only")
    return np.asarray(1 - np.corrcoef(x))
