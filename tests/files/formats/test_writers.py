"""What is written is read back equal, or refused."""

import zipfile

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import permrank as pr
from permrank.errors import FormatError, InputError
from permrank.files.formats import FORMATS, Format
from permrank.rankings.vocabulary import Vocabulary

TABLES = ("csv", "tsv", "parquet", "jsonl", "ndjson")
PREFLIB = ("soc", "soi", "toc", "toi")

NASTY = (
    "a,b", 'say "hi"', '"', '""', "two\nlines", "cr\rlf\r\n", " lead", "trail ", "tab\there", "#hash", "a:b", "{1,2}",
    "{", "}", "007", "-1", "+7", "1.0", "0", "null", "None", "NaN", "true", "é",
    "寿司", "🍣", "a\u2028b", "\x00", "\x1f.",
    "\ufeffbom", "'", "\\", "item", "user", "user,item,rank", "[1]", "\x85x", "a;b", "9223372036854775808",
)  # fmt: skip

texts = st.one_of(
    st.sampled_from(NASTY),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6),
    st.integers(-20, 20).map(str),
).filter(lambda text: text.strip() != "")
integers = st.one_of(st.integers(-5, 30), st.sampled_from([-(2**63), 2**63 - 1, 10**12]))
weights = st.one_of(st.integers(1, 5).map(float), st.floats(1e-9, 1e8), st.sampled_from([0.1, 1 / 3, 2.0**29]))
ratings = st.one_of(
    st.integers(1, 5).map(float),
    st.floats(-1e15, 1e15),
    st.sampled_from([0.1, 0.29, 1e-320, float(np.float32(0.1))]),
)


@st.composite
def any_rankings(draw, ids=None, anonymous=None):
    """Everything that a Rankings can hold."""
    item_ids = draw(st.sampled_from([texts, integers])) if ids is None else ids
    user_ids = draw(st.sampled_from([texts, integers]))
    items = draw(st.lists(item_ids, min_size=1, max_size=6, unique=True))
    users = draw(st.lists(user_ids, min_size=1, max_size=4, unique=True))
    lists, owners = [], []
    for user in users:
        for _ in range(draw(st.integers(0, 3))):
            chosen = draw(st.lists(st.sampled_from(items), min_size=1, unique=True))
            lists.append([[name] for name in chosen] if draw(st.booleans()) else _blocks(draw, chosen))
            owners.append(user)
    if not lists:
        lists, owners = [[[items[0]]]], [users[0]]
    given_weights = draw(st.none() | st.lists(weights, min_size=len(lists), max_size=len(lists)))
    idle = [user for user in users if user not in owners]
    rankings = pr.Rankings.from_lists(
        lists + [[] for _ in idle],
        users=owners + idle,
        weights=None if given_weights is None else given_weights + [1.0 for _ in idle],
        items=items if draw(st.booleans()) else None,
    )
    if draw(st.booleans()):
        rankings = _with_ratings(draw, rankings)
    if draw(st.booleans()):
        n = rankings.n_entries
        counts = np.array(draw(st.lists(weights, min_size=n, max_size=n)))
        rankings = _rebuilt(rankings, ratings=rankings.ratings, counts=counts, anonymous=False)
    return _anonymous(rankings) if (draw(st.booleans()) if anonymous is None else anonymous) else rankings


def _blocks(draw, chosen):
    blocks = [[chosen[0]]]
    for name in chosen[1:]:
        if draw(st.booleans()):
            blocks[-1].append(name)
        else:
            blocks.append([name])
    return blocks


def _with_ratings(draw, rankings):
    n = rankings.n_entries
    if draw(st.booleans()):  # ratings that agree with the levels
        values = -rankings.levels.astype(float)
    else:  # ratings that are equal across levels or differ within one
        values = np.sort(draw(st.lists(ratings, min_size=n, max_size=n)))[::-1]
        starts = rankings.indptr[:-1]
        values = np.concatenate(
            [values[: stop - start] for start, stop in zip(starts, rankings.indptr[1:], strict=True)]
        )
    return _rebuilt(rankings, ratings=values, anonymous=False)


def _anonymous(rankings):
    return _rebuilt(rankings, ratings=rankings.ratings, counts=rankings.counts, anonymous=True)


def _rebuilt(rankings, **options):
    return pr.Rankings(
        rankings.user_indptr, rankings.indptr, rankings.items, rankings.levels, rankings.weights,
        rankings.user_ids, rankings.item_ids, **options,
    )  # fmt: skip


def assert_round_trip(rankings, path):
    rankings.write(path)
    again = pr.read(path)
    assert again == rankings
    assert again.user_ids.is_integer == rankings.user_ids.is_integer
    assert not [*path.parent.glob(".*")]


@pytest.mark.parametrize("ending", TABLES)
@settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(rankings=any_rankings())
def test_whatever_rankings_hold_survives_a_round_trip(ending, rankings, tmp_path):
    assert_round_trip(rankings, tmp_path / f"file.{ending}")


@pytest.mark.parametrize("ending", PREFLIB)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rankings=any_rankings())
@example(rankings=pr.Rankings.from_lists([["a", " b "], [" b ", "a"]], weights=[2, 3]))
@example(rankings=pr.Rankings.from_lists([[7, 10], [10, 7]]))
def test_preflib_holds_what_it_is_given_or_refuses(ending, rankings, tmp_path):
    path = tmp_path / f"file.{ending}"
    path.unlink(missing_ok=True)
    try:
        rankings.write(path)
    except FormatError as error:
        assert "PrefLib" in str(error)
        assert not path.exists()
    else:
        assert pr.read(path) == rankings


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_merged_ballots_with_plain_weights_always_fit_preflib(data, tmp_path):
    lists = data.draw(st.lists(st.permutations(list(NASTY[6:20])).map(lambda order: order[:4]), min_size=1, max_size=6))
    counts = data.draw(st.lists(st.integers(1, 1000), min_size=len(lists), max_size=len(lists)))
    rankings = pr.Rankings.from_lists(lists, weights=counts)
    path = tmp_path / "file.soi"
    rankings.write(path)
    assert pr.read(path) == rankings
    assert f"# NUMBER VOTERS: {sum(counts)}\n" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("ending", TABLES)
def test_each_nasty_id_survives_alone_and_beside_the_others(ending, tmp_path):
    for names in [NASTY, *([name] for name in NASTY)]:
        rankings = pr.Rankings.from_lists({name: list(names) for name in names})
        assert_round_trip(rankings, tmp_path / f"file.{ending}")


@pytest.mark.parametrize("ending", TABLES)
def test_ratings_and_a_random_order_inside_ties_both_survive(ending, tmp_path):
    frame = {"user": [1] * 6 + [2] * 2, "item": [*range(6), 0, 1], "rating": [5, 4, 4, 4, 1, 1, 3.5, 0.1]}
    rankings = pr.Rankings.from_ratings(frame)
    assert_round_trip(rankings, tmp_path / f"file.{ending}")
    assert_round_trip(rankings.shuffled_ties(seed=3), tmp_path / f"file.{ending}")


def test_ratings_that_tell_the_order_are_written_without_ranks(tmp_path):
    rankings = pr.Rankings.from_ratings({"user": ["a", "a"], "item": ["x", "y"], "rating": [1, 2]})
    rankings.write(tmp_path / "file.csv")
    assert (tmp_path / "file.csv").read_text(encoding="utf-8") == "user,item,rating\na,y,2.0\na,x,1.0\n"


def test_strings_that_look_like_integers_are_marked_in_the_header(tmp_path):
    rankings = pr.Rankings.from_lists({"1": ["10", "9"], "2": ["9"]})
    rankings.write(tmp_path / "file.tsv")
    assert (tmp_path / "file.tsv").read_text(encoding="utf-8").startswith("user:str\titem:str\trank\n")
    assert pr.read(tmp_path / "file.tsv") == rankings


def test_more_than_nine_rankings_of_a_user_keep_their_order(tmp_path):
    rankings = pr.Rankings.from_lists([[y, (y + 1) % 12] for y in range(12)], users=["ann"] * 12)
    for ending in TABLES:
        assert_round_trip(rankings, tmp_path / f"file.{ending}")


@pytest.mark.parametrize(
    ("rankings", "ending", "words"),
    [
        (pr.Rankings.from_lists({"ann": ["a", "b"]}), "soc", "merged()"),
        (pr.Rankings.from_lists([["a", {"b", "c"}]]), "soc", ".toc"),
        (pr.Rankings.from_lists([["a", {"b", "c"}]]), "soi", ".toi"),
        (pr.Rankings.from_lists([["a"], ["b", "a"]]), "soc", ".soi"),
        (pr.Rankings.from_lists([["a"], ["b", {"a", "c"}]]), "toc", ".toi"),
        (pr.Rankings.from_lists([["a", "b"]], weights=[0.5]), "soc", "whole numbers"),
        (pr.Rankings.from_lists([["a\nb"]]), "soc", "line break"),
        (
            pr.Rankings.from_lists([["a", "b", "c"], ["a", "c", "b"]]).select(items=["a", "b"]),
            "soc",
            "merged()",
        ),
    ],
)
def test_preflib_says_what_it_cannot_hold_and_what_to_do(rankings, ending, words, tmp_path):
    with pytest.raises(FormatError, match="PrefLib") as caught:
        rankings.write(tmp_path / f"file.{ending}")
    assert words in str(caught.value)
    assert [*tmp_path.iterdir()] == []


def test_ratings_do_not_go_into_preflib(tmp_path):
    rankings = pr.Rankings.from_ratings({"user": [0], "item": ["x"], "rating": [1]})
    with pytest.raises(FormatError, match="ratings"):
        _anonymous(rankings).write(tmp_path / "file.soc")


@pytest.mark.parametrize("name", ["file.xlsx", "file", "file.zip"])
def test_an_unknown_ending_is_refused_with_the_known_ones(name, tmp_path):
    with pytest.raises(FormatError, match=r"\.parquet"):
        pr.Rankings.from_lists([["a"]]).write(tmp_path / name)


def test_rankings_without_a_ranking_are_not_written(tmp_path):
    nothing = pr.Rankings.from_lists({"ann": ["a"]}).select(items=[])
    with pytest.raises(FormatError, match="no rankings"):
        nothing.write(tmp_path / "file.csv")


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(InputError, match="nowhere"):
        pr.Rankings.from_lists([["a"]]).write(tmp_path / "nowhere" / "file.csv")


def test_a_large_table_is_written_and_read_back(tmp_path):
    rankings = pr.datasets.simulated(20_000, 500, list_length=20, ties=5).rankings
    for ending in ("csv", "parquet"):
        assert_round_trip(rankings, tmp_path / f"file.{ending}")
        (tmp_path / f"file.{ending}").unlink()


def test_parquet_keeps_types_that_other_programs_understand(tmp_path):
    pr.Rankings.from_lists([["7", "8"]], weights=[2.5]).write(tmp_path / "file.parquet")
    schema = pl.read_parquet_schema(tmp_path / "file.parquet")
    assert schema == {"ballot": pl.Int64, "item": pl.String, "rank": pl.Int32, "weight": pl.Float64}


def test_finished_arrays_with_ties_in_any_order_survive_too(tmp_path):
    users, items = Vocabulary.of(["u"], "user"), Vocabulary.of(["a", "b", "c"], "item")
    rankings = pr.Rankings([0, 1], [0, 3], [2, 0, 1], [0, 0, 1], [1.0], users, items, ratings=[5.0, 4.0, 3.0])
    assert rankings.items.tolist() == [0, 2, 1]
    assert rankings.ratings.tolist() == [4, 5, 3]
    assert_round_trip(rankings, tmp_path / "file.csv")
    with pytest.raises(InputError, match="sorted"):
        pr.Rankings([0, 1], [0, 1], [0], [0], [1.0], users, Vocabulary(pl.Series(["b", "a"]), "item"))


def test_vocabularies_of_a_reread_file_are_sorted(tmp_path):
    rankings = pr.Rankings.from_lists({"b": ["z", "y"], "a": ["y"]}, items=["x"])
    rankings.write(tmp_path / "file.csv")
    again = pr.read(tmp_path / "file.csv")
    assert again.item_ids == Vocabulary.of(["x", "y", "z"], "item")


def test_a_format_is_one_entry_of_the_table(monkeypatch, tmp_path):
    def parse(contents):
        return pr.Rankings.from_lists([line.split(" > ") for line in contents.data.decode().splitlines()])

    def write(rankings, name):
        return lambda file: file.writelines(" > ".join(ranking).encode() + b"\n" for ranking in rankings.lists())

    monkeypatch.setitem(FORMATS, "arrows", Format(parse, write, endings=("arrows",)))
    ballots = pr.Rankings.from_lists([["b", "a"], ["a", "c"]])
    ballots.write(tmp_path / "x.arrows")
    assert (tmp_path / "x.arrows").read_text(encoding="utf-8") == "b > a\na > c\n"
    assert pr.read(tmp_path / "x.arrows") == ballots
    (tmp_path / "x.txt").write_text("b > a\na > c\n", encoding="utf-8")
    assert pr.read(tmp_path / "x.txt", format=".Arrows") == ballots
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.write(tmp_path / "x.arrows", "x.arrows")
    assert pr.read(tmp_path / "x.zip") == ballots
    with pytest.raises(InputError, match=r"user= names a column, but a \.arrows file has none"):
        pr.read(tmp_path / "x.arrows", user="who")


def test_the_names_of_formats_are_what_they_are_known_by():
    for name, known in FORMATS.items():
        assert name == [*known.endings, *known.file_names][0]
    known_by = [each for known in FORMATS.values() for each in (*known.endings, *known.file_names)]
    assert len(set(known_by)) == len(known_by)
