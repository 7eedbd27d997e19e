"""Scores of new items by features: a regression of items' vectors, and what a catalogue model makes of it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import permrank as pr
from permrank.posterior import by_features
from permrank.posterior.by_features import ByFeatures


def test_scores_are_those_of_regressed_vectors():
    rng = np.random.default_rng(1)
    features, users = rng.normal(size=(50, 3)), rng.normal(size=(20, 4))
    vectors = features @ rng.normal(size=(3, 4)) + 0.5
    rows = (users @ vectors.T).astype(np.float32)
    known, new = np.arange(40), np.arange(40, 50)
    filled = ByFeatures.of(features, known, new, rows).fill(rows.copy())
    assert_allclose(filled, rows, atol=1e-3)  # vectors are exactly linear in the features
    noisy = rows + rng.normal(size=rows.shape).astype(np.float32)
    found = ByFeatures.of(features, known, new, noisy).fill(noisy.copy())
    assert_allclose(found[:, known], noisy[:, known])
    assert np.mean((found[:, new] - rows[:, new]) ** 2) < 0.5 * np.var(rows[:, new])
    useless = ByFeatures.of(rng.normal(size=(50, 3)), known, new, noisy).fill(noisy.copy())
    spread = np.std(useless[:, new], axis=1) / np.std(noisy[:, known], axis=1)
    assert np.mean(spread) < 0.5  # near the mean of the user's scores


@pytest.mark.parametrize("kind", [pr.ItemToItem, pr.ImplicitFactors])
def test_new_items_go_to_those_who_like_such_items(kind):
    rng = np.random.default_rng(3)
    taste, sort = rng.integers(0, 2, 120), np.arange(44) % 2
    rows = [
        (user, item)
        for user in range(120)
        for item in np.flatnonzero(rng.random(40) < np.where(sort[:40] == taste[user], 0.4, 0.05))
    ]
    who, what = zip(*rows, strict=True)
    data = pr.Rankings.from_interactions({"user": who, "item": np.array(what)})
    data = data.with_features(items={"item": np.arange(44), "sort": sort.astype(str)})
    model = kind().fit(data)
    for user in (0, 1, 2, 3):
        mine = model.score(user, [40, 41, 42, 43])
        assert (mine[sort[40:] == taste[user]].min() > mine[sort[40:] != taste[user]].max()).all()
    assert not set(model.recommend(0, k=44)["item"]) & {40, 41, 42, 43}
    asked = model.recommend(0, k=44, include_new=True)
    assert set(asked.filter(asked["stands_on"] == "features")["item"]) == {40, 41, 42, 43}


def test_the_penalty_is_that_of_the_least_error_by_generalised_cross_validation():
    rng = np.random.default_rng(5)
    features = rng.normal(size=(50, 10))
    rows = (features @ rng.normal(size=(10, 6)) + 4.0 * rng.normal(size=(50, 6))).T.astype(np.float32)
    known, new = np.arange(40), np.arange(40, 50)
    x, y = features[known] - features[known].mean(axis=0), rows[:, known].T - rows[:, known].mean(axis=1)
    grid = by_features._PENALTIES * np.linalg.norm(x, 2) ** 2
    solved = [np.linalg.solve(x.T @ x + penalty * np.eye(10), x.T) for penalty in grid]
    # The mean of a row is estimated, too.
    best = int(np.argmin([np.sum((y - x @ s @ y) ** 2) / (39.0 - np.trace(x @ s)) ** 2 for s in solved]))
    wanted = rows[:, known].mean(axis=1) + (features[new] - features[known].mean(axis=0)) @ solved[best] @ y
    assert_allclose(ByFeatures.of(features, known, new, rows).fill(rows.copy())[:, new], wanted.T, atol=1e-4)
    assert 0 < best < len(grid) - 1
