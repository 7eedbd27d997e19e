"""Who and what is alike, and why an item is where it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from permrank.kernels.factored.users import update_users
from permrank.models.factored.distribution import PosteriorAnswers
from permrank.models.priors.co_listing import parts_of_place
from permrank.models.similarity import mean_cosine, nearest


class Neighbours(PosteriorAnswers):
    """Similarities and explanations from ``item_draws_`` and ``user_modes_``."""

    user_modes_: Any

    def similar_items(self, item: object, k: int = 10) -> pl.DataFrame:
        """Items that the same people like: cosine of the factors, averaged over the draws.

        Returns
        -------
        polars.DataFrame
            Columns ``rank``, ``item``, ``similarity``, best first, without the item itself.
        """
        self._require_fitted()
        place = self.item_ids.index(item)
        items = self.item_draws_[:, : len(self.item_ids), :-1]  # thresholds between ratings come after the items
        similarity = mean_cosine(items, items[:, place])
        return nearest(similarity, place, k, self.item_ids.take, "item")

    def similar_users(self, user: object, k: int = 10) -> pl.DataFrame:
        """Users of the training data who rank as this one does: cosine of their factors, averaged over the draws.

        Returns
        -------
        polars.DataFrame
            Columns ``rank``, ``user``, ``similarity``, best first, without the user.
        """
        reference = self._reference(user)
        similarity = mean_cosine(self.user_modes_, self._modes(reference))
        own = reference if isinstance(reference, int) else -1
        return nearest(similarity, own, k, self.user_ids.take, "user")

    def explain(self, user: object, item: object) -> pl.DataFrame:
        """Which listed items pushed this one up or down for the user, and by how much.

        At the mode of a user's posterior, precision * (W_u - mean) = Σ_e g_e H_e over the listed entries, g_e being how
        much more often an item was chosen than expected; the mean is itself a sum over what was listed, whatever its
        order (see ``company``). So the personal part of a score is a sum over the list: W_u H_y = Σ_e (c_e H_y +
        g_e <H_e, H_y> / precision), averaged over the draws.

        Returns
        -------
        polars.DataFrame
            Columns ``item`` and ``contribution``, strongest first; the first row, ``item`` null, is the rest of the
            score: what the item has for everybody, and what the level of the user's ratings adds. The contributions
            add up to the score.
        """
        reference = self._reference(user)
        place = self.item_ids.index(item)
        lists = self._user_lists(reference)
        items, places = lists.items, self._places(self._user_rankings(reference))
        real = items < len(self.item_ids)
        parts = parts_of_place(np.asarray(self.company_), items[real])
        modes, precision = self._modes(reference), self._precision()
        total = np.zeros(items.size)
        for d, stored in enumerate(self.item_draws_):
            theta = stored.astype(np.float64)
            mode, residual, curvature = modes[d][None].copy(), np.empty(items.size), np.empty(items.size)
            update_users(
                *lists, self._tie_code(), theta, precision, mode, np.empty_like(mode), np.uint64(0), False, 50, 1e-10,
                residual, curvature, places, self._slopes(d),
            )  # fmt: skip
            total += residual * (theta[items, :-1] @ (theta[place, :-1] / precision))
            total[real] += parts @ (self._slopes(d) @ theta[place, :-1])
        items, total = items[real].astype(np.int64), total[real] * (self.temperature_ / len(self.item_draws_))
        order = np.argsort(-np.abs(total), kind="stable")
        names = self.item_ids.take(items[order])
        rest = self._scores(reference, np.array([place]))[0] - total.sum()
        return pl.DataFrame(
            {
                "item": pl.concat([pl.Series([None], dtype=names.dtype), names]),
                "contribution": np.append(rest, total[order]),
            }
        )
