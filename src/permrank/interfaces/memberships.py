"""The picture of memberships, whatever draws it: whose bar stands where, and how it is divided."""

from __future__ import annotations

import numpy as np

from permrank.types import Float64Array


def membership_bands(memberships: Float64Array, most: int) -> tuple[Float64Array, Float64Array]:
    """Bars of people from 0 to 1, sorted by leading community and then by how clear it is.

    Parameters
    ----------
    memberships : float64 (n_people, n_communities)
    most : int
        More people than this are thinned out evenly: a picture has only so many columns.

    Returns
    -------
    edges : float64 (n_bars + 1,)
        Sides of the bars.
    bounds : float64 (n_communities + 1, n_bars)
        Community ``z`` fills a bar from ``bounds[z]`` to ``bounds[z + 1]``.

    Examples
    --------
    >>> import numpy as np
    >>> from permrank.interfaces.memberships import membership_bands
    >>> edges, bounds = membership_bands(np.array([[0.25, 0.75], [1.0, 0.0]]), 100)
    >>> edges.tolist(), bounds.tolist()
    ([0.0, 0.5, 1.0], [[0.0, 0.0], [1.0, 0.25], [1.0, 1.0]])
    """
    order = np.lexsort((-memberships.max(axis=1), memberships.argmax(axis=1)))
    order = order[np.linspace(0, order.size - 1, min(order.size, most)).astype(np.int64)]
    bounds = np.zeros((memberships.shape[1] + 1, order.size))
    bounds[1:] = np.cumsum(memberships[order], axis=1).T
    return np.linspace(0.0, 1.0, order.size + 1), bounds
