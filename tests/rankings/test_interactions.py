"""Sets without order: clicks, purchases, check-ins, and how often."""

from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import permrank as pr
from permrank.errors import FormatError, InputError, UnknownIdError
from permrank.rankings.joining import joined

ROWS = st.lists(
    st.tuples(st.integers(-2, 4), st.sampled_from("abcdef"), st.integers(1, 2**20).map(lambda n: n / 4)), min_size=1
)


def frame_of(rows):
    return {"user": [r[0] for r in rows], "item": [r[1] for r in rows], "weight": [float(r[2]) for r in rows]}


def sums_of(rankings):
    """(user, item) to count."""
    counts = np.ones(rankings.n_entries) if rankings.counts is None else rankings.counts
    users, items = rankings.user_ids.take(rankings.entry_users()), rankings.item_ids.take(rankings.items)
    return dict(zip(zip(users, items, strict=True), counts.tolist(), strict=True))


@settings(deadline=None)
@given(ROWS, st.booleans())
def test_rows_of_the_same_user_and_item_are_added_up(rows, weighted):
    rankings = pr.Rankings.from_interactions(frame_of(rows), weight="weight" if weighted else None)
    wanted = Counter()
    for user, item, weight in rows:
        wanted[user, item] += weight if weighted else 1
    assert sums_of(rankings) == wanted
    assert rankings.lists() == [
        [items if len(items) > 1 else next(iter(items))]
        for user in sorted({user for user, _ in wanted})
        for items in [{item for who, item in wanted if who == user}]
    ]
    assert rankings.n_rankings == rankings.n_users
    assert not rankings.has_order
    assert (rankings.counts is None) == all(count == 1 for count in wanted.values())
    arrays = (rankings.user_indptr, rankings.indptr, rankings.items, rankings.levels, rankings.weights)
    checked = pr.Rankings(*arrays, rankings.user_ids, rankings.item_ids, counts=rankings.counts)
    assert checked == rankings


@settings(deadline=None)
@given(ROWS, st.randoms(use_true_random=False))
def test_the_order_of_rows_says_nothing(rows, random):
    one = pr.Rankings.from_interactions(frame_of(rows), weight="weight")
    random.shuffle(rows)
    other = pr.Rankings.from_interactions(pl.DataFrame(frame_of(rows)), weight="weight")
    assert one == other
    assert one.fingerprint == other.fingerprint


@settings(deadline=None)
@given(ROWS, ROWS)
def test_joining_adds_up_what_both_have(first, second):
    parts = [pr.Rankings.from_interactions(frame_of(rows), weight="weight") for rows in (first, second)]
    together = pr.Rankings.from_interactions(frame_of(first + second), weight="weight")
    assert sums_of(joined(*parts)) == sums_of(together)
    if any(part.has_ties or part.counts is not None for part in parts):
        assert joined(*parts) == together


@settings(deadline=None)
@given(ROWS, st.integers(0, 100))
def test_counts_stay_with_their_entries(rows, seed):
    rankings = pr.Rankings.from_interactions(frame_of(rows), weight="weight")
    sums = sums_of(rankings)
    parts = pr.hold_out(rankings, 0.5, min_length=2, seed=seed)
    assert sums_of(parts.train) | sums_of(parts.test) == sums
    assert sums_of(rankings.shuffled_ties(seed)) == sums
    users, items = [rows[0][0]], [rows[0][1]]
    assert sums_of(rankings.select(users=users)) == {key: n for key, n in sums.items() if key[0] in users}
    assert sums_of(rankings.drop(items=items)) == {key: n for key, n in sums.items() if key[1] not in items}
    back = rankings.to_frame()
    assert ("count" in back.columns) == (rankings.counts is not None)
    if "count" in back.columns:
        assert {(u, i): n for u, i, n in back.select("user", "item", "count").iter_rows()} == sums


def test_counts_are_part_of_what_is_equal_and_of_the_fingerprint():
    once = pr.Rankings.from_interactions({"user": ["u", "u"], "item": ["a", "b"]})
    twice = pr.Rankings.from_interactions({"user": ["u", "u", "u"], "item": ["a", "b", "b"]})
    assert once == pr.Rankings.from_lists({"u": [{"a", "b"}]})
    assert once != twice
    assert once.fingerprint != twice.fingerprint
    assert twice.counts.dtype == np.float32
    with pytest.raises(ValueError, match="read-only"):
        twice.counts[0] = 3
    thirds = pr.Rankings.from_interactions({"user": [1], "item": [1], "w": [1 / 3]}, weight="w")
    assert thirds.counts.dtype == np.float64


def test_a_fingerprint_without_counts_is_what_it_was():
    # Written down before there were counts: files of models and checkpoints rely on it.
    rankings = pr.Rankings.from_lists({"ann": ["a", {"b", "c"}], "bob": ["c"]})
    assert rankings.fingerprint == "304bb681565592251f15323869b72b79f934b21dff4569c34be0163e9a2ad7b4"


def test_constructor_orders_counts_with_their_items_and_checks_them():
    ordered = pr.Rankings.from_interactions({"user": [1, 1, 1], "item": [5, 6, 6]})
    arrays = (ordered.user_indptr, ordered.indptr, ordered.items[::-1], ordered.levels, ordered.weights)
    ids = (ordered.user_ids, ordered.item_ids)
    assert pr.Rankings(*arrays, *ids, counts=[2, 1]) == ordered
    for counts, message in (
        ([1.0], "one value for each of the 2 entries"),
        ([2.0, 0.0], "entry 1: count 0 is not positive"),
        ([-1.0, 2.0], "entry 0: count -1 is not positive"),
        ([1.0, np.nan], "entry 1: count nan is not positive"),
        ([1.0, np.inf], "entry 1: count inf is not between"),
    ):
        with pytest.raises(InputError, match=message):
            pr.Rankings(*arrays, *ids, counts=counts)


def test_equal_ballots_are_merged_if_their_counts_are_equal_too():
    rows = {"user": [1, 1, 2, 2, 3, 3, 3, 4, 4, 4], "item": [*"ab", *"ab", *"abb", *"abb"]}
    merged = pr.Rankings.from_interactions(rows).merged()
    assert merged.weights.tolist() == [2, 2]
    assert merged.counts.tolist() == [1, 1, 1, 2]


def test_ratings_with_counts_are_joined_and_the_newer_entry_counts():
    def rated(rows, counts):
        plain = pr.Rankings.from_ratings(dict(zip(("user", "item", "rating"), zip(*rows, strict=True), strict=True)))
        arrays = (plain.user_indptr, plain.indptr, plain.items, plain.levels, plain.weights)
        return pr.Rankings(*arrays, plain.user_ids, plain.item_ids, ratings=plain.ratings, counts=counts)

    old, new = rated([(1, "a", 5), (1, "b", 3)], [7, 8]), rated([(1, "b", 6), (2, "a", 1)], [9, 10])
    assert sums_of(joined(old, new)) == {(1, "a"): 7, (1, "b"): 9, (2, "a"): 10}
    assert joined(old, new).lists(1) == [["b", "a"]]


def test_lists_with_counts_stay_apart_when_joined():
    clicks = pr.Rankings.from_interactions({"user": [1, 1, 1], "item": [*"abb"]})
    both = joined(clicks, pr.Rankings.from_lists({1: ["c", "a"]}))
    assert both.lists(1) == [[{"a", "b"}], ["c", "a"]]
    assert both.counts.tolist() == [1, 2, 1, 1]


def test_ballots_of_one_item_stay_apart_when_joined():
    both = joined(pr.Rankings.from_lists({1: ["a"]}), pr.Rankings.from_lists({1: ["b"]}))
    assert both.lists() == [["a"], ["b"]]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"user": ["u", None], "item": ["a", "b"]}, "row 1: the user id is empty"),
        ({"user": ["u", "v"], "item": ["a", " "]}, "row 1: the item id is empty"),
        ({"user": ["u"], "item": ["a"], "n": [0]}, "row 0: weight 0 is not positive; correct it or drop the row"),
        ({"user": ["u", "u"], "item": ["a", "b"], "n": [1, -2]}, "row 1: weight -2 is not positive"),
        ({"user": ["u", "u"], "item": ["a", "b"], "n": [1.0, float("nan")]}, "row 1: weight nan is not a finite"),
        ({"user": ["u", "u"], "item": ["a", "b"], "n": ["3", "many"]}, "row 1: weight 'many' is not a finite number"),
        ({"user": ["u", "u"], "item": ["a", "a"], "n": [6e8, 6e8]}, r"same user and item add up to 1.2e\+09"),
        ({"user": [], "item": []}, "no rows"),
    ],
)
def test_bad_rows_are_named(columns, message):
    with pytest.raises(InputError, match=message):
        pr.Rankings.from_interactions(columns, weight="n" if "n" in columns else None)


def test_a_missing_column_is_named():
    with pytest.raises(UnknownIdError, match="article"):
        pr.Rankings.from_interactions({"user": [1], "item": [2]}, item="article")


def test_description_and_repr_say_that_there_is_no_order():
    clicks = pr.Rankings.from_interactions({"user": [1, 1, 1], "item": [*"abb"]})
    assert repr(clicks) == "Rankings(1 users, 1 rankings, 2 items, 2 entries, sets without order)"
    described = clicks.describe()
    assert (described.total_count, described.order) == (3, "sets without order")
    assert "order              sets without order" in str(described)
    assert pr.Rankings.from_lists([["a", "b"]]).describe().order == "strict"
    assert pr.Rankings.from_lists([["a", {"b", "c"}]]).describe().order == "with ties"


# Files


@pytest.fixture
def read_text(tmp_path):
    def read(text, name="clicks.csv", **options):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return pr.read(tmp_path / name, **options)

    return read


@pytest.mark.parametrize(
    "header", ["user,item", "userId,movie_id", "User,Item,timestamp", "date,voter,itemid", "user,item:str"]
)
def test_users_and_items_alone_are_interactions(header, read_text):
    names = header.split(",")
    row = ["2020" if "date" in name or "time" in name else f"x{index}" for index, name in enumerate(names)]
    rankings = read_text(f"{header}\n" + 2 * (",".join(row) + "\n"))
    assert rankings.counts.tolist() == [2]
    assert not rankings.has_order


@pytest.mark.parametrize(
    "name", ["count", "weight", "clicks", "n_clicks", "purchases", "plays", "play_count", "Quantity", "check-ins"]
)
@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet"])
def test_a_column_of_counts_is_recognised(name, ending, tmp_path):
    frame = pl.DataFrame({"user": [1, 1, 2], "item": ["a", "b", "a"], name: [3.0, 0.5, 1.0]})
    path = tmp_path / f"file.{ending}"
    frame.write_parquet(path) if ending == "parquet" else frame.write_csv(path, separator="\t,"[ending == "csv"])
    assert sums_of(pr.read(path)) == {(1, "a"): 3, (1, "b"): 0.5, (2, "a"): 1}


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("user,item,score", r"no column for rating or rank is recognised.*rating=.*kind='interactions'"),
        ("user,item,ranking", r"no column for rating or rank is recognised.*kind='interactions'"),
        ("user,item,votes", r"no column for rating or rank is recognised.*kind='interactions'"),
        ("user,item,plays,clicks", "several columns that could be the weight: 'plays', 'clicks'; pass weight="),
        ("user,user_id,item", "several columns that could be the user"),
        ("ballot,item,count", "no column for rating or rank"),
        ("who,what,count", "no column for user and item and rating or rank"),
    ],
)
def test_what_may_be_an_order_is_asked_for(header, message, read_text):
    with pytest.raises(FormatError, match=message):
        read_text(f"{header}\n{','.join('1' for _ in header.split(','))}\n")


def test_a_table_is_read_as_interactions_where_that_is_said(read_text):
    text = "who,product,rating,plays\nann,a,5,7\nann,b,3,2\nann,a,1,1\n"
    options = {"user": "who", "item": "product", "kind": "interactions"}
    assert sums_of(read_text(text, **options)) == {("ann", "a"): 8, ("ann", "b"): 2}
    assert sums_of(read_text(text, **options, weight="rating")) == {("ann", "a"): 6, ("ann", "b"): 3}
    for other, message in (
        ({"rank": "plays"}, "rank= has no meaning for interactions"),
        ({"duplicates": "last"}, "added up; leave duplicates out"),
        ({"kind": "clicks"}, "kind='clicks', expected 'interactions'"),
        ({"user": None}, "no column for user is recognised.*pass user="),
    ):
        with pytest.raises(InputError, match=message):
            read_text(text, **{**options, **other})
    with pytest.raises(InputError, match=r"kind='interactions' is for tables, and a \.jsonl file is none"):
        read_text('["a"]\n', "lists.jsonl", kind="interactions")
    with pytest.raises(FormatError, match="separated by semicolons"):
        read_text("user;item\n1;2\n", kind="interactions")


def test_bad_lines_are_named(read_text):
    with pytest.raises(InputError, match=r"clicks.csv, line 3: weight -2 is not positive; correct it or drop the row"):
        read_text("user,item,clicks\nann,a,1\nann,b,-2\n")
    with pytest.raises(InputError, match=r"clicks.csv, line 3: weight None is not a finite number"):
        read_text("user,item,clicks\nann,a,1\nann,b,\n")
    with pytest.raises(InputError, match=r"clicks.csv, line 2: the item id is empty"):
        read_text("user,item,clicks\nann,,1\nann,b,2\n")


def test_a_row_with_a_user_or_an_item_alone_says_that_it_exists(read_text):
    rankings = read_text("user,item\nann,a\nbob,\n,b\n")
    assert rankings.lists() == [["a"]]
    assert (list(rankings.user_ids), list(rankings.item_ids)) == (["ann", "bob"], ["a", "b"])


def test_a_count_beside_an_order_is_still_the_weight_of_the_ranking(read_text):
    rankings = read_text("user,item,rank,count\nann,a,1,3\nann,b,2,3\n")
    assert rankings.weights.tolist() == [3]
    assert rankings.counts is None


def test_sets_are_written_as_they_are_read(tmp_path):
    path = tmp_path / "clicks.csv"
    pr.Rankings.from_interactions({"user": [1, 1, 1], "item": [*"abb"]}).write(path)
    assert path.read_text(encoding="utf-8") == "user,item,count\n1,a,1.0\n1,b,2.0\n"
    pr.Rankings.from_interactions({"user": [1, 1], "item": [*"ab"]}).write(path)
    assert path.read_text(encoding="utf-8") == "user,item,rank\n1,a,1\n1,b,1\n"  # as before there were counts


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"user": 1, "ranking": ["a"], "counts": [0]}', "line 1: count 0 is not positive"),
        ('{"user": 1, "ranking": ["a"], "counts": [1, 2]}', "expected a list of 1 numbers"),
        ('{"user": 1, "ranking": ["a"], "counts": ["b"]}', "count 'b' is not a finite number"),
        ('{"user": 1, "counts": [1]}', "need a 'ranking'"),
    ],
)
def test_bad_counts_in_json_lines_are_named(line, message, read_text):
    with pytest.raises(FormatError, match=message):
        read_text(line + "\n", "x.jsonl")


def test_an_archive_of_orders_is_not_read_as_interactions(tmp_path):
    import zipfile

    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("u.data", "1\t10\t5\t0\n1\t20\t4\t0\n")
    assert pr.read(tmp_path / "x.zip", kind="interactions").lists() == [[{10, 20}]]
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("apared_rankings.csv", "a,b\n1,2\n")
        archive.writestr("apafull_rankings.csv", "a,b\n1,2\n")
    with pytest.raises(InputError, match="holds orders; leave it out"):
        pr.read(tmp_path / "x.zip", kind="interactions")


def test_sets_are_never_taken_for_ballots(tmp_path):
    rng = np.random.default_rng(3)
    users, items = rng.integers(0, 300, 900), np.minimum(rng.geometric(0.3, 900), 8)
    (tmp_path / "x.csv").write_text(
        "user,item\n" + "".join(f"{u},{i}\n" for u, i in zip(users, items, strict=True)), encoding="utf-8"
    )
    assert not pr.read(tmp_path / "x.csv").has_order  # a ChoiceSetWarning would be an error here
