"""Why an item is where it is for a user: which listed items pushed it up or down."""

from __future__ import annotations

import numpy as np

from permrank.families.factored.estimate import FactoredEstimate
from permrank.posterior.co_listing import coordinate_parts
from permrank.posterior.estimate import Evidence
from permrank.posterior.kernels.arguments import NO_NOISE, Entries, Newton, Prior, Users
from permrank.posterior.kernels.users import move_users
from permrank.types import Float64Array, Int64Array


def contributions(
    estimate: FactoredEstimate, evidence: Evidence, modes: Float64Array, item: int, shares: Float64Array
) -> tuple[Int64Array, Float64Array]:
    """Listed items, and what each adds to the score of an item for the user beyond what it adds to items on average.

    At the mode of a user's posterior, precision * (W_u - mean) = Σ_e g_e H_e over the listed entries, g_e being how
    much more often an item was chosen than expected; the mean is itself a sum over what was listed, whatever its order
    (see ``co_listing``). So the personal part of a score is a sum over the list: W_u H_y = Σ_e (c_e H_y + g_e
    <H_e, H_y> / precision), averaged over the draws, with H_y as the mean scores have it in the basis of each. Of that
    an entry is credited with what it adds beyond the mean over items, each as often as it is listed: scores are about
    differences, and what raises all items alike is no reason for one of them. The rest is what the item has for
    everybody, and that mean.

    modes: of the user under every draw or near them, (n_kept, K). shares: (n_items,), of the items in the average.
    """
    (lists, ties), coordinates = estimate.lists(evidence), estimate.coordinates(evidence)
    precision = estimate.precisions()
    items = lists.items
    real = items < estimate.n_items
    parts = coordinate_parts(np.asarray(estimate.co_listing), items[real])
    n_dimensions, total, beyond = estimate.co_listing.shape[1], np.zeros(items.size), np.zeros(estimate.n_columns)
    pull = np.zeros((len(modes), 1, 0)) if evidence.pull is None else evidence.pull
    strength = 1.0 if evidence.pull is None else float(evidence.pull[0, 0, -1])
    away = estimate.item_factors[item].astype(np.float64) - shares @ estimate.item_factors.astype(np.float64)
    for d, stored in enumerate(estimate.item_draws):
        theta = stored.astype(np.float64)
        prior, mode = (
            Prior(coordinates, estimate.slopes(d), precision, pull[d]),
            modes[d][None].copy(),
        )
        users, entries = Users(mode, np.empty_like(mode)), Entries(np.empty(items.size), np.empty(items.size))
        move_users(lists, ties, theta, prior, users, Newton(50, 1e-10), NO_NOISE, entries)
        beyond[: estimate.n_factors] = estimate.bases[d] @ away
        total += entries.residual * (theta[items, :-1] @ (beyond / (strength * precision)))
        total[real] += parts @ (estimate.slopes(d)[:n_dimensions] @ beyond)
    weight = estimate.temperature * estimate.personal_weight
    return items[real].astype(np.int64), weight * total[real] / len(estimate.item_draws)
