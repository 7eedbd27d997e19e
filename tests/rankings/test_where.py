"""Conditions on attributes: the text and the expression that it means choose the same items."""

import polars as pl
import pytest

import permrank as pr
from permrank.errors import InputError, PermrankError, UnknownIdError
from permrank.rankings.where import passing

FILMS = {
    "item": [1, 2, 3, 4, 5],
    "title": ["Star Wars", "Heat and Dust", "Clueless", "Alien", None],
    "genres": [["Action", "Sci-Fi"], ["Drama"], ["Comedy", "Children's"], ["Horror", "Sci-Fi"], None],
    "year": [1977, 1983, 1995, 1979, None],
    "score": [8.6, 6.5, 6.9, 8.5, 1.0],
    "adult": [False, False, None, True, False],
    "country of origin": ["US", "UK", "US", "UK", None],
    "released": pl.Series(["1977-05-25", None, "1995-07-19", "1979-05-25", None]).str.to_date(),
}
GENRES, YEAR = pl.col("genres"), pl.col("year")


@pytest.fixture(scope="module")
def ids():
    return pr.Rankings.from_lists({"ann": [1, 2, 3, 4, 5, 6]}).with_items(pl.DataFrame(FILMS)).item_ids


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("genres contains Sci-Fi", GENRES.list.contains("Sci-Fi")),
        ("genres contains comedy and year > 1990", GENRES.list.contains("Comedy") & (YEAR > 1990)),
        ("genres contains Children's", GENRES.list.contains("Children's")),
        ("genres not contains Drama", ~GENRES.list.contains("Drama")),
        ("not genres contains Drama", ~GENRES.list.contains("Drama")),
        ("year >= 1979 and year <= 1983 or score > 8.55", YEAR.is_between(1979, 1983) | (pl.col("score") > 8.55)),
        ("year>=1979 and (year<=1983 or score>8.55)", (YEAR >= 1979) & ((YEAR <= 1983) | (pl.col("score") > 8.55))),
        ("YEAR = 1977", YEAR == 1977),
        ("year != 1977", YEAR != 1977),
        ("year in (1977, 1995)", YEAR.is_in([1977, 1995])),
        ("year not in (1977, 1995)", ~YEAR.is_in([1977, 1995])),
        ("year is missing", YEAR.is_null()),
        ("year is not missing and not adult", YEAR.is_not_null() & ~pl.col("adult")),
        ("adult", pl.col("adult")),
        ("adult = no", ~pl.col("adult")),
        ("title contains star wars", pl.col("title") == "Star Wars"),
        ("title contains 'heat and'", pl.col("title") == "Heat and Dust"),
        ('title = "heat and dust"', pl.col("title") == "Heat and Dust"),
        ("country of origin = uk", pl.col("country of origin") == "UK"),
        ("`country of origin` in (UK)", pl.col("country of origin") == "UK"),
        ("released > 1979-01-01", pl.col("released") > pl.date(1979, 1, 1)),
        ("item < 3", pl.col("item") < 3),
        ("title < C", pl.col("title") < "C"),
    ],
)
def test_text_means_what_the_expression_says(text, expression, ids):
    found = passing(ids, text)
    assert found.tolist() == passing(ids, expression).tolist()
    assert 0 < found.sum() < found.size


def test_what_is_not_known_does_not_pass(ids):
    assert not passing(ids, "year > 0")[[4, 5]].any()
    assert not passing(ids, pl.col("year") > 0)[[4, 5]].any()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gener contains Comedy", "unknown column 'gener'; the nearest known one is 'genres'"),
        ("genres contains Comdey", "unknown value of the column 'genres' 'Comdey'; the nearest known one is 'Comedy'"),
        ("country of origin = UKK", "unknown value of the column 'country of origin' 'UKK'; the nearest.*'UK'"),
        ("year > new", "'year' holds numbers, and 'new' is none"),
        ("adult = maybe", "'adult' is true or false"),
        ("released > soon", "'released' holds dates such as 1995-12-31"),
        ("genres = Comedy", "'genres' holds lists; ask whether it contains 'Comedy'"),
        ("year contains 9", "'year' holds Int64, which contains nothing"),
        ("year", r"what of the column 'year'\? It needs =, <, >"),
        ("year >", "a value is missing at the end"),
        ("year > 1 and", "a column is missing at the end"),
        ("(year > 1", r"'\)' is missing"),
        ("year > 1)", r"'\)' is not expected there"),
        ("year is gone", "'missing' is missing"),
        ("year not 3", "after 'not' comes 'contains' or 'in'"),
        ("", "a column is missing at the end"),
        ("year > 'x", "cannot be read"),
        ("__import__('os') = 1", "unknown column '__import__'"),
    ],
)
def test_bad_conditions_are_refused_and_name_what_is_meant(text, message, ids):
    with pytest.raises(PermrankError, match=message):
        passing(ids, text)


def test_expressions_are_checked_too(ids):
    with pytest.raises(UnknownIdError, match="unknown column 'yeer'; the nearest known one is 'year'"):
        passing(ids, pl.col("yeer") > 3)
    with pytest.raises(InputError, match="expected true or false of each item"):
        passing(ids, pl.col("year") + 1)
    with pytest.raises(InputError, match="expected true or false of each item"):
        passing(ids, (pl.col("year") > 3).any())
    with pytest.raises(InputError, match="where cannot be computed"):
        passing(ids, pl.col("title") > 3)
    with pytest.raises(InputError, match="expected a Polars expression or text"):
        passing(ids, 3)


def test_without_attributes_it_says_where_to_give_them():
    bare = pr.Rankings.from_lists({"ann": ["a", "b"]}).item_ids
    with pytest.raises(InputError, match=r"nothing is known of the items; give items= .*with_items\(frame\)"):
        passing(bare, "year > 3")


def test_recommend_takes_filters(ids):
    lists = {"ann": [1, 2], "bob": [1, 2, 3, 4, 5], "cat": [3, 4]}
    model = pr.Popularity(count="listed").fit(pr.Rankings.from_lists(lists).with_items(pl.DataFrame(FILMS)))
    found = model.recommend("ann", where="genres contains Sci-Fi")
    assert found.select("item", "title").rows() == [(4, "Alien")]
    assert set(model.recommend("ann", where=pl.col("year") < 1990, exclude_listed=False)["item"]) == {1, 2, 4}
    assert model.recommend("ann", items=["clueless", "ALIEN"], exclude=["Alien"])["item"].to_list() == [3]
    several = model.recommend(["ann", "cat"], where="year < 1978")
    assert several.select("user", "item").rows() == [("cat", 1)]
    assert model.recommend("ann", where="year < 1900").is_empty()
    with pytest.raises(InputError, match="exclude_listed"):
        model.recommend("ann", exclude_listed="no")
