"""What users ask of a model: one line each, for what answers is the `Fitted`, or a `Person`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl

from permrank.core import answers, explanation
from permrank.core.answers import nearest
from permrank.core.distribution import RankingDistribution
from permrank.core.fitted import Fitted
from permrank.core.person import Person
from permrank.core.settings import Settings
from permrank.errors import InputError, NotFittedError
from permrank.markup import html_table
from permrank.processes import refuse_after_fork, refuse_unsafe_threads
from permrank.rankings.rankings import Rankings
from permrank.rankings.validate import require_rankings
from permrank.rankings.vocabulary import Vocabulary
from permrank.types import Float64Array, Friends, Named


class Questions(Settings):
    """What may be asked of every model; `Ranker` has what answers."""

    # What was learnt

    @property
    def fitted_(self) -> Fitted:
        """What was learnt, from what, and with which settings."""
        refuse_after_fork()
        refuse_unsafe_threads()
        fitted: Fitted | None = vars(self).get("_fitted")
        if fitted is None:
            raise NotFittedError(f"this {type(self).__name__} is not fitted; call fit(rankings) first")
        return fitted

    @fitted_.setter
    def fitted_(self, fitted: Fitted) -> None:
        vars(self)["_fitted"] = fitted

    @property
    def _learnt_with(self) -> Self:
        """The settings that the estimate was learnt with."""
        settings: Self = self.fitted_.settings  # type: ignore[assignment]
        return settings

    @property
    def rankings_(self) -> Rankings:
        """The training data."""
        return self.fitted_.rankings

    @property
    def estimate_(self) -> Any:
        """What was learnt."""
        return self.fitted_.estimate

    @property
    def fitted_params_(self) -> Named:
        """Parameters that the estimate was learnt with."""
        return self.fitted_.settings.get_params()

    @property
    def history_(self) -> list[float]:
        """The objective after every sweep."""
        return self.fitted_.trace.history

    @property
    def n_iter_(self) -> int:
        """Sweeps made."""
        return len(self.fitted_.trace.history)

    @property
    def validation_(self) -> Float64Array:
        """Sweep and score of every measurement on held-out data."""
        return self.fitted_.trace.validation

    @property
    def best_iter_(self) -> int:
        """The sweep that the estimate is of."""
        return self.fitted_.trace.best_iter

    @property
    def converged_(self) -> bool:
        """Whether learning ended by itself."""
        return self.fitted_.trace.converged

    @property
    def fit_seconds_(self) -> float:
        """Wall time of `fit`."""
        return self.fitted_.trace.seconds

    @property
    def item_ids(self) -> Vocabulary:
        """Items that the model knows."""
        return self.fitted_.item_ids

    @property
    def user_ids(self) -> Vocabulary:
        """Users that the model knows."""
        return self.fitted_.user_ids

    # Answers

    def person(self, user: object) -> Person:
        """Somebody who can be asked: a user by id, somebody new, or None for nobody in particular.

        Examples
        --------
        >>> import permrank as pr
        >>> lists = {"ann": ["a", "b"], "bob": ["b", "c", "d"], "cat": ["c", "a", "b"]}
        >>> model = pr.Popularity(count="listed").fit(pr.Rankings.from_lists(lists))
        >>> model.person("ann").recommend(1)["item"].to_list()
        ['c']
        """
        return self.fitted_.person(user)

    def fold_in(
        self,
        said: object,
        *,
        features: Mapping[str, object] | None = None,
        friends: Friends | None = None,
    ) -> Person:
        """Make a new user from a list, best first, or from a dict of item to rating, without retraining.

        Parameters
        ----------
        said : list, dict or Rankings
            Sets in a list are ties. Empty for somebody of whom nothing is known: the answers are those for a user
            without a list.
        features : dict, optional
            Attributes of the person, where the model has learnt from such features of users.
        friends : ids of users, or dict of id to weight, optional
            Users of the training data with whom the person is linked, where the model has learnt from links.
        """
        return self.fitted_.meet(said, features=features, friends=friends)

    def score(self, user: object, items: Iterable[object] | None = None) -> Float64Array:
        """Scores of items for a user, higher is better; all items of `item_ids` if none are given."""
        return self.person(user).score(items)

    def score_pairs(self, users: Iterable[object], items: Iterable[object]) -> Float64Array:
        """Scores of many (user, item) pairs at once, each as `score` gives it: two sequences of ids, equally long."""
        fitted = self.fitted_
        who, what = fitted.user_ids.indices(users), fitted.item_ids.indices(items)
        if who.size != what.size:
            raise InputError(f"{who.size} users and {what.size} items; give one item for each user")
        return fitted.score_pairs(who, what)

    def rank(
        self, user: object, items: Iterable[object], *, k: int | None = None, interval: bool = False
    ) -> pl.DataFrame:
        """Order the given items for a user, best first.

        Parameters
        ----------
        user : id or new user
        items : ids or titles
        k : int, optional
            How many count as the best; 10, or half of the items if there are fewer than 20.
        interval : bool
            Add ``rank_low`` and ``rank_high``: with a probability of at least 0.9 the item's rank among these lies
            between. `tie_groups` says what can be told apart.

        Returns
        -------
        polars.DataFrame
            Columns ``rank`` (from 1), ``item``, ``title`` if items have one, ``score``, and where the model says how
            likely every ranking is, ``top_probability``: of being among the best ``k`` of these items.
        """
        return self.person(user).rank(items, k=k, interval=interval)

    def recommend(
        self,
        users: object,
        k: int = 10,
        *,
        items: Iterable[object] | None = None,
        exclude: Iterable[object] = (),
        exclude_listed: bool = True,
        where: pl.Expr | str | None = None,
        include_new: bool = False,
        probability: bool = False,
        interval: bool = False,
    ) -> pl.DataFrame:
        """Return the best ``k`` items that a user has not listed, or each of several users; fewer if there are fewer.

        Parameters
        ----------
        users : id, new user, list of these, or None
            None is everybody, or nobody in particular where a model treats all alike.
        k : int
        items : ids or titles, optional
            Only these are recommended.
        exclude : ids or titles
            These are not.
        exclude_listed : bool
            Leave out what the user has listed.
        where : polars.Expr or str, optional
            A condition on the attributes of items (`Rankings.with_items`), such as ``pl.col("year") > 1990``, or
            ``"genres contains Comedy and year > 1990"``. Items of which it is not known are left out.
        include_new : bool
            Also items that nobody has ranked, and that the model knows by their features alone
            (`Rankings.with_features`); the column ``stands_on`` then says "rankings" or "features".
        probability : bool
            Add ``top_probability``, of being among the best ``k`` of all that could be recommended, where the model
            says how likely every order is and `recommend` goes by that.
        interval : bool
            Add ``rank_low`` and ``rank_high`` likewise: with a probability of at least 0.9 the item's rank among all
            that could be recommended lies between.

        Returns
        -------
        polars.DataFrame
            Columns ``rank`` (from 1), ``item``, ``title`` if items have titles, ``score``; before them ``user`` if
            several are asked about.

        Examples
        --------
        >>> import permrank as pr
        >>> lists = {"ann": ["a", "b"], "bob": ["b", "c", "d"], "cat": ["c", "a", "b"]}
        >>> model = pr.Popularity(count="listed").fit(pr.Rankings.from_lists(lists))
        >>> model.recommend("ann", k=2)["item"].to_list()
        ['c', 'd']
        >>> model.recommend(["ann", "cat"], k=1).rows()
        [('ann', 1, 'c', 2.0), ('cat', 1, 'd', 1.0)]
        >>> model.recommend("ann", exclude=["c"])["item"].to_list()
        ['d']
        """
        return answers.recommend(
            self.fitted_, users, k, items=items, exclude=exclude, exclude_listed=exclude_listed, where=where,
            include_new=include_new, probability=probability, interval=interval,
        )  # fmt: skip

    def explain(self, user: object, item: object, *, k: int = explanation.ROWS, full: bool = False) -> pl.DataFrame:
        """Say which of the things that a person has listed speak for an item, and which against it.

        Parameters
        ----------
        user : id or new user
        item : id or title
        k : int
            Rows at the most: the listed items that count most, the others together, and the baseline, which is what the
            item has for everybody. An item that is on the list itself is no reason for itself: what it adds is among
            the others.
        full : bool
            A row for every other listed item instead.

        Returns
        -------
        polars.DataFrame
            Columns ``reason`` (``for``, ``against``, ``others``, ``baseline``), ``item`` and, where there are such,
            ``title`` and the person's ``rating`` of it, or ``place`` in the list; ``contribution``, which adds up to
            the score that `recommend` goes by; and ``share``, the part of all that is shown that speaks for (or,
            negative, against) the item: absolute values add up to 1. What speaks for the item comes first, largest
            first, then what speaks against it, then the others and the baseline.

        Examples
        --------
        >>> import permrank as pr
        >>> breakfasts = {"ann": "tea milk", "bob": "tea milk", "cat": "tea", "dan": "juice egg", "eve": "juice egg"}
        >>> lists = {name: [set(items.split())] for name, items in breakfasts.items()}
        >>> model = pr.Recommender(n_factors=2).fit(pr.Rankings.from_lists(lists))
        >>> model.explain("cat", "milk")["reason"].to_list()
        ['for', 'baseline']
        """
        return self.person(user).explain(item, k=k, full=full)

    def because(self, user: object, item: object) -> str:
        """Say in a sentence why an item is recommended to a person: `explain` in words.

        Examples
        --------
        >>> import permrank as pr
        >>> breakfasts = {"ann": "tea milk", "bob": "tea milk", "cat": "tea", "dan": "juice egg", "eve": "juice egg"}
        >>> lists = {name: [set(items.split())] for name, items in breakfasts.items()}
        >>> model = pr.Recommender(n_factors=2).fit(pr.Rankings.from_lists(lists))
        >>> model.because("cat", "milk")
        'milk: because you chose tea'
        """
        return self.person(user).because(item)

    def tie_groups(
        self, user: object = None, items: Iterable[object] | None = None, *, level: float = 0.9
    ) -> pl.DataFrame:
        """Say which items can be told apart, and put those whose order the data do not settle into groups.

        Two items are told apart if the difference of their scores is larger than c of its standard errors. c is such
        that, with probability ``level``, no pair of all the items would be, were its true difference 0: the maximum
        over all pairs is what is looked at (as in Tukey's method), by draws from the distribution of the estimates. So
        with probability ``level`` everything that is said is right, also where items are exactly equal.

        Parameters
        ----------
        user : id, new user, or None
            Where a model treats all alike, nobody in particular.
        items : ids or titles, optional
            All, if none are given; at most 1,000.
        level : float
            Between 0 and 1.

        Returns
        -------
        polars.DataFrame
            Columns ``rank``, ``item``, ``title`` if items have one, ``score``; ``rank_low`` and ``rank_high``, between
            which the rank is: behind all items that are better, and before all that are worse; and ``group``, from 1:
            each item of a group is better than each of a later one, and groups are as small as that can be said.

        Examples
        --------
        >>> import permrank as pr
        >>> ballots = pr.Rankings.from_lists([["a", "b", "c"], ["b", "a", "c"], ["c", "b", "a"]], weights=[40, 39, 4])
        >>> pr.PlackettLuce().fit(ballots).tie_groups().select("item", "rank_low", "rank_high", "group").rows()
        [('b', 1, 2, 1), ('a', 1, 2, 1), ('c', 3, 3, 2)]
        """
        return self.person(user).tie_groups(items, level=level)

    def distribution(self, user: object, items: Iterable[object] | None = None) -> RankingDistribution:
        """P(ranking of the items | user) as an object, over all items if none are given; items are numbered from 0.

        Examples
        --------
        >>> import permrank as pr
        >>> ballots = pr.Rankings.from_lists([["a", "b", "c"], ["b", "a", "c"], ["c", "a", "b"]], weights=[3, 2, 1])
        >>> worths = pr.PlackettLuce().fit(ballots).distribution(None, ["c", "b"])
        >>> round(worths.prefers(1, 0), 3), worths.sample(2, seed=1).shape
        (0.851, (2, 2))
        """
        return self.person(user).law(items)

    def prefers(self, user: object, item: object, other: object) -> float:
        """Return the probability that ``item`` is ranked before ``other``."""
        return self.person(user).prefers(item, other)

    def prefers_pairs(self, users: Iterable[object], items: Iterable[object], others: Iterable[object]) -> Float64Array:
        """Probabilities that each user ranks the one item before the other: three sequences of ids, equally long.

        Examples
        --------
        >>> import permrank as pr
        >>> ballots = pr.Rankings.from_lists({"ann": ["a", "b", "c"], "bob": ["b", "a", "c"]})
        >>> model = pr.FactoredThurstone(n_factors=1, max_iter=30).fit(ballots)
        >>> model.prefers_pairs(["ann", "bob"], ["a", "a"], ["b", "b"]).round(2).tolist()
        [1.0, 0.0]
        """
        return answers.prefers_pairs(self.fitted_, users, items, others)

    def top_probability(self, user: object, items: Iterable[object], k: int = 1) -> Float64Array:
        """Return the probability of each item to be among the first ``k`` of the given items."""
        return self.person(user).top_probability(items, k)

    def position_probabilities(self, user: object, item: object) -> Float64Array:
        """Return the probabilities of the positions where an item would enter the user's list (§3.2.2, §4.4).

        The order of the list stays as it is. Position j has j of its n items before it: 0 is before everything, n after
        the last.
        """
        return self.person(user).position_probabilities(item)

    def sample(self, user: object, items: Iterable[object] | None = None, size: int = 1, seed: int = 0) -> np.ndarray:
        """Draw rankings of the items (all, if none are given) from P(. | user): ids, best first, (size, n)."""
        return self.person(user).sample(items, size, seed)

    def log_likelihood(self, rankings: Rankings) -> Float64Array:
        """Return the log-probability of each ranking once, whatever its weight; `total_log_likelihood` has weights."""
        self.fitted_.refuse("log_likelihood")

    def total_log_likelihood(self, rankings: Rankings) -> float:
        """Return the log-probability of all rankings, each as often as its weight says.

        This is Σ_r weight_r log P(ranking_r). The sum of `log_likelihood` counts every distinct ballot once, however
        many people cast it.
        """
        return float(require_rankings(rankings).weights @ self.log_likelihood(rankings))

    def similar_items(self, item: object, k: int = 10) -> pl.DataFrame:
        """Items that people like together with this one: ``rank``, ``item``, ``similarity``, best first."""
        fitted = self.fitted_
        index = fitted.item_ids.find(item)
        return nearest(fitted.settings._item_likeness(fitted, index), index, k, fitted.item_ids)

    def similar_users(self, user: object, k: int = 10) -> pl.DataFrame:
        """Users of the training data who rank as this one does: ``rank``, ``user``, ``similarity``."""
        fitted = self.fitted_
        person = fitted.person(user)
        own = -1 if person.index is None else person.index
        return nearest(fitted.settings._user_likeness(fitted, person), own, k, fitted.user_ids)

    def plot(
        self,
        kind: str | None = None,
        *,
        path: str | Path | None = None,
        n_items: int | None = None,
        user: object = None,
        rankings: object = None,
    ) -> Any:
        """Draw the fitted model; it needs matplotlib (``pip install 'permrank[plot]'``).

        Parameters
        ----------
        kind : str, optional
            ``worths`` (scores, with bars for comparisons), ``positions`` (probability of every position, as a heat
            map), ``communities``, ``map`` (items by two factors), ``effects`` (of a `SpectralAnalysis`), ``chains``
            (of a log-linear model), ``learning`` and ``validation`` (curves) or ``reliability``.
            ``permrank.plots.kinds(model)`` says which a model has; the first of them if not given.
        path : str or Path, optional
            Write it to this file too (PNG, SVG or PDF, by the ending).
        n_items : int, optional
            The most items that are shown.
        user : id, or new user, optional
            Whose positions, or chains; everybody's if not given.
        rankings : Rankings or Split, optional
            Held-out rankings, for ``reliability``.

        Returns
        -------
        matplotlib.figure.Figure
            It shows itself in a notebook, and has a method ``save(path)``.
        """
        from permrank.interfaces.plots import plot

        return plot(self.fitted_.as_model(), kind, path=path, n_items=n_items, user=user, rankings=rankings)

    # Files

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one file, atomically; `permrank.load` reads it back."""
        from permrank.core.model_files import save

        save(self.fitted_, path)

    # What is shown

    def __repr__(self) -> str:
        """The call that makes the model, which can be evaluated; and, once it is fitted, what it was fitted to."""
        fitted: Fitted | None = vars(self).get("_fitted")
        return self.call() if fitted is None else told_of(fitted)

    def _repr_html_(self) -> str:
        fitted: Fitted | None = vars(self).get("_fitted")
        asked = self if fitted is None else fitted.settings
        rows = [[name, textwrap.shorten(repr(value), 80)] for name, value in asked.get_params().items()]
        notes = [getattr(type(self), "assumes", "")]
        if fitted is not None:
            ended = "" if fitted.trace.converged else ", not converged"
            notes += [f"fitted to {fitted.rankings!r}"]
            notes += [f"{len(fitted.trace.history):,} sweeps{ended}, {fitted.trace.seconds:.2f} s"]
        return html_table(
            ["parameter", "value"], rows, title=type(self).__name__, notes=[note for note in notes if note]
        )

    # What scikit-learn asks of an object that does not inherit its base class; nothing else calls these.

    def __sklearn_tags__(self) -> object:
        """A model that wants no target."""
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False))

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is an estimate."""
        return vars(self).get("_fitted") is not None


def told_of(fitted: Fitted) -> str:
    """The call that makes a fitted model, and what it was fitted to."""
    data = fitted.rankings
    n, total = int(data.n_rankings), float(data.weights.sum())
    if total == n:
        what = f"{n:,} ranking{'s' * (n != 1)}"
    elif data.anonymous:
        what = f"{total:,.12g} rankings ({n:,} distinct)"
    else:
        what = f"{n:,} rankings, of total weight {total:,.12g},"
    return f"{fitted.settings.call()} fitted to {what} of {data.n_items:,} items"
