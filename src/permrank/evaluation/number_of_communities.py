"""How many communities: held-out likelihood, and information criteria where they are defined."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from permrank.checks import require_int, require_seed
from permrank.core.ranker import Ranker
from permrank.errors import ConvergenceWarning, InputError, NotSupportedError
from permrank.learning.held_out import choose_by_held_out
from permrank.markup import Result, shown_number
from permrank.randomness import generator
from permrank.rankings.rankings import Rankings
from permrank.rankings.selection import repeated
from permrank.rankings.validate import require_rankings
from permrank.types import Float64Array, Named


@dataclass(frozen=True, eq=False, repr=False)
class CommunityChoice(Result):
    """What `choose_communities` returns.

    Attributes
    ----------
    frame : polars.DataFrame
        A row for each number: ``communities``; ``held_out``, the mean log-probability of a ranking of somebody who was
        held out; ``below_best``, by how much it is lower than the best, with its ``standard_error`` over people; and
        for `Mallows` ``log_likelihood``, ``df``, ``bic`` and ``icl`` of the fit to all data (lower is better).
    best : int
        The number with the best held-out likelihood.
    smallest : int
        The smallest number that is within one standard error of the best.
    model : Ranker
        Fitted to all data with the best number.
    """

    frame: pl.DataFrame
    best: int
    smallest: int
    model: Ranker

    def to_dict(self) -> Named:
        """The table and the choice, for JSON."""
        return {"best": self.best, "smallest": self.smallest, "numbers": self.frame.to_dicts()}

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        rows = [[shown_number(value) for value in row] for row in self.frame.iter_rows()]
        return [name.replace("_", " ") for name in self.frame.columns], rows

    def _title(self) -> str:
        return "Number of communities"

    def _notes(self) -> list[str]:
        return [f"best by held-out likelihood: {self.best}; smallest within one standard error of it: {self.smallest}"]


def choose_communities(
    model: Ranker, rankings: Rankings, numbers: Iterable[int] = (1, 2, 3, 4, 5, 6), *, folds: int = 5, seed: int = 0
) -> CommunityChoice:
    """Choose the number of communities by the likelihood of held-out people.

    People are divided into folds; for each number the model is fitted without one fold, and the log-probability of
    the rankings of that fold is taken, their community unknown. For `Mallows` there are also Schwarz's criterion (BIC)
    and the integrated completed likelihood (ICL), which is BIC and twice the entropy of the memberships: it prefers
    communities that are clearly apart. A likelihood-ratio test would not be valid here.

    Parameters
    ----------
    model : Ranker
        With a parameter ``n_communities``, fitted or not: `Mallows` or `LatentPlackettLuce`.
    rankings : Rankings
    numbers : ints
        To be tried.
    folds : int
    seed : int
        Of the folds.

    Returns
    -------
    CommunityChoice

    Examples
    --------
    >>> import permrank as pr
    >>> ballots = [["a", "b", "c", "d"], ["b", "a", "c", "d"], ["d", "c", "b", "a"], ["d", "c", "a", "b"]]
    >>> rankings = pr.Rankings.from_lists(ballots, weights=[30, 12, 20, 9])
    >>> found = pr.choose_communities(pr.Mallows(n_starts=2), rankings, (1, 2), folds=3)
    >>> found.best > 1
    True
    >>> found.frame.columns[:4]
    ['communities', 'held_out', 'below_best', 'standard_error']
    """
    if not isinstance(model, Ranker) or "n_communities" not in model.get_params() or not hasattr(model, "assignments"):
        raise NotSupportedError(
            f"{type(model).__name__} has no communities to choose; Mallows and LatentPlackettLuce do"
        )
    tried = sorted(set(numbers))
    for number in tried:
        require_int("numbers", number, 1)
    require_seed(seed)
    data = repeated(require_rankings(rankings))
    require_int("folds", folds, 2, data.n_users)
    if not tried:
        raise InputError("numbers is empty; give the numbers of communities to try, such as (1, 2, 3)")
    fold = generator(seed).permutation(data.n_users) % folds
    choice = choose_by_held_out(tried, lambda number: _held_out(model, data, number, fold, folds))
    gaps, errors = choice.below_best()
    whole = [_with(model, number).fit(rankings, verbose=False) for number in tried]
    columns: Named = {
        "communities": tried, "held_out": choice.means, "below_best": gaps, "standard_error": errors,
    }  # fmt: skip
    if hasattr(model, "summary"):
        columns |= _criteria(whole)
    best = whole[tried.index(choice.best)]
    return CommunityChoice(pl.DataFrame(columns), choice.best, choice.simplest, best)


def _with(model: Ranker, number: int) -> Ranker:
    return model.clone().set_params(n_communities=int(number))


def _held_out(model: Ranker, data: Rankings, number: int, fold: Any, folds: int) -> Float64Array:
    """Log-probability of every ranking of the data, from a fit without its fold."""
    names = np.array(data.user_ids.ids.to_list(), object)
    values = np.empty(data.n_rankings)
    for one in range(folds):
        with warnings.catch_warnings():  # a community too many may wander for ever; the fit to all data says so
            warnings.simplefilter("ignore", ConvergenceWarning)
            fitted = _with(model, number).fit(data.select(users=names[fold != one].tolist()), verbose=False)
        tested = data.select(users=names[fold == one].tolist())
        values[(fold == one)[data.ranking_users]] = fitted.log_likelihood(tested)
    return values


def _criteria(models: list[Any]) -> Named:
    """In-sample likelihood, degrees of freedom, BIC and ICL."""
    summaries = [model.summary() for model in models]
    entropies = []
    for model in models:
        own, data = model.memberships_, model.rankings_
        people = data.weights if data.anonymous else np.ones(data.n_users)
        entropies.append(-float(people @ np.sum(own * np.log(np.where(own > 0, own, 1.0)), axis=1)))
    bic = [summary.bic for summary in summaries]
    return {
        "log_likelihood": [summary.log_likelihood for summary in summaries],
        "df": [int(summary.df) for summary in summaries],
        "bic": bic,
        "icl": [value + 2.0 * entropy for value, entropy in zip(bic, entropies, strict=True)],
    }
