"""Titles and attributes: one store, which travels with the data and finds items by their titles."""

import datetime
import json
import zipfile

import numpy as np
import polars as pl
import pytest

import permrank as pr
from permrank.errors import FormatError, InputError, UnknownIdError
from permrank.rankings.attributes import Attributes
from permrank.rankings.joining import joined

FILMS = {
    "movieId": [1, 2, 3, 4, 99],
    "title": ["Toy Story (1995)", "Matrix, The (1999)", "Heat (1995)", "heat (1972)", "Unseen (2001)"],
    "genres": ["Animation|Comedy", "Action", "Action|Drama", "Drama", "Comedy|Drama"],
    "length": [81.0, None, 170.0, 95.5, float("nan")],
    "adult": [False, True, True, None, False],
    "released": [datetime.date(1995, 11, 22), None, None, None, datetime.date(2001, 1, 1)],
}


@pytest.fixture
def rankings():
    lists = {"ann": [1, 2], "bob": [{2, 3}, 1], "cat": [4, 3]}
    people = {"user": ["ann", "cat"], "age": [31, 57], "zip": ["01234", "99999"]}
    return pr.Rankings.from_lists(lists).with_items(FILMS).with_users(people)


def known(rankings):
    """All that a store knows, and what it tells of those that are ranked."""
    stores = [rankings.item_ids.attributes, rankings.user_ids.attributes]
    return [None if store is None else store.frame.to_dicts() for store in stores] + [
        rankings.item_attributes.to_dicts(), rankings.user_attributes.to_dicts(),
    ]  # fmt: skip


def test_columns_are_typed_and_rows_follow_the_ids(rankings):
    table = rankings.item_attributes
    assert table.columns == ["item", *list(FILMS)[1:], "year"]
    assert table["item"].to_list() == rankings.item_ids.ids.to_list() == [1, 2, 3, 4]
    assert table["genres"].to_list()[0] == ["Animation", "Comedy"]
    assert table["year"].to_list() == [1995, 1999, 1995, 1972]
    assert table["length"].to_list() == [81.0, None, 170.0, 95.5]
    assert rankings.user_attributes["age"].to_list() == [31, None, 57]
    assert rankings.item_ids.attributes.frame["item"].to_list() == [1, 2, 3, 4, 99]  # also what nobody has seen
    assert rankings.item_ids.attributes.frame["length"].to_list()[-1] is None


def test_what_is_ranked_is_the_same_with_and_without(rankings):
    bare = pr.Rankings.from_lists({"ann": [1, 2], "bob": [{2, 3}, 1], "cat": [4, 3]})
    assert rankings == bare
    assert rankings.fingerprint == bare.fingerprint
    assert bare.item_attributes.columns == ["item"]
    assert bare.item_ids.titles is None


def test_attributes_travel_with_parts_and_joins(rankings):
    part = rankings.select(users=["ann", "bob"], items=[1, 2])
    assert part.item_attributes["title"].to_list() == FILMS["title"][:2]
    assert part.user_attributes["age"].to_list() == [31, None]
    # What was left out is forgotten, also by name; what nobody has seen is not.
    assert part.item_ids.attributes.frame["item"].to_list() == [1, 2, 99]
    assert part.user_ids.attributes.frame["user"].to_list() == ["ann"]
    assert rankings.drop(items=[1]).item_attributes["item"].to_list() == [2, 3, 4]
    for other in (rankings.shuffled_ties(), rankings.with_unlisted_last(), *pr.hold_out(rankings, 0.5, min_length=2)):
        assert known(other) == known(rankings)
    train = pr.LeaveOut(1).split(rankings, 0).train
    assert train.item_ids.attributes.frame.height == 5  # items that are only asked about are still known
    assert rankings.merged().item_attributes["title"].to_list() == rankings.item_attributes["title"].to_list()
    assert rankings.merged().user_ids.attributes is None  # nobody knows who voted
    more = pr.Rankings.from_lists({"dan": [5, 1]}).with_items({"item": [5, 1], "title": ["Big (1988)", "Toys"]})
    both = joined(rankings, more)
    assert both.item_attributes["title"].to_list() == ["Toys", *FILMS["title"][1:4], "Big (1988)"]
    assert both.item_attributes["length"].to_list() == [81.0, None, 170.0, 95.5, None]
    assert both.user_attributes["age"].to_list() == [31, None, 57, None]


def test_more_can_be_told_and_the_newer_counts(rankings):
    more = rankings.with_items({"id": ["2", "3"], "stars": [4, 5], "length": [None, "171 min"]})
    table = more.item_attributes
    assert table["stars"].to_list() == [None, 4, 5, None]
    assert table["length"].to_list() == ["81.0", None, "171 min", "95.5"]
    assert table["title"].to_list() == FILMS["title"][:4]


@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
def test_files_that_can_hold_attributes_give_them_back(ending, rankings, tmp_path):
    rankings.write(tmp_path / f"r.{ending}")
    again = pr.read(tmp_path / f"r.{ending}", unlisted="ignore")
    assert again == rankings
    assert known(again) == known(rankings)
    assert again.item_attributes["released"].dtype == pl.Date


def test_a_split_keeps_titles(rankings, tmp_path):
    split = pr.LeaveOut(1).split(rankings, 0)
    split.save(tmp_path / "split")
    again = pr.Split.load(tmp_path / "split")
    assert again == split
    assert known(again.train) == known(split.train)
    assert again.test.item_ids.titles.to_list() == split.test.item_ids.titles.to_list()


def test_a_model_file_keeps_them_and_older_files_load(rankings, tmp_path):
    model = pr.Popularity(count="listed").fit(rankings)
    model.save(tmp_path / "m")
    again = pr.load(tmp_path / "m")
    assert known(again.rankings_) == known(rankings)
    assert again.recommend("ann").equals(model.recommend("ann"))
    plain = pr.Popularity(count="listed").fit(pr.Rankings.from_lists({"ann": [1, 2]}))
    plain.save(tmp_path / "p")
    assert b"attributes" not in (tmp_path / "p").read_bytes()  # as files were before there were attributes
    assert pr.load(tmp_path / "p").rankings_.item_ids.attributes is None


def test_lists_of_all_lengths_survive():
    lists = [["a", "b"], None, [], ["c"]]
    frame = pl.DataFrame({"item": [1, 2, 3, 4], "row": lists, "list": [[], [], None, []]}, schema_overrides={"list": pl.List(pl.String)})  # fmt: skip # noqa: E501
    store = pr.Rankings.from_lists([[1, 2]]).with_items(frame).item_ids.attributes
    again = Attributes.from_json(store.to_json(), "item")
    assert again.frame["row"].to_list() == lists
    assert again.frame["list"].to_list() == [[], [], None, []]
    bare = pr.Rankings.from_lists([[1, 2]]).with_items({"item": [1], "none": [None]}).item_ids.attributes
    assert Attributes.from_json(bare.to_json(), "item").frame.equals(bare.frame)


def test_damaged_attributes_are_refused():
    text = Attributes.to_json(pr.Rankings.from_lists([[1, 2]]).with_items(FILMS).item_ids.attributes)
    assert Attributes.from_json(text, "item").to_json() == text
    whole = json.loads(text)
    bad = [
        "{", "[]", "3", '{"columns": [], "title": null}', json.dumps(whole | {"title": "year"}),
        json.dumps(whole | {"title": "nothing"}), json.dumps(whole | {"columns": whole["columns"][1:]}),
        json.dumps({"title": None, "columns": [whole["columns"][0] | {"values": [2, 1]}]}),
        json.dumps({"title": None, "columns": [whole["columns"][0] | {"values": [1, None]}]}),
        json.dumps({"title": None, "columns": [whole["columns"][0] | {"values": [1, "x"]}]}),
        json.dumps({"title": None, "columns": [whole["columns"][0] | {"type": "pickle"}]}),
        json.dumps({"title": None, "columns": [whole["columns"][0], {"name": "a", "type": "int", "values": [1]}]}),
    ]  # fmt: skip
    for spoiled in bad:
        with pytest.raises(FormatError, match="attributes of items are damaged"):
            Attributes.from_json(spoiled, "item")
    rng = np.random.default_rng(0)
    for _ in range(300):  # any text gives attributes or our error
        at = int(rng.integers(len(text)))
        spoiled = text[:at] + chr(int(rng.integers(32, 127))) + text[at + int(rng.integers(3)) :]
        try:
            Attributes.from_json(spoiled, "item")
        except FormatError:
            continue


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ({"foo": [1]}, "no column is recognised as the item, among 'foo'"),
        ({"item": [7, 8]}, "no item of the rankings is in the frame of items: it has for example 7"),
        ({"item": ["x"]}, "holds text such as 'x', but the ids of the rankings are whole numbers such as 1"),
        ({"item": [1, 1], "a": [2, 3]}, "item 1 has two rows that differ"),
        ({"item": [1], "a": [{"b": 1}]}, "column 'a' is Struct.*cast it or leave it out"),
        ({"book_id": [1], "song_id": [1]}, "several columns could be the item, among 'book_id', 'song_id'"),
    ],
)
def test_frames_that_cannot_be_meant_are_refused(frame, message):
    with pytest.raises(InputError, match=message):
        pr.Rankings.from_lists({"ann": [1, 2]}).with_items(frame)


def test_ballots_without_voters_have_no_users():
    with pytest.raises(InputError, match="ballots without voters"):
        pr.Rankings.from_lists([["a", "b"]]).with_users({"user": [0]})


def test_an_item_is_found_by_its_title(rankings):
    ids = rankings.item_ids
    for words in ("Toy Story (1995)", "toy story (1995)", "Toy Story", 1):
        assert ids[ids.find(words)] == 1
    for words in ("The Matrix", "matrix, the (1999)", "the matrix (1999)"):
        assert ids[ids.find(words)] == 2
    assert ids[ids.find("heat (1972)")] == 4
    with pytest.raises(InputError, match=r"'Heat' is the title of 2 items: 3 \(Heat \(1995\)\), 4 .*one of the ids"):
        ids.find("Heat")
    with pytest.raises(
        UnknownIdError, match=r"unknown item 'Toy Stori'; the nearest known one is 'Toy Story \(1995\)'"
    ):
        ids.find("Toy Stori")
    with pytest.raises(UnknownIdError, match=r"unknown item 'toy st'; known are for example 'Toy Story \(1995\)'$"):
        ids.find("toy st")
    with pytest.raises(UnknownIdError):
        ids.find(7)
    with pytest.raises(UnknownIdError):
        ids.index("Toy Story (1995)")


def test_an_id_comes_before_a_title():
    rankings = pr.Rankings.from_lists({"ann": ["a", "b"]}).with_items({"item": ["a", "b"], "name": ["b", "other"]})
    assert rankings.item_ids.find("b") == 1
    assert rankings.item_ids.called(0) == "b"


@pytest.mark.parametrize(
    ("columns", "rating"),
    [(("userId", "movieId"), "rating"), (("user_id", "book_id"), "rating"), (("Reviewer ID", "ISBN"), "Book-Rating")],
)
def test_frames_and_files_know_the_same_usual_names(columns, rating, tmp_path):
    frame = pl.DataFrame({columns[0]: [1, 1, 2], columns[1]: [10, 20, 10], rating: [3, 5, 4]})
    frame.write_csv(tmp_path / "r.csv")
    assert pr.Rankings.from_ratings(frame) == pr.read(tmp_path / "r.csv") == pr.Rankings.from_ratings(frame.to_pandas())
    ranks = frame.rename({rating: "rank"})
    ranks.write_csv(tmp_path / "k.csv")
    assert pr.Rankings.from_ranks(ranks) == pr.read(tmp_path / "k.csv")
    clicks = frame.select(columns)
    clicks.write_csv(tmp_path / "c.csv")
    assert pr.Rankings.from_interactions(clicks) == pr.read(tmp_path / "c.csv")
    with pytest.raises(InputError, match="several columns could be the item"):
        pr.Rankings.from_ratings({"user": [1], "book_id": [1], "song_id": [1], "rating": [2]})


def test_files_about_items_are_read_beside_the_rankings(tmp_path):
    (tmp_path / "ratings.csv").write_text(
        "userId,movieId,rating,timestamp\n1,1,4.5,0\n1,2,3,0\n2,1,2,0\n", encoding="utf-8"
    )
    (tmp_path / "movies.csv").write_text(
        'movieId,title,genres\n1,"American President, The (1995)",Comedy|Drama\n2,Café (2011),(no genres listed)\n'
        "3,Third (1999),Comedy|Drama\n",
        encoding="utf-8",
    )
    (tmp_path / "users.tsv").write_text(
        "id\tage\tzip\tmember\n1\t30\t01234\ttrue\n2\t\t00001\tfalse\n", encoding="utf-8"
    )
    found = pr.read(tmp_path / "ratings.csv", items=tmp_path / "movies.csv", users=tmp_path / "users.tsv")
    assert found.item_attributes.rows() == [
        (1, "American President, The (1995)", ["Comedy", "Drama"], 1995),
        (2, "Café (2011)", None, 2011),
    ]
    assert found.user_attributes.rows() == [(1, 30, "01234", True), (2, None, "00001", False)]
    with pytest.raises(FormatError, match=r"users.tsv: .*no column is recognised as the item"):
        pr.read(tmp_path / "ratings.csv", items=_renamed(tmp_path / "users.tsv"))
    with pytest.raises(InputError, match="there is no file"):
        pr.read(tmp_path / "ratings.csv", items=tmp_path / "films.csv")
    with pytest.raises(FormatError, match="a file about users or items is"):
        pr.read(tmp_path / "ratings.csv", users=__file__)


def _renamed(path):
    path.write_text(path.read_text(encoding="utf-8").replace("id\t", "number\t", 1), encoding="utf-8")
    return path


def test_archives_bring_titles(tmp_path):
    item = "{}|{}|01-Jan-1995||http://x|" + "0|0|1|0|0|1|0|0|0|0|0|0|0|0|0|0|0|0|0\n"
    members = {
        "ml-100k": {
            "u.data": "1\t10\t3\t881\n1\t20\t5\t881\n2\t10\t1\t881\n",
            "u.item": (item.format(10, "Misérables, Les (1995)") + item.format(20, "Heat (1995)")).encode("latin-1"),
            "u.user": "1|24|M|technician|85711\n2|53|F|other|94043\n",
        },
        "ml-1m": {
            "ratings.dat": "1::10::3::881\n1::20::5::882\n",
            "movies.dat": "10::Toys (1995)::Animation|Comedy\n20::Heat (1995)::Action|Comedy\n3::X (1990)::Action\n",
            "users.dat": "1::F::1::10::48067\n",
        },
        "ml-latest-small": {
            "ratings.csv": "userId,movieId,rating,timestamp\n1,10,3,0\n1,20,5,0\n",
            "movies.csv": "movieId,title,genres\n10,Heat (1995),Action|Drama\n20,Big (1988),Drama|Action\n",
        },
    }
    found = {}
    for name, files in members.items():
        with zipfile.ZipFile(tmp_path / f"{name}.zip", "w") as archive:
            for file, content in files.items():
                archive.writestr(f"{name}/{file}", content)
        found[name] = pr.read(tmp_path / f"{name}.zip")
    table = found["ml-100k"].item_attributes
    assert table["title"].to_list() == ["Misérables, Les (1995)", "Heat (1995)"]
    assert table["genres"].to_list() == [["Adventure", "Comedy"]] * 2
    assert found["ml-100k"].user_attributes["occupation"].to_list() == ["technician", "other"]
    assert found["ml-1m"].item_attributes["year"].to_list() == [1995, 1995]
    assert found["ml-1m"].user_attributes.rows() == [(1, "F", 1, "K-12 student", 48067)]
    assert found["ml-latest-small"].item_attributes["genres"].to_list() == [["Action", "Drama"], ["Drama", "Action"]]


def test_sushi_brings_what_is_known_of_kinds_and_people(tmp_path):
    with zipfile.ZipFile(tmp_path / "sushi.zip", "w") as archive:
        archive.writestr("s/sushi3.idata", "0\tebi\t1\t0\t6\t2.7\t2.1\t1.8\t0.8\n1\tuni\t1\t0\t3\t0.9\t1.9\t2.0\t0.9\n")
        archive.writestr("s/sushi3.udata", "6371\t0\t2\t355\t0\t0\t0\t0\t0\t0\t0\n")
        archive.writestr("s/sushi3b.5000.10.order", "2 1\n0 2 1 0\n")
    found = pr.read(tmp_path / "sushi.zip")
    assert found.item_attributes.row(0) == ("ebi", "1", "0", "6", 2.7, 2.1, 1.8, 0.8)
    assert found.user_attributes["seconds"].to_list() == [355]
    assert found.user_attributes["gender"].to_list() == ["0"]  # a code, no quantity
    with zipfile.ZipFile(tmp_path / "sushi.zip") as archive:
        archive.extractall(tmp_path)
    orders, people = (tmp_path / "s" / name for name in ("sushi3b.5000.10.order", "sushi3.udata"))
    assert pr.read(orders, users=people).user_attributes.equals(found.user_attributes)


@pytest.mark.realdata
def test_real_archives_bring_titles():
    found = pr.datasets.load("ml-100k")
    assert found.item_attributes["title"][0] == "Toy Story (1995)"
    assert found.item_attributes["genres"][0].to_list() == ["Animation", "Children's", "Comedy"]
    assert "Misérables, Les (1995)" in found.item_attributes["title"]
    with pytest.raises(InputError, match="is the title of 2 items: 246"):
        found.item_ids.find("Chasing Amy (1997)")
    for name in ("ml-1m", "sushi"):
        assert pr.datasets.load(name).item_attributes.width > 3
