"""Reading files: what is recognised, and errors that name the file, the line and the value."""

import csv
import gzip
import io
import zipfile

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import permrank as pr
from permrank.data.formats import tabular
from permrank.errors import FormatError, InputError, PermrankError


@pytest.fixture
def read_text(tmp_path):
    """Write some text to a file and read it."""

    def run(text, name="file.csv", **options):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return pr.read(path, **options)

    return run


def refusal(read_text, text, name="file.csv", **options):
    with pytest.raises(PermrankError) as caught:
        read_text(text, name, **options)
    assert name in str(caught.value)
    return str(caught.value)


# Headers


@pytest.mark.parametrize(
    "header",
    [
        "user,item,rating",
        "userId,movieId,rating",
        "user_id,item_id,Rating",
        " USER , Item , RATING ",
        "User-ID,itemid,stars",
    ],
)
def test_usual_headers_are_recognised(header, read_text):
    rankings = read_text(f"{header}\nann,uni,5\nann,ebi,3\n")
    assert rankings.lists("ann") == [["uni", "ebi"]]


def test_columns_may_stand_in_any_order_with_others_between_them(read_text):
    text = "time,rating,user,note,item\n17,3,ann,,ebi\n18,5,ann,x,uni\n"
    assert read_text(text).lists("ann") == [["uni", "ebi"]]


def test_columns_can_be_named(read_text):
    text = "who;what;stars\n"
    assert "pass user=" in refusal(read_text, (text + "1;2;3\n").replace(";", ","))
    text = "who,what,place,rating\nann,ebi,2,9\nann,uni,1,1\n"
    rankings = read_text(text, user="who", item="what", rank="place")
    assert rankings.lists() == [["uni", "ebi"]]
    assert rankings.ratings is None
    assert read_text(text, user="who", item="what", rating="rating").lists() == [["ebi", "uni"]]


def test_a_header_that_is_not_recognised_is_answered_with_its_columns(read_text):
    message = refusal(read_text, "who,what,stars\nann,ebi,3\n")
    assert "'who', 'what', 'stars'" in message
    assert "user=" in message


def test_a_named_column_that_is_not_there_is_answered_with_those_that_are(read_text):
    message = refusal(read_text, "user,item,rating\nann,ebi,3\n", rating="score")
    assert "'score'" in message
    assert "'rating'" in message


def test_two_columns_that_fit_one_role_ask_for_a_choice(read_text):
    assert "pass user=" in refusal(read_text, "user,userId,item,rating\na,1,x,3\n")
    assert read_text("user,userId,item,rating\na,1,x,3\n", user="userId").user_ids[0] == 1


def test_with_ranks_and_ratings_the_ranks_make_the_order_and_ratings_stay(read_text):
    rankings = read_text("user,item,rank,rating\nann,ebi,2,4\nann,uni,1,4\nbob,ebi,1,2\n")
    assert rankings.lists() == [["uni", "ebi"], ["ebi"]]
    assert rankings.ratings.tolist() == [4, 4, 2]


def test_ranks_and_ratings_that_contradict_each_other_are_refused_with_the_line(read_text):
    text = "user,item,rank,rating\nann,ebi,2,4\nann,uni,1,{}\nbob,ebi,1,2\nann,ika,3,4\n"
    for rating in (4, 5):
        assert read_text(text.format(rating)).lists("ann") == [["uni", "ebi", "ika"]]
    message = refusal(read_text, text.format(3))
    assert "line 2: 'ebi' is ranked below 'uni' but rated higher, 4 against 3" in message
    assert read_text(text.format(3), rank="rank").ratings is None
    assert read_text(text.format(3), rating="rating").lists("ann") == [[{"ebi", "ika"}, "uni"]]


def test_choices_are_pairs(read_text):
    rankings = read_text("user,winner,loser\nann,1,2\nann,1,2\nbob,2,1\n")
    assert rankings.lists() == [[1, 2], [2, 1]]
    assert rankings.weights.tolist() == [2, 1]
    assert read_text("winner,loser\na,b\nb,10\n").anonymous


def test_a_choice_of_an_item_over_itself_names_its_line(read_text):
    assert "line 3" in refusal(read_text, "winner,loser\na,b\nc,c\n")


def test_ballots_are_anonymous(read_text):
    rankings = read_text("ballot,item,rank,weight\n0,a,1,3\n0,b,2,3\n")
    assert rankings.anonymous
    assert rankings.weights.tolist() == [3]


# Ids


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (["1", "20", "-3"], [-3, 1, 20]),
        (["1", "02"], ["02", "1"]),
        (["1", "+2"], ["+2", "1"]),
        (["1", "-0"], ["-0", "1"]),
        (["1", "2.0"], ["1", "2.0"]),
        (["1", "9223372036854775808"], ["1", "9223372036854775808"]),
        (["1", " 2"], [" 2", "1"]),
        (["1", "٣"], ["1", "٣"]),
    ],
)
def test_ids_are_integers_only_if_all_are_written_as_integers(ids, expected, read_text):
    rows = "".join(f"ann,{name},1\n" for name in ids)
    assert [*read_text(f"user,item,rank\n{rows}").item_ids] == expected


def test_the_header_can_settle_the_type_of_ids(read_text):
    assert [*read_text("user,item:str,rank\n7,1,1\n").item_ids] == ["1"]
    assert [*read_text("user:int,item:int,rank\n7,1,1\n").item_ids] == [1]
    assert "line 3" in refusal(read_text, "user,item:int,rank\n7,1,1\n7,x,2\n")


def test_a_row_with_only_an_item_or_only_a_user_adds_it(read_text):
    rankings = read_text("user,item,rank\nann,x,1\n,y,\nbob,,\n")
    assert [*rankings.item_ids] == ["x", "y"]
    assert [*rankings.user_ids] == ["ann", "bob"]
    assert rankings.n_rankings == 1


def test_ratings_of_any_size_and_step_are_put_in_order(read_text):
    for values in (["0.28", "0.29", "0.07"], ["1e307", "1e308", "-1e308"], ["0", "5e-324", "-1"], ["2.5", "3", "1"]):
        rows = "".join(f"ann,{name},{value}\n" for name, value in zip("abc", values, strict=True))
        rankings = read_text(f"user,item,rating\n{rows}")
        assert rankings.lists() == [["b", "a", "c"]]
        assert rankings.ratings.tolist() == sorted(map(float, values), reverse=True)


# Errors with a line


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("user,item,rating\nann,x,1\nann,y,\n", ["line 3", "None"]),
        ("user,item,rating\nann,x,NaN\n", ["line 2", "NaN"]),
        ("user,item,rating\nann,x,1\nann,y,inf\n", ["line 3", "inf"]),
        ("user,item,rank\nann,x,1\nann,y,second\n", ["line 3", "second"]),
        ("user,item,rating\nann,x,1\n,y,2\n", ["line 3", "user id is empty"]),
        ("user,item,rating\nann,,1\n", ["line 2", "item id is empty"]),
        ("user,item,rating\nann,  ,1\n", ["line 2", "item id is empty"]),
        ("user,item,rating\n,,\nann,x,1\n", ["line 2"]),
        ("user,item,rating\nann,x,1\nbob,x,1\nann,x,2\n", ["line 4", "line 2", "'x'", "duplicates="]),
        ("user,item,rating\nann,x,1\nann,y,1,4\n", ["line 3", "4 fields"]),
        ("user,item,rating\nann,x,1\nann,y\n", ["line 3", "2 fields"]),
        ("user,item,rating,weight\nann,x,1,2\nann,y,1,3\n", ["line 3", "weight"]),
        ("user,item,rating,weight\nann,x,1,-2\n", ["line 2", "-2"]),
        ("user,item,rating,weight\nann,x,1,2\nbob,x,1,1e300\n", ["line 3", "1e+300", "1e+15"]),
        ("winner,loser,weight\na,b,2\na,b,1e-200\n", ["line 3", "1e-200", "1e-15"]),
        ("winner,loser,weight\na,b,9e14\na,b,9e14\n", ["add up to 1.8e+15"]),
        (b"user,item,rating\nann,x,1\nann,\xff,1\n", ["line 3", "0xff", "UTF-8"]),
        ("", ["empty"]),
        (" \n\n", ["empty"]),
        ("user,item,rating\n", ["no rankings"]),
        ("user,item,rating\nann,,\n", ["no rankings"]),
        ('user,item,rating\nann,"two\nlines",1\nann,y,bad\n', ["line 4", "bad"]),
        ('user,item,rating\n\n\nann,x,1\n\nann,y,bad\n', ["line 6", "bad"]),
        ('user,item,rating\nann,"x,1\n', ["line 2", "quote"]),
        ('user,item,rating\nann,"x"y,1\n', ["line 2", "quote"]),
        ('user,item,rating\n"ann",x\n', ["line 2", "2 fields"]),
        ("user,item,rating\r\nann,x,1\r\nann,y,bad\r\n", ["line 3", "bad"]),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_table_is_named_with_its_line(text, words, read_text):
    message = refusal(read_text, text)
    for word in words:
        assert word in message


def test_blank_lines_quotes_and_marks_of_other_programs_are_taken(read_text):
    plain = read_text("user,item,rating\nann,x,1\nann,y,2\n")
    assert read_text("user,item,rating\r\nann,x,1\r\nann,y,2\r\n") == plain
    assert read_text("\ufeffuser,item,rating\nann,x,1\nann,y,2") == plain
    assert read_text('"user","item","rating"\n"ann","x",1\n"ann","y",2\n\n\n') == plain
    assert read_text("user,item,rating\nann,x,1\nann,y,2\n\n\n") == plain
    assert read_text("user\titem\trating\nann\tx\t1\nann\ty\t2\n", "file.tsv") == plain
    assert read_text(gzip.compress(b"user,item,rating\nann,x,1\nann,y,2\n"), "file.csv.gz") == plain
    assert read_text("user,item,rating\nann,x,1\nann,y,2\n", "file.txt", format="csv") == plain


@pytest.mark.parametrize("quoted", [False, True])
def test_one_bad_row_in_a_million_is_found(quoted, tmp_path):
    n = 1_000_000  # in about a second; a search that took every row by itself would be noticed
    path = tmp_path / "big.csv"
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"user": np.arange(n) // 20, "item": np.arange(n) % 20, "rating": rng.integers(1, 6, n)})
    text = frame.with_columns(pl.col("rating").cast(pl.String))
    text[765_432, "rating"] = "five"
    text.write_csv(path, quote_style="always" if quoted else "never")
    with pytest.raises(InputError, match=r"big\.csv, line 765434: rating 'five'"):
        pr.read(path)


cells = st.text(st.sampled_from(list('ab", \n\r\té')), max_size=4)


@settings(max_examples=300, deadline=None)
@given(rows=st.lists(st.lists(cells, min_size=2, max_size=2), min_size=2, max_size=5), always=st.booleans())
def test_the_quick_parser_agrees_with_the_csv_module(rows, always):
    # Python's writer leaves a lone carriage return without quotes, where it ends the line.
    assume(always or not any("\r" in cell for row in rows for cell in row))
    text = io.StringIO(newline="")
    csv.writer(text, quoting=csv.QUOTE_ALL if always else csv.QUOTE_MINIMAL, lineterminator="\n").writerows(rows)
    data = text.getvalue().encode()
    names = ["one", "two"]
    quick = tabular.delimited(data, ",", "file", names).load(names)
    by_module = tabular._parse_with_csv_module(data, ",", "file", names).load(names)
    assert quick.frame.rows() == by_module.frame.rows() == [tuple(cell or None for cell in row) for row in rows]
    for row in range(quick.frame.height):
        assert quick.locate(row) == by_module.locate(row)


@settings(max_examples=300, deadline=None)
@given(text=st.text(st.sampled_from(list('a",\n\r')), min_size=1, max_size=12))
def test_the_quick_parser_takes_no_text_that_the_csv_module_refuses(text):
    outcomes = []
    for parse in (tabular.delimited, tabular._parse_with_csv_module):
        try:
            outcomes.append(parse(text.encode(), ",", "file", ["one", "two"]).load(["one", "two"]).frame.rows())
        except FormatError:
            outcomes.append(None)
    assert outcomes[0] == outcomes[1]


def test_duplicates_can_be_settled(read_text):
    text = "user,item,rating\nann,x,1\nann,y,2\nann,x,4\n"
    assert read_text(text, duplicates="first").ratings.tolist() == [2, 1]
    assert read_text(text, duplicates="last").ratings.tolist() == [4, 2]
    assert read_text(text, duplicates="mean").ratings.tolist() == [2.5, 2]
    both = "user,item,rank,rating\nann,x,1,9\nann,y,2,8\nann,x,3,7\n"
    rankings = read_text(both, duplicates="last")
    assert rankings.lists() == [["y", "x"]]
    assert rankings.ratings.tolist() == [8, 7]
    with pytest.raises(InputError, match="duplicates"):
        read_text(text, duplicates="any")


def test_unlisted_items_can_come_last(read_text):
    rankings = read_text("user,item,rank\nann,x,1\nann,y,2\nbob,z,1\n", unlisted="last")
    assert rankings.lists() == [["x", "y", "z"], ["z", {"x", "y"}]]


# Files


def test_a_missing_file_is_named_with_the_nearest_one(tmp_path):
    (tmp_path / "ballots.csv").touch()
    with pytest.raises(InputError, match=r"no file .*balots\.csv.*did you mean 'ballots\.csv'"):
        pr.read(tmp_path / "balots.csv")
    with pytest.raises(InputError, match="folder"):
        pr.read(tmp_path / "nowhere" / "x.csv")
    with pytest.raises(InputError, match="is a folder"):
        pr.read(tmp_path)


def test_an_unknown_ending_is_answered_with_the_known_ones(read_text):
    message = refusal(read_text, "x", "file.xlsx")
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


def test_a_file_that_is_not_parquet_says_so(read_text):
    assert "Parquet" in refusal(read_text, "user,item\n", "file.parquet")


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
        ('["x"]\n{"ranking": ["x"], "weight": 1e300}', ["line 2", "1e+300", "1e+15"]),
        ('{"ranking": ["x"], "weight": 1e-300}', ["line 1", "1e-300", "1e-15"]),
        ('{"ranking": ["x"], "weight": 9e14}\n{"ranking": ["x"], "weight": 9e14}', ["add up to 1.8e+15"]),
        ("[" * 100_000, ["line 1", "JSON"]),
    ],
)
def test_what_is_wrong_in_json_lines_is_named_with_its_line(lines, words, read_text):
    message = refusal(read_text, lines, "file.jsonl")
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


def test_unpacked_files_of_the_owners_are_read_too(read_text):
    assert read_text("1\t10\t3\t881\n1\t20\t5\t881\n", "u.data").lists() == [[20, 10]]
    assert read_text("1::10::3::881\n", "ratings.dat").n_entries == 1
    assert read_text("1 10 3\n", "ratings.txt").n_entries == 1
    assert read_text("3 1\n0 2 2 0\n", "sushi3b.5000.10.order").lists() == [[2, 0]]
    assert "line 2" in refusal(read_text, "1\t10\t3\t881\n1\t20\t5\n", "u.data")
    assert "line 1" in refusal(read_text, "1\t10\t3\n", "u.data")
    assert "line 2" in refusal(read_text, "3 1\n0 2 2 3\n", "x.order")
    assert "line 2" in refusal(read_text, "3 1\n0 3 2 1\n", "x.order")
    assert "line 3" in refusal(read_text, "3 1\n0 2 2 1\n0 2 2 2\n", "x.order")


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
    path.write_text(f"ballot,item,rank,{header}\n1,a,1,3\n1,b,2,3\n2,b,1,2\n2,a,2,2\n")
    assert pr.read(path).weights.tolist() == [3, 2]


@pytest.mark.parametrize(("name", "separator", "word"), [("x.csv", ";", "semicolons"), ("x.tsv", ",", "commas")])
def test_another_separator_is_recognised_in_the_error(tmp_path, name, separator, word):
    path = tmp_path / name
    path.write_text("user,item,rating\n1,a,3\n".replace(",", separator))
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
    monkeypatch.setattr("permrank.data.formats.text.MOST_UNPACKED", 10_000)
    for name in ("r.csv.gz", "r.zip"):
        with pytest.raises(FormatError, match="unpacks to more than"):
            pr.read(tmp_path / name)


def test_ballots_are_completed_before_equal_ones_are_merged(tmp_path):
    path = tmp_path / "b.jsonl"
    path.write_text('["a", "b"]\n["a"]\n["b"]\n')
    for ballots in (
        pr.read(path, unlisted="last"),
        pr.Rankings.from_lists([["a", "b"], ["a"], ["b"]], unlisted="last"),
    ):
        assert ballots.lists() == [["a", "b"], ["b", "a"]]
        assert ballots.weights.tolist() == [2, 1]


def test_a_format_that_is_no_word_is_refused(tmp_path):
    (tmp_path / "x.csv").write_text("user,item,rating\n1,a,3\n")
    with pytest.raises(InputError, match="format=3, expected one of"):
        pr.read(tmp_path / "x.csv", format=3)


@pytest.mark.parametrize("path", [None, 3])
def test_something_else_than_a_path_is_refused(path):
    with pytest.raises(InputError, match="is no path"):
        pr.read(path)


# Draws


@pytest.mark.parametrize("header", ["draw", "is_draw", "Drawn", "tie", "tied", "isTie"])
def test_a_draw_beside_winner_and_loser_ties_the_two(header, read_text):
    rankings = read_text(f"winner,loser,{header}\na,b,0\na,b,1\nb,a,true\na,b,FALSE\nb,a,\nb,a,no\na,b,1.0\n")
    assert rankings.lists() == [["a", "b"], [{"a", "b"}], ["b", "a"]]
    assert rankings.weights.tolist() == [2, 3, 2]


@pytest.mark.parametrize("header", ["result", "Outcome", "score"])
def test_results_and_scores_tell_draws_from_wins(header, read_text):
    rows = ["a,b,win", "a,b,draw", "a,b,2-1", "b,a,0:1", "b,a,1/2-1/2", "a,b,2 - 2", "a,b,½-½"]
    rankings = read_text("\n".join([f"winner,loser,{header}", *rows]))
    assert rankings.lists() == [["a", "b"], [{"a", "b"}], ["b", "a"]]
    assert rankings.weights.tolist() == [2, 4, 1]


def test_a_score_of_several_sets_or_words_is_no_draw(read_text):
    assert not read_text("winner,loser,score\na,b,6-4 6-3\na,b,W/O\na,b,\n").has_ties


def test_what_does_not_say_whether_the_two_drew_is_named_with_its_line(read_text):
    wrong = [("draw", "maybe"), ("draw", "2"), ("tie", "-1")]
    # A lone 1 may be a flag or the points of the winner.
    for header, value in [*wrong, ("result", "1"), ("result", "0"), ("outcome", "true")]:
        message = refusal(read_text, f"winner,loser,{header}\na,b,win\na,c,{value}\n")
        for word in ("line 3", repr(value), repr(header), "draw="):
            assert word in message
    # The column of draws goes before one of results; and it can be named.
    assert read_text("winner,loser,draw,result\na,b,1,KO\n").has_ties
    assert read_text("winner,loser,level,result\na,b,1,KO\n", draw="level").has_ties
    assert "pass draw=" in refusal(read_text, "winner,loser,draw,tie\na,b,1,1\n")
    assert "line 2" in refusal(read_text, "winner,loser,draw\na,a,1\n")


def test_draws_of_users_in_parquet_are_ties(tmp_path):
    frame = pl.DataFrame({"user": [1, 1, 2], "winner": [1, 2, 1], "loser": [2, 1, 2], "draw": [True, None, False]})
    frame.write_parquet(tmp_path / "games.parquet")
    assert pr.read(tmp_path / "games.parquet").lists() == [[{1, 2}], [2, 1], [1, 2]]
    assert pr.Rankings.from_pairs(frame, draw="draw").lists() == [[{1, 2}], [2, 1], [1, 2]]
    numbers = frame.with_columns(pl.col("draw").cast(pl.Float64))
    assert pr.Rankings.from_pairs(numbers, draw="draw") == pr.Rankings.from_pairs(frame, draw="draw")
    with pytest.raises(InputError, match=r"column 'draw' \(draw\) is List"):
        pr.Rankings.from_pairs({"winner": ["a"], "loser": ["b"], "draw": [[1]]}, user=None, draw="draw")
    with pytest.raises(InputError, match=r"row 1: 7 in column 'draw'"):
        pr.Rankings.from_pairs({"winner": ["a", "b"], "loser": ["b", "a"], "draw": [0, 7]}, user=None, draw="draw")


def test_a_column_called_tie_or_score_beside_ranks_changes_nothing(read_text):
    text = "user,item,rank,tie,score\nann,x,1,maybe,7\nann,y,2,,8\n"
    assert read_text(text).lists() == [["x", "y"]]


def test_how_a_game_was_won_is_no_draw(read_text):
    rankings = read_text("winner,loser,result\na,b,KO\nb,c,Decision\nc,a,\nc,b,Draw\na,c,D\n")
    assert rankings.lists() == [["a", "b"], [{"a", "c"}], ["b", "c"], [{"b", "c"}], ["c", "a"]]


@pytest.mark.parametrize("header", ["voter,first,second,third", "Choice 1,Choice 2,Choice 3", "id,1st,2nd", "1,2,3"])
def test_a_rank_in_each_column_is_refused_with_what_to_do(tmp_path, header):
    path = tmp_path / "ballots.csv"
    path.write_text(f"{header}\n" + ",".join("abcd"[: header.count(",") + 1]) + "\n")
    with pytest.raises(FormatError, match=r"a row for each rank"):
        pr.read(path)
