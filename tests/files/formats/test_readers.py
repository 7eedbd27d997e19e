"""Reading tables: what is recognised, and errors that name the file, the line and the value."""

import csv
import gzip
import io

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import permrank as pr
from permrank.errors import FormatError, InputError
from permrank.files.formats import tabular

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


def test_columns_can_be_named(read_text, refusal):
    text = "who;what;stars\n"
    assert "pass user=" in refusal((text + "1;2;3\n").replace(";", ","))
    text = "who,what,place,rating\nann,ebi,2,9\nann,uni,1,1\n"
    rankings = read_text(text, user="who", item="what", rank="place")
    assert rankings.lists() == [["uni", "ebi"]]
    assert rankings.ratings is None
    assert read_text(text, user="who", item="what", rating="rating").lists() == [["ebi", "uni"]]


def test_a_header_that_is_not_recognised_is_answered_with_its_columns(refusal):
    message = refusal("who,what,stars\nann,ebi,3\n")
    assert "'who', 'what', 'stars'" in message
    assert "user=" in message


def test_a_named_column_that_is_not_there_is_answered_with_those_that_are(refusal):
    message = refusal("user,item,rating\nann,ebi,3\n", rating="score")
    assert "'score'" in message
    assert "'rating'" in message


def test_two_columns_that_fit_one_role_ask_for_a_choice(read_text, refusal):
    assert "pass user=" in refusal("user,userId,item,rating\na,1,x,3\n")
    assert read_text("user,userId,item,rating\na,1,x,3\n", user="userId").user_ids[0] == 1


def test_with_ranks_and_ratings_the_ranks_make_the_order_and_ratings_stay(read_text):
    rankings = read_text("user,item,rank,rating\nann,ebi,2,4\nann,uni,1,4\nbob,ebi,1,2\n")
    assert rankings.lists() == [["uni", "ebi"], ["ebi"]]
    assert rankings.ratings.tolist() == [4, 4, 2]


def test_ranks_and_ratings_that_contradict_each_other_are_refused_with_the_line(read_text, refusal):
    text = "user,item,rank,rating\nann,ebi,2,4\nann,uni,1,{}\nbob,ebi,1,2\nann,ika,3,4\n"
    for rating in (4, 5):
        assert read_text(text.format(rating)).lists("ann") == [["uni", "ebi", "ika"]]
    message = refusal(text.format(3))
    assert "line 2: 'ebi' is ranked below 'uni' but rated higher, 4 against 3" in message
    assert read_text(text.format(3), rank="rank").ratings is None
    assert read_text(text.format(3), rating="rating").lists("ann") == [[{"ebi", "ika"}, "uni"]]


def test_choices_are_pairs(read_text):
    rankings = read_text("user,winner,loser\nann,1,2\nann,1,2\nbob,2,1\n")
    assert rankings.lists() == [[1, 2], [2, 1]]
    assert rankings.weights.tolist() == [2, 1]
    assert read_text("winner,loser\na,b\nb,10\n").anonymous


def test_a_choice_of_an_item_over_itself_names_its_line(refusal):
    assert "line 3" in refusal("winner,loser\na,b\nc,c\n")


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


def test_the_header_can_settle_the_type_of_ids(read_text, refusal):
    assert [*read_text("user,item:str,rank\n7,1,1\n").item_ids] == ["1"]
    assert [*read_text("user:int,item:int,rank\n7,1,1\n").item_ids] == [1]
    assert "line 3" in refusal("user,item:int,rank\n7,1,1\n7,x,2\n")


def test_a_row_with_only_an_item_or_only_a_user_adds_it(read_text):
    rankings = read_text("user,item,rank\nann,x,1\n,y,\nbob,,\n")
    assert [*rankings.item_ids] == ["x", "y"]
    assert [*rankings.user_ids] == ["ann", "bob"]
    assert rankings.n_rankings == 1


def test_ratings_of_any_size_and_step_are_put_in_order(read_text):
    for values in (["0.28", "0.29", "0.07"], ["1e14", "1e15", "-1e15"], ["0", "5e-324", "-1"], ["2.5", "3", "1"]):
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
        ("user,item,rating\nann,x,1\nann,y,1e16\n", ["line 3", "1e+16", "1e+15"]),
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
        ("user,item,rating,weight\nann,x,1,2\nbob,x,1,1e300\n", ["line 3", "1e+300", "1e+09"]),
        ("winner,loser,weight\na,b,2\na,b,1e-200\n", ["line 3", "1e-200", "1e-09"]),
        ("winner,loser,weight\na,b,9e8\na,b,9e8\n", ["add up to 1.8e+09"]),
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
def test_what_is_wrong_in_a_table_is_named_with_its_line(text, words, refusal):
    message = refusal(text)
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
