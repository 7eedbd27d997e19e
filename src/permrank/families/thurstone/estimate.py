"""What Thurstone's model has learnt, and what follows for users."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from permrank.core.estimates import RULE
from permrank.errors import InputError
from permrank.families.thurstone.kernels.conditioning import Population
from permrank.families.thurstone.kernels.orders import Statements, depths
from permrank.families.thurstone.kernels.users import Rounds, move_users
from permrank.families.thurstone.problem import statements_of
from permrank.learning.linear_algebra import onto
from permrank.posterior.estimate import DrawsEstimate, Evidence
from permrank.ragged import frozen, owners
from permrank.randomness import stream_key
from permrank.types import Array, Float64Array, Int32Array, Int64Array, Key, Named

# Rounds that bring the chain of a new user to its posterior, and rounds averaged over after them, for every draw.
_ROUNDS = Rounds(20, 10, 1)


class Asked(NamedTuple):
    """What users say, and draws of the items that they speak of or are asked about.

    Attributes
    ----------
    statements : Statements
    population : Population
    centres : float64 (n_kept, n_users, n_columns + 1)
        Prior means of the users, and deviations.
    items : int64
        Numbers of the items asked about among those of the population.
    used : int64
        Items of the population.
    depth : int64 (n_slots,)
        Of the slots in the partial orders.
    """

    statements: Statements
    population: Population
    centres: Float64Array
    items: Int64Array
    used: Int64Array
    depth: Int64Array


class Chains(NamedTuple):
    """Chains of users, one for every kept draw of the items.

    Attributes
    ----------
    x, residuals : float64 (n_kept, n_slots)
    components : int64 (n_kept, n_users)
    draws, means : float64 (n_kept, n_users, n_columns)
        Of the factors: a draw, and means given x over the rounds that were kept.
    """

    x: Float64Array
    components: Int64Array
    draws: Float64Array
    means: Float64Array
    residuals: Float64Array

    @classmethod
    def at(cls, x: Array, components: Array, n_columns: int) -> Chains:
        """Chains that stand at these utilities and components."""
        draws, means = np.zeros((2, *components.shape, n_columns))
        arrays = np.array(x, np.float64, order="C"), np.array(components, np.int64, order="C"), draws, means
        return cls(*arrays, np.zeros(np.shape(x)))

    def advance(self, asked: Asked, rounds: Rounds, key: Key) -> None:
        """Some rounds of all moves, in place."""
        move_users(asked.statements, asked.population, asked.centres, rounds, key, np.uint64(0), *self)


@dataclass(frozen=True, eq=False, kw_only=True)
class ThurstoneEstimate(DrawsEstimate):
    """Draws of items and users; see the attributes of the model.

    one_draw: whether all rankings of a user share their utilities. seed: of the chains of new users.
    """

    noise_variances: Array
    shares: Array
    threshold_draws: Array
    flips: Array
    user_scores: Array
    item_scores: Array
    item_means: Array
    user_components: Array
    utilities: Array
    residuals: Array
    slot_indptr: Int64Array
    slot_items: Int32Array
    one_draw: bool = field(metadata=RULE)

    def users_in_mean(self) -> Array:
        """What users differ by from the mean of all, at the low rank: (n_users, rank)."""
        return self.user_scores

    def factor_bases(self) -> Array:
        """The basis of the factors of every draw in that of the mean scores; over components, their mean."""
        loads = np.einsum("dz,dzyk->dyk", self.shares, self.item_draws[..., : self.n_factors])
        return np.array([onto(self.item_scores, draw, self.n_factors) for draw in loads.astype(np.float64)])

    # Scores of known users

    @cached_property
    def _places(self) -> tuple[Int64Array, Int64Array]:
        """Slots by (user, item): sorted keys, and their slots; of several occasions none is shared."""
        keys = owners(self.slot_indptr) * self.item_draws.shape[2] + self.slot_items
        order = np.argsort(keys, kind="stable")
        return keys[order], order

    def said_of(self, who: Int64Array, what: Int64Array) -> Float64Array:
        """What is added to the scores of pairs for what a user has said about the item; 0 where nothing."""
        if not self.one_draw or self.residuals.size == 0:
            return np.zeros(who.size)
        keys, slots = self._places
        wanted = who * self.item_draws.shape[2] + what
        place = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
        return np.where(keys[place] == wanted, self.residuals[slots[place]].astype(np.float64), 0.0)

    def score_pairs(self, who: Int64Array, what: Int64Array) -> Float64Array:
        """Means of the utilities of many users and items, without the users' level."""
        total = self.item_means[what].astype(np.float64)
        for begin in range(0, who.size, _PAIRS_AT_ONCE):
            part = slice(begin, begin + _PAIRS_AT_ONCE)
            rows = self.user_scores[who[part]].astype(np.float64), self.item_scores[what[part]].astype(np.float64)
            total[part] += np.einsum("ek,ek->e", *rows)
        return np.asarray(total + self.said_of(who, what))

    def scores(self, items: Int64Array, means: Float64Array, components: Int64Array) -> Float64Array:
        """The same of items for one user, without what was said about them: means (n_kept, n_columns)."""
        chosen = self.item_draws[np.arange(len(means))[:, None], components[:, None], items[None]].astype(np.float64)
        k = self.n_factors
        total = np.einsum("dik,dk->i", chosen[..., :k], means[:, :k]) + chosen[..., -1].sum(axis=0)
        return np.asarray(total / len(means))

    # Tastes: what scores of all items differ by from their mean over users, as coordinates whose cosines are theirs

    @cached_property
    def _lengths(self) -> Float64Array:
        """Of the columns of the items' side, which are orthogonal."""
        lengths = np.sqrt(np.sum(self.item_scores.astype(np.float64) ** 2, axis=0))
        return np.asarray(np.where(lengths > 0.0, lengths, 1.0))

    def tastes(self) -> Float64Array:
        """Of all known users, (n_users, rank)."""
        return np.asarray(self.user_scores.astype(np.float64) * self._lengths)

    def taste(self, means: Float64Array, components: Float64Array) -> Float64Array:
        """Of a user with these factors and components under the draws: (rank,)."""
        scores = self.scores(np.arange(self.item_means.size), means, components.astype(np.int64))
        away = scores - self.item_means.astype(np.float64)
        return np.asarray(np.einsum("y,yk->k", away, self.item_scores.astype(np.float64)) / self._lengths)

    # Chains of users

    def centres(self, coordinates: Float64Array) -> Float64Array:
        """Prior means of users with these coordinates: (n_kept, n_users, n_columns)."""
        return np.asarray(np.einsum("uj,djk->duk", coordinates, self.user_slopes.astype(np.float64)))

    def asked(self, evidence: Evidence, asked: Int64Array) -> Asked:
        """What some users say, with the draws of the items that they speak of or are asked about, renumbered."""
        statements = statements_of(
            evidence.rankings, evidence.items, np.asarray(self.thresholds), one_draw=self.one_draw
        )
        used, places = np.unique(np.concatenate((statements.slot_items, asked)), return_inverse=True)
        n_slots, depth = statements.slot_items.size, np.zeros(statements.slot_items.size, np.int64)
        statements = statements._replace(slot_items=frozen(places[:n_slots].astype(np.int32))[0])
        flips = self.flips.astype(np.float64)
        if not is_rated(statements) and depths(statements, depth).any():
            flips = np.maximum(flips, _LEAST_FLIP)
        logs = np.log(np.maximum(self.shares.astype(np.float64), 1e-300))
        arrays = (self.item_draws[:, :, used], self.noise_variances[:, :, used], logs, self.threshold_draws, flips)
        population = Population(*(np.ascontiguousarray(array, np.float64) for array in arrays))
        centres = np.insert(self.centres(self.coordinates(evidence)), self.n_columns, 1.0, axis=2)
        if evidence.pull is not None:
            centres[..., :-1] += evidence.pull[..., :-1]
            centres[..., -1] = 1.0 / np.sqrt(evidence.pull[..., -1])
        return Asked(statements, population, centres, places[n_slots:].astype(np.int64), used.astype(np.int64), depth)

    def begun(self, asked: Asked) -> Chains:
        """Chains of users at utilities that agree with what is observed."""
        statements, n_kept = asked.statements, len(self.item_draws)
        if is_rated(statements):
            thresholds, grades = asked.population.thresholds, statements.slot_grades
            ends = np.concatenate((thresholds[:, :1] - 1.0, thresholds, thresholds[:, -1:] + 1.0), axis=1)
            x = 0.5 * (ends[:, grades] + ends[:, grades + 1])
        else:
            x = np.tile(first_utilities(asked.depth, statements.slot_indptr), (n_kept, 1))
        n_users = statements.user_indptr.size - 1
        components = np.tile((np.arange(n_kept) % self.shares.shape[1])[:, None], (1, n_users))
        return Chains.at(x, components, self.n_columns)

    def chains(self, evidence: Evidence) -> tuple[Chains, Int64Array]:
        """Chains of new users, brought to their posterior, and the items of their slots."""
        asked = self.asked(evidence, np.zeros(0, np.int64))
        chains = self.begun(asked)
        chains.advance(asked, _ROUNDS, stream_key(self.seed, 1))
        return chains, asked.used[asked.statements.slot_items]

    def check(self, n_users: int, n_items: int) -> None:
        """Raise unless all parts fit together, and the data."""
        super().check(n_users, n_items)
        n_kept, z, _, size = (*np.shape(self.item_draws), 0, 0, 0, 0)[:4]
        n_slots, n_dimensions = np.size(self.slot_items), np.shape(self.co_listing)[-1]
        thresholds, n_slopes = np.asarray(self.thresholds), (*np.shape(self.user_slopes), 0, 0)[1]
        self.check_shapes(
            item_draws=(n_kept, z, n_items, size), noise_variances=(n_kept, z, n_items), shares=(n_kept, z),
            threshold_draws=(n_kept, thresholds.size), flips=(n_kept,),
            user_slopes=(n_kept, max(n_slopes, n_dimensions), size - 1),
            user_scores=(n_users, np.shape(self.item_scores)[-1]), item_means=(n_items,), residuals=(n_slots,),
            item_scores=(n_items, np.shape(self.user_scores)[-1]), user_components=(len(self.utilities), n_users),
            slot_indptr=(n_users + 1,), slot_items=(n_slots,), co_listing=(n_items, n_dimensions),
        )  # fmt: skip
        if np.shape(self.utilities) not in ((n_kept, n_slots), (0, n_slots)):
            raise InputError(f"utilities_ has shape {np.shape(self.utilities)}, which does not fit the slots")
        if np.any(np.asarray(self.noise_variances) <= 0):
            raise InputError("noise_variances_ holds values that are not above 0")
        bounds, items, who = np.asarray(self.slot_indptr), np.asarray(self.slot_items), np.asarray(self.user_components)
        if bounds[0] != 0 or bounds[-1] != n_slots or np.any(np.diff(bounds) < 0):
            raise InputError("slot_indptr_ does not fit the slots")
        for name, values, most in (("slot_items_", items, n_items), ("user_components_", who, z)):
            if values.dtype.kind not in "iu" or (values.size and not 0 <= values.min() <= values.max() < most):
                raise InputError(f"{name} holds values that are not indices below {most}")

    def check_parameters(self, given: Named) -> None:
        """Raise unless the draws are those of a model with these parameters."""
        n_kept, n_components, n_items = self.item_draws.shape[:3]
        allowed = {"auto": (given["n_factors"], n_items), "full": (n_items,), "factors": (given["n_factors"],)}
        if n_kept > given["n_draws"]:
            raise InputError(f"item_draws_ has {n_kept} draws, more than n_draws={given['n_draws']}")
        if self.n_factors not in allowed[given["covariance"]]:
            raise InputError(f"item_draws_ has {self.n_factors} factors, and n_factors is {given['n_factors']}")
        if given["n_components"] not in (None, n_components):
            raise InputError(f"item_draws_ has {n_components} components, not {given['n_components']}")


# Pairs whose rows are gathered together.
_PAIRS_AT_ONCE = 100_000
# Where a new user contradicts himself and nobody did before, an answer is the wrong way round with this probability.
_LEAST_FLIP = 0.05


def is_rated(statements: Statements) -> bool:
    """Whether thresholds count."""
    return bool(statements.slot_grades.size and statements.slot_grades[0] >= 0)


def first_utilities(depth: Array, slot_indptr: Int64Array) -> Float64Array:
    """Normal scores by depth in the partial order of each user: utilities that agree with all that is observed."""
    owner = owners(slot_indptr)
    deepest = np.zeros(slot_indptr.size - 1)
    np.maximum.at(deepest, owner, depth)
    return np.asarray(1.5 * ndtri(1.0 - (depth + 0.5) / (deepest[owner] + 1.0)))
