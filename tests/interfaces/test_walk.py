"""From files in MovieLens' layout to answers with titles, through the command line alone and through Python alone.

The data are simulated: people of two tastes, who rate films of their own kind, and films have titles and genres.
"""

import json

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import permrank as pr
from permrank.interfaces.cli.app import app

KINDS = ("Comedy", "Horror")
N_USERS, N_FILMS = 80, 40
FILES = ("ratings.csv", "movies.csv", "m.permrank", "all.parquet")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Files as ml-latest-small has them: ratings.csv, movies.csv."""
    folder = tmp_path_factory.mktemp("ml")
    rng = np.random.default_rng(7)
    films = pl.DataFrame({
        "movieId": range(1, N_FILMS + 1),
        "title": [f"{KINDS[film % 2]} Night {film}, The ({1970 + film})" for film in range(1, N_FILMS + 1)],
        "genres": [f"{KINDS[film % 2]}|Drama" if film % 3 else KINDS[film % 2] for film in range(1, N_FILMS + 1)],
    })  # fmt: skip
    rows = []
    for user in range(1, N_USERS + 1):
        liked = [film for film in range(1, N_FILMS + 1) if film % 2 == user % 2]
        other = [film for film in range(1, N_FILMS + 1) if film % 2 != user % 2]
        seen = [*rng.choice(liked, 12, replace=False), *rng.choice(other, 1, replace=False)]
        stars = [*rng.integers(3, 6, 12), *rng.integers(1, 4, 1)]
        rows += [(user, int(film), float(star), 0) for film, star in zip(seen, stars, strict=True)]
    ratings = pl.DataFrame(rows, schema=["userId", "movieId", "rating", "timestamp"], orient="row")
    ratings.write_csv(folder / "ratings.csv")
    films.write_csv(folder / "movies.csv")
    return folder


def seen_by(files, user):
    return set(pl.read_csv(files / "ratings.csv").filter(pl.col("userId") == user)["movieId"])


def kind_of(film):
    return KINDS[film % 2]


# The command line alone


@pytest.fixture(scope="module")
def run(files):
    def run(*arguments, as_json=True):
        words = [str(files / word) if word in FILES else word for word in arguments]
        result = CliRunner().invoke(app, [*words, *(["--json"] if as_json else [])])
        assert result.exit_code == 0, (arguments, result.output, result.exception)
        return json.loads(result.stdout) if as_json else result.stdout + result.stderr

    return run


@pytest.fixture(scope="module")
def model(run):
    said = run("fit", "ratings.csv", "--items", "movies.csv", "-o", "m.permrank", "--set", "n_factors=8", as_json=False)
    assert "Recommender, since these are 80 people's ratings over 40 items" in said
    return "m.permrank"


def test_info_tells_what_is_there(run):
    told = run("info", "ratings.csv")
    assert (told["n_users"], told["n_items"], told["n_entries"]) == (N_USERS, N_FILMS, 13 * N_USERS)


def test_a_known_person_gets_titles_of_their_kind(run, model, files):
    found = run("recommend", model, "3", "-k", "4")
    assert [row["rank"] for row in found] == [1, 2, 3, 4]
    assert {row["user"] for row in found} == {3}
    assert not {row["item"] for row in found} & seen_by(files, 3)
    assert [row["title"] for row in found] == [
        f"{kind_of(row['item'])} Night {row['item']}, The ({1970 + row['item']})" for row in found
    ]
    assert sum(kind_of(row["item"]) == "Horror" for row in found) >= 3
    shown = run("recommend", model, "3", "-k", "4", as_json=False)
    assert found[0]["title"] in shown


def test_a_filter_is_kept_to(run, model):
    found = run("recommend", model, "3", "--where", "genres contains Comedy and year > 1990")
    assert found
    assert all(row["item"] % 2 == 0 and row["item"] > 20 for row in found)


def test_somebody_new_by_titles(run, model):
    listed = "The Comedy Night 2 > Comedy Night 4, The (1974) = Comedy Night 6, The (1976)"
    found = run("recommend", model, "--list", listed, "-k", "5", "--where", "not genres contains Drama")
    assert {row["user"] for row in found} == {"new"}
    assert all(row["item"] % 3 == 0 for row in found)
    assert found[0]["item"] % 2 == 0


def test_reasons_name_what_was_rated(run, model, files):
    film = run("recommend", model, "3", "-k", "1")[0]
    told = run("explain", model, "3", film["title"])
    assert told["because"].startswith(f"{film['title']}: ")
    assert len(told["reasons"]) <= 5
    np.testing.assert_allclose(sum(row["contribution"] for row in told["reasons"]), film["score"], rtol=1e-3)
    named = [row for row in told["reasons"] if row["reason"] == "for"]
    assert named
    assert all(row["item"] in seen_by(files, 3) and 1 <= row["rating"] <= 5 for row in named)
    assert named[0]["title"] in told["because"]
    assert "baseline" in run("explain", model, "3", film["title"], as_json=False)
    new = run("explain", model, "--list", "the comedy night 2 > the comedy night 4", "the comedy night 8")
    assert "because" in new
    assert len(run("explain", model, "3", film["title"], "--full")["reasons"]) == 14


def test_similar_films_are_of_the_same_kind(run, model):
    found = run("similar", model, "the horror night 5", "-k", "39")
    assert len(found) == 39
    horror, comedy = ([row["similarity"] for row in found if row["item"] % 2 == kind] for kind in (1, 0))
    assert np.mean(horror) > np.mean(comedy) + 2 * np.std(comedy) / np.sqrt(20)
    assert found[0]["item"] % 2 == 1
    assert found[0]["title"] in run("similar", model, "5", as_json=False)


def test_everybody_to_a_file(run, model, files):
    said = run("recommend", model, "--all", "-k", "3", "-o", "all.parquet", as_json=False)
    assert f"{3 * N_USERS} recommendations for {N_USERS} people" in said
    frame = pl.read_parquet(files / "all.parquet")
    assert frame.columns == ["user", "rank", "item", "title", "score"]
    assert frame.group_by("user").len()["len"].to_list() == [3] * N_USERS
    own = frame.filter(pl.col("user") % 2 == pl.col("item") % 2)
    assert own.height > 0.7 * frame.height


def test_order_and_what_can_be_told_apart(run, model):
    ranked = run("rank", model, "the horror night 5", "2", "--user", "3", "--interval")
    assert {row["title"] for row in ranked} == {"Horror Night 5, The (1975)", "Comedy Night 2, The (1972)"}
    assert all(row["rank_low"] <= row["rank"] <= row["rank_high"] for row in ranked)
    np.testing.assert_allclose(sum(row["top_probability"] for row in ranked), 1.0, atol=1e-6)
    groups = run("rank", model, "5", "2", "7", "--user", "3", "--ties")
    assert [row["group"] for row in groups] == sorted(row["group"] for row in groups)


# Python alone


@pytest.fixture(scope="module")
def python_model(files):
    order = pr.FactoredPlackettLuce(2, max_iter=20)
    model = pr.fit(
        files / "ratings.csv", pr.Recommender(order, n_factors=8), items=files / "movies.csv", duplicates="last"
    )
    model.save(files / "python.permrank")
    return pr.load(files / "python.permrank")


def test_known_and_new_people_with_a_filter(python_model):
    found = python_model.recommend(3, k=4, where=(pl.col("year") > 1990) & pl.col("genres").list.contains("Horror"))
    assert 0 < found.height <= 4
    assert all(item % 2 and item > 20 for item in found["item"])
    assert found["title"][0] == f"Horror Night {found['item'][0]}, The ({1970 + found['item'][0]})"
    new = python_model.fold_in({"the comedy night 2": 5, "the comedy night 4": 4})
    assert python_model.recommend(new, k=1)["item"][0] % 2 == 0


def test_reasons_likeness_and_order(python_model):
    film = python_model.recommend(3, k=1)["title"][0]
    assert python_model.because(3, film).startswith(film)
    assert python_model.explain(3, film).height <= 5
    assert python_model.order_.explain(3, film)["contribution"].sum() == pytest.approx(python_model.score(3, [film])[0])
    assert python_model.similar_items("the horror night 5", 3).columns == ["rank", "item", "title", "similarity"]
    assert python_model.rank(3, [1, 2, 3]).columns == ["rank", "item", "title", "score", "top_probability"]
    assert python_model.tie_groups(3, [1, 2, 3]).columns[-1] == "group"


def test_everybody(python_model, files):
    python_model.recommend(None, k=3).write_parquet(files / "python.parquet")
    assert pl.read_parquet(files / "python.parquet").height == 3 * N_USERS


def test_frames_do_as_well_as_files(files):
    ratings, films = (pl.read_csv(files / name) for name in ("ratings.csv", "movies.csv"))
    rankings = pr.Rankings.from_ratings(ratings).with_items(films)
    assert rankings == pr.read(files / "ratings.csv", items=files / "movies.csv")
    model = pr.fit(ratings, pr.MeanRating(), items=films.to_pandas())
    assert model.recommend(3, k=1).columns == ["rank", "item", "title", "score"]


# Ballots


def test_ballots_from_the_shell_to_groups_that_can_be_told_apart(tmp_path):
    made = pr.datasets.simulated(150, 5, n_communities=1, n_factors=0, list_length=5, seed=4)
    names = [name.title() for name in made.rankings.item_ids]
    codes = {name: index for index, name in enumerate(made.rankings.item_ids, 1)}
    ballots = made.rankings.to_frame().select(
        pl.col("user").alias("voter"), pl.col("item").replace_strict(codes).alias("candidate"), "rank"
    )
    ballots.write_csv(tmp_path / "ballots.csv")
    pl.DataFrame({"candidate": list(codes.values()), "name": names}).write_csv(tmp_path / "candidates.csv")

    def run(*words):
        result = CliRunner().invoke(app, [str(word) for word in words])
        assert result.exit_code == 0, (words, result.output, result.exception)
        return result

    said = run("fit", tmp_path / "ballots.csv", "--items", tmp_path / "candidates.csv", "-o", tmp_path / "m.permrank")
    assert "PlackettLuce, since these are 150 lists over 5 items: one order for all" in said.stderr
    ranked = json.loads(run("rank", tmp_path / "m.permrank", "--json").stdout)
    planted = made.truth.scores(np.array([0]))[0]
    assert ranked[0]["title"] == names[int(planted.argmax())]
    np.testing.assert_allclose(sum(row["top_probability"] for row in ranked), 2.0, rtol=1e-6)
    groups = json.loads(run("rank", tmp_path / "m.permrank", "--ties", "--json").stdout)
    assert [row["title"] for row in groups] == [row["title"] for row in ranked]
    assert groups[-1]["group"] > 1
    model = pr.fit(ballots, items=pl.read_csv(tmp_path / "candidates.csv"))
    assert model.rank(None, names[:2])["title"].to_list() == [
        row["title"] for row in ranked if row["title"] in names[:2]
    ]


@pytest.mark.parametrize(
    "rankings",
    [
        pr.Rankings.from_lists([["a", "b"], ["b", "a"], ["c"]], unlisted="ignore"),
        pr.Rankings.from_lists([[{"a", "b"}, "c"], [{"a", "c"}, "b"], ["a", {"b", "c"}]], unlisted="ignore"),
        pr.Rankings.from_lists({"ann": ["a", "b", "c"], "bob": []}),
        pr.Rankings.from_interactions({"user": ["a"], "item": ["x"]}),
        pr.Rankings.from_pairs({"winner": ["a", "b"], "loser": ["b", "c"], "draw": [1, 1]}, user=None, draw="draw"),
        pr.Rankings.from_ratings({"user": [1, 2], "item": ["a", "a"], "rating": [1, 5]}),
    ],
    ids=["torn ballots", "ties", "one list", "one click", "draws", "one item"],
)
def test_without_a_model_something_is_fitted_to_anything(rankings, tmp_path):
    model = pr.fit(rankings)
    assert model.recommend(rankings.user_ids[0], k=2).height <= 2
    rankings.write(tmp_path / "data.jsonl")
    assert CliRunner().invoke(app, ["fit", str(tmp_path / "data.jsonl"), "-o", str(tmp_path / "m")]).exit_code == 0
