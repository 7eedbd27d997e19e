"""The Gibbs sampler of Thurstone's model: utilities and users, items, variances, and moves of all of them together."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from permrank.families.thurstone.estimate import first_utilities
from permrank.families.thurstone.kernels.conditioning import Population
from permrank.families.thurstone.kernels.users import Rounds
from permrank.families.thurstone.passes import People, UtilityPasses
from permrank.families.thurstone.priors import _FACTORS, ItemPrior
from permrank.families.thurstone.problem import Observations
from permrank.families.thurstone.thresholds import Proposal
from permrank.learning.learner import State as Kept
from permrank.posterior.kernels.arguments import Items
from permrank.posterior.prior_means import UserPrior, recentre, restore, state_of
from permrank.posterior.problem import Problem
from permrank.randomness import stream_key
from permrank.types import Array, Float64Array, Key

_NOTHING = np.zeros(0)


class GibbsState(NamedTuple):
    """All that a sweep depends on, beside the priors of items and users.

    Attributes
    ----------
    x, components, draws, means, residuals
        See `People`.
    theta : float64 (n_components, n_items, n_columns + 1)
        Loadings on the factors, on the users' level if there are ratings, and mean of every item.
    variances : float64 (n_components, n_items)
    shares : float64 (n_components,)
    thresholds : float64 (n_thresholds,)
    flip : float
    shape : float64 (n_items, n_items + 1)
        Of a full covariance: what the covariances and the means of all components have in common.
    strengths : float64 (4,)
        How closely they follow it; see `FullSampler`.
    """

    x: Float64Array
    components: Array
    draws: Float64Array
    means: Float64Array
    residuals: Float64Array
    theta: Float64Array
    variances: Float64Array
    shares: Float64Array
    thresholds: Float64Array
    flip: float
    shape: Float64Array = _NOTHING
    strengths: Float64Array = _NOTHING


# Scans of a user's slots in a sweep: one costs little beside the matrices that are made once a sweep.
_SCANS = 2
# Inverse gamma prior of the noise of an item, which is about 1: (shape, scale).
_NOISE = (5.0, 5.0)
# A priori one answer in twenty is the wrong way round, as if twenty had been seen.
_FLIPS = (1.0, 19.0)
# Pseudo-count of every component.
_SHARE = 1.0


class Sampler:
    """State of the draws; `sweep` draws everything once.

    Attributes
    ----------
    state : GibbsState
    items, users : ItemPrior, UserPrior
        Priors, with what is drawn of them.
    """

    def __init__(
        self, problem: Problem, observed: Observations, n_factors: int, n_components: int, item_noise: bool, key: Key
    ) -> None:
        self.problem, self.observed, self._key, self._item_noise = problem, observed, key, item_noise
        self._n_factors, self._rated, self._number = n_factors, problem.odds, 0
        self._passes = UtilityPasses(observed.statements, problem.rankings.n_items)
        self.items = ItemPrior(problem, n_factors, n_components)
        self.users = UserPrior(problem, n_factors, exact=True)
        self.state = self._start(n_components)
        self.items.hold(self.items.flat(self.state.theta), self.items.slopes)
        self.users.hold(self.users.slopes, self.state.draws, self.state.means)

    def _start(self, n_components: int) -> GibbsState:
        problem, rng = self.problem, np.random.default_rng(int(stream_key(int(self._key), 7)))
        n_users, n_items = problem.rankings.n_users, problem.rankings.n_items
        size = self._n_factors + self._rated
        theta = np.zeros((n_components, n_items, size + 1))
        theta[..., : self._n_factors] = 0.3 * rng.normal(size=(n_components, n_items, self._n_factors))
        x, statements = np.zeros(self.observed.depth.size), self.observed.statements
        thresholds = np.zeros(problem.thresholds.size)
        if self._rated:
            theta[..., -2] = 0.5
            below = np.bincount(statements.slot_grades, minlength=thresholds.size + 1).cumsum()[:-1] / x.size
            thresholds = 1.4 * ndtri(np.clip(below, 1e-3, 1 - 1e-3)) + 1e-6 * np.arange(thresholds.size)
        else:
            x = first_utilities(self.observed.depth, statements.slot_indptr)
            x += 0.0 if not self.observed.contradicted else 0.1 * rng.normal(size=x.size)
            mentions = np.bincount(statements.slot_items, minlength=n_items)
            theta[..., -1] = np.bincount(statements.slot_items, x, n_items) / (mentions + 5.0)
        return GibbsState(
            x, rng.integers(n_components, size=n_users), np.zeros((n_users, size)), np.zeros((n_users, size)),
            np.zeros(x.size), theta, np.ones((n_components, n_items)), np.full(n_components, 1.0 / n_components),
            thresholds, 0.05 if self.observed.contradicted else 0.0,
        )  # fmt: skip

    def position(self) -> Kept:
        """What `go_on` needs."""
        return self.state._asdict() | state_of(self.items, self.users)

    def go_on(self, kept: Kept) -> None:
        """Go on from the position that an earlier run was left in."""
        self.state = GibbsState(**{name: kept[name] for name in GibbsState._fields})
        restore(self.items, self.users, self.items.flat(self.state.theta), kept)
        self.users.hold(kept["slopes"].copy(), self.state.draws, self.state.means)

    @property
    def population(self) -> Population:
        """The items as kernels take them."""
        state = self.state
        arrays = (state.theta, state.variances, np.log(state.shares), state.thresholds, np.array(state.flip))
        return Population(*(array[None] for array in arrays))

    @property
    def people(self) -> People:
        """The users as kernels take them."""
        return People(*self.state[:5])

    def _put(self, people: People) -> None:
        self.state = self.state._replace(**people._asdict())

    def sweep(self, number: int, keep: Callable[[Sampler], None] | None = None) -> float:
        """Draw everything once; returns the log-density of the utilities, with the users' factors integrated out.

        keep: called when utilities, factors' means and items belong together.
        """
        self._number, rng = number, np.random.default_rng(int(stream_key(int(self._key), number, 5)))
        if self._rated:
            self._move_thresholds(number, rng)
        given, key = self.users.given(stream_key(int(self._key), number, 4)), stream_key(int(self._key), number, 0)
        values, people = self._passes.users(self.population, given, Rounds(0, 1, _SCANS), key, self.people)
        self._put(people)
        if keep is not None:
            keep(self)
        self._draw_population(number, rng)
        self.users.update(self.state.draws, self.state.means, rng)
        self._draw_shares(rng, values)
        return float(values[:, 0].sum())

    def _draw_population(self, number: int, rng: np.random.Generator) -> None:
        """Everything about the items, given the users."""
        self._draw_items(number)
        self._draw_variances(rng)
        self.items.update(self.items.flat(self.state.theta), rng=rng)
        self.items.drawn_new(self.state.theta, rng)
        self._rescale(rng)

    # Items given users

    def _draw_items(self, number: int) -> None:
        state, centres = self.state, self.items.by_component(self.items.centre)
        precision = self.items.by_component(self.items.precision[None])[:, 0]
        for z in range(state.theta.shape[0]):
            theta = state.theta[z]
            given = Items(theta, np.ascontiguousarray(centres[z]), np.ascontiguousarray(precision[z]))
            steps = self._passes.items(self.population, z, given, self.people, stream_key(int(self._key), number, 1, z))
            if self._rated:
                steps[:, -2] = 0.0
            theta += steps

    def _draw_variances(self, rng: np.random.Generator) -> None:
        if self._item_noise:
            sums = self._passes.squares(self.state.theta, self.people)
            rate = _NOISE[1] + 0.5 * sums[..., 0]
            self.state = self.state._replace(variances=rate / rng.standard_gamma(_NOISE[0] + 0.5 * sums[..., 1]))

    def as_kept(self) -> GibbsState:
        """The state with what is not known of the popularity of items that nobody lists."""
        rng = np.random.default_rng(int(stream_key(int(self._key), self._number, 9)))
        return self.state._replace(theta=self.items.with_popularity(self.state.theta, rng))

    def _rescale(self, rng: np.random.Generator) -> None:
        """Exact draws along groups that leave what is observed alone: they mix what single draws hold together.

        A factor times c, of the users times 1 / c: its columns, slopes and prior deviation go along; with ratings the
        users' level alone. Then a shift of all users. All utilities times c, with items and thresholds.
        """
        state, items, users, n_factors = self.state, self.items, self.users, self._n_factors
        if len(state.theta) == 1:
            squares, ridge = users.energy(state.draws), np.zeros(users.slopes.shape)
            for block, scales in zip(users.blocks, users.scales, strict=True):
                ridge[:, block] = users.regression.precisions(scales)[:, None]
            squares += np.sum(ridge * users.slopes**2, axis=0)
            n_lines = len(state.draws) + len(users.slopes)
            c = np.ones(squares.size)
            if self._rated:  # the factors' scale is given; the loading on the level has a flat prior
                c[-1] = 1.0 / np.sqrt(rng.standard_gamma(0.5 * max(n_lines - 1, 1)) / (0.5 * squares[-1]))
            else:
                rate = 0.5 * squares + _FACTORS[1] / n_factors * items.precision[:n_factors]
                c[:] = 1.0 / np.sqrt(rng.standard_gamma(0.5 * n_lines + _FACTORS[0], size=n_factors) / rate)
                items.precision[:n_factors] /= c**2
            state.theta[0, :, :-1] *= c
            items.stretch(np.append(c, 1.0), state.theta)
            state.draws[:], state.means[:] = state.draws / c, state.means / c
            users.hold(users.slopes / c, state.draws, state.means)
            recentre(items, users, state.theta[0], (state.draws, state.means), rng)
        self._rescale_utilities(rng)

    def _rescale_utilities(self, rng: np.random.Generator) -> None:
        state = self.state
        sums = self._passes.squares(state.theta, self.people)
        energy, n_lines = self.items.energy(state.theta)
        squares = float(np.sum(sums[..., 0] / state.variances)) + float(energy.sum())
        n = float(sums[..., 1].sum()) + n_lines * sum(block.size for block in self.items.blocks)
        n += state.thresholds.size + self._rated
        c = float(np.sqrt(rng.standard_gamma(0.5 * n) / (0.5 * squares)))
        for array in (state.x, state.theta, state.thresholds):
            array *= c
        self.items.stretch(np.full(state.theta.shape[2], c), state.theta)

    # What the components, and answers, have in common

    def _draw_shares(self, rng: np.random.Generator, values: Float64Array) -> None:
        state = self.state
        counts, flip = np.bincount(state.components, minlength=state.shares.size), state.flip
        shares = np.maximum(rng.dirichlet(_SHARE + counts), 1e-300)
        if self.observed.contradicted:
            flips, total = values[:, 1].sum(), values[:, 2].sum()
            flip = float(np.clip(rng.beta(_FLIPS[0] + flips, _FLIPS[1] + total - flips), 1e-9, 0.5))
        self.state = state._replace(shares=shares, flip=flip)

    def effects(self) -> tuple[Array, ...]:
        """What features and links are worth at present, if there are any."""
        return self.items.effects(self.users, self.state.shares)

    # Thresholds

    def _move_thresholds(self, number: int, rng: np.random.Generator) -> None:
        """A Metropolis step with utilities integrated out, proposed from the normal approximation; then utilities."""
        state = self.state
        here, there = state.thresholds, state.thresholds
        before = self._threshold_proposal(here)
        there = before.draw(rng)
        u = np.log(rng.random())
        if (np.diff(there) > 0).all():
            after = self._threshold_proposal(there)
            ratio = after.value - before.value + after.log_density(here) - before.log_density(there)
            if np.isfinite(ratio) and u < ratio:
                self.state = state._replace(thresholds=there)
        self._put(self._passes.rated(self.population, stream_key(int(self._key), number, 2), self.people))

    def _threshold_proposal(self, at: Float64Array) -> Proposal:
        return Proposal.of(self._passes.thresholds(self.population, at, self.people), at)
