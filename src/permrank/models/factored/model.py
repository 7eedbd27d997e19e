"""Factored Plackett-Luce (§3.1): a score for every user and item from a few factors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from permrank.checks import a_seed, above, one_of, true_or_false, whole_from
from permrank.data.joining import joined
from permrank.data.rankings import Rankings, require_rankings
from permrank.errors import InputError
from permrank.kernels.factored.users import update_users
from permrank.kernels.plackett_luce.likelihood import BRESLOW, EFRON, EXACT, PARTITION
from permrank.learning.early_stopping import Estimate
from permrank.learning.fit import Job, as_digest
from permrank.learning.learner import Learner, mapped
from permrank.models.factored.damped import DampedAnswers, check_damping
from permrank.models.factored.point import point_estimate
from permrank.models.factored.posterior import Posterior, Start, choose_factors, draw_posterior
from permrank.models.factored.problem import Lists, Problem, thresholds_of
from permrank.models.priors.co_listing import company
from permrank.models.search_spaces import Choice, Real, Space, Whole
from permrank.models.users import NewUser, UserReference, new_user
from permrank.randomness import stream_key
from permrank.types import Callback, Float64Array, Int64Array

if TYPE_CHECKING:
    from permrank.learning.checkpoints import Checkpoint

Ties = Literal["exact", "efron", "breslow", "partition", "shuffle"]
TIES = {"exact": EXACT, "efron": EFRON, "breslow": BRESLOW, "partition": PARTITION, "shuffle": EXACT}
# Sweeps by default: this many entries are visited in all, within the bounds. Set so that a million ratings take
# about twenty seconds on two cores, and small data are averaged until nothing changes any more.
_ENTRIES_VISITED, _FEWEST_SWEEPS, _MOST_SWEEPS = 40_000_000, 50, 400
# `partial_fit` makes this part of the sweeps of a full fit.
_SHARE_OF_SWEEPS = 3
# What may be changed before it: how learning goes on, and not what is learnt.
_OF_LEARNING = {"max_iter", "n_draws", "tol", "seed"}
# The point estimate goes on until it has converged, which takes hundreds of sweeps where penalties are weak.
_MOST_ASCENTS = 5_000


class FactoredPlackettLuce(DampedAnswers):
    """Factored Plackett-Luce model with a posterior over its factors (§3.1).

    P(ranking | u) = Π_i e^{s_i} / Σ_{j >= i} e^{s_j} with s_y^u = b_y + Σ_k W_uk H_ky. Point estimates of W and H
    overfit short lists badly, so by default they are not estimated but drawn: users and items in turn from the
    Laplace approximation of their conditional posterior, and answers are averages over the draws that are kept.

    Parameters
    ----------
    n_factors : int or "auto"
        K. "auto" takes the one of 4, 8, 16 and 32 that foretells held-out pairs best; ``curve_`` shows all of them.
    posterior : {"draws", "point"}
        ``point`` is the paper's regularised maximum likelihood, Σ_u log P - alpha ‖W‖² - beta ‖H‖².
    ties : {"breslow", "efron", "exact", "partition", "shuffle"}
        What a tie says (see the page on ties). For ratings a tie is evidence of closeness, and ``breslow``
        predicts best; strict rankings are not affected.
    intercepts : bool
        Whether items have an intercept b_y; False is the paper's form.
    factor_scale : float or "auto"
        Standard deviation of the score that the factors make around its mean, a priori. "auto": 1 for strict rankings,
        0.7 where there are ties. Only for ``posterior="draws"``.
    anchors : bool
        Where there are ratings, let thresholds between their values stand in every list like items, so that the level
        of the ratings counts and not only their order. Only for ``posterior="draws"``.
    company : bool
        Let what people list together tell of their taste: prior means of users' and items' factors depend on it, as
        far as it stands out from chance. Only for ``posterior="draws"``.
    alpha, beta : float
        Penalties of ``posterior="point"``.
    damping : {"none", "log", "natural_log", "learnt"} or sequence of float
        Benter's factors ρ_i of the scores at each stage of a list, for ``posterior="point"``: 1 / log2(1 + i), the
        paper's 1 / log(1 + i), learnt from the data, or given: the first above 0, never rising, 0 where choices are
        uniform; a short sequence goes on with its last value. They are for strict orders: rankings with ties need
        ``ties="shuffle"``.
    max_iter : int, optional
        Sweeps over the data: all of them are made under ``draws`` (50 to 400 by default, fewer for more data), and no
        more than these under ``point`` (5,000 by default).
    n_draws : int
        Draws that are kept, evenly spread over the sweeps after the first third.
    tol : float
        ``point`` ends when the objective rises by less than this part of itself.
    seed : int
        The same seed gives the same bits, for any number of threads.

    Attributes
    ----------
    item_draws_ : float32 (n_kept, n_items + n_thresholds, n_factors + 1)
        Factors and intercept of every item, then of every threshold, one slice a draw.
    user_modes_ : float32 (n_kept, n_users, n_factors)
        Posterior mode of every user given the items of each draw.
    factor_scale_ : float
        The scale that was used; 0 for a point estimate.
    temperature_ : float
        What scores are multiplied with to be log-odds: learnt from held-out pairs where there are ties, 1 elsewhere.
    thresholds_ : float64
        Ratings between which the thresholds stand.
    curve_ : float64 (n_tried, 3)
        With ``n_factors="auto"``: number, loss (nats) of a held-out pair, its standard error.
    company_ : float64 (n_items, n_dimensions)
        Places of the items by what is listed together; no dimension where that does not stand out from chance.
    user_slopes_ : float32 (n_kept, n_dimensions, n_factors)
        How the prior mean of a user's factors depends on the mean place of the items listed.
    item_variances_ : float32 (n_kept, n_items + n_thresholds)
        What an item's own uncertainty adds to the variance of its score, which probabilities average over.
    damping_ : float64 (n_stages,)
        Damping factors of the stages; one 1 without damping.

    Examples
    --------
    >>> import permrank as pr
    >>> rankings = pr.datasets.load("simulated", n_users=200, n_items=20)
    >>> model = pr.FactoredPlackettLuce(n_factors=4, max_iter=40).fit(rankings)
    >>> model.recommend("user-0001", k=3).height
    3
    """

    assumes = "scores of users and items come from a few factors"
    takes = "rankings and ratings, ties, weights"
    reference = "Tran and Venkatesh (2010), section 3.1"
    space = Space(
        n_factors=Whole(2, 32),
        factor_scale=Real(0.3, 3.0, also=("auto",), when=("posterior", "draws")),
        alpha=Real(0.03, 30.0, when=("posterior", "point")),
        beta=Real(0.03, 30.0, when=("posterior", "point")),
        intercepts=Choice((True, False)),
    )
    resumable = True
    learned = (
        "item_draws_", "user_modes_", "factor_scale_", "temperature_", "thresholds_", "company_", "user_slopes_",
        "item_variances_", "curve_", "damping_",
    )  # fmt: skip
    item_draws_: Any
    user_modes_: Any
    factor_scale_: float
    temperature_: float
    thresholds_: Float64Array
    curve_: Float64Array

    def __init__(
        self,
        n_factors: int | Literal["auto"] = 16,
        *,
        posterior: Literal["draws", "point"] = "draws",
        ties: Ties = "breslow",
        intercepts: bool = True,
        factor_scale: float | Literal["auto"] = "auto",
        anchors: bool = True,
        company: bool = True,
        alpha: float = 1.0,
        beta: float = 1.0,
        damping: str | Sequence[float] = "none",
        max_iter: int | None = None,
        n_draws: int = 64,
        tol: float = 1e-6,
        seed: int = 0,
    ) -> None:
        self.n_factors = n_factors
        self.posterior = posterior
        self.ties = ties
        self.intercepts = intercepts
        self.factor_scale = factor_scale
        self.anchors = anchors
        self.company = company
        self.alpha = alpha
        self.beta = beta
        self.damping = damping
        self.max_iter = max_iter
        self.n_draws = n_draws
        self.tol = tol
        self.seed = seed

    def _validate(self) -> None:
        if self.n_factors != "auto":
            whole_from("n_factors", self.n_factors, 1)
        elif self.posterior == "point":
            raise InputError("n_factors='auto' is for posterior='draws'; give a number")
        whole_from("n_draws", self.n_draws, 1)
        a_seed(self.seed)
        if self.max_iter is not None:
            whole_from("max_iter", self.max_iter, 1)
        one_of("posterior", self.posterior, ("draws", "point"))
        one_of("ties", self.ties, tuple(TIES))
        for name in ("intercepts", "anchors", "company"):
            true_or_false(name, getattr(self, name))
        for name in ("alpha", "beta", "tol", *(() if self.factor_scale == "auto" else ("factor_scale",))):
            above(name, getattr(self, name), 0.0)
        check_damping(self.damping)
        if self._is_damped and self.posterior != "point":
            raise InputError(f"damping={self.damping!r} is for posterior='point'; draws are made without damping")

    def _sweeps(self, rankings: Rankings) -> int:
        return self.max_iter or (_usual_sweeps(rankings) if self.posterior == "draws" else _MOST_ASCENTS)

    def _learner(self, rankings: Rankings) -> Learner[Estimate]:
        if self.posterior == "point":
            return self._point_learner(rankings, None)
        thresholds = thresholds_of(rankings) if self.anchors else np.zeros(0)
        problem = self._problem(rankings, thresholds)
        scale = problem.usual_scale() if self.factor_scale == "auto" else float(self.factor_scale)
        if self.n_factors == "auto":
            curve = choose_factors(problem, scale, stream_key(self.seed))
            n_factors = int(curve[curve[:, 1].argmin(), 0])
        else:
            curve, n_factors = np.zeros((0, 3)), int(self.n_factors)

        def learned(found: Posterior) -> Estimate:
            return {
                "item_draws_": found.items, "user_modes_": found.users, "factor_scale_": float(scale),
                "temperature_": found.temperature, "thresholds_": thresholds, "company_": problem.company,
                "user_slopes_": found.slopes, "item_variances_": found.variances, "curve_": curve,
                "damping_": np.ones(1),
            }  # fmt: skip

        n_sweeps = self._sweeps(rankings)
        return mapped(draw_posterior(problem, n_factors, scale, self.n_draws, stream_key(self.seed), n_sweeps), learned)

    def _problem(self, rankings: Rankings, thresholds: Float64Array) -> Problem:
        return Problem.of(
            rankings, TIES[self.ties], shuffle=self.ties == "shuffle", intercepts=self.intercepts,
            thresholds=thresholds, company=company(rankings, self.seed) if self.company else None,
        )  # fmt: skip

    def _point_learner(self, rankings: Rankings, begin: Start | None) -> Learner[Estimate]:
        return point_estimate(
            rankings, self._sweeps(rankings), stream_key(self.seed), n_factors=int(self.n_factors), alpha=self.alpha,
            beta=self.beta, tol=self.tol, ties=TIES[self.ties], shuffle=self.ties == "shuffle",
            intercepts=self.intercepts, damping=self.damping,
            begin=None if begin is None else (begin.theta, begin.modes),
        )  # fmt: skip

    # More data

    def partial_fit(
        self,
        rankings: Rankings,
        *,
        callback: Callback | None = None,
        verbose: bool | None = None,
        checkpoint: Checkpoint | str | Path | None = None,
    ) -> Self:
        """Add users, items and lists to a fitted model, in a third of the sweeps of a full fit.

        The draws go on from where they are, with new users and items at 0; a point estimate goes on to
        its new optimum. Afterwards the model stands about where a full fit of all the data would: on simulated lists
        its scores of a user's items correlate with those of a full fit as those of two full fits with different seeds
        do, to 0.01.
        The thresholds, the scale and the temperature stay as they were learnt. How learning goes on (``max_iter``,
        ``n_draws``, ``tol``, ``seed``) may be set between `fit` and this; any other parameter that was changed since is
        refused, for it belongs to another model.

        Parameters
        ----------
        rankings : Rankings
            A newer rating of an item replaces an older one of the same user; lists without ratings are added to those
            that a user has.
        callback, verbose, checkpoint
            As in `fit`; a run that was killed goes on from the checkpoint if the model is as it was before it.

        Examples
        --------
        >>> import permrank as pr
        >>> old = pr.Rankings.from_lists({"ann": ["a", "b", "c"], "bob": ["c", "b", "a"]})
        >>> model = pr.FactoredPlackettLuce(n_factors=2, max_iter=30).fit(old)
        >>> model.partial_fit(pr.Rankings.from_lists({"cat": ["d", "a"]})).user_ids.index("cat")
        2
        """
        self._require_fitted()
        self._validate()
        for name in set(self._changed_params()) - _OF_LEARNING:
            raise InputError(
                f"{name}={getattr(self, name)!r} was set after fit, which learnt with {self.fitted_params_[name]!r}; "
                "set it back to go on, or fit all the data anew"
            )
        if require_rankings(rankings).n_entries == 0:
            raise InputError("there is nothing to add: no ranking has an item")
        before, everything = self.rankings_, joined(self.rankings_, rankings)
        start = self._grown(before, everything)
        drawn = self.posterior == "draws"
        n_sweeps = max(1, self._sweeps(everything) // _SHARE_OF_SWEEPS) if drawn else self._sweeps(everything)

        def learner() -> Learner[Estimate]:
            if not drawn:
                return self._point_learner(everything, start)
            problem, n_factors = self._problem(everything, self.thresholds_), start.modes.shape[1]
            unchanged = {name: getattr(self, name) for name in self.learned}

            def learned(found: Posterior) -> Estimate:
                return unchanged | {
                    "item_draws_": found.items, "user_modes_": found.users, "company_": problem.company,
                    "user_slopes_": found.slopes, "item_variances_": found.variances,
                }  # fmt: skip

            key = stream_key(self.seed, 1)
            return mapped(
                draw_posterior(problem, n_factors, self.factor_scale_, self.n_draws, key, n_sweeps, start), learned
            )

        begun = as_digest(start.theta, start.modes)
        job = Job(type(self).__name__, learner, n_sweeps, everything, self.get_params(), begun)
        return self._fit(job, callback, verbose, checkpoint)

    def _grown(self, before: Rankings, after: Rankings) -> Start:
        """The last draw in the numbering of more data; what is new is at 0."""
        n_factors = self.user_modes_.shape[2]
        theta = np.zeros((after.n_items + self.thresholds_.size, n_factors + 1))
        modes = np.zeros((after.n_users, n_factors))
        last = self.item_draws_[-1]
        theta[after.item_ids.ids.search_sorted(before.item_ids.ids)] = last[: before.n_items]
        theta[after.n_items :] = last[before.n_items :]
        modes[after.user_ids.ids.search_sorted(before.user_ids.ids)] = self.user_modes_[-1]
        return Start(theta, modes)

    # Scores: averages over the draws

    def _precision(self) -> Float64Array:
        """Prior precision of a user's coordinates: 1 by convention, 2 alpha for the paper's penalty."""
        return np.full(self.user_modes_.shape[2], 2.0 * self.alpha if self.posterior == "point" else 1.0)

    def _modes(self, user: UserReference) -> Float64Array:
        if isinstance(user, NewUser):
            return user.state["modes"]
        return np.asarray(self.user_modes_[:, user], dtype=np.float64)

    def _scores(self, user: UserReference, items: Int64Array) -> Float64Array:
        chosen = self.item_draws_[:, items].astype(np.float64)
        total = np.einsum("dik,dk->i", chosen[:, :, :-1], self._modes(user)) + chosen[:, :, -1].sum(axis=0)
        return np.asarray(total * (self.temperature_ / chosen.shape[0]))

    def _score_pairs(self, who: Int64Array, what: Int64Array) -> Float64Array:
        total = np.zeros(who.size)
        for theta, modes in zip(self.item_draws_, self.user_modes_, strict=True):
            rows = theta[what]
            total += np.einsum("ek,ek->e", rows[:, :-1], modes[who]) + rows[:, -1]
        return total * (self.temperature_ / len(self.item_draws_))

    # New users

    def fold_in(self, said: Any) -> NewUser:
        """Make a new user from a list, or from a dict of item to rating: the items stay as they are."""
        self._require_fitted()
        made = new_user(said, self.item_ids)
        return NewUser(made.rankings, {"modes": self.fold_in_many(made.rankings)[0]})

    def fold_in_many(self, rankings: Rankings) -> Float64Array:
        """Posterior modes of many new users at once, parallel over users: (n_users, n_kept, n_factors)."""
        if self._is_damped:
            return self._fold_in_damped(rankings)
        lists, places = self._lists(rankings), self._places(rankings)
        n_factors = self.user_modes_.shape[2]
        modes = np.zeros((rankings.n_users, len(self.item_draws_), n_factors))
        scratch = np.empty(lists.items.size), np.empty(lists.items.size)
        for d, theta in enumerate(self.item_draws_):
            found = np.zeros((rankings.n_users, n_factors))
            update_users(
                *lists, TIES[self.ties], theta.astype(np.float64), self._precision(), found, np.empty_like(found),
                np.uint64(0), False, 50, 1e-9, *scratch, places, self._slopes(d),
            )  # fmt: skip
            modes[:, d] = found
        return modes

    def _lists(self, rankings: Rankings) -> Lists:
        """Rankings as they were learnt from: in this model's numbering, with its thresholds."""
        return Lists.anchored(rankings, self.thresholds_, len(self.item_ids), self._aligned_items(rankings))

    def _check_learned(self) -> None:
        super()._check_learned()
        shape, n_kept = np.shape(self.item_draws_), len(self.item_draws_)
        thresholds = np.asarray(self.thresholds_)
        if thresholds.ndim != 1 or np.any(np.diff(thresholds) <= 0):
            raise InputError("thresholds_ is not an ascending list of ratings")
        if not float(self.temperature_) > 0:
            raise InputError(f"temperature_ is {self.temperature_}, which is not above 0")
        if n_kept > (1 if self.posterior == "point" else self.n_draws):
            raise InputError(f"item_draws_ has {n_kept} draws, more than n_draws={self.n_draws} of {self.posterior!r}")
        n_factors = np.shape(self.user_modes_)[-1]
        if n_factors != self.n_factors and self.n_factors != "auto":
            raise InputError(f"user_modes_ has {n_factors} factors, and n_factors is {self.n_factors}")
        if shape != (n_kept, self.rankings_.n_items + thresholds.size, n_factors + 1):
            raise InputError(f"item_draws_ has shape {shape}, which does not fit the items and factors")
        if np.shape(self.user_modes_) != (n_kept, self.rankings_.n_users, n_factors):
            raise InputError(f"user_modes_ has shape {np.shape(self.user_modes_)}, which does not fit the users")
        table, slopes = np.shape(self.company_), np.shape(self.user_slopes_)
        if len(table) != 2 or table[0] != self.rankings_.n_items or slopes != (n_kept, table[1], n_factors):
            raise InputError(f"company_ and user_slopes_ have shapes {table} and {slopes}, which do not fit")
        if np.shape(self.item_variances_) != shape[:2] or np.any(np.asarray(self.item_variances_) < 0):
            raise InputError("item_variances_ does not fit the items, or holds values below 0")
        check_damping(np.asarray(self.damping_))


def _usual_sweeps(rankings: Rankings) -> int:
    wanted = _ENTRIES_VISITED // max(rankings.n_entries, 1)
    return int(np.clip(wanted, _FEWEST_SWEEPS, _MOST_SWEEPS))
