"""Rankings as kernels take them: one argument for the arrays that always go together."""

from __future__ import annotations

from typing import Any, NamedTuple


class Lists(NamedTuple):
    """Rankings of users: user u has those from user_indptr[u] on, and ranking r the entries from indptr[r] on.

    Attributes
    ----------
    user_indptr : int64 (n_users + 1,)
    indptr : int64 (n_rankings + 1,)
    items : int32 (n_entries,)
        In the numbering of the model.
    levels : int32 (n_entries,)
        0 for the best of a ranking; tied entries have the same.
    weights : float64 (n_rankings,)
    """

    user_indptr: Any
    indptr: Any
    items: Any
    levels: Any
    weights: Any
