"""ListNet and ListMLE: the contract, features of items and of users and items, and the likelihood behind ListMLE."""

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose

import permrank as pr
from permrank.errors import InputError, UnknownIdError
from permrank.testing import ModelContract
from permrank.testing.learning import LearningContract
from permrank.testing.questions import LISTS

ALL = frozenset({"prefers", "top_probability", "position_probabilities", "sample", "similar_items", "similar_users"})
ITEMS = ["ebi", "ika", "tako", "toro", "uni"]


class TestListNetContract(ModelContract):
    supports = ALL

    def make(self, **parameters):
        return pr.ListNet(**{"n_factors": 2, **parameters})


class TestListMleContract(LearningContract):
    def make(self, **parameters):
        return pr.ListNet(**{"n_factors": 2, "loss": "listmle", **parameters})


def fitted(features, **options):
    return pr.ListNet(**{"n_factors": 0, "intercepts": False, "features": features, **options}).fit(
        pr.Rankings.from_lists(LISTS)
    )


FAT = {"item": ITEMS, "fat": [0.2, 0.3, 0.1, 0.9, 0.5], "price": [1, 2, 1, 3, 3]}
PAIRS = {
    "user": [user for user in LISTS for _ in ITEMS],
    "item": ITEMS * len(LISTS),
    "nearness": [((7 * i) % 11) / 10 for i in range(len(ITEMS) * len(LISTS))],
}


@pytest.mark.parametrize("loss", ["listnet", "listmle"])
def test_weights_of_item_features_are_found_again(loss):
    rng = np.random.default_rng(0)
    table, weights = rng.normal(size=(40, 3)), np.array([1.5, -1.0, 0.0])
    lists = {}
    for user in range(500):
        seen = rng.permutation(40)[:10]
        lists[user] = seen[np.argsort(-(table[seen] @ weights + rng.gumbel(size=10)))].tolist()
    features = {"item": range(40), **{f"x{k}": table[:, k] for k in range(3)}}
    model = pr.ListNet(0, intercepts=False, loss=loss, features=features).fit(pr.Rankings.from_lists(lists))
    learnt = dict(model.feature_weights().iter_rows())
    lines = np.array([learnt[f"x{k}"] for k in range(3)]) / table.std(axis=0)
    if loss == "listmle":  # the likelihood that the lists were drawn from
        assert_allclose(lines, weights, rtol=0, atol=0.15)
        assert max(abs(weight) for name, weight in learnt.items() if "curve" in name) < 0.5
    assert np.corrcoef(lines, weights)[0, 1] > 0.99
    assert_allclose(list(learnt.values()), model.feature_weights_, rtol=0, atol=0)


def test_a_frame_of_items_is_the_same_as_features_of_the_data_and_both_know_cold_items():
    plain = pr.Rankings.from_lists(LISTS)
    frame = {
        "item": [*ITEMS, "natto"],
        "fat": [0.2, 0.3, 0.1, 0.9, 0.5, 0.95],
        "fish": [True, True, True, True, False, False],
    }
    given = pr.ListNet(2, features=frame).fit(plain)
    attached = pr.ListNet(2).fit(plain.with_features(items=frame))
    assert_allclose(given.score("ann"), attached.score("ann"), rtol=0, atol=0)
    assert given.feature_weights().equals(attached.feature_weights())
    shown = attached.recommend("ann", k=6, include_new=True).filter(pl.col("stands_on") == "features")
    assert shown["item"].to_list() == ["natto"]
    assert np.abs(given.score("ann", ITEMS) - pr.ListNet(2).fit(plain).score("ann", ITEMS)).max() > 1e-3


def test_weights_of_features_of_users_and_items_are_found_again():
    rng = np.random.default_rng(1)
    table, weights = rng.normal(size=(200, 15, 2)), np.array([1.2, -0.8])
    lists = {}
    for user in range(200):
        seen = rng.permutation(15)[:8]
        lists[user] = seen[np.argsort(-(table[user, seen] @ weights + rng.gumbel(size=8)))].tolist()
    users, items = np.divmod(np.arange(200 * 15), 15)
    frame = pl.DataFrame({"user": users, "item": items, "a": table[..., 0].ravel(), "b": table[..., 1].ravel()})
    model = pr.ListNet(0, intercepts=False, loss="listmle", features=frame).fit(pr.Rankings.from_lists(lists))
    learnt = dict(model.feature_weights().iter_rows())
    assert_allclose([learnt["a"], learnt["b"]] / table.std(axis=(0, 1)), weights, rtol=0, atol=0.15)
    # Items nobody has ranked are ordered by their features, each user by the user's own.
    right = [np.corrcoef(model.score(u, range(15)), table[u] @ weights)[0, 1] for u in range(20)]
    assert min(right) > 0.99
    assert_allclose(model.score_pairs([3, 4], [5, 6]), [model.score(3, [5])[0], model.score(4, [6])[0]], rtol=1e-12)
    assert np.ptp(model.score(model.fold_in([1, 2, 3]))) == 0  # of a new user no features are known


@pytest.mark.parametrize("features", [FAT, PAIRS], ids=["items", "pairs"])
def test_a_model_with_features_is_saved_and_loaded(features, tmp_path):
    for given in (features, pl.DataFrame(features), pl.DataFrame(features).to_pandas()):
        model = fitted(given, n_factors=2, intercepts=True)
        model.save(tmp_path / "m.permrank")
        loaded = pr.load(tmp_path / "m.permrank")
        np.testing.assert_array_equal(loaded.score("ann"), model.score("ann"))
        assert "features=" in repr(model)
        assert repr(model) == repr(loaded)
        assert len(model.feature_weights_) == len(features) - (2 if "user" in features else 1)


def test_features_that_do_not_fit_are_refused_and_named():
    with pytest.raises(InputError, match="item 'ebi' has two rows that differ"):
        fitted({"item": ["ebi", *ITEMS], "fat": [1, 2, 2, 3, 4, 5]})
    with pytest.raises(InputError, match="has two rows that differ"):
        fitted({key: [*value, value[0] if key != "nearness" else 9.0] for key, value in PAIRS.items()})
    with pytest.raises(InputError, match="no column beside the ids"):
        fitted({"item": ITEMS})
    with pytest.raises(UnknownIdError, match="column \\(item\\)"):
        fitted({"fat": [1, 2]})
    with pytest.raises(InputError, match="expected a frame"):
        fitted(3)
    with pytest.raises(InputError, match="no item of the rankings is in the frame of items"):
        fitted({"item": [1, 2], "fat": [1, 2]})
    with pytest.raises(InputError, match="no row of a user and an item of the rankings"):
        fitted({"user": ["x"], "item": ["y"], "fat": [1.0]})
    with pytest.raises(InputError, match="nothing to learn"):
        fitted({"item": ITEMS, "number": [1, 2, 3, 4, 5]})


@pytest.mark.parametrize("features", [FAT, PAIRS], ids=["items", "pairs"])
def test_what_has_no_row_counts_as_average(features):
    model = fitted({key: list(value[1:]) for key, value in features.items()})
    user, item = next(iter(LISTS)), ITEMS[0]
    assert model.score(user, [item])[0] == 0
    assert np.abs(model.score(user, ITEMS[1:])).max() > 0


def test_without_features_and_factors_listmle_is_the_pooled_plackett_luce():
    rankings = pr.datasets.simulated(800, 8, list_length=6).rankings
    model = pr.ListNet(0, loss="listmle", tol=1e-12).fit(rankings)
    pooled = pr.PlackettLuce().fit(rankings)
    found = model.item_intercepts_ - model.item_intercepts_.mean()
    # Intercepts are pulled towards what their covariates say; with 600 mentions an item that is little.
    assert_allclose(found, pooled.scores_ - pooled.scores_.mean(), rtol=0, atol=0.1)
