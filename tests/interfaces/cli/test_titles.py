"""Titles and filters on the command line; its errors speak of its own options."""

import json

import polars as pl
import pytest

import permrank as pr
from permrank.interfaces.cli.sources import parse_list
from permrank.kernels.compiling import tell_of
from shell import run

TITLES = ["Toy Story (1995)", "Matrix, The (1999)", "Heat (1995)", "Big (1988)", "Heat (1972)", "A = B > C (2000)"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("films")
    lists = {1: [1, 2, 3], 2: [2, 4], 3: [5, 1, 6], 4: [3, 4, 1], 5: [6, 2]}
    rows = [(user, item, 5 - place) for user, items in lists.items() for place, item in enumerate(items)]
    pl.DataFrame(rows, schema=["userId", "movieId", "rating"], orient="row").write_csv(path / "ratings.csv")
    genres = ["Comedy|Animation", "Action", "Action|Crime", "Comedy", "Crime|Action", "Animation"]
    pl.DataFrame({"movieId": range(1, 7), "title": TITLES, "genres": genres}).write_csv(path / "movies.csv")
    run("fit", path / "ratings.csv", "--items", path / "movies.csv", "-m", "MeanRating", "-o", path / "m")
    return path


def test_answers_have_titles_and_ids_keep_their_type(folder):
    rows = json.loads(run("recommend", folder / "m", "1", "2", "--json").stdout)
    assert {type(row["user"]) for row in rows} == {type(row["item"]) for row in rows} == {int}
    assert all(row["title"] == TITLES[row["item"] - 1] for row in rows)
    new = json.loads(run("recommend", folder / "m", "--list", "Toy Story (1995) > Big (1988)", "--json").stdout)
    assert {row["user"] for row in new} == {"new"}
    assert "Matrix, The (1999)" in run("rank", folder / "m", "the matrix", "4", "--user", "1").stdout
    run("recommend", folder / "m", "--all", "-o", folder / "all.parquet")
    assert pl.read_parquet(folder / "all.parquet").schema["user"] == pl.Int64


def test_info_tells_what_is_known(folder):
    told = json.loads(run("info", folder / "ratings.csv", "--items", folder / "movies.csv", "--json").stdout)
    assert told["item_attribute"] == {
        "title": "text, of 6 items",
        "genres": "list, of 6 items",
        "year": "whole number, of 6 items",
    }
    assert "item attribute genres" in run("info", folder / "ratings.csv", "--items", folder / "movies.csv").stdout


def test_converting_says_what_a_file_has_no_room_for(folder):
    films = ["--items", folder / "movies.csv"]
    assert (
        "no room for what is known of items" in run("convert", folder / "ratings.csv", folder / "r.tsv", *films).stderr
    )
    said = run("convert", folder / "ratings.csv", folder / "r.parquet", *films)
    assert "no room" not in said.stderr
    assert pr.read(folder / "r.parquet").item_ids.titles.to_list() == TITLES


def test_a_fit_that_compiles_says_so_once(folder, monkeypatch):
    def fitted(*arguments, **options):
        for kernel in ("one", "other"):
            tell_of(kernel)
        return fit(*arguments, **options)

    fit = pr.Borda.fit
    monkeypatch.setattr(pr.Borda, "fit", fitted)
    said = run("fit", folder / "ratings.csv", "-m", "Borda", "-o", folder / "b").stderr
    assert said.count("compiling what this needs, once; 'permrank warm' compiles ahead") == 1


def test_communities_have_titles(folder):
    options = ["-m", "LatentPlackettLuce", "-s", "n_communities=2", "-s", "max_iter=20"]
    run("fit", folder / "ratings.csv", "--items", folder / "movies.csv", *options, "-o", folder / "c.permrank")
    rows = pr.load(folder / "c.permrank").communities().to_dicts()
    assert all(row["titles"] == [TITLES[item - 1] for item in row["items"]] for row in rows)
    said = " ".join(run("info", folder / "c.permrank").stdout.replace("│", " ").split())
    assert f"{rows[0]['titles'][0]} x" in said


def test_filters(folder):
    model = folder / "m"
    found = json.loads(run("recommend", model, "1", "--where", "genres contains comedy", "--json").stdout)
    assert [row["item"] for row in found] == [4]
    found = json.loads(run("recommend", model, "1", "--where", "year > 1990", "--listed", "--json").stdout)
    assert {row["item"] for row in found} == {1, 2, 3, 6}
    found = json.loads(run("recommend", model, "1", "--item", "big", "--item", "6", "--exclude", "6", "--json").stdout)
    assert [row["item"] for row in found] == [4]
    ranked = json.loads(run("rank", model, "--user", "1", "--where", "title contains heat", "--json").stdout)
    assert {row["item"] for row in ranked} == {3, 5}
    assert "nothing passes the filters" in run("recommend", model, "1", "--where", "year < 1900").stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["recommend", "m", "1", "--where", "gener contains x"], "unknown column 'gener'; the nearest known one is"),
        (["recommend", "m", "1", "--exclude", "heat"], "is the title of 2 items: 3 (Heat (1995)), 5 (Heat (1972))"),
        (["recommend", "m", "--list", "Toy Story > Bigg"], "unknown item 'Bigg'"),
        (["recommend", "m", "Toy Story"], "unknown user 'Toy Story'"),
        (["fit", "twice.csv"], "drop one, or pass --duplicates first, last or mean"),
        (["fit", "ratings.csv", "--items", "ratings.csv"], "ratings.csv: the frame of items: item 1 has two rows"),
        (["fit", "ratings.csv", "--items", "nothing.csv"], "there is no file"),
        (["fit", "ratings.dta"], "rename it if it is one of these"),
    ],
)  # fmt: skip
def test_errors_speak_of_options_and_name_the_nearest(folder, arguments, message):
    (folder / "twice.csv").write_text("user,item,rating\n1,1,2\n1,1,3\n", encoding="utf-8")
    (folder / "ratings.dta").write_text("x", encoding="utf-8")
    files = ("m", "twice.csv", "ratings.csv", "nothing.csv", "ratings.dta")
    said = run(*(folder / word if word in files else word for word in arguments), code=1).stderr
    assert message in said.replace("\n", " ")
    assert "duplicates=" not in said


def test_without_items_the_option_is_named(folder):
    run("fit", folder / "ratings.csv", "-m", "MeanRating", "-o", folder / "bare")
    assert "give --items with a file" in run("recommend", folder / "bare", "1", "--where", "year > 1", code=1).stderr


def test_lists_may_name_titles_with_commas_and_signs():
    ids = pr.Rankings.from_lists({1: [1, 2, 3, 4, 5, 6]}).with_items({"item": range(1, 7), "title": TITLES}).item_ids
    assert parse_list("Toy Story (1995) > The Matrix = 4", ids) == [1, {2, 4}]
    assert parse_list("Toy Story, Matrix, The (1999), big", ids) == [1, 2, 4]
    assert parse_list("5, 6", ids) == [5, 6]
    assert parse_list("Heat (1995)", ids) == [3]


def test_people_are_found_by_their_names(folder):
    names = pl.DataFrame({"userId": range(1, 6), "name": ["Ann Lee", "Bob Ray", "Cat Fox", "Dan Orr", "Eve Sun"]})
    names.write_csv(folder / "users.csv")
    run("fit", folder / "ratings.csv", "--users", folder / "users.csv", "-m", "MeanRating", "-o", folder / "u")
    rows = json.loads(run("recommend", folder / "u", "ann lee", "--json").stdout)
    assert {row["user"] for row in rows} == {1}
    model = pr.load(folder / "u")
    assert model.recommend("Ann Lee").equals(model.recommend(1))
    assert model.rankings_.lists("Bob Ray") == model.rankings_.lists(2)


def test_a_summary_speaks_of_titles(folder):
    films = ["--items", folder / "movies.csv", "-m", "PlackettLuce", "-s", "prior=gaussian"]
    run("fit", folder / "ratings.csv", *films, "-o", folder / "w")
    said = run("summary", folder / "w", "--reference", "big", "--fit-test", 3).stdout
    assert "measured from Big (1988)" in said
    (line,) = [line for line in said.splitlines() if line.startswith("largest residual of a pair")]
    assert sum(title in line for title in TITLES) == 2
    told = json.loads(run("summary", folder / "w", "--fit-test", 3, "--json").stdout)["fit_test"]
    assert {"title", "other_title"} <= set(told["pairs"][0])
    assert "title" in told["positions"][0]
