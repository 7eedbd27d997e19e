"""Attributes as numbers, and links between users: against tables made by hand."""

import datetime
import zipfile

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose

import permrank as pr
from permrank.errors import FeaturesWarning, FormatError, InputError, UnknownIdError
from permrank.rankings.attributes import Attributes
from permrank.rankings.features import Curves
from permrank.rankings.joining import joined
from permrank.rankings.links import nearest_rows
from permrank.rankings.with_attributes import with_featured

FILMS = {
    "item": list("abcdefgh"),
    "title": [f"Film {name}" for name in "abcdefgh"],
    "genres": ["Comedy|Drama", "Comedy", "Drama|Comedy", "Drama", "Action", None, "", "Drama|Noir"],
    "length": [90.0, 110.0, None, 100.0, None, float("nan"), 80.0, 120.0],
    "adult": [True, False, True, False, False, False, False, True],
    "country": ["UK", "UK", "UK", "US", "US", "US", "FR", "FR"],
    "released": [datetime.date(2000, 1, 1 + day) for day in range(8)],
    "imdb_id": [14, 3, 99, 4, 5, 6, 7, 8],
    "row": [3, 4, 5, 6, 7, 8, 9, 10],
    "plot": [f"Somebody does {what}" for what in "12345678"],
    "medium": ["film"] * 8,
}


@pytest.fixture
def rankings():
    return pr.Rankings.from_lists({"ann": list("abcd"), "bob": list("dcba"), "cat": ["a", "e"]})


@pytest.fixture
def featured(rankings):
    return rankings.with_features(items=FILMS)


def test_every_kind_of_column_is_encoded_as_by_hand(featured):
    features = featured.features("item")
    # Genres are known of six films. Action, Noir and the country FR are of fewer than three: no column.
    assert features.names == [
        "genres: Comedy", "genres: Drama", "length", "length: missing", "adult", "country: UK", "country: US",
        "released",
    ]  # fmt: skip
    lengths = np.array([90.0, 110.0, 100.0, 80.0, 120.0])
    table = features.of(list("abfz"))
    assert_allclose(table[:, 0], [1 - 3 / 6, 1 - 3 / 6, 0.0, 0.0])
    assert_allclose(table[:, 1], [1 - 4 / 6, -4 / 6, 0.0, 0.0])
    assert_allclose(table[:, 2], [(90 - 100) / lengths.std(), 10 / lengths.std(), 0.0, 0.0])
    assert_allclose(table[:, 3], [-3 / 8, -3 / 8, 5 / 8, 0.0])
    assert_allclose(table[:, 4], (np.array([1, 0, 0, 3 / 8]) - 3 / 8) / np.sqrt(3 / 8 * 5 / 8))
    assert_allclose(table[:, 5:7], [[5 / 8, -3 / 8], [5 / 8, -3 / 8], [-3 / 8, 5 / 8], [0, 0]])
    assert_allclose(table[:2, 7], (np.arange(2) - 3.5) / np.arange(8).std())
    assert features.groups.tolist() == [0, 0, 1, 2, 3, 4, 4, 5]
    told = dict(features.describe().select("attribute", "note").rows())
    assert told["title"] == "title"
    assert "identifier" in told["imdb_id"]
    assert "identifier" in told["row"]
    assert "free text" in told["plot"]
    assert told["medium"] == "the same for all"
    assert told["length"] == "missing for 3 of 8"


def test_a_new_row_is_encoded_like_the_old_ones(featured):
    features = featured.features("item")
    row = {name: column[0] for name, column in FILMS.items() if name != "item"}
    assert_allclose(features.of_row(row), features.of(["a"])[0])
    assert_allclose(features.of_row({"genres": ["Comedy", "Drama"]})[:2], features.of(["a"])[0, :2])
    with pytest.raises(UnknownIdError, match="gener"):
        features.of_row({"gener": "Comedy"})
    with pytest.raises(InputError, match="length='long'"):
        features.of_row({"length": "long"})


def test_features_are_what_is_asked_for(rankings):
    known = rankings.with_items(FILMS).with_users({"user": ["ann", "bob"], "age": [30, 40]})
    assert known.features("item") is None  # attributes are for people until somebody says otherwise
    assert known.with_features().features("user").names == ["age"]
    some = known.with_features(items=["length", "adult"], users=False)
    assert some.features("item").names == ["length", "length: missing", "adult"]
    assert some.features("user") is None
    assert some == rankings
    with pytest.raises(UnknownIdError, match="lenght"):
        known.with_features(items=["lenght"])
    with pytest.raises(InputError, match="nothing is known"):
        rankings.with_features()


def test_missing_together_is_said_once(rankings):
    gone = [1.0, 2.0, 4.0, None, None, None]
    made = rankings.with_features(items={"item": list("abcdef"), "x": gone, "y": gone[::-1][3:] + gone[3:]})
    assert made.features("item").names == ["x", "x: missing", "y"]


def test_features_and_links_travel(featured, tmp_path):
    friends = {"user": ["ann", "dan"], "friend": ["bob", "ann"], "weight": [2.0, 1.0]}
    data = featured.with_links(friends)
    for ending in ("parquet", "jsonl"):
        data.write(tmp_path / f"x.{ending}")
        again = pr.read(tmp_path / f"x.{ending}", unlisted="ignore")
        assert again.features("item").names == data.features("item").names
        assert again.links.equals(data.links)
    assert data.drop(users=["bob"]).links.rows() == [("dan", "ann", 1.0)]
    more = joined(data, pr.Rankings.from_lists({"eve": ["a"]}).with_links({"user": ["eve"], "friend": ["ann"]}))
    assert more.links.height == 3
    assert more.features("item").names == data.features("item").names
    with pytest.warns(FeaturesWarning, match="does not learn from features of items or links"):
        model = pr.MeanRating().fit(data)
    model.save(tmp_path / "m.permrank")
    assert pr.load(tmp_path / "m.permrank").rankings_.links.equals(data.links)


def test_warm_ids_are_those_that_are_known_and_not_ranked(featured):
    data = with_featured(featured.with_links({"user": ["ann"], "friend": ["zoe"]}))
    assert data.item_ids.ids.to_list() == list("abcdefgh")
    assert data.user_ids.ids.to_list() == ["ann", "bob", "cat", "zoe"]
    assert data.lists("bob") == featured.lists("bob")
    assert with_featured(featured.with_features(items=False, users=False)) == featured


def test_pairs_of_linked_users_count_once_with_both_weights(rankings):
    friends = pl.DataFrame({"truster": ["ann", "bob", "bob", "cat"], "trustee": ["bob", "ann", "cat", "cat"]})
    data = rankings.with_links(friends)
    assert data.links.rows() == [("ann", "bob", 1.0), ("bob", "ann", 1.0), ("bob", "cat", 1.0)]
    edges = data.user_ids.attributes.links.among(data.user_ids.ids)
    assert [edges.first.tolist(), edges.second.tolist(), edges.weights.tolist()] == [[0, 1], [1, 2], [2.0, 1.0]]
    assert data.with_links(False).user_ids.attributes.links.learnt is False
    with pytest.raises(InputError, match="no links came"):
        rankings.with_links()
    with pytest.raises(InputError, match="no user of the rankings"):
        rankings.with_links({"user": ["x"], "friend": ["y"]})
    with pytest.raises(InputError, match="row 1"):
        rankings.with_links({"user": ["ann", "bob"], "friend": ["bob", "ann"], "weight": [1.0, -1.0]})


def test_groups_are_links_between_all_of_a_group(rankings):
    people = {"user": ["ann", "bob", "cat", "dan"], "class": ["x", "x", "x", "y"]}
    links = rankings.with_users(people).with_links(groups="class").links
    assert links.height == 6
    assert links["weight"].to_list() == [0.5] * 6


def brute_force(table, k):
    """Distances to the k nearest others of every row."""
    apart = np.sqrt(np.sum((table[:, None] - table[None]) ** 2, axis=2))
    np.fill_diagonal(apart, np.inf)
    return apart, np.sort(apart, axis=1)[:, : min(k, len(table) - 1)]


@pytest.mark.parametrize("k", [1, 4, 40])
@pytest.mark.parametrize("tied", [False, True])
def test_similar_rows_are_the_nearest_ones(tied, k):
    rng = np.random.default_rng(3)
    table = rng.integers(0, 3, (30, 2)).astype(float) if tied else rng.normal(size=(30, 2))
    apart, wanted = brute_force(table, k)
    first, second, distances = nearest_rows(table, k)
    assert len(set(zip(first.tolist(), second.tolist(), strict=True))) == first.size == wanted.size
    np.testing.assert_allclose(apart[first, second], distances, atol=1e-6)
    np.testing.assert_allclose([np.sort(distances[first == row]) for row in range(30)], wanted, atol=1e-6)
    alike = nearest_rows(np.zeros((20, 1)), 3)  # nobody is everybody's neighbour
    assert np.bincount(alike[1]).tolist() == [3] * 20


def test_similar_users_are_linked_by_attributes_that_count_alike(rankings, tmp_path):
    people = {
        "user": ["ann", "bob", "cat", "zoe"],
        "age": [20, 24, 60, 61],
        "town": ["x", "y", "x", "y"],
        "id": list("pqrs"),
    }
    known = rankings.with_users(people)
    by_age = known.with_features(items=False, users=["age"]).with_links(similar=1).links
    assert by_age.select("user", "friend").rows() == [("ann", "bob"), ("bob", "ann"), ("cat", "zoe"), ("zoe", "cat")]
    assert by_age["weight"].min() > 0
    scaled = known.with_users({"user": people["user"], "age": [2000 * age for age in people["age"]]})
    assert scaled.with_links(similar=2).links.equals(known.with_links(similar=2).links)
    (tmp_path / "r.csv").write_text("user,item,rating\nann,x,1\nbob,y,2\ncat,y,2\n", encoding="utf-8")
    (tmp_path / "u.csv").write_text("user,age\nann,20\nbob,24\ncat,60\n", encoding="utf-8")
    for number in (1, "1"):
        data = pr.read(tmp_path / "r.csv", users=tmp_path / "u.csv", links=number)
        assert data.links.select("user", "friend").rows()[-1] == ("cat", "bob")
    with pytest.raises(InputError, match="nothing is known of users"):
        rankings.with_links(similar=2)
    with pytest.raises(InputError, match="similar=0"):
        known.with_links(similar=0)
    with pytest.raises(InputError, match="one of them"):
        known.with_links(groups="town", similar=2)


def test_archives_and_files_bring_links(tmp_path):
    with zipfile.ZipFile(tmp_path / "trust.zip", "w") as archive:
        archive.writestr("ratings.txt", "1 1 2\n1 2 3.5\n2 1 4\n")
        archive.writestr("trust.txt", "1 2 1\n3 1 1\n")
    data = pr.read(tmp_path / "trust.zip")
    assert data.links.rows() == [(1, 2, 1.0), (3, 1, 1.0)]
    assert data.user_ids.attributes.links.learnt is False  # until with_links() says so
    assert data.with_links().user_ids.attributes.links.learnt is True
    (tmp_path / "r.csv").write_text("user,item,rating\nann,x,1\nbob,y,2\n", encoding="utf-8")
    (tmp_path / "f.csv").write_text("user,friend\nann,bob\n", encoding="utf-8")
    (tmp_path / "i.csv").write_text("item,size\nx,1.5\ny,2.5\nz,0.5\n", encoding="utf-8")
    data = pr.read(tmp_path / "r.csv", items=tmp_path / "i.csv", links=tmp_path / "f.csv", features=True)
    assert data.features("item").names == ["size"]
    assert data.user_ids.attributes.links.learnt is True
    (tmp_path / "f.csv").write_text("user,friend\nzoe,tim\n", encoding="utf-8")
    with pytest.raises(FormatError, match=r"f\.csv: no user"):
        pr.read(tmp_path / "r.csv", links=tmp_path / "f.csv")


def test_damaged_links_are_refused():
    good = Attributes(pl.DataFrame({"user": ["a"]}), None).to_json()
    links = '"links":{"learnt":true,"user":["a"],"friend":["%s"],"weight":[%s]}}'
    assert Attributes.from_json(good[:-1] + "," + links % ("b", 1.0), "user").links is not None
    for friend, weight in (("a", 1.0), ("b", -1.0), ("b", '"x"')):
        with pytest.raises(FormatError, match="damaged"):
            Attributes.from_json(good[:-1] + "," + links % (friend, weight), "user")


def test_numbers_with_many_values_have_curves_too(rankings):
    ids, size = list("abcdefghijkl"), np.exp(np.linspace(0.0, 2.0, 12))
    made = rankings.with_features(items={"item": ids, "size": size})
    features = made.features("item")
    assert features.names == ["size", "size, curve 1", "size, curve 2", "size, curve 3"]
    assert features.groups.tolist() == [0, 1, 1, 1]  # a curve has a scale of its own
    table = features.of(ids)
    assert_allclose(table.mean(axis=0), 0, atol=1e-12)
    assert_allclose(table[:, 0] @ table[:, 1:], 0, atol=1e-12)
    # Beside a straight line they are the cosines of the ranks.
    rank = (np.arange(12) + 0.5) / 12
    for number in (1, 2, 3):
        wave = np.column_stack((np.ones(12), table[:, 0], np.cos(number * np.pi * rank) * np.sqrt(2) / number))
        assert_allclose(wave @ np.linalg.lstsq(wave, table[:, number], rcond=None)[0], table[:, number], atol=1e-12)
        assert_allclose(np.linalg.lstsq(wave, table[:, number], rcond=None)[0][2], 1)
    assert_allclose(features.of_row({"size": float(size[3])}), table[3])
    assert not features.of_row({}).any()
    # What is worth most in the middle is no straight line, but nearly one of the curves.
    best = np.exp(-((rank - 0.5) ** 2) / 0.05)
    left = [best - part @ np.linalg.lstsq(part, best, rcond=None)[0] for part in (table[:, :1], table)]
    assert left[1].var() < 0.1 * left[0].var()


def test_curves_of_a_million_values_stay_few():
    values = np.random.default_rng(0).lognormal(size=30_000)
    curves = Curves.learnt_from((values - values.mean()) / values.std())
    assert curves.lines.shape == (2, 8)
    assert curves.values.size <= 129
    assert Curves.learnt_from(np.repeat(np.linspace(-1, 1, 9), 3)) is None
    assert np.isfinite(curves.of(np.array([-1e6, 0.0, 1e6]))).all()
