"""Questions of an evaluation put to a model: scores of what is hidden, likelihoods, and probabilities of pairs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from permrank.core.person import Person
from permrank.core.ranker import Ranker
from permrank.randomness import generator, stream_key
from permrank.rankings.rankings import Rankings
from permrank.rankings.selection import keep_entries
from permrank.rankings.vocabulary import Vocabulary
from permrank.types import Array, BoolArray, Float64Array, Int64Array

# A person's pairs share items, so that more of them say less; but what a model needs of a person it needs once.
_PAIRS_A_RANKING = 5


def indices_in(other: Vocabulary, known: Vocabulary) -> Int64Array:
    """Index of every id of one vocabulary in another, -1 where it is not there."""
    return known.search(other.ids).astype(np.int64)


def hidden_scores(model: Ranker, test: Rankings, given: Rankings | None, *, cold_users: bool = False) -> Float64Array:
    """Scores of all entries of the test part, NaN where the model has none; those of unknown users if they are cold."""
    scores = np.full(test.n_entries, np.nan)
    item = indices_in(test.item_ids, model.item_ids)[test.items]
    if given is None:
        user = indices_in(test.user_ids, model.user_ids)[test.entry_users()]
        asked = np.flatnonzero((item >= 0) & (user >= 0))
        if asked.size:
            who, what = model.user_ids.take(user[asked]), model.item_ids.take(item[asked])
            scores[asked] = model.score_pairs(who, what)
        new = np.flatnonzero((item >= 0) & (user < 0))
        if cold_users and new.size:
            scores[new] = model.fitted_.scores(model.fold_in([]), item[new])
    else:
        bounds = test.user_bounds
        for index, person in people(model, test, given):
            part = np.arange(bounds[index], bounds[index + 1])
            part = part[item[part] >= 0]
            if person is not None and part.size:
                scores[part] = person.fitted.scores(person, item[part])
    return scores


def people(model: Ranker, test: Rankings, given: Rankings | None) -> Iterator[tuple[int, Person | None]]:
    """Every user of the test part as the model knows them: by index, folded in, or None."""
    if given is None:
        for index, known in enumerate(indices_in(test.user_ids, model.user_ids).tolist()):
            yield index, Person(model.fitted_, known) if known >= 0 else None
        return
    known_items = indices_in(given.item_ids, model.item_ids)
    said = keep_entries(given, known_items[given.items] >= 0)
    for index, own in enumerate(indices_in(test.user_ids, said.user_ids).tolist()):
        if own < 0 or said.user_indptr[own] == said.user_indptr[own + 1]:
            yield index, None
        elif said.ratings is None:
            yield index, model.fold_in(said.lists(said.user_ids[own])[0])
        else:
            first = int(said.user_indptr[own])
            part = slice(int(said.indptr[first]), int(said.indptr[first + 1]))
            ids = said.item_ids.take(said.items[part].astype(np.int64)).to_list()
            yield index, model.fold_in(dict(zip(ids, said.ratings[part].tolist(), strict=True)))


def log_likelihoods(model: Ranker, test: Rankings) -> Float64Array:
    """log P of every test ranking, of its known items; NaN where fewer than two are known."""
    known: BoolArray = (indices_in(test.item_ids, model.item_ids) >= 0)[test.items]
    owner = test.entry_rankings()
    known &= (np.bincount(owner[known], minlength=test.n_rankings) >= 2)[owner]
    asked = np.unique(owner[known])
    out = np.full(test.n_rankings, np.nan)
    if asked.size:
        out[asked] = model.log_likelihood(keep_entries(test, known))
    return out


def cross_entropies(model: Ranker, test: Rankings, given: Rankings | None) -> Float64Array:
    """-log P(one before the other), mean over the pairs of every test ranking that are not tied; NaN without a pair."""
    item, owner = indices_in(test.item_ids, model.item_ids)[test.items], test.ranking_users
    persons, out = dict(people(model, test, given)), np.full(test.n_rankings, np.nan)
    rows, asked = [], []
    for ranking, (begin, end) in enumerate(pairwise(test.indptr.tolist())):
        person = persons.get(int(owner[ranking]))
        first, second = np.triu_indices(end - begin, 1)
        first, second = first + begin, second + begin
        told = (test.levels[first] < test.levels[second]) & (item[first] >= 0) & (item[second] >= 0)
        pairs = np.column_stack((item[first[told]], item[second[told]]))
        if person is None or not len(pairs):
            continue
        if person.index is not None:
            rows.append(np.column_stack((np.full(len(pairs), ranking), np.full(len(pairs), person.index), pairs)))
        else:
            found = person.fitted.prefers(person, pairs[:, 0], pairs[:, 1])
            asked.append((ranking, _surprise(found).mean()))
    for ranking, value in asked:
        out[ranking] = value
    if rows:
        ranking, *known = np.concatenate(rows).T
        fitted = model.fitted_
        surprise = _surprise(fitted.prefers_pairs(*known))
        total = np.bincount(ranking, surprise, test.n_rankings)
        count = np.bincount(ranking, minlength=test.n_rankings)
        out[count > 0] = total[count > 0] / count[count > 0]
    return out


def _surprise(p: Float64Array) -> Float64Array:
    """-log p, of at most 27.6: what is said to be impossible and comes true is no better than 1e-12."""
    return np.asarray(-np.log(np.clip(p, 1e-12, 1.0)))


def pair_probabilities(
    model: Ranker, test: Rankings, given: Rankings | None, n_pairs: int, seed: int
) -> tuple[Float64Array, Float64Array] | None:
    """P(one before the other) of random hidden pairs, and whether it came true; None if the model cannot tell.

    Every ranking has about as many pairs, at least five where that many are hidden: what a model has to find out about
    a person serves all of them.
    """
    if not model.fitted_.has_pairs:
        return None
    rng = generator(stream_key(seed, 7))
    item = indices_in(test.item_ids, model.item_ids)[test.items]
    persons, owner = dict(people(model, test, given)), test.ranking_users
    quota = max(_PAIRS_A_RANKING, -(-n_pairs // max(test.n_rankings, 1)))
    predicted: list[Float64Array] = []
    true: list[Float64Array] = []
    left = n_pairs
    for ranking in rng.permutation(test.n_rankings).tolist():
        person = persons.get(int(owner[ranking]))
        part = slice(int(test.indptr[ranking]), int(test.indptr[ranking + 1]))
        pairs = _some_pairs(rng, test.levels[part], item[part] >= 0, min(quota, left))
        if person is None or not pairs.size:
            continue
        predicted.append(person.fitted.prefers(person, *item[part][pairs].T))
        true.append((np.diff(test.levels[part][pairs], axis=1)[:, 0] > 0).astype(np.float64))
        left -= len(pairs)
        if left == 0:
            break
    nothing = np.zeros(0)
    return np.concatenate([nothing, *predicted]), np.concatenate([nothing, *true])


def _some_pairs(rng: np.random.Generator, levels: Array, known: BoolArray, most: int) -> Int64Array:
    """Different pairs of entries of a list that are known and not tied, in random order: (n, 2)."""
    # Many that are drawn are tied or unknown: four draws for each that is wanted.
    drawn = rng.integers(0, levels.size, (4 * most, 2))
    fit = known[drawn].all(axis=1) & (levels[drawn[:, 0]] != levels[drawn[:, 1]])
    drawn = drawn[fit]
    low, high = drawn.min(axis=1), drawn.max(axis=1)
    _, first = np.unique(low * levels.size + high, return_index=True)
    return np.asarray(drawn[np.sort(first)[:most]])
