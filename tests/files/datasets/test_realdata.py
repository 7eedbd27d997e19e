"""The real data have the counts that their owners publish."""

import numpy as np
import pytest

import permrank as pr
from permrank.files.datasets import _sorted_ballots

pytestmark = pytest.mark.realdata


@pytest.fixture
def folder(data_folder, monkeypatch, tmp_path):
    monkeypatch.setenv("PERMRANK_CACHE", str(tmp_path))
    return data_folder


def test_every_preflib_file_has_the_voters_and_alternatives_of_its_header(folder, tmp_path):
    files = sorted((folder / "preflib").iterdir())
    assert len(files) == 10
    for file in files:
        header = dict(
            line[2:].split(": ", 1)
            for line in file.read_text(encoding="utf-8").splitlines()
            if line.startswith("# NUMBER")
        )
        rankings = pr.read(file, unlisted="ignore")
        assert rankings.weights.sum() == int(header["NUMBER VOTERS"])
        assert rankings.n_items == int(header["NUMBER ALTERNATIVES"])
        assert rankings.n_rankings == int(header["NUMBER UNIQUE ORDERS"])
        assert rankings.has_ties <= (file.suffix[1] == "t")
        rankings.write(tmp_path / file.name)
        assert pr.read(tmp_path / file.name, unlisted="ignore") == rankings


@pytest.mark.parametrize(
    ("name", "n_users", "n_items", "n_entries", "mean"),
    [
        ("ml-100k", 943, 1682, 100_000, 3.530),
        ("ml-1m", 6040, 3706, 1_000_209, 3.5816),
        ("filmtrust", 1508, 2071, 35_494, None),
    ],
)
def test_ratings_have_the_published_counts(name, n_users, n_items, n_entries, mean, folder):
    rankings = pr.datasets.load(name)
    assert (rankings.n_users, rankings.n_items, rankings.n_entries) == (n_users, n_items, n_entries)
    assert rankings.user_ids.is_integer
    if mean is not None:
        np.testing.assert_allclose(rankings.ratings.mean(dtype=np.float64), mean, rtol=0, atol=5e-4)


@pytest.mark.parametrize(
    ("name", "n_users", "n_items", "n_train", "n_test"),
    [("gowalla", 29_858, 40_981, 810_128, 217_242), ("lastfm-friends", 1892, 17_632, 74_267, 18_567)],
)
def test_published_splits_of_sets_without_order(name, n_users, n_items, n_train, n_test, folder):
    train, test, both = (pr.datasets.load(name, **part) for part in ({}, {"part": "test"}, {"part": "all"}))
    assert (train.n_entries, test.n_entries, both.n_entries) == (n_train, n_test, n_train + n_test)
    for rankings in (train, test, both):
        assert (rankings.n_users, rankings.n_items) == (n_users, n_items)
        assert not rankings.has_order
        assert rankings.counts is None  # no pair comes twice, nor in both
    assert train.user_ids == test.user_ids
    assert train.item_ids == test.item_ids


def test_filmtrust_repeats_three_pairs_and_the_last_counts(folder):
    with pytest.raises(pr.errors.InputError, match="duplicates="):
        pr.read(folder / "filmtrust.zip")
    frame = pr.datasets.load("filmtrust").to_frame()
    mine = frame.filter((frame["user"] == 308) & frame["item"].is_in([207, 235, 12])).sort("item")
    assert mine["rating"].to_list() == [4, 3, 1.5]


@pytest.mark.parametrize(("name", "n_items"), [("sushi", 100), ("sushi-10", 10)])
def test_sushi_is_5000_lists_of_ten(name, n_items, folder):
    rankings = pr.datasets.load(name)
    assert (rankings.n_users, rankings.n_items) == (5000, n_items)
    assert (np.diff(rankings.indptr) == 10).all()
    assert not rankings.has_ties


def test_fatty_tuna_wins_and_cucumber_rolls_come_last_in_both_parts_of_sushi(folder):
    # A check of the names: they are numbered differently in the two parts.
    for name in ("sushi", "sushi-10"):
        rankings = pr.datasets.load(name)
        position = np.arange(rankings.n_entries) % 10
        mean = np.bincount(rankings.items, position) / np.bincount(rankings.items)
        ten = ["ebi", "anago", "maguro", "ika", "uni", "ikura", "tamago", "toro", "tekka_maki", "kappa_maki"]
        ranked = sorted(ten, key=lambda item: mean[rankings.item_ids.index(item)])
        assert ranked[0] == "toro"
        assert ranked[-1] == "kappa_maki"


def test_ballots_in_another_order_are_the_same_data(folder):
    ballots = pr.datasets.load("apa")
    turned = pr.Rankings.from_lists(ballots.lists()[::-1], weights=ballots.weights[::-1])
    assert turned != ballots
    assert _sorted_ballots(turned).fingerprint == _sorted_ballots(ballots).fingerprint


def test_apa_has_the_first_places_of_diaconis(folder):
    rankings = pr.datasets.load("apa")
    assert rankings.anonymous
    assert rankings.weights.sum() == 5738
    first = np.bincount(rankings.items[rankings.indptr[:-1]], rankings.weights) / 5738
    assert np.round(100 * first, 1).tolist() == [18.4, 13.5, 28.0, 20.4, 19.7]
    assert pr.datasets.load("apa", complete=False).weights.sum() == 15_449


def test_nascar_is_36_races_of_43_drivers(folder):
    rankings = pr.datasets.load("nascar")
    assert rankings.n_rankings == 36
    assert (np.diff(rankings.indptr) == 43).all()
    assert rankings.n_items == 87
    for driver in ("Mark Martin", "Tony Stewart", "Scott Pruett"):
        assert driver in rankings.item_ids
