"""A search over a lattice of two settings, for errors that are dear to measure and flat near their least."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

Step: TypeAlias = tuple[int, int]
_SIDEWAYS = ((0, -1), (1, 0), (-1, 0), (0, 1))


def descend(
    error: Callable[[Step], Any], most: int, less: Callable[[Any, Any], bool] = operator.lt
) -> tuple[Step, Mapping[Step, Any]]:
    """Go from (0, 0) to a neighbour with a smaller error, as long as there is one; at most so many are measured.

    A direction that has helped is tried again first. ``less``: whether an error is smaller than another. Returns the
    best step, and all errors that were measured.

    Examples
    --------
    >>> descend(lambda step: (step[0] - 2) ** 2 + (step[1] + 1) ** 2, most=20)[0]
    (2, -1)
    """
    errors: dict[Step, Any] = {(0, 0): error((0, 0))}
    best, directions = (0, 0), list(_SIDEWAYS)
    while directions and len(errors) < most:
        ahead = (best[0] + directions[0][0], best[1] + directions[0][1])
        if ahead not in errors:
            errors[ahead] = error(ahead)
        if less(errors[ahead], errors[best]):
            best = ahead
            directions = [directions[0], *(other for other in _SIDEWAYS if other != directions[0])]
        else:
            directions = directions[1:]
    return best, errors
