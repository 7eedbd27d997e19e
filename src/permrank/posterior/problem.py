"""Data of the factored model in the form that its sweeps want, and what ratings say beyond their order."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np

from permrank.kernels.lists import Lists
from permrank.posterior.co_listing import user_coordinates
from permrank.posterior.item_covariates import item_mentions, rating_worths, shrunk_means
from permrank.posterior.kernels.arguments import Entries, Newton, Noise, Prior, Users
from permrank.posterior.kernels.users import move_users
from permrank.posterior.known import Known
from permrank.posterior.regression import imputed
from permrank.ragged import frozen
from permrank.randomness import stream_key
from permrank.rankings.rankings import Rankings
from permrank.rankings.vocabulary import Vocabulary
from permrank.types import Float64Array, Int32Array, Key

# The most thresholds between ratings; a finer scale is cut at its quantiles.
_MOST_THRESHOLDS = 31
# Standard deviation of the factors' part of a score a priori, around its mean: for strict rankings, and with ties.
_STRICT_SCALE, _TIED_SCALE = 1.0, 0.7


def lists_of(rankings: Rankings, items: Int32Array | None = None) -> Lists:
    """The arrays of rankings; ``items`` if the model numbers them differently."""
    used = rankings.items if items is None else items
    return Lists(*frozen(rankings.user_indptr, rankings.indptr, used, rankings.levels, rankings.weights))


def odds_lists(rankings: Rankings, thresholds: Float64Array, items: Int32Array | None = None) -> Lists:
    """Lists with the number of thresholds below each rating in the place of levels, for proportional odds."""
    used = rankings.items if items is None else items
    below = np.searchsorted(thresholds, np.asarray(rankings.ratings)).astype(np.int32)
    return Lists(*frozen(rankings.user_indptr, rankings.indptr, used, below, rankings.weights))


def one_user(rankings: Rankings, place: int) -> Rankings:
    """Rankings of one user, all items kept."""
    first, last = (int(x) for x in rankings.user_indptr[place : place + 2])
    bounds = rankings.indptr[first : last + 1]
    part = slice(int(bounds[0]), int(bounds[-1]))
    return Rankings._trusted(
        np.array([0, last - first]), bounds - bounds[0], rankings.items[part], rankings.levels[part],
        rankings.weights[first:last], Vocabulary(rankings.user_ids.take(np.array([place])), "user"), rankings.item_ids,
        **rankings._attached(part),
    )  # fmt: skip


def thresholds_of(rankings: Rankings) -> Float64Array:
    """Values between the ratings that occur, ascending; none if there are no ratings, or all are equal."""
    if rankings.ratings is None or rankings.n_entries == 0:
        return np.zeros(0)
    values = np.unique(rankings.ratings.astype(np.float64))
    between = (values[1:] + values[:-1]) / 2.0
    if between.size > _MOST_THRESHOLDS:
        wanted = np.quantile(rankings.ratings, np.linspace(0.0, 1.0, _MOST_THRESHOLDS + 2)[1:-1])
        between = between[np.unique(np.minimum(np.searchsorted(between, wanted), between.size - 1))]
    return np.asarray(between)


UserPass: TypeAlias = Callable[[Lists, Float64Array, Prior, Users, Newton, Noise, Entries], Float64Array]
"""From lists, theta and the other arguments of `posterior.kernels.users.move_users` to the values of the users: a
function of a module, or a partial of one."""


def _plackett_luce_users(
    ties: int, lists: Lists, theta: Float64Array, prior: Prior, users: Users, newton: Newton, noise: Noise,
    entries: Entries,
) -> Float64Array:  # fmt: skip
    return move_users(lists, ties, theta, prior, users, newton, noise, entries)


class Problem(NamedTuple):
    """Data in the form that the sweeps want.

    Attributes
    ----------
    rankings : Rankings
    ties : int
    shuffle : bool
        Whether ties are put into a new random order every sweep.
    intercepts : bool
    thresholds : float64
        Values between ratings, numbered after the items: ratings have proportional odds given them.
    lists : Lists
    covariates : float64 (n_items, n_covariates)
        What the prior mean of an item may depend on: the logarithm of how often it is mentioned (what many come across
        is liked more), its shrunk mean rating on the scale of worths where there are no thresholds, and co-listing.
        With proportional odds the mean rating would say again what the ratings say, and make sure of items seen once.
    co_listing : float64 (n_items, n_dimensions)
        Coordinates of the items by what is listed together (see posterior/co_listing.py).
    user_coordinates : float64 (n_users, n_dimensions + n_features)
        Coordinates of the users, then their features, on which the prior mean of their factors depends.
    known : Known
        Features of items and users, and links.
    unsure : float64 (n_base, n_base)
        Covariance of what features leave open of the other covariates of an item that nobody lists.
    user_pass : callable, optional
        Another pass over the users than that of Plackett-Luce, for models with another likelihood of a list. It may
        have another number for every entry in the place of ``lists.levels``.
    adapted : callable, optional
        For such models: from a problem of Plackett-Luce with other rankings, a part of these, to one of the same kind.
    """

    rankings: Rankings
    ties: int
    shuffle: bool
    intercepts: bool
    thresholds: Float64Array
    lists: Lists
    covariates: Float64Array
    co_listing: Float64Array
    user_coordinates: Float64Array
    known: Known
    unsure: Float64Array
    user_pass: UserPass | None = None
    adapted: Callable[[Problem], Problem] | None = None

    @property
    def odds(self) -> bool:
        """Whether ratings have proportional odds given the thresholds."""
        return self.thresholds.size > 0

    def pass_over_users(self) -> UserPass:
        """That of the model."""
        ties = -self.thresholds.size if self.odds else self.ties
        return partial(_plackett_luce_users, ties) if self.user_pass is None else self.user_pass

    @classmethod
    def of(
        cls,
        rankings: Rankings,
        ties: int,
        *,
        shuffle: bool,
        intercepts: bool,
        thresholds: Float64Array | None = None,
        co_listing: Float64Array | None = None,
        known: Known | None = None,
    ) -> Problem:
        """Prepare rankings; without co-listing, features and links if none are given."""
        about = Known.nothing(rankings.n_users, rankings.n_items) if known is None else known
        thresholds = np.zeros(0) if thresholds is None else thresholds
        odds = thresholds.size > 0
        lists = odds_lists(rankings, thresholds) if odds else lists_of(rankings)
        table = np.zeros((rankings.n_items, 0)) if co_listing is None else co_listing
        coordinates = user_coordinates(table, rankings.user_bounds, rankings.items)
        mentions = item_mentions(rankings)
        columns = [np.log1p(mentions)]
        if rankings.ratings is not None and not odds:
            columns.append(shrunk_means(rating_worths(rankings.ratings), rankings, rankings.entry_users(np.int32)))
        base = np.column_stack([*columns, table])
        # What does not differ between the items that are listed says nothing about the others.
        listed = base[mentions > 0]
        spread = listed.std(axis=0)
        telling = spread > 1e-9 * (np.abs(listed).max(axis=0) + 1e-300)
        base = np.where(telling, (base - listed.mean(axis=0)) / np.where(telling, spread, 1.0), 0.0)
        # That nobody has listed a new item is no sign of how popular it will be: its features may tell.
        base, unsure = imputed(base, about.items, mentions)
        covariates, coordinates = np.hstack((base, about.items)), np.hstack((coordinates, about.users))
        shuffle = shuffle and rankings.has_ties and not odds
        return cls(
            rankings, ties, shuffle, intercepts, thresholds, lists, covariates, table, coordinates, about, unsure
        )

    @property
    def n_base(self) -> int:
        """Covariates of the items that are no features."""
        return int(self.covariates.shape[1] - self.known.items.shape[1])

    @property
    def n_rows(self) -> int:
        """Items and thresholds."""
        return self.rankings.n_items + self.thresholds.size

    def usual_scale(self) -> float:
        """Standard deviation of the factors' part of a score around its mean a priori.

        It cannot be learnt from the fit itself. Breslow's likelihood takes every tie for evidence of closeness, so with
        ties the marginal likelihood prefers factors that are far too small; on strict lists of few items the draws of
        all items side by side let it drift upwards. The two constants were set on splits that no benchmark uses, and
        the optimum is flat: strict rankings on Sushi, seeds 20 and 21; ties on ML-100K, seeds 10 to 12, with 10, 20 and
        50 ratings a user, and on ML-1M, seed 10, with 10 to 100.
        """
        return _TIED_SCALE if self.rankings.has_ties and not self.odds else _STRICT_SCALE

    def in_sweep(self, key: Key, sweep: int) -> Lists:
        """Lists for one sweep: the same, or with ties in a new order."""
        if not self.shuffle:
            return self.lists
        seed = int(stream_key(int(key), sweep, 2)) % 2**63
        return lists_of(self.rankings.shuffled_ties(seed))
