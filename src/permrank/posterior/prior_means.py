"""Prior means of the factored model, learnt in the sweeps: items given their covariates, users given what they list.

Both are regressions (posterior/regression.py) on popularity and co-listing, and on features where there are any;
users who are linked are alike beyond that (posterior/links.py).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from permrank.posterior.effects import Coefficients, covariance_of, effects_of, shares_of
from permrank.posterior.item_covariates import item_mentions
from permrank.posterior.problem import Problem
from permrank.posterior.regression import Regression, Scales, product
from permrank.types import Array, Float64Array, Int64Array, Key

# Precision of an intercept around its prior mean, until it is learnt.
_FIRST_PRECISION = 4.0
# Largest deviation of the intercepts that is learnt: two items then differ by 7 mostly, which is 1,000 to 1. People who
# all agree would have it grow for ever, as no maximum-likelihood estimate exists.
_LARGEST_DEVIATION = 5.0
# An item seen this often counts half in the regression of items on their covariates.
_HALF_TRUSTED = 5.0
# Ridge of the two regressions, in rows' worth: covariates may be constant.
_ITEM_RIDGE, _USER_RIDGE = 0.01, 1.0
# Strength of links at the start.
_FIRST_TAU = 0.1
# Precision of what is held at its prior mean.
WALL = 1e12

Generator = np.random.Generator


class ItemPrior:
    """θ_y ~ N(covariates_y Γ, 1 / precision), with Γ learnt; a subclass says how the precision is.

    Parameters
    ----------
    problem : Problem
    precision : float64 (n_columns,)
        At the start.
    blocks : list of int64
        Columns whose coefficients of features have scales of their own: factors, then intercepts.
    weights : float64 (n_items,)
        How much an item counts in the regression.
    ridge : float
        Of the coefficients of what are no features, in rows' worth.
    n_rows : int
        Items, and what is numbered after them, whose prior mean is 0.
    """

    # Whether coefficients are drawn also where there are no features.
    exact = False

    def __init__(
        self,
        problem: Problem,
        precision: Float64Array,
        blocks: list[Int64Array],
        weights: Float64Array,
        ridge: float,
        n_rows: int,
    ) -> None:
        known, mentioned = problem.known, item_mentions(problem.rankings) > 0
        self._problem, self._weights = problem, weights
        self.new = np.flatnonzero(~mentioned)
        self.covariance = covariance_of(known.items, mentioned)
        groups = np.concatenate((np.full(problem.n_base, -1), known.item_groups))
        self.regression = Regression(problem.covariates, groups, ridge, weights)
        self.slopes = np.zeros((problem.covariates.shape[1], precision.size))
        self.blocks, self.precision = blocks, precision
        self.scales = [Scales.start(self.regression.n_groups) for _ in blocks]
        self.centre = np.zeros((n_rows, precision.size))
        # With ratings, the loading on the users' level, which is held where it is.
        self.levels = blocks[1] - 1 if problem.odds else blocks[1][:0]
        self.precision[self.levels] = WALL

    def update(self, theta: Float64Array, *, settled: bool = True, rng: Generator | None = None) -> None:
        """Γ by weighted least squares, drawn where there are features; then the precision of what is left.

        settled: whether the items have left their start, so that the precision can be learnt.
        """
        rng = rng if self.exact or self.regression.n_groups else None
        sums = self.regression.sums(theta[: self._weights.size])
        for number, block in enumerate(self.blocks):
            self.slopes[:, block], self.scales[number] = self.regression.drawn(
                sums[:, block], self.precision[block], self.scales[number], rng
            )
        self.hold(theta, self.slopes)
        if settled:
            self._learn_precision((theta - self.centre)[: self._weights.size], rng)

    def _learn_precision(self, away: Float64Array, rng: Generator | None) -> None:
        """Take a precision for items that are so far from their prior means."""
        raise NotImplementedError

    def hold(self, theta: Float64Array, slopes: Float64Array) -> None:
        """Take these coefficients."""
        n_items, self.slopes = self._weights.size, slopes
        self.centre[:n_items] = self.regression.means(slopes)
        self.centre[:n_items, self.levels] = theta[:n_items, self.levels]

    def variance_of_new(self) -> float:
        """What is not known of the covariates of an item that nobody lists adds to the variance of its score."""
        base = self.slopes[: self._problem.n_base]
        return float(np.einsum("ik,ij,jk->", base, self._problem.unsure, base))


class ScaledItemPrior(ItemPrior):
    """That of the factored model: the precision of the factors is given, that of the intercepts is learnt.

    With proportional odds the variance falls as 1, 1/2, 1/3, ... from factor to factor: factors that are not needed
    would add their variance to every score.
    """

    def __init__(self, problem: Problem, n_factors: int, scale: float, before: ItemPrior | None = None) -> None:
        mentions, last = item_mentions(problem.rankings), n_factors + problem.odds
        precision = np.full(last + 1, n_factors / scale**2)
        if problem.odds:
            number = np.arange(1.0, n_factors + 1.0)
            precision[:n_factors] = number * np.sum(1.0 / number) / scale**2
        # Without intercepts their prior is a wall at 0.
        precision[-1] = _FIRST_PRECISION if problem.intercepts else WALL
        blocks = [np.arange(n_factors), np.array([last])]
        trust = mentions / (mentions + _HALF_TRUSTED)
        super().__init__(problem, precision, blocks, trust, _ITEM_RIDGE, problem.n_rows)
        if before is not None:
            self.scales = before.scales

    def _learn_precision(self, away: Float64Array, rng: Generator | None) -> None:
        """That of the intercepts; two imaginary items keep it finite."""
        if self._problem.intercepts:
            squares = float(np.sum(self._weights * away[:, -1] ** 2))
            self.precision[-1] = max((self._weights.sum() + 2.0) / (squares + 1.0), _LARGEST_DEVIATION**-2)


class UserPrior:
    """W_u ~ N(coordinates_u slopes, 1), and correlated over links: see posterior/links.py.

    exact: whether slopes are drawn also where there are no features.
    """

    def __init__(
        self, problem: Problem, n_factors: int, before: UserPrior | None = None, *, exact: bool = False
    ) -> None:
        self._problem, self._exact, known = problem, exact, problem.known
        self.graph = known.graph
        n_users, table, listed = (
            problem.rankings.n_users,
            problem.user_coordinates,
            np.diff(problem.rankings.user_bounds),
        )
        self.covariance = covariance_of(known.users, listed > 0)
        # Somebody without a list or a friend tells nothing of what features are worth.
        counts = np.ones(n_users)
        if known.users.shape[1] and self.graph is None:
            counts = (listed > 0).astype(np.float64)
        groups = np.concatenate((np.full(table.shape[1] - known.users.shape[1], -1), known.user_groups))
        linked = within = None
        if self.graph is not None:
            own = self.graph.laplacian(table[:, : table.shape[1] - known.users.shape[1]])
            linked, within = np.hstack((own, self.graph.laplacian_of_features(known.users))), self.graph.linked
        self.regression = Regression(table, groups, _USER_RIDGE, counts, linked, within)
        self.blocks = [np.arange(n_factors)] + ([np.array([n_factors])] if problem.odds else [])
        self.slopes = np.zeros((table.shape[1], n_factors + problem.odds))
        self.scales = [Scales.start(self.regression.n_groups) for _ in self.blocks]
        self.tau = 0.0 if self.graph is None else _FIRST_TAU
        if before is not None:
            self.scales, self.tau = before.scales, before.tau

    def update(self, draws: Float64Array, modes: Float64Array, rng: Generator | None = None) -> None:
        """Slopes as these draws have them, drawn where there are features; then the strength of links.

        Both are not written to before `pull`.
        """
        drawn = rng if self._exact or self.regression.n_groups else None
        links = (0.0, 1.0) if self.graph is None else (self.tau, float(self.graph.scale(self.tau)))
        sums = self.regression.sums(draws, *links)
        for number, block in enumerate(self.blocks):
            self.slopes[:, block], self.scales[number] = self.regression.drawn(
                sums[:, block], np.ones(block.size), self.scales[number], drawn, *links
            )
        self.hold(self.slopes, draws, modes)
        if self.graph is not None and rng is not None:
            self.tau = self.graph.drawn(*self._linked[:2], rng)

    def hold(self, slopes: Float64Array, draws: Float64Array, modes: Float64Array) -> None:
        """Take these coefficients, and users who are there."""
        self.slopes, self._users = slopes, (draws, modes)
        for name in ("_means", "_linked"):
            self.__dict__.pop(name, None)

    @cached_property
    def _means(self) -> Float64Array:
        return self.regression.means(self.slopes)

    def away(self, users: Float64Array) -> Float64Array:
        """Users less their prior means."""
        return np.asarray(users - self._means)

    def energy(self, users: Float64Array) -> Float64Array:
        """Minus twice the log-density of each column, constants left out."""
        away, weights = self.away(users), self.weights_of_all()
        squares = np.einsum("u,uk->k", weights, away**2)
        if self.graph is not None:
            squares += self.tau * float(self.graph.scale(self.tau)) * np.sum(away * self.graph.laplacian(away), axis=0)
        return np.asarray(squares)

    def weights_of_all(self) -> Float64Array:
        """Precision of the users times a vector of ones: how much each says about what all have in common."""
        if self.graph is None:
            return np.ones(self._problem.rankings.n_users)
        # The Laplacian of a vector of ones is 0.
        return np.where(self.graph.linked, float(self.graph.scale(self.tau)), 1.0)

    @cached_property
    def _linked(self) -> tuple[Float64Array, Float64Array, Float64Array]:
        """Draws less their prior means, the sums of that over friends, and those of the modes: one walk for both."""
        assert self.graph is not None
        away, at_modes = (self.away(users) for users in self._users)
        sums = self.graph.sums(np.hstack((away, at_modes)))
        return away, sums[:, : away.shape[1]], sums[:, away.shape[1] :]

    def pull(self, key: Key | None) -> Float64Array:
        """What links say of each user in the next pass: mean beyond that of the regression, and strength.

        key: for the noise.
        """
        if self.graph is None:
            return np.zeros((self._problem.rankings.n_users, 0))
        return self.graph.pull(*self._linked[:2], self.tau, key)

    def given(self, key: Key | None) -> Float64Array:
        """Means of the users in the next pass, and their deviation: (n_users, K + 1)."""
        pull = self.pull(key)
        if not pull.shape[1]:
            return np.column_stack((self._means, np.ones(len(self._means))))
        return np.column_stack((self._means + pull[:, :-1], 1.0 / np.sqrt(pull[:, -1])))

    def friends_pull(self) -> Float64Array:
        """The same given the friends at their modes."""
        if self.graph is None:
            return np.zeros((self._problem.rankings.n_users, 0))
        return self.graph.friends_pull(self._linked[2], self.tau)


def recentre(
    items: ItemPrior, users: UserPrior, theta: Float64Array, people: tuple[Float64Array, Float64Array], rng: Generator
) -> None:
    """Take a from the factors of all users and add H_y·a to the intercepts: an exact draw of a, in place.

    No score changes, but what items are to everybody and what the average user adds would hold each other. people:
    draws of the users, and where their modes are looked for.
    """
    n_factors, precision = len(items.blocks[0]), items.precision[-1]
    loads, weights = np.ascontiguousarray(theta[:, :n_factors]), users.weights_of_all()
    left = precision * (theta[:, -1] - items.centre[:, -1])
    away = users.away(people[0])[:, :n_factors]
    lower = np.linalg.cholesky(weights.sum() * np.eye(n_factors) + precision * product(loads.T, loads))
    wanted = np.einsum("u,uk->k", weights, away) - np.einsum("yk,y->k", loads, left)
    a = np.linalg.solve(lower.T, np.linalg.solve(lower, wanted) + rng.normal(size=n_factors))
    theta[:, -1] += np.einsum("yk,k->y", loads, a)
    for each in people:
        each[:, :n_factors] -= a


def state_of(items: ItemPrior, users: UserPrior) -> dict[str, Float64Array]:
    """What a checkpoint has to hold of the two."""
    return {
        "slopes": users.slopes, "tau": np.array(users.tau),
        "item_slopes": items.slopes, "item_precision": items.precision,
        "item_scales": np.array([each.packed() for each in items.scales]),
        "user_scales": np.array([each.packed() for each in users.scales]),
    }  # fmt: skip


def restore(items: ItemPrior, users: UserPrior, theta: Float64Array, state: dict[str, Float64Array]) -> None:
    """Go on from what `state_of` gave."""
    items.scales, users.scales = (
        [Scales.unpacked(each) for each in state[name]] for name in ("item_scales", "user_scales")
    )
    items.precision, users.tau = state["item_precision"].copy(), float(state["tau"])
    items.hold(theta, state["item_slopes"].copy())


def effects_of_features(
    items: ItemPrior, users: UserPrior, problem: Problem, slopes: Float64Array, spread: Float64Array
) -> tuple[Array, ...]:
    """What features and links are worth at present, if there are any: see `effects_of`.

    slopes: (n_covariates, n_factors + 1), of factors and intercepts of the items; spread: (n_factors,), the variances
    of the factors around their prior means.
    """
    known, n_factors = problem.known, spread.size
    if known.is_nothing:
        return ()
    of_users = users.slopes[problem.co_listing.shape[1] :, :n_factors]
    drawn = Coefficients(slopes[problem.n_base :], of_users, users.tau)
    shares = (
        shares_of(items.covariance, drawn.items[:, :-1], known.item_groups, spread),
        shares_of(users.covariance, of_users, known.user_groups, np.ones(n_factors)),
    )
    return effects_of(drawn, *shares)
