"""split, evaluate and compare through the command line's runner."""

import json

import numpy as np
import polars as pl
import pytest

import permrank as pr
from shell import run

LONG = "PlackettLuce:prior=gaussian,prior_scale=2,max_iter=50"


@pytest.fixture
def ratings(tmp_path):
    rankings = pr.datasets.load("simulated", n_users=60, n_items=25, list_length=(6, 14), ties=5, separation=0.0)
    rng = np.random.default_rng(0)
    frame = rankings.to_frame().select("user", "item", "rating")
    path = tmp_path / "ratings.csv"
    frame.with_columns(when=pl.Series(rng.permutation(frame.height))).write_csv(path)
    return path


def test_split_writes_what_compare_reads(ratings, tmp_path):
    told = json.loads(run("split", ratings, "--protocol", "given", "--n", 4, "-o", tmp_path / "s", "--json").stdout)
    split = pr.Split.load(tmp_path / "s")
    assert split == pr.Given(4).split(pr.read(ratings), seed=0)
    assert told["test"]["entries"] == split.test.n_entries
    found = json.loads(run("compare", tmp_path / "s", "--models", "MeanRating", "--json").stdout)
    assert found["table"][0]["ndcg"] == pytest.approx(pr.evaluate(pr.MeanRating(), split).means()["ndcg"])
    result = run("split", ratings, "-o", tmp_path / "s", code=1)
    assert "exists; give the name of a new folder" in result.stderr


def test_every_protocol_can_be_named(ratings, tmp_path):
    for name, n in (("auto", 3), ("weak", 2), ("strong", 2), ("leave-out", 2), ("given", 4), ("folds", 3)):
        if name not in ("weak", "strong"):  # these want ten entries left
            run("split", ratings, "--protocol", name, "--n", n, "-o", tmp_path / name)
    assert pr.Split.load(tmp_path / "auto").protocol == "Given(n_given=3)"
    run("split", ratings, "--protocol", "temporal", "--time", "when", "-o", tmp_path / "t", "--format", "csv")
    times = {(u, i): t for u, i, t in pl.read_csv(ratings).select("user", "item", "when").rows()}
    split = pr.Split.load(tmp_path / "t")
    latest = max(times[row] for row in split.train.to_frame().select("user", "item").rows())
    assert latest < min(times[row] for row in split.test.to_frame().select("user", "item").rows())
    assert "needs --time" in run("split", ratings, "--protocol", "temporal", "-o", tmp_path / "x", code=1).stderr
    assert "unknown protocol 'weka'" in run("split", ratings, "--protocol", "weka", "-o", tmp_path / "x", code=1).stderr


def test_evaluate_tells_every_metric(ratings):
    table = run("evaluate", ratings, "-m", "mean-rating", "--n", 4).stdout
    for title in ("NDCG@10", "pairs right", "tau-b", "MRR@10", "recall@10"):
        assert title in table
    found = json.loads(run("evaluate", ratings, "-m", "MeanRating", "-s", "item_penalty=2", "--json").stdout)
    assert {row["metric"] for row in found["metrics"]} >= {"ndcg", "err", "map", "overlap"}
    found = json.loads(run("evaluate", ratings, "-m", "Random", "--protocol", "folds", "--json").stdout)
    assert [row["metric"] for row in found["metrics"]] == ["log_likelihood", "log_likelihood_per_stage"]
    assert "SpectralAnalysis failed" in run("evaluate", ratings, "-m", "SpectralAnalysis", code=1).stderr


def test_compare_goes_on_when_a_model_fails_and_says_so(ratings):
    arguments = ["compare", ratings, "--models", "MeanRating,SpectralAnalysis", "-m", "Random", "--seeds", 2]
    result = run(*arguments)
    assert "best" in result.stdout
    assert "worse" in result.stdout
    assert "SpectralAnalysis: failed on 2 of 2 splits: InputError" in " ".join(result.stdout.split())
    assert "6/6" in result.stderr
    found = json.loads(run(*arguments, "--json").stdout)
    assert [row["verdict"] for row in found["table"]] == ["best", "worse", "failed"]
    assert len(found["by_seed"]) == 2 + 2 + 2 * 5
    once = json.loads(run(*arguments, "--fits", 1, "--json").stdout)
    assert len(once["by_seed"]) == 6
    assert once["undecided"] == ""  # two splits tell how much fits differ
    run("compare", ratings, "--models", "SpectralAnalysis", code=1)


def test_the_row_says_what_was_set(ratings):
    found = json.loads(run("compare", ratings, "--models", "PlackettLuce,BradleyTerry,Borda", "--json").stdout)
    models = {row["model"]: row for row in found["table"]}
    assert set(models) == {"PlackettLuce(prior='gaussian')", "BradleyTerry(prior='gaussian')", "Borda"}
    same = pr.compare([pr.PlackettLuce(prior="gaussian")], pr.read(ratings)).table().to_dicts()[0]
    assert same["model"] in models
    assert models[same["model"]]["ndcg"] == pytest.approx(same["ndcg"], rel=1e-12)


def test_a_model_that_ran_out_of_time_is_marked_in_its_row(ratings, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    slow, page = "PlackettLuce:prior=gaussian,prior_scale=1,method=mm,tol=1e-15", tmp_path / "out.html"
    asked = ("compare", ratings, "--models", "Borda", "-m", slow, "--max-seconds", 0)
    told = run(*asked, "--report", page).stdout
    rows = [line for line in told.splitlines() if "cut off after 0 s" in line]
    assert len(rows) == 2  # one for each question
    assert not any("worse" in row for row in rows)
    assert "best" in told
    assert "cut off after 0 s" in page.read_text(encoding="utf-8")
    found = json.loads(run(*asked, "--json").stdout)
    assert [(row["verdict"], row["cut_off"]) for row in found["table"]].count(("cut off", 0.0)) == 1
    only = run("compare", ratings, "-m", slow, "--max-seconds", 0, "--report", page).stdout
    assert "cut off after 0 s" in only
    assert "no model can be called best" in page.read_text(encoding="utf-8")


def test_compare_writes_a_report(ratings, tmp_path):
    run("compare", ratings, "--models", "MeanRating,Random", "--report", tmp_path / "out.html")
    assert "MeanRating</strong> is best" in (tmp_path / "out.html").read_text(encoding="utf-8")
    wrong = run("compare", ratings, "--models", "Random", "--report", tmp_path / "no" / "out.html", code=1)
    assert "does not exist" in wrong.stderr


def test_a_comparison_can_be_kept_and_shown_again(ratings, tmp_path):
    asked = ("compare", ratings, "--models", "MeanRating,PlackettLuce,Random", "--pairs", 50)
    first = run(*asked, "--save", tmp_path / "kept", "--report", tmp_path / "one.html").stdout
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["finding", "ordering"]
    again = run("compare", tmp_path / "kept", "--report", tmp_path / "two.html")
    assert again.stdout == first
    assert "seed 0" not in again.stderr  # nothing is fitted
    assert (tmp_path / "one.html").read_text(encoding="utf-8") == (tmp_path / "two.html").read_text(encoding="utf-8")
    assert "exists; give --save the name" in run(*asked, "--save", tmp_path / "kept", code=1).stderr
    assert "does not exist" in run(*asked, "--save", tmp_path / "no" / "kept", code=1).stderr


def test_a_comparison_that_was_kept_says_again_what_is_left_out(tmp_path):
    rng = np.random.default_rng(1)
    pr.Rankings.from_lists([list(map(str, rng.permutation(6))) for _ in range(30)]).write(tmp_path / "ballots.csv")
    first = run("compare", tmp_path / "ballots.csv", "--models", "Borda,Random", "--save", tmp_path / "kept").stdout
    assert " is left out: " in first
    assert run("compare", tmp_path / "kept").stdout == first
    assert json.loads(run("compare", tmp_path / "kept", "--json").stdout)["finding_left_out"]


def test_models_can_be_given_settings(ratings):
    found = json.loads(
        run("compare", ratings, "-m", "MeanRating:item_penalty=2,user_penalty=1", "-m", "MeanRating", "--json").stdout
    )
    assert {row["model"] for row in found["table"]} == {"MeanRating", "MeanRating(item_penalty=2, user_penalty=1)"}
    assert "unknown model 'Nothing'" in run("compare", ratings, "-m", "Nothing", code=1).stderr


@pytest.mark.parametrize("width", [80, 160])
def test_tables_fit_the_terminal(ratings, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    lines = run("compare", ratings, "--models", "MeanRating,PlackettLuce", "-m", LONG).stdout.splitlines()
    assert max(map(len, lines)) <= width
    assert not any("…" in line for line in lines)


@pytest.fixture
def chosen(tmp_path):
    """Lists that people chose themselves: a fifth of the items each, the popular ones more often."""
    rng = np.random.default_rng(5)
    rows = []
    for user in range(60):
        items = np.argsort(rng.exponential(size=60) * (1 + np.arange(60)))[:12]
        rows += [(f"u{user:02d}", f"i{item:02d}", int(rng.integers(1, 6)) if item % 3 else 5) for item in items]
    path = tmp_path / "chosen.csv"
    pl.DataFrame(rows, schema=["user", "item", "rating"], orient="row").write_csv(path)
    return path


def test_compare_asks_both_questions_in_two_tables(chosen, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    page = tmp_path / "out.html"
    told = run("compare", chosen, "--models", "Popularity,Random", "--report", page).stdout
    order, find = told.split("Finding what you would choose: hidden items are looked for")
    assert "Ordering what you see: a person's hidden items are put in order" in order
    assert "recall@10" not in order
    assert "tau-b" in order
    for title in ("NDCG@10", "recall@10", "MAP@10", "hit rate@10", "coverage@10", "novelty@10", "popularity@10"):
        assert title in find
    assert "Catalogue(share=0.2" in find
    assert "Lower is better: popularity@10" in " ".join(find.split())
    assert max(map(len, told.splitlines())) <= 100
    text = page.read_text(encoding="utf-8")
    assert text.index("Ordering what you see") < text.index("Finding what you would choose")
    assert "Popularity</strong> is best" in text[text.index("Finding what") :]
    found = json.loads(run("compare", chosen, "--models", "Popularity,Random", "--json").stdout)
    assert (found["question"], found["finding"]["question"]) == ("order", "find")
    same = pr.compare([pr.Popularity()], pr.read(chosen), protocol=pr.Catalogue()).table()
    assert found["finding"]["table"][0]["model"] == "Popularity"
    assert found["finding"]["table"][0]["recall"] == pytest.approx(same["recall"][0], rel=1e-12)


def test_one_question_where_the_other_was_not_asked_or_means_nothing(chosen, tmp_path):
    find = json.loads(run("compare", chosen, "--models", "Random", "--protocol", "catalogue", "--json").stdout)
    assert find["question"] == "find"
    assert "finding" not in find
    order = json.loads(run("compare", chosen, "--models", "Random", "--protocol", "hold-out", "--json").stdout)
    assert order["question"] == "order"
    assert order["splits"][0].startswith("Split(LeaveOut(share=0.2")
    assert (
        "leave --n out" in run("evaluate", chosen, "-m", "Random", "--protocol", "catalogue", "--n", 3, code=1).stderr
    )
    # A metric goes to the question that it belongs to.
    tau = json.loads(run("compare", chosen, "--models", "Random", "--metric", "tau_b", "--json").stdout)
    assert "finding" not in tau
    coverage = json.loads(run("compare", chosen, "--models", "Random", "--metric", "coverage", "--json").stdout)
    assert (coverage["question"], coverage["metric"]) == ("find", "coverage")
    # Everybody ranks the same few.
    rng = np.random.default_rng(0)
    same = pr.Rankings.from_lists({f"u{u}": [f"i{i}" for i in rng.permutation(8)] for u in range(30)})
    same.write(tmp_path / "same.csv")
    told = run("compare", tmp_path / "same.csv", "--models", "Borda,Random", "--report", tmp_path / "out.html").stdout
    assert "Finding what you would choose is left out: people list most of the items" in " ".join(told.split())
    assert "Finding what you would choose is left out" in (tmp_path / "out.html").read_text(encoding="utf-8")
    found = json.loads(run("evaluate", tmp_path / "same.csv", "-m", "Borda", "--json").stdout)
    assert "finding" not in found
    assert "list most" in found["finding_left_out"]
    stop = run("compare", tmp_path / "same.csv", "--models", "Borda", "--metric", "novelty", code=1)
    assert "novelty cannot be measured here: people list most of the items" in " ".join(stop.stderr.split())


def test_data_without_order_have_one_question(chosen, tmp_path):
    pl.read_csv(chosen).select("user", "item").write_csv(tmp_path / "clicks.csv")
    told = run("compare", tmp_path / "clicks.csv", "--models", "Popularity,Random")
    assert "Ordering what you see is left out: people say what they took up" in " ".join(told.stdout.split())
    found = json.loads(run("compare", tmp_path / "clicks.csv", "--models", "Popularity,Random", "--json").stdout)
    assert found["question"] == "find"
    assert "ordering_left_out" in found
    assert [row["model"] for row in found["table"]] == ["Popularity", "Random"]
    run("split", tmp_path / "clicks.csv", "-o", tmp_path / "s")
    assert pr.Split.load(tmp_path / "s").question == "find"
    assert "no order" in run("split", tmp_path / "clicks.csv", "--n", 3, "-o", tmp_path / "t", code=1).stderr


def test_evaluate_tells_both_questions(chosen):
    result = run("evaluate", chosen, "-m", "Popularity")
    for title in ("Ordering what you see", "Finding what you would choose", "coverage@10", "tau-b"):
        assert title in result.stdout
    found = json.loads(run("evaluate", chosen, "-m", "Popularity", "--json").stdout)
    assert {row["metric"] for row in found["finding"]["metrics"]} >= {"ndcg", "recall", "map", "coverage", "novelty"}
    assert found["finding"]["metrics"][0]["metric"] == "ndcg"
