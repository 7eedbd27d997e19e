"""The Gibbs sampler of Thurstone's model: utilities and users, items, variances, and moves of all of them together."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
from scipy.special import gammaincc, gammainccinv, ndtri

from permrank.families.thurstone.estimate import first_utilities
from permrank.families.thurstone.features import drawn_scales, effects_at, first_scales, precisions, with_popularity
from permrank.families.thurstone.kernels.conditioning import Population
from permrank.families.thurstone.kernels.users import Rounds
from permrank.families.thurstone.passes import Passes, People
from permrank.families.thurstone.problem import Problem
from permrank.families.thurstone.state import State
from permrank.families.thurstone.thresholds import Proposal
from permrank.kernels.cooccurrence import cross
from permrank.posterior.effects import covariance_of
from permrank.posterior.kernels.arguments import Items
from permrank.posterior.regression import product
from permrank.randomness import stream_key
from permrank.types import Array, Float64Array, Key

# Scans of a user's slots in a sweep: one costs little beside the matrices that are made once a sweep.
_SCANS = 2
# Inverse gamma priors of variances, (shape, scale): of the factors' columns (the scale is shared by them), of the means
# of items around their regression, and of the noise of an item, which is about 1.
_FACTORS, _MEANS, _NOISE = (2.0, 1.0), (1.0, 0.5), (5.0, 5.0)
# Means of items have a prior deviation of at most 5, as in the factored model: where everybody agrees, nothing else
# bounds it.
_MOST_SPREAD = 25.0
# With ratings the factors' part of a utility has this variance a priori: that of `FactoredPlackettLuce` with ties, .49,
# in units of its logistic noise. A learnt one is larger, and predicts worse (decision 20).
_RATED_SPREAD = 0.49 * 3.0 / np.pi**2
# Prior precision of slopes, in units of what they explain: by popularity it is given; by what is listed together it is
# learnt, for items and for users, with a gamma prior (shape, rate).
_RIDGE, _RIDGES = 1.0, (1.0, 1.0)
# A priori one answer in twenty is the wrong way round, as if twenty had been seen.
_FLIPS = (1.0, 19.0)
# Pseudo-count of every component.
_SHARE = 1.0
# Precision of what is held where it is.
_WALL = 1e12


class Sampler:
    """State of the draws; `sweep` draws everything once."""

    def __init__(self, problem: Problem, n_factors: int, n_components: int, item_noise: bool, key: Key) -> None:
        self.problem, self._key, self._item_noise = problem, key, item_noise
        self._n_factors, self._rated = n_factors, problem.thresholds.size > 0
        self._passes, known = Passes(problem.said, problem.n_items), problem.known
        listed = np.bincount(problem.said.slot_items, minlength=problem.n_items) > 0
        # Who or what is known by features alone tells nothing of what these are worth.
        self._new = np.flatnonzero(~listed) if known.items.shape[1] else np.zeros(0, np.int64)
        self._told = np.ascontiguousarray(problem.covariates[listed] if self._new.size else problem.covariates)
        speaks = np.diff(problem.said.slot_indptr) > 0
        self._silent = np.flatnonzero(~speaks) if known.users.shape[1] else np.zeros(0, np.int64)
        self._gram, self._listed, self._speaks, self._number = cross(self._told, self._told), listed, speaks, 0
        # Columns whose slopes share their scales: where there are features, factors, and means or levels, apart.
        self._of_items = np.zeros(n_factors + self._rated + 1, np.int64)
        self._of_items[-1] = bool(known.items.shape[1])
        self._of_users = np.zeros(n_factors + self._rated, np.int64)
        self._of_users[n_factors:] = bool(known.users.shape[1])
        self._covariances = (
            covariance_of(known.items, listed),
            covariance_of(known.users, np.ones(len(known.users), bool)),
        )
        of_users = problem.coordinates[speaks] if self._silent.size else problem.coordinates
        self._told_users = np.ascontiguousarray(of_users)
        self._user_gram = cross(self._told_users, self._told_users)
        self.state = self._start(n_components)

    def _start(self, n_components: int) -> State:
        problem, rng = self.problem, np.random.default_rng(int(stream_key(int(self._key), 7)))
        n_users, n_items, size = problem.n_users, problem.n_items, self._n_factors + self._rated
        theta = np.zeros((n_components, n_items, size + 1))
        theta[..., : self._n_factors] = 0.3 * rng.normal(size=(n_components, n_items, self._n_factors))
        x, said = np.zeros(problem.depth.size), problem.said
        thresholds = np.zeros(problem.thresholds.size)
        if self._rated:
            theta[..., -2] = 0.5
            below = np.bincount(said.slot_grades, minlength=thresholds.size + 1).cumsum()[:-1] / x.size
            thresholds = 1.4 * ndtri(np.clip(below, 1e-3, 1 - 1e-3)) + 1e-6 * np.arange(thresholds.size)
        else:
            x = first_utilities(problem.depth, said.slot_indptr)
            x += 0.0 if not problem.contradicted else 0.1 * rng.normal(size=x.size)
            mentions = np.bincount(said.slot_items, minlength=n_items)
            theta[..., -1] = np.bincount(said.slot_items, x, n_items) / (mentions + 5.0)
        n_covariates, n_dimensions = problem.covariates.shape[1], problem.coordinates.shape[1]
        spreads = np.full((n_components, size + 1), 1.0 / max(self._n_factors, 1))
        spreads[:, -1] = 0.5
        return State(
            x, rng.integers(n_components, size=n_users), np.zeros((n_users, size)), np.zeros((n_users, size)),
            np.zeros(x.size), theta,
            np.ones((n_components, n_items)), spreads, np.zeros((n_components, n_covariates, size + 1)),
            np.zeros((n_dimensions, size)), np.full(n_components, 1.0 / n_components), thresholds,
            0.05 if problem.contradicted else 0.0, _RIDGE, _RIDGE,
            item_scales=first_scales(2, problem.known.item_groups),
            user_scales=first_scales(1 + self._rated, problem.known.user_groups),
        )  # fmt: skip

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
        centres = self._user_centres()
        key = stream_key(int(self._key), number, 0)
        values, people = self._passes.users(self.population, centres, Rounds(0, 1, _SCANS), key, self.people)
        self._put(people)
        if keep is not None:
            keep(self)
        self._draw_population(number, rng)
        self._draw_users_prior(rng, values)
        return float(values[:, 0].sum())

    def _draw_population(self, number: int, rng: np.random.Generator) -> None:
        """Everything about the items, given the users."""
        self._draw_items(number)
        self._draw_variances(rng)
        self._draw_spreads(rng)
        self._rescale(rng)

    # Items given users

    def centres(self) -> Float64Array:
        """Prior means of the items, (n_components, n_items, n_columns + 1)."""
        return np.asarray(np.einsum("yj,zjk->zyk", self.problem.covariates, self.state.slopes))

    def _draw_items(self, number: int) -> None:
        state, centres = self.state, self.centres()
        for z in range(state.theta.shape[0]):
            precision, theta, centre = 1.0 / state.spreads[z], state.theta[z], centres[z]
            if self._rated:
                precision[-2], centre[:, -2] = _WALL, theta[:, -2]
            given, key = Items(theta, centre, precision), stream_key(int(self._key), number, 1, z)
            steps = self._passes.items(self.population, z, given, self.people, key)
            if self._rated:
                steps[:, -2] = 0.0
            theta += steps

    def _draw_variances(self, rng: np.random.Generator) -> None:
        if self._item_noise:
            sums = self._passes.squares(self.state.theta, self.people)
            rate = _NOISE[1] + 0.5 * sums[..., 0]
            self.state = self.state._replace(variances=rate / rng.standard_gamma(_NOISE[0] + 0.5 * sums[..., 1]))

    def _draw_spreads(self, rng: np.random.Generator) -> None:
        """Slopes, prior variances of the columns around them, and the scale of every factor against its users."""
        state, known = self.state, self._told
        n_items, n_covariates = known.shape
        free = 0.5 * (n_items + n_covariates)
        ridges, blocks = self._item_ridges(), _blocks(self._of_items)
        normals = [np.linalg.cholesky(self._gram + np.diag(each)) for each in ridges]
        for z in range(state.theta.shape[0]):
            theta = np.ascontiguousarray(state.theta[z][self._listed]) if self._new.size else state.theta[z]
            n_columns = theta.shape[1]
            noise = rng.normal(size=(n_covariates, n_columns)) * np.sqrt(state.spreads[z])
            for block, normal in zip(blocks, normals, strict=True):
                found = np.linalg.solve(normal, cross(known, np.ascontiguousarray(theta[:, block])))
                state.slopes[z][:, block] = np.linalg.solve(normal.T, found + noise[:, block])
            away = theta - np.einsum("yj,jk->yk", known, state.slopes[z])
            squares = np.sum(away**2, axis=0)
            for block, each in zip(blocks, ridges, strict=True):
                squares[block] += np.einsum("j,jk->k", each, state.slopes[z][:, block] ** 2)
            shape, scale = np.full(n_columns, _FACTORS[0]), np.full(n_columns, _FACTORS[1] / self._n_factors)
            shape[-1], scale[-1] = _MEANS
            gammas = rng.standard_gamma(shape + free)
            rates = scale + 0.5 * squares
            state.spreads[z] = rates / gammas
            if state.spreads[z, -1] > _MOST_SPREAD:  # then a draw from what is allowed
                most = gammaincc(shape[-1] + free, rates[-1] / _MOST_SPREAD)
                gamma = gammainccinv(shape[-1] + free, rng.random() * most) if most > 0.0 else 0.0
                state.spreads[z, -1] = rates[-1] / max(gamma, rates[-1] / _MOST_SPREAD)
            if self._rated:
                state.spreads[z, : self._n_factors] = _RATED_SPREAD / self._n_factors
                state.spreads[z, -2], state.slopes[z, :, -2] = 1.0, 0.0
        self._draw_new(rng)

    def _draw_new(self, rng: np.random.Generator) -> None:
        """Items that nobody lists, from their prior: slopes were drawn without them."""
        if not self._new.size:
            return
        state, columns = self.state, np.arange(self.state.theta.shape[2]) != self._level
        centres = self.centres()[:, self._new]
        drawn = centres + rng.normal(size=centres.shape) * np.sqrt(state.spreads[:, None])
        state.theta[:, self._new[:, None], np.flatnonzero(columns)] = drawn[..., columns]

    def as_kept(self) -> State:
        """The state with what is not known of the popularity of items that nobody lists."""
        rng = np.random.default_rng(int(stream_key(int(self._key), self._number, 9)))
        theta = with_popularity(self.problem, self.state.theta, self.state.slopes, self._new, rng)
        return self.state._replace(theta=theta)

    @property
    def _level(self) -> int:
        """Column of the loading on the users' level; -1 without ratings."""
        return int(self.state.theta.shape[2]) - 2 if self._rated else -1

    def _item_ridges(self) -> Float64Array:
        """Prior precision of the slopes by every covariate, of every block of columns: (n_blocks, n_covariates)."""
        base, n_blocks = self.problem.n_base, int(self._of_items[-1]) + 1
        ridges = np.full((n_blocks, base), _RIDGE)
        ridges[:, base - self.problem.co_listing.shape[1] :] = self.state.item_ridge
        learnt = precisions(self.state.item_scales, self.problem.known.item_groups)[:n_blocks]
        return np.hstack((ridges, learnt))

    def _user_ridges(self) -> Float64Array:
        """The same of the users' slopes."""
        n_blocks = int(self._of_users.max(initial=0)) + 1
        ridges = np.full((n_blocks, self.problem.co_listing.shape[1]), self.state.user_ridge)
        return np.hstack((ridges, precisions(self.state.user_scales, self.problem.known.user_groups)[:n_blocks]))

    def _rescale(self, rng: np.random.Generator) -> None:
        """Exact draws along groups that leave what was said alone: they mix what single draws hold together.

        A factor times c, of the users times 1 / c: its columns, slopes and prior deviation go along; with ratings the
        users' level alone. All utilities times c, with items and thresholds.
        """
        state = self.state
        n_users, n_factors = state.draws.shape[0], self._n_factors
        if len(state.theta) == 1:
            centres = self._user_centres()
            n_told = self.problem.co_listing.shape[1]
            squares = np.sum((state.draws - centres) ** 2, axis=0) + state.user_ridge * np.sum(
                state.user_slopes[:n_told] ** 2, axis=0
            )
            if self.problem.known.users.shape[1]:
                learnt = self._user_ridges()[self._of_users, n_told:]
                squares += np.einsum("kj,jk->k", learnt, state.user_slopes[n_told:] ** 2)
            n_lines = n_users + state.user_slopes.shape[0]
            if self._rated:  # the factors' scale is given; the loading on the level has a flat prior
                gamma = rng.standard_gamma(0.5 * max(n_lines - 1, 1))
                c = np.append(np.ones(n_factors), 1.0 / np.sqrt(gamma / (0.5 * squares[-1])))
            else:
                rate = 0.5 * squares + _FACTORS[1] / n_factors / state.spreads[0, :n_factors]
                c = 1.0 / np.sqrt(rng.standard_gamma(0.5 * n_lines + _FACTORS[0], size=n_factors) / rate)
            state.theta[0, :, :-1] *= c
            state.slopes[0, :, :-1] *= c
            state.spreads[0, :n_factors] *= c[:n_factors] ** 2
            for array in (state.draws, state.means, state.user_slopes):
                array /= c
            self._recentre(rng)
        self._rescale_utilities(rng)

    def _recentre(self, rng: np.random.Generator) -> None:
        """Take a from the factors of all users and add H_y·a to the means of items: an exact draw of a.

        Nothing that was said depends on a, but single draws would move it slowly where lists are long.
        """
        state = self.state
        away = state.draws - self._user_centres()
        loads, spread = np.ascontiguousarray(state.theta[0, :, :-1]), state.spreads[0, -1]
        left = (state.theta[0, :, -1] - self.centres()[0, :, -1]) / spread
        lower = np.linalg.cholesky(len(away) * np.eye(loads.shape[1]) + cross(loads, loads) / spread)
        mean = np.linalg.solve(lower, away.sum(axis=0) - np.einsum("yk,y->k", loads, left))
        a = np.linalg.solve(lower.T, mean + rng.normal(size=mean.size))
        state.theta[0, :, -1] += np.einsum("yk,k->y", loads, a)
        for array in (state.draws, state.means):
            array -= a

    def _rescale_utilities(self, rng: np.random.Generator) -> None:
        state = self.state
        sums = self._passes.squares(state.theta, self.people)
        squares, n = float(np.sum(sums[..., 0] / state.variances)), float(sums[..., 1].sum())
        away = state.theta - self.centres()
        columns = np.arange(state.theta.shape[2]) != self._level
        squares += float(np.sum((away**2 / state.spreads[:, None])[..., columns]))
        own = self._item_ridges()[self._of_items].T * state.slopes**2 / state.spreads[:, None]
        squares += float(np.sum(own[..., columns]))
        n += away[..., columns].size + state.slopes[..., columns].size + state.thresholds.size + self._rated
        c = float(np.sqrt(rng.standard_gamma(0.5 * n) / (0.5 * squares)))
        for array in (state.x, state.theta, state.slopes, state.thresholds):
            array *= c

    # Users given their factors

    def _user_centres(self) -> Float64Array:
        """Prior means of the users: (n_users, n_columns)."""
        n_told, slopes = self.problem.co_listing.shape[1], self.state.user_slopes
        centres = np.einsum("uj,jk->uk", self.problem.coordinates[:, :n_told], slopes[:n_told])
        if self.problem.known.users.shape[1]:
            centres += product(self.problem.coordinates[:, n_told:], slopes[n_told:])
        return np.asarray(centres)

    def _draw_users_prior(self, rng: np.random.Generator, values: Float64Array) -> None:
        state, known, n_components = self.state, self._told_users, self.state.shares.size
        draws = np.ascontiguousarray(state.draws[self._speaks]) if self._silent.size else state.draws
        noise = rng.normal(size=(known.shape[1], draws.shape[1]))
        slopes = np.zeros(noise.shape)
        for block, ridges in zip(_blocks(self._of_users), self._user_ridges(), strict=True):
            normal = np.linalg.cholesky(self._user_gram + np.diag(ridges))
            found = np.linalg.solve(normal, cross(known, np.ascontiguousarray(draws[:, block])))
            slopes[:, block] = np.linalg.solve(normal.T, found + noise[:, block])
        shares = rng.dirichlet(_SHARE + np.bincount(state.components, minlength=n_components))
        flip = state.flip
        if self.problem.contradicted:
            flips, total = values[:, 1].sum(), values[:, 2].sum()
            flip = float(np.clip(rng.beta(_FLIPS[0] + flips, _FLIPS[1] + total - flips), 1e-9, 0.5))
        shares = np.maximum(shares, 1e-300)
        self.state = state._replace(user_slopes=np.asarray(slopes, np.float64), shares=shares, flip=flip)
        self._draw_ridges(rng)

    def _draw_ridges(self, rng: np.random.Generator) -> None:
        """How much what is listed together tells of items and of users, and how much every feature does."""
        state, problem, n_factors = self.state, self.problem, self._n_factors
        base, n_told = problem.n_base, problem.co_listing.shape[1]
        scaled = state.slopes**2 / state.spreads[:, None]
        of_items = scaled[:, base - n_told : base]
        if self._rated:  # the loading on the level has no slopes
            of_items = np.delete(of_items, -2, axis=2)
        drawn = [
            float(rng.standard_gamma(_RIDGES[0] + 0.5 * part.size) / (_RIDGES[1] + 0.5 * np.sum(part)))
            for part in (of_items, state.user_slopes[:n_told] ** 2)
        ]
        by_feature, of_users = np.moveaxis(scaled[:, base:], 1, 0), state.user_slopes[n_told:] ** 2
        parts = [of_users[:, :n_factors], of_users[:, n_factors:]][: len(state.user_scales)]
        self.state = state._replace(
            item_ridge=drawn[0], user_ridge=drawn[1],
            item_scales=drawn_scales(
                state.item_scales, problem.known.item_groups, [by_feature[..., :n_factors], by_feature[..., -1]],
                float(len(self._told)), rng,
            ),
            user_scales=drawn_scales(
                state.user_scales, problem.known.user_groups, parts, float(self._speaks.sum()), rng
            ),
        )  # fmt: skip

    def effects(self) -> tuple[Array, ...]:
        """What features are worth at present, if there are any."""
        return effects_at(self.problem, self.state, self._n_factors, self._covariances)

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


def _blocks(number: Array) -> list[slice]:
    """Columns by the number of their block."""
    ends = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), number.size]
    return [slice(*each) for each in itertools.pairwise(ends)]
