"""Finding in the whole catalogue: metrics against plain definitions, and splits that hide what they say."""

import itertools
import json
import math

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import permrank as pr
from permrank.core.estimates import Estimate
from permrank.core.ranker import Ranker
from permrank.errors import FormatError, InputError
from permrank.evaluation import catalogue
from permrank.evaluation.defaults import default_protocol, why_not_find
from permrank.evaluation.metrics import METRICS, of_kind, per_list
from permrank.evaluation.split import Split, part_of

FOUND = ("ndcg", "recall", "map", "precision", "hit_rate", "mrr", "novelty", "popularity_bias", "coverage")


class Told(Ranker):
    """Scores that a test wrote down: one for every pair of ids."""

    def __init__(self, table=None):
        self.table = table

    def _learn(self, rankings):
        return Estimate()

    def _scores(self, fitted, person, items):
        name = person.rankings.n_entries if person.is_new else fitted.user_ids[person.index]
        return np.array([self.table[name, fitted.item_ids[int(i)]] for i in items], float)


def tables(n_users, n_items, scores):
    return dict(zip(itertools.product(range(n_users), range(n_items)), np.ravel(scores).tolist(), strict=True))


def a_split(train, test):
    """From the set of (user, item) to learn from, and the set that is hidden."""

    def sets(part):
        users = sorted({u for u, _ in part})
        return pr.Rankings.from_lists([[{i for v, i in part if v == u}] for u in users], users=users)

    return Split(sets(train), sets(test), None, "by hand", 0, "find")


def oracle(scores, train, test, known, k):
    """Every metric straight from its definition, by listing all orders in which tied scores can come."""
    users = sorted({u for u, _ in test})
    counts = {i: sum(item == i for _, item in train) for i in known}
    n_people = len({u for u, _ in train})
    values, missed = {name: [] for name in FOUND}, dict.fromkeys(known, 1.0)
    for u in users:
        hidden = {i for v, i in test if v == u}
        candidates = [i for i in known if (u, i) not in train]
        orders = [
            order for order in itertools.permutations(candidates)
            if all(scores[u, a] >= scores[u, b] for a, b in itertools.pairwise(order))
        ]  # fmt: skip
        tops = [order[:k] for order in orders]
        n = len(candidates) + len(hidden - set(known))
        for name in FOUND[:-1]:
            found = [one(name, top, hidden, counts, n_people, k, n) for top in tops if top]
            values[name].append(np.mean(found) if found else math.nan)
        for i in known:
            missed[i] *= 1.0 - np.mean([i in top for top in tops])
    return values | {"coverage": 1.0 - np.mean(list(missed.values()))}


def one(name, top, hidden, counts, n_people, k, n):
    hits = [i in hidden for i in top]
    if name == "ndcg":
        best = sum(1 / math.log2(p + 2) for p in range(min(k, len(hidden))))
        return sum(1 / math.log2(p + 2) for p, hit in enumerate(hits) if hit) / best
    if name == "recall":
        return sum(hits) / len(hidden)
    if name == "map":
        return sum(sum(hits[: p + 1]) / (p + 1) for p, hit in enumerate(hits) if hit) / len(hidden)
    if name == "precision":
        return sum(hits) / min(k, n)
    if name == "hit_rate":
        return float(any(hits))
    if name == "mrr":
        return next((1 / (p + 1) for p, hit in enumerate(hits) if hit), 0.0)
    if name == "novelty":
        return np.mean([-math.log2(counts[i] / n_people) for i in top])
    below = [(sum(c < counts[i] for c in counts.values()) + (sum(c == counts[i] for c in counts.values()) - 1) / 2)
             for i in top]  # fmt: skip
    return np.mean(below) / (len(counts) - 1)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_metrics_are_their_definitions_averaged_over_tied_orders(data):
    n_users, n_items, k = 4, 6, data.draw(st.integers(1, 7))
    parts = data.draw(st.lists(st.sampled_from("lht-"), min_size=24, max_size=24))
    scores = data.draw(st.lists(st.integers(0, 3), min_size=24, max_size=24))
    pairs = list(itertools.product(range(n_users), range(n_items)))
    train = {pair for pair, part in zip(pairs, parts, strict=True) if part == "l"} | {(u, u) for u in range(n_users)}
    test = {pair for pair, part in zip(pairs, parts, strict=True) if part == "h"} - train
    known = sorted({i for _, i in train})
    if not test or all(len([i for i in known if (u, i) not in train]) == 0 for u, _ in test):
        return
    split = a_split(train, test)
    table = dict(zip(pairs, scores, strict=True))
    result = pr.evaluate(Told(table), split, metrics=FOUND, k=k)
    wanted = oracle(table, train, test, known, k)
    for name in FOUND[:-1]:
        found = result.per_user[name].fill_null(math.nan).to_numpy()
        asked = [any((u, i) not in train for i in known) for u in sorted({u for u, _ in test})]
        np.testing.assert_allclose(found[asked], np.array(wanted[name])[asked], rtol=1e-12, atol=1e-14, err_msg=name)
    assert result.means()["coverage"] == pytest.approx(wanted["coverage"], abs=1e-12)


def reference(train, test, scores, k):
    """The definitions of the independent benchmark, for scores without ties: recall, NDCG, precision over users."""
    found = {"recall": [], "ndcg": [], "precision": []}
    for u in sorted({u for u, _ in test}):
        hidden = {i for v, i in test if v == u}
        order = sorted((i for i in range(scores.shape[1]) if (u, i) not in train), key=lambda i: -scores[u, i])
        hits = [i in hidden for i in order[:k]]
        discounts = [1 / math.log2(p + 2) for p in range(k)]
        found["recall"].append(sum(hits) / len(hidden))
        found["ndcg"].append(sum(d for d, hit in zip(discounts, hits, strict=False) if hit)
                             / sum(discounts[: len(hidden)]))  # fmt: skip
        found["precision"].append(sum(hits) / k)
    return {name: float(np.mean(values)) for name, values in found.items()}


@pytest.mark.parametrize("seed", range(3))
def test_protocol_and_metrics_agree_with_the_benchmarks_definitions(seed):
    """Everybody lists enough, every item is known: then both speak of the same candidates."""
    rng = np.random.default_rng(seed)
    n_users, n_items = 60, 50
    keep = rng.random((n_users, n_items)) < 0.5
    keep[:, :8] = True
    users, items = np.nonzero(keep)
    ratings = rng.integers(1, 6, users.size).astype(float)
    ratings[items < 8] = 5.0
    rankings = pr.Rankings.from_ratings({"user": users, "item": items, "rating": ratings})
    split = pr.Catalogue().split(rankings, seed)
    train, test = (
        {(u, i) for u, i in part.to_frame().select("user", "item").rows()} for part in (split.train, split.test)
    )
    # Of every user's 4s and 5s a fifth, rounded, at least one; all else is learnt from.
    liked = np.bincount(users[ratings >= 4], minlength=n_users)
    hidden = np.bincount([u for u, _ in test], minlength=n_users)
    np.testing.assert_array_equal(hidden, np.maximum(1, np.round(0.2 * liked)))
    assert train | test == set(zip(users.tolist(), items.tolist(), strict=True))
    scores = rng.normal(size=(n_users, n_items))
    found = pr.evaluate(Told(tables(n_users, n_items, scores)), split, metrics=["recall", "ndcg", "precision"]).means()
    for name, value in reference(train, test, scores, 10).items():
        assert found[name] == pytest.approx(value, abs=1e-12), name


@pytest.mark.parametrize("relevant_from", [None, -1.0, 2.0])
def test_the_best_k_are_enough_for_metrics_of_grades(relevant_from, monkeypatch):
    """The kernel that looks at the best k against the one that sorts everything; ratings below 0, and unknown items."""
    rng = np.random.default_rng(8)
    users, items = np.nonzero(rng.random((40, 30)) < 0.5)
    ratings = rng.integers(-2, 4, users.size)
    rankings = pr.Rankings.from_ratings({"user": users, "item": items, "rating": ratings})
    test = rng.random(rankings.n_entries) < 0.4
    model = Told(tables(40, 30, rng.integers(0, 6, (40, 30)))).fit(part_of(rankings, ~test & (rankings.items != 3)))
    hidden = part_of(rankings, test)
    names = of_kind("graded")
    for k in (1, 4, 12):
        options = {"k": k, "candidates": "all", "relevant_from": relevant_from}
        result = pr.evaluate(model, hidden, metrics=names, **options).per_user
        for row in result.iter_rows(named=True):
            graded = dict(hidden.to_frame().filter(user=row["user"]).select("item", "rating").rows())
            said = set(model.rankings_.to_frame().filter(user=row["user"])["item"])
            candidates = [i for i in model.item_ids if i not in said]
            missed = [i for i in graded if i not in model.item_ids]
            scores = [model.table[row["user"], i] for i in candidates] + [-1.0] * len(missed)
            grades = [graded.get(i, 0.0) for i in [*candidates, *missed]]
            wanted = per_list(names, [0, len(grades)], grades, scores, k=k, relevant_from=relevant_from, top_grade=3.0)
            for name in names:
                assert (math.nan if row[name] is None else row[name]) == pytest.approx(wanted[name][0], nan_ok=True)
    # Metrics of order look at all candidates, and blocks of any size give the same bits.
    options = {"candidates": "all", "metrics": [*names, *of_kind("order"), "novelty", "coverage"]}
    whole = pr.evaluate(model, hidden, **options)
    monkeypatch.setattr(catalogue, "_CELLS", 70)
    parts = pr.evaluate(model, hidden, **options)
    assert whole.per_user.equals(parts.per_user)
    assert whole.overall == parts.overall
    assert whole.per_user["tau_b"].null_count() == 0


def test_everything_the_same_is_what_chance_gives():
    """A constant score against the mean of many random ones; a control that always shows the same must differ."""
    rng = np.random.default_rng(0)
    rankings = pr.datasets.load("simulated", n_users=25, n_items=40, list_length=(8, 20))
    split = pr.Catalogue().split(rankings, 0)
    users, items = list(rankings.user_ids), list(rankings.item_ids)
    names = ["ndcg", "recall", "map", "hit_rate", "novelty", "popularity_bias", "coverage"]

    def told(draw):
        return Told({(u, i): draw() for u in users for i in items})

    constant = pr.evaluate(told(float), split, metrics=names, k=2).means()
    draws = [pr.evaluate(told(rng.random), split, metrics=names, k=2).means() for _ in range(60)]
    for name in names:
        values = np.array([draw[name] for draw in draws])
        assert abs(values.mean() - constant[name]) < 6 * values.std() / np.sqrt(values.size), name
    popular = pr.evaluate(pr.Popularity(count="listed"), split, metrics=names, k=2).means()
    assert popular["coverage"] < constant["coverage"]
    assert popular["popularity_bias"] > 0.8 > constant["popularity_bias"]
    assert popular["novelty"] < constant["novelty"]


def test_scores_that_are_no_numbers_come_last_and_threads_change_nothing():
    rankings = pr.datasets.load("simulated", n_users=30, n_items=20, list_length=(6, 12))
    split = pr.Catalogue().split(rankings, 0)
    rng = np.random.default_rng(1)
    table = {(u, i): float(rng.integers(-9, -4)) for u in rankings.user_ids for i in rankings.item_ids}
    wild = {pair: rng.choice([math.nan, math.inf, -math.inf]) if rng.random() < 0.3 else s for pair, s in table.items()}
    tame = {pair: s if math.isfinite(s) else -1e6 for pair, s in wild.items()}
    first, second = (pr.evaluate(Told(each), split, metrics=FOUND) for each in (wild, tame))
    assert first.per_user.equals(second.per_user)
    threads = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        alone = pr.evaluate(Told(tame), split, metrics=FOUND)
    finally:
        numba.set_num_threads(threads)
    assert alone.per_user.equals(second.per_user)
    assert alone.overall == second.overall


def test_rows_of_scores_are_those_of_one_user_at_a_time():
    rankings = pr.datasets.load("simulated", n_users=40, n_items=15, list_length=8)
    for model in (pr.Popularity(), pr.MeanRating(), pr.PairwiseFactorisation()):
        fitted = model.fit(rankings)
        new = fitted.fold_in(list(rankings.item_ids)[:3])
        people = [*fitted.fitted_.known([4]), new, *fitted.fitted_.known([0])]
        rows = fitted.fitted_.rows(people)
        assert rows.shape == (3, 15)
        everything = np.arange(15)
        for row, person in zip(rows, people, strict=True):
            np.testing.assert_allclose(row, fitted.fitted_.scores(person, everything), rtol=1e-12)


# The protocol


@pytest.fixture(scope="module")
def rated():
    return pr.datasets.load("simulated", n_users=60, n_items=50, list_length=(4, 30), ties=5)


def pairs(part):
    return set(part.to_frame().select("user", "item").rows())


@pytest.mark.parametrize("share", [0.2, 0.5, 0.95])
def test_what_is_hidden_was_liked_and_is_not_learnt_from(rated, share):
    split = pr.Catalogue(share).split(rated, seed=2)
    assert not pairs(split.train) & pairs(split.test)
    assert pairs(split.train) | pairs(split.test) == pairs(rated)
    assert split.test.ratings.min() >= 4
    liked = {}
    for user, rating in rated.to_frame().select("user", "rating").rows():
        liked[user] = liked.get(user, 0) + (rating >= 4)
    hidden = {user: len(split.test.select(users=[user]).items) for user in split.test.user_ids}
    wanted = {u: min(max(1, round(share * n)), n - 1) for u, n in liked.items() if n >= 5}
    assert hidden == wanted
    # Those who are not asked about are learnt from all the same.
    assert set(split.train.user_ids) == set(rated.user_ids)
    assert split.question == "find"


def test_new_people_are_known_by_what_is_not_hidden(rated):
    split = pr.Catalogue(new_people=0.25).split(rated, seed=2)
    assert not set(split.train.user_ids) & set(split.test.user_ids)
    assert set(split.given.user_ids) == set(split.test.user_ids)
    assert not pairs(split.given) & pairs(split.test)
    everything = rated.select(users=list(split.test.user_ids))
    assert pairs(split.given) | pairs(split.test) == pairs(everything)
    n_asked = pr.Catalogue().split(rated, seed=2).test.n_users
    assert split.test.n_users == round(0.25 * n_asked)
    result = pr.evaluate(pr.Popularity(), split, metrics=["recall", "precision"], k=5)
    for row in result.per_user.iter_rows(named=True):
        said = {i for u, i in pairs(split.given) if u == row["user"]}
        scores = {i: s for i, s in zip(result.model.item_ids, result.model.scores_, strict=True) if i not in said}
        hidden = {i for u, i in pairs(split.test) if u == row["user"]}
        # Expected number of hits, by the chance of each item to be among the best five.
        cut = sorted(scores.values(), reverse=True)[4]
        above, tied = sum(s > cut for s in scores.values()), sum(s == cut for s in scores.values())
        hits = sum((scores[i] > cut) + (5 - above) / tied * (scores[i] == cut) for i in hidden if i in scores)
        assert row["recall"] == pytest.approx(hits / len(hidden))
        assert row["precision"] == pytest.approx(hits / 5)


def test_positive_is_four_fifths_of_the_scale_or_what_is_said():
    def hidden(values, **options):
        n = len(values)
        frame = {"user": np.repeat(np.arange(40), n), "item": np.tile(np.arange(n), 40), "rating": np.tile(values, 40)}
        protocol = pr.Catalogue(0.5, min_positive=2, **options)
        return sorted(set(protocol.split(pr.Rankings.from_ratings(frame), 0).test.ratings.tolist()))

    assert hidden([1, 2, 3, 4, 5]) == [4, 5]
    assert hidden([0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4]) == [3.5, 4]
    assert hidden(list(range(1, 11))) == [8, 9, 10]
    assert hidden([0, 1, 1]) == [1]
    assert hidden([3, 3, 3]) == [3]
    assert hidden([1, 2, 3, 4, 5], positive=3) == [3, 4, 5]
    lists = pr.Rankings.from_lists({u: [f"{u}{i}" for i in range(10)] for u in "abc"})
    assert pr.Catalogue(0.5).split(lists).test.n_entries == 15
    with pytest.raises(InputError, match="there are no ratings"):
        pr.Catalogue(positive=3).split(lists)
    for wrong in ({"share": 0}, {"positive": "high"}, {"min_positive": 1}, {"new_people": 1.0}, {"positive": True}):
        with pytest.raises(InputError, match="expected"):
            pr.Catalogue(**wrong).split(lists)


def test_a_split_keeps_its_question(rated, tmp_path):
    split = pr.Catalogue().split(rated, 0)
    split.save(tmp_path / "s")
    loaded = pr.Split.load(tmp_path / "s")
    assert loaded == split
    assert loaded.question == "find"
    assert pr.evaluate(pr.Popularity(), loaded).metrics[:2] == ["ndcg", "recall"]
    header = json.loads((tmp_path / "s" / "split.json").read_text(encoding="utf-8"))
    (tmp_path / "s" / "split.json").write_text(json.dumps(header | {"question": "why"}), encoding="utf-8")
    with pytest.raises(FormatError, match="asks 'why'"):
        pr.Split.load(tmp_path / "s")
    del header["question"]  # as older files are
    (tmp_path / "s" / "split.json").write_text(json.dumps(header), encoding="utf-8")
    assert pr.Split.load(tmp_path / "s").question == "order"


def test_evaluate_and_compare_ask_what_the_split_asks(rated):
    found = pr.compare([pr.Popularity(), pr.Random()], rated, protocol=pr.Catalogue(), seeds=range(2))
    assert found.question == "find"
    assert found.metric == "ndcg"
    assert {"recall", "map", "hit_rate", "coverage", "novelty", "popularity_bias"} <= set(found.table().columns)
    assert found.table()["model"][0] == "Popularity()"
    by_coverage = found.table("coverage")
    assert by_coverage["model"][0] == "Random()"
    assert by_coverage["verdict"].to_list() == ["best", "untested"]
    split = pr.Catalogue().split(rated, 0)
    rated_only = pr.evaluate(pr.Popularity(), split, candidates="rated", metrics=["recall"], k=50)
    assert rated_only.means()["recall"] == 1.0  # nothing else is ranked
    with pytest.raises(InputError, match="all that this split hides is relevant"):
        pr.evaluate(pr.Popularity(), split, relevant_from=3)
    with pytest.raises(InputError, match="coverage is of what is shown out of everything"):
        pr.evaluate(pr.Popularity(), pr.Given(3).split(rated), metrics=["coverage"])
    with pytest.raises(InputError, match="some to find"):
        pr.compare([pr.Random()], [split, pr.Given(3).split(rated)])
    assert METRICS["coverage"].higher_is_better
    assert not METRICS["popularity_bias"].higher_is_better


def test_the_question_is_left_out_where_it_means_nothing(rated):
    assert why_not_find(rated) == ""
    assert "list most of the items" in why_not_find(pr.Rankings.from_lists({u: list("abcdef") for u in "xyz"}))
    assert "without voters" in why_not_find(pr.Rankings.from_lists([list("abc")]))
    twice = pr.Rankings.from_lists([["a", "b"], ["b", "c"]], users=["x", "x"])
    assert "several rankings" in why_not_find(twice)
    short = pr.Rankings.from_lists({u: [f"{u}{i}" for i in range(3)] for u in "xyz"})
    assert "nobody has 5 items" in why_not_find(short)
    rng = np.random.default_rng(0)
    handed_out = {user: rng.permutation(40)[:8].tolist() for user in range(150)}
    assert "handed out" in why_not_find(pr.Rankings.from_lists(handed_out))
    chosen = {user: (rng.permutation(20)[:8] + 20 * (user % 2)).tolist() for user in range(150)}
    assert why_not_find(pr.Rankings.from_lists(chosen)) == ""


def test_data_without_order_are_split_with_their_counts(tmp_path):
    rng = np.random.default_rng(2)
    users = np.repeat(np.arange(30), 12)
    items = np.concatenate([rng.permutation(60)[:12] for _ in range(30)])
    counts = rng.integers(1, 9, users.size)
    clicks = pr.Rankings.from_interactions({"user": users, "item": items, "n": counts}, weight="n")
    assert default_protocol(clicks) == pr.Catalogue()
    split = pr.compare([pr.Popularity()], clicks).splits[0]
    assert split.startswith("Split(Catalogue(")
    split = pr.Catalogue().split(clicks, 1)
    assert split.test.lengths.tolist() == [2] * 30
    said = dict(zip(zip(users.tolist(), items.tolist(), strict=True), counts.tolist(), strict=True))
    for part in (split.train, split.test):
        keys = zip(part.user_ids.take(part.entry_users()), part.item_ids.take(part.items.astype(int)), strict=True)
        assert part.counts.tolist() == [said[key] for key in keys]
    split.save(tmp_path / "s")
    assert pr.Split.load(tmp_path / "s") == split


@pytest.mark.realdata
def test_movielens_has_the_numbers_of_the_benchmarks_split(data_folder):
    import sys
    from pathlib import Path

    sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
    try:
        import catalogue_data
    finally:
        sys.path.pop(0)
    theirs = catalogue_data.split_of("ml-100k", 10)
    ours = pr.Catalogue().split(pr.datasets.load("ml-100k"), 10)
    # They drop who is not asked about, and number the others in the order of their ids.
    np.testing.assert_array_equal(ours.test.lengths, np.bincount(theirs.test.users))
    # What most people list is found equally often, but for the luck of a split.
    counts = np.bincount(theirs.train.items, minlength=theirs.train.n_items)
    top = set(np.argsort(-counts, kind="stable")[:10].tolist())
    expected = np.mean([item in top for item in theirs.test.items.tolist()])
    frame = ours.train.to_frame()["item"].value_counts(sort=True)["item"].head(10)
    found = ours.test.to_frame()["item"].is_in(frame.implode()).mean()
    assert abs(found - expected) < 6 * np.sqrt(2 * expected * (1 - expected) / theirs.test.users.size)
