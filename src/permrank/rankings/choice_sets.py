"""Detection of top-k lists over a common choice set: ballots on which people name their first few."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from permrank.errors import ChoiceSetWarning, InputError, argument
from permrank.types import Float64Array

if TYPE_CHECKING:
    from permrank.rankings.rankings import Rankings

Unlisted: TypeAlias = Literal["ignore", "last"]
"""How items that a ranking does not list compare with those it lists: unknown, or below all of them."""

# A choice set is something that a person can look through: elections have up to some thirty candidates.
_MOST_ITEMS = 50
# Below this many rankings, neither unevenness nor association can be significant.
_FEWEST_RANKINGS = 100
# Fewer short lists than this change an estimate little, whatever they are taken for.
_SHORT_SHARE = 0.1
# A list of one item orders nothing. Where more than this share are such, to be listed is itself what lists say.
_SINGLE_SHARE = 0.03
# Where this share lists everything, everybody could have.
_WHOLE_SHARE = 0.05
# Listing that tells items further apart than order does is a choice by liking, unless the two have nothing in common.
# In PrefLib's elections with a limit of three the ratio of the two spreads is 1.2 to 4; where items were handed out, or
# met with odds of the root of their worth as in `simulated`, it is 0 to 0.9.
_COMMON, _FURTHER = 0.2, 1.25
# Standard deviations: of the chi-square of even listing, and of Spearman's correlation under independence (5 %).
_UNEVEN, _ASSOCIATED = 6.0, 1.645


def check_unlisted(unlisted: str | None) -> None:
    """Raise unless it is one of the two words, or left out."""
    if unlisted not in ("ignore", "last", None):
        raise InputError(f"{argument('unlisted', unlisted)}, expected 'ignore' or 'last'")


def warn_of_choice_set(rankings: Rankings, stacklevel: int) -> None:
    """Warn if lists look like top-k lists of a common choice set, where ``unlisted`` was left out."""
    evidence = evidence_of_choice_set(rankings)
    if evidence is not None:
        warnings.warn(
            f"these lists look like the tops of one choice set ({evidence}). Nothing is taken to be known of what a "
            "list leaves out, so that an item that few list, but list first, comes out on top. If what is left out "
            f"ranks last, as on a ballot, pass {argument('unlisted', 'last')}; if not, say "
            f"{argument('unlisted', 'ignore')}",
            ChoiceSetWarning,
            stacklevel=stacklevel + 1,
        )


def evidence_of_choice_set(rankings: Rankings) -> str | None:
    """Evidence for top-k lists of a common choice set, as a sentence, or None; linear in the entries.

    People who were handed a few items, or rank those that they know, leave out what they have not met. On a ballot
    they leave out what they like less. Where lists are tops, items are listed unevenly, and liking shows

    - in how often they are listed more than in where they are placed: the third of eleven is well liked, too, so that
      the order within a top of three says little; while of three that were handed out the third may be the worst; or
    - in both, and some list everything, so that everybody could have; or
    - in that some list one item, which orders nothing: to be listed is what such a list says.

    Liked items that were handed out much more often look the same: hence a warning, never a choice. Ratings, sets
    without order, several rankings of one person, pairs, large catalogues and few rankings are never taken for ballots.
    """
    m, total = rankings.n_items, float(rankings.weights.sum())
    if not 4 <= m <= _MOST_ITEMS or total < max(_FEWEST_RANKINGS, 2 * m) or rankings.n_rankings < 2 * m:
        return None
    if rankings.has_ties and not rankings.has_order:  # sets: nobody was asked for an order
        return None
    lengths = rankings.lengths
    if rankings.ratings is not None or rankings.n_rankings > rankings.n_users or (lengths == 2).all():
        return None
    # An order that lacks one item only is complete: the last position is left for it.
    shares = [float(rankings.weights[of].sum()) / total for of in (lengths < m - 1, lengths >= m - 1, lengths == 1)]
    short, whole, single = shares
    listed = np.bincount(rankings.items, rankings.entry_weights(), minlength=m) / total
    if short < _SHORT_SHARE or _unevenness(listed, total) < _UNEVEN:
        return None
    positions = _mean_positions(rankings)
    correlation = _correlation(listed, positions)
    signs = []
    if correlation > _COMMON and _spread(listed, 2 * listed - 1) > _FURTHER * _spread(listed, positions):
        signs.append("items differ more in how often they are listed than in where they are placed")
    elif whole > _WHOLE_SHARE and correlation * np.sqrt(m - 1) > _ASSOCIATED:
        signs.append(f"items that are listed more often are also placed better (rank correlation {correlation:.2f})")
    if single > _SINGLE_SHARE:
        signs.append(f"{single:.0%} list a single item")
    if not signs:
        return None
    return "; ".join([f"{short:.0%} of {total:,.0f} rankings list fewer than {m - 1} of {m} items", *signs])


def _mean_positions(rankings: Rankings) -> Float64Array:
    """Mean position of each item among those who list it: from -1, always last, to 1, always first; NaN if unknown."""
    last = np.repeat(rankings.last_levels, rankings.lengths)
    ordered = last > 0
    items, weights = rankings.items[ordered], rankings.entry_weights()[ordered]
    positions = 1 - 2 * rankings.levels[ordered] / last[ordered]
    sums = np.bincount(items, weights * positions, minlength=rankings.n_items)
    counts = np.bincount(items, weights, minlength=rankings.n_items)
    return np.asarray(np.divide(sums, counts, out=np.full(rankings.n_items, np.nan), where=counts > 0))


def _correlation(first: Float64Array, second: Float64Array) -> float:
    """Spearman's, over items of which both are known; 0 if one of them is constant."""
    both = np.isfinite(first) & np.isfinite(second)
    a, b = (_centred_ranks(values[both]) for values in (first, second))
    norm = np.sqrt((a @ a) * (b @ b))
    return float(a @ b / norm) if norm > 0 else 0.0


def _centred_ranks(values: Float64Array) -> Float64Array:
    ordered = np.sort(values)
    ranks = np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")
    return (ranks - values.size).astype(np.float64)  # the mean: each pair counts once from either side


def _spread(listed: Float64Array, values: Float64Array) -> float:
    """Standard deviation of values in [-1, 1] as log-odds, each item counted as often as it is listed."""
    valid = np.isfinite(values) & (listed > 0)
    odds, weights = 2 * np.arctanh(np.clip(values[valid], -0.99, 0.99)), listed[valid] / listed[valid].sum()
    return float(np.sqrt(weights @ (odds - weights @ odds) ** 2))


def _unevenness(listed: Float64Array, total: float) -> float:
    """Chi-square of how often items are listed, were all as likely, in its standard deviations from its mean."""
    m, share = listed.size, float(listed.mean())
    if not 0 < share < 1:
        return 0.0
    # Lists of different lengths vary less than a coin of their mean length, so this errs towards silence.
    chi_square = float(((listed - share) ** 2).sum()) * total / (share * (1 - share)) * (m - 1) / m
    return float((chi_square - (m - 1)) / np.sqrt(2 * (m - 1)))
