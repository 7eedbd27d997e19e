"""Thurstone's model with factors: one vector of normal utilities for everything that a person says."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import polars as pl
from scipy.special import ndtri

from permrank.checks import require_above, require_int
from permrank.data.rankings import Rankings
from permrank.data.selection import restrict
from permrank.data.validate import require_rankings
from permrank.data.with_attributes import KINDS, with_warm
from permrank.distributions.base import RankingDistribution
from permrank.distributions.thurstone import NormalUtilities
from permrank.errors import InputError
from permrank.learning.fit import Job, as_digest
from permrank.learning.learner import Learner
from permrank.models.answers import mean_cosine, nearest
from permrank.models.factored.acquainted import effects
from permrank.models.factored.problem import one_user
from permrank.models.fitting import learn_into, more_rankings
from permrank.models.priors.known import Known
from permrank.models.ranker import Ranker
from permrank.models.thurstone import answers, questions
from permrank.models.thurstone.acquainted import features_of, fold_in, warm_items
from permrank.models.thurstone.estimate import Chains, Said, ThurstoneEstimate
from permrank.models.thurstone.learning import Begun, Settings, has_features, usual_sweeps
from permrank.models.thurstone.likelihood import log_likelihoods
from permrank.models.thurstone.parameters import PARAMETERS
from permrank.models.users import NewUser, UserReference
from permrank.ragged import ranges
from permrank.types import Array, Callback, Float64Array, Int64Array, Named

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

    Parameters
    ----------
    n_factors : int
        K; a prior variance is learnt for every factor, so that those which are not needed vanish.
    one_draw : bool
        Whether all rankings of a user come from one vector of utilities, as pairs compared in one sitting do; False
        draws ε anew for every ranking. Ratings with thresholds have an ε for every rating.
    covariance : {"auto", "factors", "full"}
        "full" is any covariance matrix of the items, for orders of up to 200 items without features; "auto" takes it up
        to 50.
    n_components : int, optional
        Populations that the people are a mixture of, each with its own items' means and factors. By default 1, and with
        a full covariance one for every ten people for each of its numbers, at most 4.
    item_noise : bool
        Whether σ_y is learnt for every item, around 1; else it is 1.
    rating_thresholds : bool
        Where there are ratings, let a rating be an interval between thresholds; else it only makes an order.
    co_listing : bool
        Let what people list together tell of their taste: prior means of users' and items' factors depend on it, as
        far as it stands out from chance.
    max_iter : int, optional
        Sweeps, all of which are made; 100 to 600 by default, fewer for more data.
    n_draws : int
        Draws that are kept, evenly spread over the sweeps after the first third.
    seed : int
        The same seed gives the same bits, for any number of threads.

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
    item_effects_, pair_effects_, item_shares_, user_shares_ : float32
        Draws of what features are worth, where there are any: see `effects`. Links are not learnt from.

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
    estimate_: ThurstoneEstimate
    item_draws_: Array
    parameters = PARAMETERS

    def __init__(
        self,
        n_factors: int = 16,
        *,
        covariance: str = "auto",
        one_draw: bool = True,
        n_components: int | None = None,
        item_noise: bool = True,
        rating_thresholds: bool = True,
        co_listing: bool = True,
        max_iter: int | None = None,
        n_draws: int = 64,
        seed: int = 0,
    ) -> None:
        self.n_factors = n_factors
        self.covariance = covariance
        self.one_draw = one_draw
        self.n_components = n_components
        self.item_noise = item_noise
        self.rating_thresholds = rating_thresholds
        self.co_listing = co_listing
        self.max_iter = max_iter
        self.n_draws = n_draws
        self.seed = seed

    def _rules(self) -> Named:
        return {"one_draw": bool(self.one_draw), "seed": int(self.seed)}

    def _learns_from(self, rankings: Rankings) -> frozenset[str]:
        return frozenset(KINDS[:2])

    def _prepared(self, rankings: Rankings) -> Rankings:
        return with_warm(rankings) if has_features(rankings) else rankings

    def _started_from(self, rankings: Rankings) -> str:
        return Known.of(rankings).digest() if has_features(rankings) else "nothing"

    def _sweeps(self, rankings: Rankings) -> int:
        return self.max_iter or usual_sweeps(rankings)

    def _learner(self, rankings: Rankings) -> Learner[ThurstoneEstimate]:
        return Settings.of(self.get_params()).learner(rankings, self._sweeps(rankings), self._rules())

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
        everything = self._prepared(more_rankings(self, rankings, _OF_LEARNING))
        before, n_sweeps = self.estimate_, max(1, self._sweeps(everything) // _SHARE_OF_SWEEPS)
        places = everything.item_ids.ids.search_sorted(self.rankings_.item_ids.ids).to_numpy().astype(np.int64)

        def learner() -> Learner[ThurstoneEstimate]:
            begun = Begun(before, places)
            return Settings.of(self.get_params()).learner(everything, n_sweeps, self._rules(), begun)

        digest = as_digest(before.item_draws[-1]) + self._started_from(everything)
        job = Job(type(self).__name__, learner, n_sweeps, everything, self.get_params(), digest)
        learn_into(self, job, callback, verbose, checkpoint)
        return self

    # Scores: means of utilities

    def _scores(self, user: UserReference, items: Int64Array) -> Float64Array:
        if not isinstance(user, NewUser):
            return self.estimate_.score_pairs(np.full(items.size, int(user or 0)), items)
        state = user.state
        scores = self.estimate_.scores(items, state["means"], state["components"].astype(np.int64))
        if self.estimate_.one_draw:
            said = np.zeros(len(self.item_ids))
            said[state["slot_items"].astype(np.int64)] = state["residuals"]
            scores += said[items]
        return scores

    def _score_pairs(self, who: Int64Array, what: Int64Array) -> Float64Array:
        return self.estimate_.score_pairs(who, what)

    # New users

    fold_in, effects, _warm_items = fold_in, effects, warm_items

    def _state(self, said: Said) -> dict[str, Float64Array]:
        chains, items = self.estimate_.chains(said)
        own = {"means": chains.means[:, 0], "components": chains.components[:, 0]}
        slots = {"utilities": chains.x, "residuals": chains.residuals.mean(axis=0), "slot_items": items}
        return {name: np.asarray(array, np.float64) for name, array in (own | slots).items()}

    def _said_by(self, users: Int64Array) -> Said:
        """What some users of the training data say, in ascending order of their numbers."""
        kept = np.zeros(self.rankings_.n_users, bool)
        kept[users] = True
        rankings = restrict(self.rankings_, kept, np.ones(self.rankings_.n_items, bool))
        return Said(rankings, rankings.items, features_of(self, users))

    def _said(self, user: UserReference) -> Said:
        if isinstance(user, NewUser):
            return Said(user.rankings, self._aligned_items(user.rankings), user.state.get("features"))
        rankings = one_user(self.rankings_, int(user or 0))
        return Said(rankings, self._aligned_items(rankings), features_of(self, np.array([int(user or 0)])))

    # Probabilities: averages over the posterior of items and user

    @property
    def _knows_ranks(self) -> bool:
        return True

    def _chains(self, user: UserReference, said: Said) -> Chains:
        """Where the chains of a user stand."""
        estimate = self.estimate_
        if isinstance(user, NewUser):
            state = user.state
        elif len(estimate.utilities):
            place = int(user or 0)
            slots = slice(*estimate.slot_indptr[place : place + 2].tolist())
            state = {"utilities": estimate.utilities[:, slots], "components": estimate.user_components[:, place]}
        else:
            state = self._state(said)
        return Chains.at(state["utilities"], state["components"][:, None], estimate.n_columns)

    def _prefers_pairs(self, who: Int64Array, first: Int64Array, second: Int64Array) -> Float64Array:
        estimate, order, told = self.estimate_, np.argsort(who, kind="stable"), np.empty(who.size)
        users, n_pairs = np.unique(who, return_counts=True)
        size = users.size if len(estimate.utilities) else _TOGETHER
        for begin in range(0, users.size, max(size, 1)):
            part, count = users[begin : begin + size], n_pairs[begin : begin + size]
            rows = order[n_pairs[:begin].sum() :][: count.sum()]
            said = self._said_by(part)
            if len(estimate.utilities):
                slots = ranges(estimate.slot_indptr[part], estimate.slot_indptr[part + 1])
                chains = Chains.at(estimate.utilities[:, slots], estimate.user_components[:, part], estimate.n_columns)
            else:
                chains = estimate.chains(said)[0]
            pairs = np.column_stack((first, second))[rows]
            told[rows] = answers.pairs_of_users(estimate, said, chains, pairs, count)
        return np.where(first == second, 0.5, np.clip(told, _SURE, 1.0 - _SURE))

    def _distribution(self, user: UserReference, items: Int64Array) -> RankingDistribution:
        said, estimate = self._said(user), self.estimate_
        chains = self._chains(user, said)
        if items.size != 2:
            return NormalUtilities(*answers.utilities(estimate, said, chains, items))
        # Of two items one probability under each draw says it all: as a difference of normal utilities.
        told = answers.pair_draws(estimate, estimate.asked(said, items), chains, np.array([0, 1]), answers.N_ROUNDS)
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
        self._require_fitted()
        require_above("error", error, 0.0)
        said = Said(require_rankings(rankings), self._aligned_items(rankings))
        return log_likelihoods(self.estimate_, said, float(error))

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
        reference = self._reference(user)
        items = self._item_indices(candidates)
        require_int("n", n, 1)
        if items.size < 2:
            raise InputError(f"{items.size} candidates; a question is about two, so give at least two")
        said = self._said(reference)
        chains = self._chains(reference, said)
        return questions.next_pairs(self.estimate_, said, chains, items, int(n), self.item_ids)

    def sure(self, user: object, k: int = 1, items: Iterable[object] | None = None) -> float:
        """Return the probability that the present order of the best k of the items, all by default, is right.

        The present order is that of `score`.
        """
        reference = self._reference(user)
        chosen = self._item_indices(items)
        require_int("k", k, 1)
        order = np.lexsort((chosen, -self._scores(reference, chosen)))
        said = self._said(reference)
        return questions.certainty(self.estimate_, said, self._chains(reference, said), chosen, order[: int(k)])

    # Likeness

    def similar_items(self, item: object, k: int = 10) -> pl.DataFrame:
        """Items that the same people like: cosine of the factors, averaged over draws and components.

        Returns
        -------
        polars.DataFrame
            Columns ``rank``, ``item``, ``similarity``, best first, without the item itself.
        """
        self._require_fitted()
        index = self.item_ids.find(item)
        n_kept, n_components, n_items, size = self.item_draws_.shape
        rows = self.item_draws_[..., : size - 1 - self._rated].reshape(n_kept * n_components, n_items, -1)
        return nearest(mean_cosine(rows, rows[:, index]), index, k, self.item_ids)

    def similar_users(self, user: object, k: int = 10) -> pl.DataFrame:
        """Users of the training data who rank as this one does: cosine of what their mean utilities say of taste.

        Returns
        -------
        polars.DataFrame
            Columns ``rank``, ``user``, ``similarity``, best first, without the user.
        """
        reference = self._reference(user)
        place = -1 if isinstance(reference, NewUser) else int(reference or 0)
        tastes = self.estimate_.tastes()
        state = reference.state if isinstance(reference, NewUser) else {}
        own = self.estimate_.taste(state["means"], state["components"]) if state else tastes[place]
        similarity = mean_cosine(tastes[None], own[None])
        return nearest(similarity, place, k, self.user_ids)

    @property
    def _rated(self) -> bool:
        return self.estimate_.thresholds.size > 0

    def _check_learned(self) -> None:
        super()._check_learned()
        self.estimate_.check_parameters(self.get_params())
