"""Likelihood-ratio tests between nested models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import chdtrc

from permrank.core.questions import told_of
from permrank.core.ranker import Ranker
from permrank.errors import InputError, NotSupportedError
from permrank.inference.likelihood import Likelihood
from permrank.markup import Result, printable, shown_p
from permrank.rankings.rankings import Rankings
from permrank.types import Named

# Families of which the uniform law is the case of equal worths.
_WITH_UNIFORM = ("Plackett-Luce, ties=exact", "Bradley-Terry, ties=none")
_TOL = 1e-6


@dataclass(frozen=True, repr=False)
class LikelihoodRatioTest(Result):
    """What `likelihood_ratio_test` returns.

    Attributes
    ----------
    small : str
        The smaller model, and what it was fitted to.
    large : tuple of str
        The larger one, or its parts.
    log_likelihoods : tuple of float
        Of the smaller one, and of the larger or each of its parts.
    statistic : float
        Twice the difference.
    df : float
        Difference of the numbers of parameters.
    p : float
        P(chi-square of df degrees of freedom >= statistic).
    """

    small: str
    large: tuple[str, ...]
    log_likelihoods: tuple[float, ...]
    statistic: float
    df: float
    p: float

    def to_dict(self) -> Named:
        """All of it, for JSON."""
        return asdict(self) | {"large": list(self.large), "log_likelihoods": list(self.log_likelihoods)}

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        models = [self.small, *self.large]
        rows = [[printable(m), f"{v:.4f}", "", "", ""] for m, v in zip(models, self.log_likelihoods, strict=True)]
        if len(rows) > 2:
            rows.append(["all parts", f"{sum(self.log_likelihoods[1:]):.4f}", "", "", ""])
        rows[-1][2:] = [f"{self.statistic:.4f}", f"{self.df:g}", shown_p(self.p)]
        return ["model", "log-likelihood", "chi-square", "df", "p"], rows

    def _title(self) -> str:
        return "Likelihood-ratio test"


def likelihood_ratio_test(small: Ranker, large: Ranker | Sequence[Ranker]) -> LikelihoodRatioTest:
    """Test whether a larger model fits significantly better than one that it contains.

    Twice the difference of the log-likelihoods is compared with a chi-square distribution, which holds for many
    rankings and few items. Two questions can be asked:

    * Do the items differ at all? ``small`` is a fitted `Random`, all orders being equally likely, and ``large`` a
      `PlackettLuce`, or a `BradleyTerry` of comparisons without ties.
    * Do groups of people rank differently? ``small`` is fitted to everybody, and ``large`` is a list of models of the
      same kind, one fitted to each group; together they have the same rankings.

    Models that are not nested, that were fitted to other data, or with a prior, are refused, and so are numbers of
    communities, for which the chi-square distribution does not hold (`choose_communities` is there for these).

    Parameters
    ----------
    small : Ranker
        Fitted by maximum likelihood.
    large : Ranker or list of Ranker

    Returns
    -------
    LikelihoodRatioTest

    Examples
    --------
    >>> import permrank as pr
    >>> lists = [["a", "b", "c"], ["b", "a", "c"], ["a", "c", "b"], ["c", "a", "b"]]
    >>> weights = {"young": [20, 9, 8, 3], "old": [5, 9, 8, 19], "all": [25, 18, 16, 22]}
    >>> fits = {who: pr.PlackettLuce().fit(pr.Rankings.from_lists(lists, weights=w)) for who, w in weights.items()}
    >>> test = pr.likelihood_ratio_test(fits["all"], [fits["young"], fits["old"]])
    >>> round(test.statistic, 2), test.df, test.p < 0.001
    (21.52, 2.0, True)
    """
    parts = [large] if isinstance(large, Ranker) else list(large)
    if not isinstance(small, Ranker) or not parts or not all(isinstance(part, Ranker) for part in parts):
        raise InputError("expected a fitted model and another, or a list of models fitted to parts of the data")
    one, others = _likelihood(small), [_likelihood(part) for part in parts]
    _require_nested(one, others, small, parts)
    _require_same_data(small.rankings_, [part.rankings_ for part in parts])
    value, df = sum(other.value for other in others), sum(other.df for other in others) - one.df
    statistic = 2.0 * (value - one.value)
    if statistic < -_TOL * max(1.0, abs(value)):
        raise InputError(
            "the larger model fits worse than the smaller one: it has not converged; fit with a smaller tol"
        )
    if df <= 0:
        raise InputError("the larger model has no more parameters than the smaller one; there is nothing to test")
    statistic = max(statistic, 0.0)
    values = (one.value, *(other.value for other in others))
    told = tuple(told_of(part.fitted_) for part in parts)
    return LikelihoodRatioTest(told_of(small.fitted_), told, values, statistic, df, float(chdtrc(df, statistic)))


def _likelihood(model: Ranker) -> Likelihood:
    fitted = model.fitted_
    found: Any = getattr(fitted.settings, "_likelihood", None)
    if found is None:
        if hasattr(model, "communities"):
            raise NotSupportedError(
                f"{type(model).__name__} has communities, whose number no chi-square test decides: with one too many "
                "some parameters mean nothing. permrank.choose_communities compares numbers of them"
            )
        raise NotSupportedError(f"{type(model).__name__} has no maximum-likelihood estimate with degrees of freedom")
    likelihood: Likelihood = found(fitted)
    if likelihood.family != "uniform" and not likelihood.flat:
        raise NotSupportedError(f"{model!r} has a prior; likelihood-ratio tests are for maximum likelihood, prior=None")
    if "shuffle" in likelihood.family:
        raise NotSupportedError(f"{model!r} shuffled ties, so its estimate maximises nothing; fit with ties='exact'")
    if "broken" in likelihood.family:
        raise NotSupportedError(f"the likelihood of {model!r} is none: lists were broken into pairs. Use PlackettLuce")
    return likelihood


def _require_nested(one: Likelihood, others: Sequence[Likelihood], small: Ranker, parts: Sequence[Ranker]) -> None:
    families = {other.family for other in others}
    if len(families) > 1:
        raise InputError(f"the parts are of different models: {', '.join(sorted(families))}")
    (family,) = families
    if one.family == "uniform" and family in _WITH_UNIFORM:
        return
    if one.family == family and len(others) == 1:
        raise InputError(f"{small!r} and {parts[0]!r} are the same model; there is nothing to test")
    if one.family != family:
        raise InputError(f"{one.family} is no special case of {family}: the models are not nested")


def _require_same_data(whole: Rankings, parts: Sequence[Rankings]) -> None:
    told, wanted = Counter[tuple[bytes, ...]](), _content(whole)
    for part in parts:
        told.update(_content(part))
    if set(told) != set(wanted) or not all(np.isclose(told[key], wanted[key], rtol=1e-12) for key in wanted):
        raise InputError(
            "the models were fitted to different rankings; fit them to the same, or the parts to groups that together "
            "are all of them"
        )


def _content(rankings: Rankings) -> Counter[tuple[bytes, ...]]:
    """Weight of every different ranking, by ids; of rankings that say something about an order."""
    names = np.array([str(name).encode() for name in rankings.item_ids], object)
    found: Counter[tuple[bytes, ...]] = Counter()
    for r in np.flatnonzero(rankings.lengths > 1):
        part = slice(rankings.indptr[r], rankings.indptr[r + 1])
        found[(rankings.levels[part].tobytes(), *names[rankings.items[part]])] += rankings.weights[r]
    return found
