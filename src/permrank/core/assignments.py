"""Who belongs to which community, as a frame."""

from __future__ import annotations

import numpy as np
import polars as pl

from permrank.rankings.vocabulary import Vocabulary
from permrank.types import Float64Array


def assignments_frame(users: Vocabulary, memberships: Float64Array) -> pl.DataFrame:
    """The likeliest community of every user, how likely it is, and how undecided the membership.

    Parameters
    ----------
    users : Vocabulary
    memberships : float64 (n_users, K)
        P(community | user).

    Returns
    -------
    polars.DataFrame
        ``user``, ``community`` (from 1), ``probability``, and ``entropy``: 0 where there is no doubt, 1 where all
        communities are equally likely.
    """
    k = memberships.shape[1]
    logs = np.log(np.where(memberships > 0, memberships, 1.0))
    entropy = -np.sum(memberships * logs, axis=1) / (np.log(k) if k > 1 else 1.0)
    return pl.DataFrame(
        {
            "user": users.ids,
            "community": memberships.argmax(axis=1) + 1,
            "probability": memberships.max(axis=1),
            "entropy": np.clip(np.abs(entropy), 0.0, 1.0),
        }
    )
