"""A new item of Thurstone's model: draws given its prior and the lists that mention it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from permrank.core.fitted import Fitted
from permrank.families.thurstone.estimate import ThurstoneEstimate
from permrank.families.thurstone.kernels.users import Rounds
from permrank.families.thurstone.priors import ItemPrior
from permrank.posterior.estimate import Evidence
from permrank.posterior.new_items import Beginning, factors_in_mean
from permrank.posterior.problem import Problem
from permrank.posterior.side_information import evidence_of_users
from permrank.ragged import owners
from permrank.randomness import stream_key
from permrank.rankings.joining import joined
from permrank.rankings.rankings import Rankings
from permrank.types import Float64Array

# Draws in turn of those who mention the item, and of the item.
_ROUNDS = 40
_ONE_ROUND = Rounds(0, 1, 1)


@dataclass(frozen=True)
class ThurstoneItems:
    """An `ItemLikelihood`."""

    fitted: Fitted[ThurstoneEstimate]
    intercepts: bool = True

    @property
    def before(self) -> ThurstoneEstimate:
        """What was learnt without the item."""
        return self.fitted.estimate

    def tables(self) -> Float64Array:
        """Items of all components side by side."""
        draws = np.moveaxis(self.before.item_draws.astype(np.float64), 1, 2)
        return draws.reshape(*draws.shape[:2], -1)

    def prior(self, problem: Problem) -> ItemPrior:
        """That of the sweeps."""
        return ItemPrior(problem, self.before.n_factors, self.before.shares.shape[1])

    def enlarged(self, index: int, begin: Beginning, mentions: Rankings | None) -> ThurstoneEstimate:
        """The estimate with one item more; its noise is that of the others on average."""
        before, rng = self.before, np.random.default_rng(int(stream_key(self.before.seed, 8)))
        theta = begin.means + rng.normal(size=begin.means.shape) / np.sqrt(begin.precisions)
        shape = (len(theta), *before.item_draws.shape[1::2])
        made = replace(
            before,
            item_draws=np.insert(before.item_draws, index, theta.reshape(shape), axis=2),
            noise_variances=np.insert(before.noise_variances, index, before.noise_variances.mean(axis=2), axis=2),
            item_scores=np.insert(before.item_scores, index, 0.0, axis=0),
            item_means=np.insert(before.item_means, index, 0.0),
            co_listing=np.insert(before.co_listing, index, 0.0, axis=0),
            slot_items=before.slot_items + (before.slot_items >= index).astype(before.slot_items.dtype),
        )
        if mentions is not None:
            evidence = self._evidence(mentions)
            means, precisions = (part.reshape(shape) for part in begin[:2])
            made.item_draws[:, :, index] = _given_lists(made, index, means, precisions, evidence)
        mine = np.einsum("dz,dzk->dk", before.shares, made.item_draws[:, :, index].astype(np.float64))
        made.item_scores[index] = factors_in_mean(before.factor_bases(), mine[:, : before.n_factors])
        made.item_means[index] = mine[:, -1].mean()
        return made

    def _evidence(self, mentions: Rankings) -> Evidence:
        """All that those who mention the item have listed, beside it and before."""
        fitted = self.fitted
        users = fitted.user_ids.indices(mentions.user_ids.ids)
        before = evidence_of_users(fitted, users)
        everything = joined(before.rankings, mentions)
        return before._replace(rankings=everything, items=everything.items)


def _given_lists(
    estimate: ThurstoneEstimate, index: int, means: Float64Array, precisions: Float64Array, evidence: Evidence
) -> Float64Array:
    """Draws of the item under every draw of the others, by turns with those who mention it: (n_kept, z, K + 1)."""
    asked = estimate.asked(evidence, np.array([index]))
    chains, number, theta = estimate.begun(asked), asked.items[0], asked.population.theta
    slots = np.flatnonzero(asked.statements.slot_items == number)
    who = owners(asked.statements.slot_indptr)[slots]
    variances, rng = asked.population.variances[:, :, number], np.random.default_rng(estimate.seed)
    ones = np.ones((len(theta), who.size, 1))
    for turn in range(_ROUNDS):
        chains.advance(asked, _ONE_ROUND, stream_key(estimate.seed, 9, turn))
        rows = np.concatenate((chains.draws[:, who], ones), axis=2)
        for z in range(theta.shape[1]):
            own = (chains.components[:, who] == z) / variances[:, z, None]
            precision = np.einsum("ds,dsk,dsl->dkl", own, rows, rows)
            precision += precisions[:, z, None] * np.eye(rows.shape[2])
            wanted = np.einsum("ds,dsk,ds->dk", own, rows, chains.x[:, slots]) + precisions[:, z] * means[:, z]
            lower = np.linalg.cholesky(precision)
            half = np.linalg.solve(lower, wanted[..., None]) + rng.normal(size=(*wanted.shape, 1))
            theta[:, z, number] = np.linalg.solve(np.swapaxes(lower, 1, 2), half)[..., 0]
    return np.asarray(theta[:, :, number])
