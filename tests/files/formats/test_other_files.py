"""Reading files that are no tables: JSON lines, Parquet, archives; and what is no file."""

import gzip
import tracemalloc
import zipfile

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import permrank as pr
from permrank.errors import FormatError, InputError

# Files


def test_a_missing_file_is_named_with_the_nearest_one(tmp_path):
    (tmp_path / "ballots.csv").touch()
    with pytest.raises(InputError, match=r"no file .*balots\.csv.*did you mean 'ballots\.csv'"):
        pr.read(tmp_path / "balots.csv")
    with pytest.raises(InputError, match="folder"):
        pr.read(tmp_path / "nowhere" / "x.csv")
    with pytest.raises(InputError, match="is a folder"):
        pr.read(tmp_path)


def test_an_unknown_ending_is_answered_with_the_known_ones(read_text, refusal):
    message = refusal("x", "file.xlsx")
    assert ".parquet" in message
    assert "format=" in message
    with pytest.raises(InputError, match="jsonl"):
        read_text("x", "file.csv", format="excel")


def test_options_that_do_not_apply_are_refused(read_text):
    with pytest.raises(InputError, match="user= names a column"):
        read_text("[1]", "file.jsonl", user="who")
    with pytest.raises(InputError, match="part="):
        read_text("[1]", "file.jsonl", part="b")
    with pytest.raises(InputError, match="unlisted"):
        read_text("[1]", "file.jsonl", unlisted="first")


def test_parquet_of_other_programs_is_read(tmp_path):
    path = tmp_path / "file.parquet"
    frame = pd.DataFrame(
        {"userId": [1, 1, 2], "movieId": ["a", "b", "a"], "rating": [1.5, 2.5, 3.0], "extra": [{}] * 3}
    )
    pa.parquet = __import__("pyarrow.parquet").parquet
    pa.parquet.write_table(pa.Table.from_pandas(frame.drop(columns="extra")), path)
    assert pr.read(path).lists() == [["b", "a"], ["a"]]
    with pytest.raises(FormatError, match="no column 'who'"):
        pr.read(path, user="who")


def test_a_bad_rating_in_parquet_names_its_row(tmp_path):
    path = tmp_path / "file.parquet"
    pl.DataFrame({"user": [1, 1], "item": [1, 2], "rating": [1.0, None]}).write_parquet(path)
    with pytest.raises(InputError, match=r"file\.parquet, row 1"):
        pr.read(path)


def test_a_file_that_is_not_parquet_says_so(refusal):
    assert "Parquet" in refusal("user,item\n", "file.parquet")


def test_parquet_in_an_archive_is_read_as_outside_of_it(tmp_path):
    rankings = pr.Rankings.from_ratings({"user": [1, 1, 2], "item": ["a", "b", "a"], "rating": [1.5, 2.5, 3.0]})
    rankings = rankings.with_items({"item": ["a", "b"], "title": ["Alien", "Big"]})
    rankings.write(tmp_path / "x.parquet")
    path = packed(tmp_path, {"x.parquet": (tmp_path / "x.parquet").read_bytes()})
    assert pr.read(path) == rankings
    assert pr.read(path).item_attributes["title"].to_list() == ["Alien", "Big"]
    frame = pl.DataFrame({"user": [1, 1], "item": ["a", "a"], "rating": [1.5, None]})
    frame.write_parquet(tmp_path / "x.parquet")
    path = packed(tmp_path, {"x.parquet": (tmp_path / "x.parquet").read_bytes()})
    with pytest.raises(InputError, match=r"some\.zip/x\.parquet, row 1: rating None"):
        pr.read(path)


# JSON lines


def test_json_lines_are_lists_or_objects(read_text):
    rankings = read_text('["a", ["b", "c"], "d"]\n["a"]\n\n["a"]\n', "file.jsonl")
    assert rankings.anonymous
    assert rankings.lists() == [["a", {"b", "c"}, "d"], ["a"]]
    assert rankings.weights.tolist() == [1, 2]
    named = read_text(
        '{"items": ["z"]}\n{"user": "ann", "ranking": ["a", "b"], "weight": 2}\n{"user": "bob"}\n'
        '{"user": "ann", "ranking": ["b"]}\n',
        "file.ndjson",
    )
    assert named.lists("ann") == [["a", "b"], ["b"]]
    assert named.weights.tolist() == [2, 1]
    assert named.lists("bob") == []
    assert "z" in named.item_ids


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ('["a"]\n["a", "b"', ["line 2", "JSON"]),
        ('["a"]\n["a", "a"]', ["line 2", "second time"]),
        ('["a"]\n["b", 1]', ["line 2", "all strings"]),
        ('["a"]\n[[["b"]]]', ["line 2", "no item"]),
        ('["a", 1.5]', ["line 1", "1.5"]),
        ('["a", null]', ["line 1", "None"]),
        ('["a", true]', ["line 1", "True"]),
        ('["a", " "]', ["line 1", "empty"]),
        ('["a", "\\ud800"]', ["line 1", "Unicode"]),
        ("[1, 9223372036854775808]", ["line 1", "64 bits"]),
        ("[]", ["line 1", "empty"]),
        ("3", ["line 1", "list"]),
        ('{"user": "a", "rankings": []}', ["line 1", "'rankings'"]),
        ('{"user": "a", "ranking": "abc"}', ["line 1", "list"]),
        ('{"user": "a", "ranking": ["x"], "weight": 0}', ["line 1", "positive"]),
        ('{"user": "a", "ranking": ["x"], "weight": NaN}', ["line 1", "NaN"]),
        ('{"user": "a", "ranking": ["x"], "weight": 1e999}', ["line 1", "finite"]),
        ('{"user": "a", "ranking": ["x"], "ratings": [1, 2]}', ["line 1", "1 numbers"]),
        ('{"user": "a", "ranking": ["x"]}\n["x"]', ["line 2", "'user'"]),
        (
            '{"user": "a", "ranking": ["x"]}\n{"user": "a", "ranking": ["x"], "ratings": [1]}',
            ["line 2", "ratings"],
        ),
        ('{"items": ["x"]}', ["no rankings"]),
        (
            '{"user": "a", "ranking": ["x"], "ratings": [2]}\n{"user": "b", "ranking": ["x", "y"], "ratings": [3, 5]}',
            ["line 2", "'y' is ranked below 'x' but rated higher, 5 against 3"],
        ),
        ('["a"]\n{"ranking": ["x"], "ranking": ["y"]}', ["line 2", "'ranking'", "twice"]),
        ('{"user": "a", "user": "b", "ranking": ["x"]}', ["line 1", "'user'", "twice"]),
        ('["x"]\n{"ranking": ["x"], "weight": 1e300}', ["line 2", "1e+300", "1e+09"]),
        ('{"ranking": ["x"], "ratings": [1e16]}', ["line 1", "1e+16", "1e+15"]),
        ('{"ranking": ["x"], "weight": 1e-300}', ["line 1", "1e-300", "1e-09"]),
        ('{"ranking": ["x"], "weight": 9e8}\n{"ranking": ["x"], "weight": 9e8}', ["add up to 1.8e+09"]),
        ("[" * 100_000, ["line 1", "JSON"]),
    ],
)
def test_what_is_wrong_in_json_lines_is_named_with_its_line(lines, words, refusal):
    message = refusal(lines, "file.jsonl")
    for word in words:
        assert word in message


# Archives


def packed(tmp_path, files, name="some.zip"):
    with zipfile.ZipFile(tmp_path / name, "w") as archive:
        for member, text in files.items():
            archive.writestr(member, text)
    return tmp_path / name


def test_archives_of_ratings_are_recognised_by_their_files(tmp_path):
    expected = [[20, 10], [10]]
    for files in (
        {"ml-100k/u.data": "1\t10\t3\t881\n1\t20\t5\t881\n2\t10\t1\t881\n", "ml-100k/u.item": "x"},
        {"ml-1m/ratings.dat": "1::10::3::978\n1::20::5::978\n2::10::1::978\n", "ml-1m/users.dat": "x"},
        {"ml/ratings.csv": "userId,movieId,rating,timestamp\n1,10,3.0,9\n1,20,5,9\n2,10,1,9\n", "ml/movies.csv": "x"},
        {"filmtrust/ratings.txt": "1 10 3\n1 20 3.5\n2 10 1\n", "filmtrust/trust.txt": "1 2 1\n"},
        {"any.csv": "user,item,rank\n1,10,2\n1,20,1\n2,10,1\n"},
    ):  # fmt: skip
        assert pr.read(packed(tmp_path, files)).lists() == expected


def test_sushi_has_two_parts_with_items_by_name(tmp_path):
    path = packed(
        tmp_path,
        {
            "s/sushi3.idata": "0\tebi\t1\n1\tanago\t1\n2\tmaguro\t1\n",
            "s/sushi3b.5000.10.order": "3 1\n0 2 2 0\n0 3 1 0 2\n",
            "s/sushi3a.5000.10.order": "10 1\n0 10 5 0 3 4 6 9 8 1 7 2\n",
        },
    )
    assert pr.read(path).lists() == [["maguro", "ebi"], ["anago", "ebi", "maguro"]]
    assert pr.read(path, part="a").lists()[0][:3] == ["ikura", "ebi", "ika"]
    with pytest.raises(InputError, match="'a' and 'b'"):
        pr.read(path, part="c")


def test_unpacked_files_of_the_owners_are_read_too(read_text, refusal):
    assert read_text("1\t10\t3\t881\n1\t20\t5\t881\n", "u.data").lists() == [[20, 10]]
    assert read_text("1::10::3::881\n", "ratings.dat").n_entries == 1
    assert read_text("1 10 3\n", "ratings.txt").n_entries == 1
    assert read_text("3 1\n0 2 2 0\n", "sushi3b.5000.10.order").lists() == [[2, 0]]
    assert "line 2" in refusal("1\t10\t3\t881\n1\t20\t5\n", "u.data")
    assert "line 1" in refusal("1\t10\t3\n", "u.data")
    assert "line 2" in refusal("3 1\n0 2 2 3\n", "x.order")
    assert "line 2" in refusal("3 1\n0 3 2 1\n", "x.order")
    assert "line 3" in refusal("3 1\n0 2 2 1\n0 2 2 2\n", "x.order")


def test_tables_of_ranks_and_races_are_read_from_their_archives(tmp_path):
    path = packed(
        tmp_path,
        {"apared_rankings.csv": "A,B\n1,2\n1,2\n2,1\n", "apafull_rankings.csv": "A,B\n,1.0\n1.0,2.0\n"},
    )
    assert pr.read(path).weights.tolist() == [2, 1]
    assert pr.read(path, part="all").lists() == [["B"], ["A", "B"]]
    path = packed(tmp_path, {"nascar_orderings.csv": "2.0,1.0\n3.0,2.0\n", "drivers.txt": "Ann\nBob\nCy\nDee\n"})
    assert pr.read(path).lists() == [["Bob", "Ann"], ["Cy", "Bob"]]
    assert pr.read(path).n_items == 4
    path = packed(tmp_path, {"nascar_orderings.csv": "2.0,1.0\n3.0,9.0\n", "drivers.txt": "Ann\nBob\nCy\n"})
    with pytest.raises(FormatError, match=r"line 2: '9\.0'"):
        pr.read(path)


def test_an_archive_with_two_files_that_could_be_meant_names_both(tmp_path):
    rows = "user,item,rating\n1,10,3\n"
    path = packed(tmp_path, {"old/ratings.csv": rows, "new/ratings.csv": rows, "old/readme": "x", "new/readme": "y"})
    with pytest.raises(FormatError, match=r"old/ratings\.csv and new/ratings\.csv; unpack"):
        pr.read(path)
    path = packed(tmp_path, {"a/ratings.csv": rows, "b/u.data": "1\t10\t3\t881\n"})
    with pytest.raises(FormatError, match=r"b/u\.data and a/ratings\.csv; unpack"):
        pr.read(path)
    path = packed(tmp_path, {"a/ratings.csv": rows, "__MACOSX/a/ratings.csv": "x", "a/readme": "x", "b/readme": "y"})
    assert pr.read(path).n_entries == 1


def test_an_archive_of_unknown_layout_says_what_it_holds(tmp_path):
    path = packed(tmp_path, {"one.txt": "x", "two.csv": "y"})
    with pytest.raises(FormatError, match=r"one\.txt, two\.csv"):
        pr.read(path)


def test_a_cut_archive_says_so(tmp_path):
    path = packed(tmp_path, {"any.csv": "user,item,rank\n1,10,2\n" * 100})
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(FormatError, match="zip"):
        pr.read(path)


@pytest.mark.parametrize("header", ["weight", "Count", "votes", "counts", "weights"])
def test_a_column_of_counts_is_taken_for_weights(tmp_path, header):
    path = tmp_path / "b.csv"
    path.write_text(f"ballot,item,rank,{header}\n1,a,1,3\n1,b,2,3\n2,b,1,2\n2,a,2,2\n", encoding="utf-8")
    assert pr.read(path).weights.tolist() == [3, 2]


@pytest.mark.parametrize(("name", "separator", "word"), [("x.csv", ";", "semicolons"), ("x.tsv", ",", "commas")])
def test_another_separator_is_recognised_in_the_error(tmp_path, name, separator, word):
    path = tmp_path / name
    path.write_text("user,item,rating\n1,a,3\n".replace(",", separator), encoding="utf-8")
    with pytest.raises(FormatError, match=f"seems to be separated by {word}"):
        pr.read(path)


def test_what_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    text = "user,item,rating\n" + "".join(f"1,i{i},3\n" for i in range(2000))
    with gzip.open(tmp_path / "r.csv.gz", "wt") as file:
        file.write(text)
    with zipfile.ZipFile(tmp_path / "r.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("ratings.csv", text)
    for name in ("r.csv.gz", "r.zip"):
        assert pr.read(tmp_path / name).n_items == 2000
    free = "permrank.checks._MEMORY", "permrank.checks._CONTAINER"
    for bound in ("MOST_UNPACKED", "memory"):
        with monkeypatch.context() as patched:
            if bound == "memory":
                (tmp_path / "meminfo").write_text("MemAvailable: 40 kB\n", encoding="utf-8")
                for name in free:
                    patched.setattr(name, tmp_path / "meminfo")
            else:
                patched.setattr(f"permrank.files.formats.contents.{bound}", 10_000)
            for name in ("r.csv.gz", "r.zip"):
                with pytest.raises(FormatError, match="unpacks to more than"):
                    pr.read(tmp_path / name)


@pytest.mark.parametrize("name", ["bomb.csv.gz", "bomb.zip"])
def test_a_small_file_is_not_unpacked_to_hundreds_of_times_its_size(tmp_path, name):
    n_bytes, path = 96 * 2**20, tmp_path / name
    text = b"1,item,3\n" * (n_bytes // 9)
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(text))
    else:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("ratings.csv", text)
    del text
    assert path.stat().st_size < n_bytes // 500
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match=r"bomb.* has .* bytes and unpacks to more than 64 MiB.*unpack it your"):
            pr.read(path)
        assert tracemalloc.get_traced_memory()[1] < 90 * 2**20  # it stops where it says
    finally:
        tracemalloc.stop()


def test_ballots_are_completed_before_equal_ones_are_merged(tmp_path):
    path = tmp_path / "b.jsonl"
    path.write_text('["a", "b"]\n["a"]\n["b"]\n', encoding="utf-8")
    for ballots in (
        pr.read(path, unlisted="last"),
        pr.Rankings.from_lists([["a", "b"], ["a"], ["b"]], unlisted="last"),
    ):
        assert ballots.lists() == [["a", "b"], ["b", "a"]]
        assert ballots.weights.tolist() == [2, 1]


def test_a_format_that_is_no_word_is_refused(tmp_path):
    (tmp_path / "x.csv").write_text("user,item,rating\n1,a,3\n", encoding="utf-8")
    with pytest.raises(InputError, match="format=3, expected one of"):
        pr.read(tmp_path / "x.csv", format=3)


@pytest.mark.parametrize("path", [None, 3])
def test_something_else_than_a_path_is_refused(path):
    with pytest.raises(InputError, match="is no path"):
        pr.read(path)
