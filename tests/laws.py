"""Orders that were drawn, against the probabilities of all orders."""

from collections import Counter

import numpy as np
from scipy.stats import chisquare


def p_value(drawn, law):
    """Chi-square of the rows of an array against a law, {order: probability}; orders hardly expected count together."""
    seen = Counter(map(tuple, np.asarray(drawn).tolist()))
    counts = np.array([seen[tuple(order)] for order in law])
    expected = counts.sum() * np.array(list(law.values())) / sum(law.values())
    likely = expected > 5
    if not likely.all():
        counts = np.append(counts[likely], counts[~likely].sum())
        expected = np.append(expected[likely], max(expected[~likely].sum(), 1e-9))
        expected *= counts.sum() / expected.sum()
    return chisquare(counts, expected).pvalue
