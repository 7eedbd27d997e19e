"""Thurstone's model with factors: one vector of normal utilities for everything that a person says."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import polars as pl
from scipy.special import ndtri

from permrank.checks import require_above, require_int
from permrank.core.answers import mean_cosine
from permrank.core.distribution import RankingDistribution
from permrank.core.estimates import Learnt
from permrank.core.fitted import Fitted
from permrank.core.fitting import Job, as_digest, learnt_by, more_rankings
from permrank.core.person import Person
from permrank.core.ranker import Ranker
from permrank.core.settings import (
    MOST_COMMUNITIES,
    MOST_DRAWS,
    MOST_FACTORS,
    MOST_SWEEPS,
    choice,
    flag,
    integer,
    random_seed,
)
from permrank.errors import InputError, NotSupportedError
from permrank.families.thurstone import answers
from permrank.families.thurstone.estimate import Chains, ThurstoneEstimate
from permrank.families.thurstone.law import NormalUtilities, log_likelihoods
from permrank.families.thurstone.learning import Begun, is_full, learner_of, usual_sweeps
from permrank.families.thurstone.new_items import ThurstoneItems
from permrank.learning.learner import Learner
from permrank.posterior.estimate import Evidence
from permrank.posterior.known import Known
from permrank.posterior.new_items import with_item
from permrank.posterior.side_information import effects, evidence_of, evidence_of_new, evidence_of_users
from permrank.ragged import ranges
from permrank.rankings.rankings import Rankings
from permrank.rankings.validate import require_rankings
from permrank.rankings.with_attributes import KINDS, with_featured
from permrank.types import Array, Callback, Float64Array, Int32Array, Int64Array, Named

if TYPE_CHECKING:
    from permrank.learning.checkpoints import Checkpoint

# `partial_fit` makes this part of the sweeps; before it what concerns how learning goes on may be changed.
_SHARE_OF_SWEEPS, _OF_LEARNING = 3, frozenset({"max_iter", "n_draws", "seed"})
# Users whose chains are run together where many are asked about and no utilities are kept.
_TOGETHER = 500
# A probability is kept away from 0 and 1 by so much, where it is the mean over draws.
_SURE = 1e-9


class FactoredThurstone(Ranker):
    """Thurstone's model: utilities are normal, with a few factors, and all that a person says constrains the same ones.

    x_uy = μ_y + H_y·w_u + ε_uy with w_u ~ N(0, 1) and ε_uy ~ N(0, σ_y²). A list is a chain of inequalities between the
    utilities of its items; tied items are unordered, exactly; pairs are any partial order; a rating lies between two
    thresholds, with a level of the user. Learnt by Gibbs sampling; answers are averages over the draws that are kept.

    Attributes
    ----------
    item_draws_ : float16 (n_kept, n_components, n_items, n_columns + 1)
        Loadings H on the factors, with ratings on the users' level, and mean μ of every item, one slice a draw.
    noise_variances_ : float32 (n_kept, n_components, n_items)
        σ².
    shares_ : float32 (n_kept, n_components)
        Of the components.
    user_scores_, item_scores_ : float16 (n_users, rank), (n_items, rank)
        Their products added to ``item_means_`` are the means of utilities.
    item_means_ : float32 (n_items,)
    utilities_, user_components_ : float32 (n_kept, n_slots), int16 (n_kept, n_users), or (0, ...)
        Of the items that users speak of, where all of them take at most 32 MiB.
    residuals_ : float32 (n_slots,)
        By how much the mean utility of what a user speaks of differs from what the factors say.
    slot_indptr_, slot_items_ : int64 (n_users + 1,), int32 (n_slots,)
        The slots of every user, and their items.
    flips_ : float32 (n_kept,)
        Probability that an answer is the wrong way round; 0 if nobody contradicts himself.
    thresholds_, threshold_draws_ : float64 (n_thresholds,), float32 (n_kept, n_thresholds)
        Ratings between which the thresholds stand, and utilities at which they do.
    co_listing_, user_slopes_ : float64 (n_items, n_dimensions), float32 (n_kept, n_dimensions + n_features, n_columns)
        Coordinates of the items by what is listed together, and how the prior means of users depend on them, and on
        features of users.
    item_effects_, pair_effects_, item_shares_, user_shares_, link_strength_ : float32
        Draws of what features and links are worth, where there are any: see `effects`.

    Examples
    --------
    >>> import permrank as pr
    >>> said = {"user": ["ann", "ann", "bob", "bob"], "winner": ["a", "b", "c", "b"], "loser": ["b", "c", "b", "a"]}
    >>> model = pr.FactoredThurstone(n_factors=2, max_iter=60).fit(pr.Rankings.from_pairs(said))
    >>> model.prefers("ann", "a", "c") > 0.99  # one vector of utilities: a > b > c
    True
    """

    needs_order = True
    assumes = "utilities are normal with a few factors; all that a person says shares one draw of them"
    takes = "rankings, pairs and ratings, ties"
    reference = "Thurstone (1927); Yao and Bockenholt (1999)"
    resumable = True
    estimate_type = ThurstoneEstimate
    takes_side_information = True
    item_draws_ = Learnt[Array]()
    noise_variances_ = Learnt[Array]()
    shares_ = Learnt[Array]()
    user_scores_ = Learnt[Array]()
    item_scores_ = Learnt[Array]()
    item_means_ = Learnt[Array]()
    utilities_ = Learnt[Array]()
    user_components_ = Learnt[Array]()
    residuals_ = Learnt[Array]()
    slot_indptr_ = Learnt[Int64Array]()
    slot_items_ = Learnt[Int32Array]()
    flips_ = Learnt[Array]()
    thresholds_ = Learnt[Float64Array]()
    threshold_draws_ = Learnt[Array]()
    co_listing_ = Learnt[Float64Array]()
    user_slopes_ = Learnt[Array]()
    item_effects_ = Learnt[Array]()
    pair_effects_ = Learnt[Array]()
    item_shares_ = Learnt[Array]()
    user_shares_ = Learnt[Array]()
    link_strength_ = Learnt[Array]()

    n_factors: int = integer(
        default=16,
        minimum=1,
        maximum=MOST_FACTORS,
        tune=(2, 32),
        kw_only=False,
        help="K; a prior variance is learnt for every factor, so that those which are not needed vanish.",
    )
    covariance: str = choice(
        default="auto",
        values=("auto", "factors", "full"),
        help=(
            '"full" is any covariance matrix of the items, for orders of up to 200 items without features or links; '
            '"auto" takes it up to 50.'
        ),
    )
    one_draw: bool = flag(
        default=True,
        help=(
            "Whether all rankings of a user come from one vector of utilities, as pairs compared in one sitting "
            "do; False draws ε anew for every ranking. Ratings with thresholds have an ε for every rating."
        ),
    )
    n_components: int | None = integer(
        default=None,
        minimum=1,
        maximum=MOST_COMMUNITIES,
        also=(None,),
        help=(
            "Populations that the people are a mixture of, each with its own items' means and factors. By default "
            "1, and with a full covariance one for every ten people for each of its numbers, at most 4."
        ),
    )
    item_noise: bool = flag(default=True, help="Whether σ_y is learnt for every item, around 1; else it is 1.")
    rating_thresholds: bool = flag(
        default=True,
        help=("Where there are ratings, let a rating be an interval between thresholds; else it only makes an order."),
    )
    co_listing: bool = flag(
        default=True,
        help=(
            "Let what people list together tell of their taste: prior means of users' and items' factors depend "
            "on it, as far as it stands out from chance."
        ),
    )
    max_iter: int | None = integer(
        default=None,
        minimum=1,
        maximum=MOST_SWEEPS,
        also=(None,),
        help="Sweeps, all of which are made; 100 to 600 by default, fewer for more data.",
    )
    n_draws: int = integer(
        default=64,
        minimum=1,
        maximum=MOST_DRAWS,
        help="Draws that are kept, evenly spread over the sweeps after the first third.",
    )
    seed: int = random_seed(default=0, help="The same seed gives the same bits, for any number of threads.")

    def _rules(self) -> Named:
        return {"one_draw": bool(self.one_draw), "seed": int(self.seed)}

    def _learns_from(self, rankings: Rankings) -> frozenset[str]:
        return frozenset(KINDS)

    def _prepared(self, rankings: Rankings) -> Rankings:
        return with_featured(rankings)

    def _started_from(self, rankings: Rankings) -> str:
        return Known.of(rankings).digest()

    def _sweeps(self, rankings: Rankings) -> int:
        return self.max_iter or usual_sweeps(rankings)

    def _learn(self, rankings: Rankings) -> Learner[ThurstoneEstimate]:
        return learner_of(self, rankings, self._sweeps(rankings))

    def partial_fit(
        self,
        rankings: Rankings,
        *,
        callback: Callback | None = None,
        verbose: bool | None = None,
        checkpoint: Checkpoint | str | Path | None = None,
    ) -> Self:
        """Add users, items and statements to a fitted model, in a third of the sweeps of a full fit.

        The chain goes on from the last draw of the items, with as many components; new items are where a fit begins.
        ``max_iter``, ``n_draws`` and ``seed`` may be set before; any other parameter that was changed since is refused.

        Parameters
        ----------
        rankings : Rankings
            A newer rating of an item replaces an older one of the same user; lists without ratings are added.
        callback, verbose, checkpoint
            As in `fit`.

        Examples
        --------
        >>> import permrank as pr
        >>> old = pr.Rankings.from_lists({"ann": ["a", "b", "c"], "bob": ["c", "b", "a"]})
        >>> model = pr.FactoredThurstone(max_iter=30).fit(old)
        >>> model.partial_fit(pr.Rankings.from_lists({"cat": ["d", "a"]})).user_ids.index("cat")
        2
        """
        more = more_rankings(self, rankings, _OF_LEARNING)
        settings, fitted = self._copied(), self.fitted_
        before: ThurstoneEstimate = fitted.estimate
        everything = settings._prepared(more)
        n_sweeps = max(1, settings._sweeps(everything) // _SHARE_OF_SWEEPS)
        indices = everything.item_ids.ids.search_sorted(fitted.item_ids.ids).to_numpy().astype(np.int64)

        def learner() -> Learner[ThurstoneEstimate]:
            return learner_of(settings, everything, n_sweeps, Begun(before, indices))

        digest = as_digest(before.item_draws[-1]) + settings._started_from(everything)
        job = Job(settings, everything, learner, n_sweeps, digest)
        self.fitted_ = learnt_by(job, callback, verbose, checkpoint)
        return self

    def fold_in_item(
        self, item: str | int, *, features: Mapping[str, Any] | None = None, rankings: Rankings | None = None
    ) -> Self:
        """A model that knows one item more, without retraining; users and other items stay as they are.

        Not with a full covariance matrix, which a new item would change for all others.

        Parameters
        ----------
        item, features, rankings
            As in `FactoredPlackettLuce.fold_in_item`.

        Examples
        --------
        >>> import permrank as pr
        >>> lists = {"ann": ["a", "b", "c"], "bob": ["c", "b", "a"], "cat": ["a", "c", "b"]}
        >>> model = pr.FactoredThurstone(2, covariance="factors", max_iter=60).fit(pr.Rankings.from_lists(lists))
        >>> more = model.fold_in_item("d", rankings=pr.Rankings.from_lists({"ann": ["d", "a"], "bob": ["d", "c"]}))
        >>> more.prefers("cat", "d", "b") > 0.5
        True
        """
        made = copy.copy(self)
        fitted: Fitted[ThurstoneEstimate] = self.fitted_
        settings = cast("FactoredThurstone", fitted.settings)
        if is_full(settings, fitted.rankings, fitted.estimate.thresholds):
            raise NotSupportedError(
                "fold_in_item() needs covariance='factors'; this model has a full covariance matrix, which a new item "
                "would change for all others"
            )
        made.fitted_ = with_item(fitted, item, features, rankings, ThurstoneItems(fitted))
        return made

    # Scores: means of utilities

    def _scores(self, fitted: Fitted[ThurstoneEstimate], person: Person, items: Int64Array) -> Float64Array:
        estimate, state = fitted.estimate, person.state
        if person.index is not None:
            return estimate.score_pairs(np.full(items.size, person.index), items)
        scores = estimate.scores(items, state["means"], state["components"].astype(np.int64))
        if self.one_draw:
            own = np.zeros(len(fitted.item_ids))
            own[state["slot_items"].astype(np.int64)] = state["residuals"]
            scores += own[items]
        return scores

    def _score_pairs(self, fitted: Fitted[ThurstoneEstimate], who: Int64Array, what: Int64Array) -> Float64Array:
        return fitted.estimate.score_pairs(who, what)

    # New users, and cold-start items

    def _meet(self, fitted: Fitted[ThurstoneEstimate], rankings: Rankings, **about: Any) -> Named:
        """The items stay as they are; the chain of a user runs once for every kept draw of them."""
        evidence = evidence_of_new(fitted, rankings, **about)
        known = {"features": evidence.features, "pull": evidence.pull}
        state = answers.state_of(fitted.estimate, evidence)
        return state | {name: part for name, part in known.items() if part is not None}

    def _featured_items(self, fitted: Fitted[ThurstoneEstimate]) -> Int64Array:
        data = fitted.rankings
        if np.ndim(fitted.estimate.item_effects) != 2 or data.features("item") is None:
            return np.zeros(0, np.int64)
        return np.flatnonzero(np.bincount(data.items, minlength=data.n_items) == 0)

    def effects(self, level: float = 0.9) -> pl.DataFrame:
        """What features and links are worth: as `FactoredPlackettLuce.effects`, in deviations of the noise.

        Parameters
        ----------
        level : float
            Probability with which an effect lies between ``low`` and ``high``.

        Returns
        -------
        polars.DataFrame
            Columns ``of``, ``item_feature``, ``user_feature``, ``mean``, ``deviation``, ``low``, ``high``.
        """
        return effects(self.fitted_, level)

    # Probabilities: averages over the posterior of items and user

    def _knows_ranks(self, fitted: Fitted[ThurstoneEstimate]) -> bool:
        return True

    def _prefers_pairs(
        self, fitted: Fitted[ThurstoneEstimate], who: Int64Array, first: Int64Array, second: Int64Array
    ) -> Float64Array:
        estimate, order, told = fitted.estimate, np.argsort(who, kind="stable"), np.empty(who.size)
        users, n_pairs = np.unique(who, return_counts=True)
        size = users.size if len(estimate.utilities) else _TOGETHER
        for begin in range(0, users.size, max(size, 1)):
            part, count = users[begin : begin + size], n_pairs[begin : begin + size]
            rows = order[n_pairs[:begin].sum() :][: count.sum()]
            evidence = evidence_of_users(fitted, part)
            if len(estimate.utilities):
                slots = ranges(estimate.slot_indptr[part], estimate.slot_indptr[part + 1])
                chains = Chains.at(estimate.utilities[:, slots], estimate.user_components[:, part], estimate.n_columns)
            else:
                chains = estimate.chains(evidence)[0]
            pairs = np.column_stack((first, second))[rows]
            told[rows] = answers.pairs_of_users(estimate, evidence, chains, pairs, count)
        return np.where(first == second, 0.5, np.clip(told, _SURE, 1.0 - _SURE))

    def _law(self, fitted: Fitted[ThurstoneEstimate], person: Person, items: Int64Array) -> RankingDistribution:
        evidence, estimate = evidence_of(fitted, person), fitted.estimate
        chains = answers.chains_of(fitted, person, evidence)
        if items.size != 2:
            return NormalUtilities(*answers.utilities(estimate, evidence, chains, items))
        # Of two items one probability under each draw says it all: as a difference of normal utilities.
        told = answers.pair_draws(estimate, estimate.asked(evidence, items), chains, np.array([0, 1]), answers.N_ROUNDS)
        means = np.column_stack((ndtri(np.clip(told[:, 0], _SURE, 1.0 - _SURE)), np.zeros(len(told))))
        return NormalUtilities(means, np.full(means.shape, np.sqrt(0.5)))

    def log_likelihood(self, rankings: Rankings) -> Float64Array:
        """Return the log-probability of each ranking with its user integrated out, as if given by somebody new."""
        return self.log_likelihood_with_error(rankings)[0]

    def log_likelihood_with_error(self, rankings: Rankings, error: float = 0.005) -> tuple[Float64Array, Float64Array]:
        """Log-probabilities of the order of each ranking by GHK, averaged over the draws, and their standard errors.

        Parameters
        ----------
        rankings : Rankings
            Every ranking is taken for that of a person of whom nothing else is known. Tied items are unordered.
        error : float
            More points are taken until the standard error of a ranking is below this, within 512 times the first.

        Returns
        -------
        values, errors : float64 (n_rankings,)
        """
        fitted: Fitted[ThurstoneEstimate] = self.fitted_
        require_above("error", error, 0.0)
        evidence = Evidence(require_rankings(rankings), fitted.aligned(rankings))
        return log_likelihoods(fitted.estimate, evidence, float(error))

    # Which question next

    def ask(self, user: object, candidates: Iterable[object] | None = None, n: int = 1) -> pl.DataFrame:
        """The pairs of items whose answer is expected to tell most about the order of the candidates.

        The gain of a question is in how many more of all pairs of candidates two draws of the person's order would
        agree after the answer, in the mean over both answers. Of more than 24 candidates those 24 are looked at whose
        utility is least certain.

        Parameters
        ----------
        user : id or new user
        candidates : ids, optional
            All items if none are given.
        n : int
            Pairs.

        Returns
        -------
        polars.DataFrame
            Columns ``rank``, ``item``, ``other``, ``probability`` (that the first is preferred) and ``gain``, best
            first; where items have titles, ``title`` and ``other_title`` too.

        Examples
        --------
        >>> import permrank as pr
        >>> lists = pr.Rankings.from_lists({"ann": ["a", "b", "c"], "bob": ["c", "b", "a"], "cat": ["a", "c", "b"]})
        >>> model = pr.FactoredThurstone(n_factors=1, max_iter=30).fit(lists)
        >>> model.ask(model.fold_in(["a", "b"])).select("item", "other").height
        1
        """
        fitted: Fitted[ThurstoneEstimate] = self.fitted_
        person, items = fitted.person(user), fitted.items(candidates)
        require_int("n", n, 1)
        if items.size < 2:
            raise InputError(f"{items.size} candidates; a question is about two, so give at least two")
        evidence = evidence_of(fitted, person)
        chains = answers.chains_of(fitted, person, evidence)
        return answers.next_pairs(fitted.estimate, evidence, chains, items, int(n), fitted.item_ids)

    @staticmethod
    def information(utilities: Float64Array, pairs: Int64Array | None = None) -> Float64Array:
        """Expected gain of answers about pairs of items, by draws of utilities (n, n_items) from any model; see `ask`.

        Parameters
        ----------
        utilities : float64 (n, n_items)
        pairs : int (n_pairs, 2), optional
            All by default, as `numpy.triu_indices` has them.
        """
        return answers.information(utilities, pairs)

    def sure(self, user: object, k: int = 1, items: Iterable[object] | None = None) -> float:
        """Return the probability that the present order of the best k of the items, all by default, is right.

        The present order is that of `score`.
        """
        fitted: Fitted[ThurstoneEstimate] = self.fitted_
        person, chosen = fitted.person(user), fitted.items(items)
        require_int("k", k, 1)
        order = np.lexsort((chosen, -fitted.scores(person, chosen)))
        evidence = evidence_of(fitted, person)
        return answers.certainty(
            fitted.estimate, evidence, answers.chains_of(fitted, person, evidence), chosen, order[: int(k)]
        )

    # Likeness

    def _item_likeness(self, fitted: Fitted[ThurstoneEstimate], item: int) -> Float64Array:
        """Cosine of the factors, averaged over draws and components: what the same people like."""
        draws = fitted.estimate.item_draws
        rows = draws[..., : fitted.estimate.n_factors].reshape(-1, draws.shape[2], fitted.estimate.n_factors)
        return mean_cosine(rows, rows[:, item])

    def _user_likeness(self, fitted: Fitted[ThurstoneEstimate], person: Person) -> Float64Array:
        """Cosine of what their mean utilities say of taste."""
        tastes, state = fitted.estimate.tastes(), person.state
        own = fitted.estimate.taste(state["means"], state["components"]) if person.is_new else tastes[person.index]
        return mean_cosine(tastes[None], own[None])

    def _check(self, fitted: Fitted[ThurstoneEstimate]) -> None:
        super()._check(fitted)
        fitted.estimate.check_parameters(self.get_params())
