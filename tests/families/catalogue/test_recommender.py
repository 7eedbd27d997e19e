"""Finding and ordering together: which part answers what, data without choice or without order, files, batches."""

import json
import math
import warnings

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import permrank as pr
from graded import random_entries
from permrank.errors import CatalogueWarning, FormatError, InputError, NotSupportedError
from permrank.families.catalogue import implicit
from permrank.families.catalogue.blend import gains, hold_out_entries
from permrank.families.catalogue.entries import Entries
from permrank.families.catalogue.grading import choose_scale
from permrank.families.catalogue.implicit import Data, choose_exponent, numbers_of_factors
from permrank.families.catalogue.ranker import entries_of
from permrank.learning.held_out import descend
from permrank.posterior.co_listing import were_chosen
from permrank.testing import ModelContract
from permrank.testing.forging import header_of, resigned


class TestRecommenderContract(ModelContract):
    """On a few items nothing can be chosen, and the model of order answers everything."""

    supports = frozenset(
        {"prefers", "top_probability", "position_probabilities", "sample", "log_likelihood", "similar_items"}
    )

    def make(self, **parameters):
        return pr.Recommender(**{"order": pr.PlackettLuce(prior="gaussian"), "n_factors": 3} | parameters)

    # A model that is a parameter is equal to itself only, and these compare parameters after a file.
    test_saving_and_loading_gives_the_same_answers = None
    test_what_is_set_after_fit_counts_from_the_next_fit_on = None


def groups(n_users=120, n_items=40, seed=0, n_listed=8):
    """Two tastes: people choose from one half of the items, and all like lower numbers better."""
    rng = np.random.default_rng(seed)
    half = n_items // 2
    lists = {}
    for user in range(n_users):
        own = rng.permutation(half)[:n_listed] + half * (user % 2)
        lists[f"u{user:03}"] = sorted(own.tolist())
    return pr.Rankings.from_lists(lists)


@pytest.fixture(scope="module")
def rankings():
    return groups()


@pytest.fixture(scope="module")
def fitted(rankings):
    return pr.Recommender(pr.PlackettLuce(prior="gaussian"), n_factors=4).fit(rankings)


def test_recommend_finds_by_taste_and_rank_orders(fitted):
    assert fitted.chosen_
    assert all(item >= 20 for item in fitted.recommend("u001", k=10)["item"])
    assert all(item < 20 for item in fitted.recommend("u000", k=10)["item"])
    # The order is the same for all, and by number.
    order = fitted.rank("u001", [19, 3, 11])["item"].to_list()
    assert order == [3, 11, 19]
    assert_allclose(fitted.prefers("u001", 3, 19), fitted.order_.prefers("u001", 3, 19), rtol=1e-12, atol=0)
    assert fitted.history_[-1] >= 0.0
    assert len(fitted.history_) == 2


def test_somebody_new_is_answered_as_somebody_known_with_the_same_list(rankings, fitted):
    new = fitted.fold_in(rankings.lists("u004")[0])
    assert_array_equal(fitted.recommend(new)["item"], fitted.recommend("u004")["item"])
    assert_allclose(fitted.recommend(new)["score"], fitted.recommend("u004")["score"], rtol=1e-6, atol=1e-6)
    assert fitted.prefers(new, 3, 4) == fitted.order_.prefers(None, 3, 4)


def test_lists_that_were_handed_out_are_ranked_by_order():
    rng = np.random.default_rng(1)
    lists = {user: sorted(rng.permutation(40)[:8].tolist()) for user in range(150)}
    rankings = pr.Rankings.from_lists(lists)
    model = pr.Recommender(pr.PlackettLuce(prior="gaussian"), n_factors=4).fit(rankings)
    assert not model.chosen_
    alone = pr.PlackettLuce(prior="gaussian").fit(rankings)
    assert_array_equal(model.recommend(7)["item"], alone.recommend(7)["item"])


@pytest.mark.parametrize(("tail", "spread", "chosen"), [(1.0, True, True), (0.0, True, False), (1.0, False, False)])
def test_popular_items_show_that_lists_were_chosen_unless_all_are_equally_long(tail, spread, chosen):
    """Nobody's taste shows in what is listed, but some items are listed far more often than others."""
    rng, n_items = np.random.default_rng(4), 60
    popularity = -tail * np.log(np.arange(1, n_items + 1))
    lists = {}
    for user in range(300):
        length = rng.integers(4, 13) if spread else 8
        lists[user] = np.argsort(-popularity - rng.gumbel(size=n_items))[:length].tolist()
    assert were_chosen(pr.Rankings.from_lists(lists), 0) == chosen


def test_sets_without_order_are_found_but_not_compared():
    ordered = groups()
    lists = {name: [set(items)] for name, items in zip(ordered.user_ids, ordered.lists(), strict=True)}
    model = pr.Recommender(n_factors=4).fit(pr.Rankings.from_lists(lists))
    assert model.order_ is None
    assert all(item >= 20 for item in model.recommend("u001", k=5)["item"])
    assert model.rank("u001", [3, 30])["item"].to_list() == [30, 3]
    for ask in (lambda: model.prefers("u001", 3, 4), lambda: model.similar_users("u001")):
        with pytest.raises(NotSupportedError):
            ask()


def test_several_users_are_answered_as_each_alone(rankings, fitted):
    new = fitted.fold_in([20, 21])
    asked = ["u003", new, "u000"]
    frame = fitted.recommend(asked, k=4)
    assert frame.columns == ["user", "rank", "item", "score"]
    assert frame["user"].to_list() == ["u003"] * 4 + [None] * 4 + ["u000"] * 4
    for start, user in enumerate(asked):
        assert frame[4 * start : 4 * start + 4].drop("user").equals(fitted.recommend(user, k=4))
    everybody = fitted.recommend(None, k=2)
    assert everybody["user"].unique(maintain_order=True).to_list() == list(rankings.user_ids)
    assert fitted.recommend([], k=2).height == 0


def test_reasons_add_up_to_the_score(rankings, fitted):
    for user in ("u000", fitted.fold_in([20, 21, 30])):
        found = fitted.recommend(user, k=3)
        for item, score in zip(found["item"], found["score"], strict=True):
            for full in (False, True):
                reasons = fitted.explain(user, item, full=full)
                assert_allclose(reasons["contribution"].sum(), score, rtol=1e-3, atol=1e-3)
                assert_allclose(reasons["share"].abs().sum(), 1.0)
                assert reasons["reason"][-1] == "baseline"
            assert fitted.explain(user, item).height <= 5
    unlisted = fitted.recommend("u000", k=1)["item"][0]
    assert sorted(fitted.explain("u000", unlisted, full=True)["item"][:-1]) == sorted(rankings.lists("u000")[0])
    # What speaks for an item of one's own taste does more than what speaks for one of the other.
    assert fitted.explain("u000", 19)["contribution"].sum() > fitted.explain("u000", 39)["contribution"].sum()


def test_the_baseline_is_what_a_list_at_random_would_say(rankings, fitted):
    # Somebody who has everything else, each as much as people have it on average: then every entry is an average one.
    entries = entries_of(fitted.fitted_, [fitted.fold_in(list(rankings.item_ids))])
    shares = np.where(np.arange(40) == 3, 0.0, fitted.popularity_)
    shares = shares / shares.sum()
    average = entries._replace(grades=(shares * 10).astype(np.float32))
    parts, baseline = fitted.estimate_.scorer.contributions(average, 3, fitted.popularity_)
    assert_allclose(parts.sum(), 0.0, atol=1e-4)
    assert_allclose(baseline, fitted.estimate_.rows(average)[0, 3], rtol=1e-3, atol=1e-3)


def test_reasons_come_from_what_is_liked_by_the_same_people(rankings, fitted):
    # Two tastes, of even and odd halves: what speaks for an item is of its own half.
    for user in ("u000", "u001"):
        item = fitted.recommend(user, k=1)["item"][0]
        found = fitted.explain(user, item).filter(pl.col("reason") == "for")
        assert found.height >= 2
        assert {each < 20 for each in found["item"]} == {item < 20}
        assert "because you" in fitted.because(user, item)
    with pytest.raises(InputError, match="k="):
        fitted.explain("u000", 19, k=2)


def test_candidates_are_named_or_excluded(fitted):
    assert fitted.recommend("u000", items=[1, 30])["item"].to_list()[-1] == 30
    first = fitted.recommend("u000", k=1)["item"][0]
    assert first not in fitted.recommend("u000", exclude=[first])["item"]
    with pytest.raises(pr.errors.UnknownIdError, match="unknown item 99"):
        fitted.recommend("u000", exclude=[99])


def test_a_file_holds_both_models(rankings, fitted, tmp_path):
    fitted.save(tmp_path / "m")
    loaded = pr.load(tmp_path / "m")
    assert repr(loaded) == repr(fitted)
    assert type(loaded.order_) is pr.PlackettLuce
    assert loaded.recommend("u001").equals(fitted.recommend("u001"))
    assert_array_equal(loaded.score("u001"), fitted.score("u001"))
    assert loaded.prefers("u001", 3, 19) == fitted.prefers("u001", 3, 19)
    about = json.loads(header_of(tmp_path / "m")["part.order"])
    for wrong in ({**about, "class": "Nonsense"}, {**about, "class": "Borda"}, {**about, "parameters": {"prior": 3}}):
        fitted.save(tmp_path / "m")
        resigned(tmp_path / "m", {"part.order": json.dumps(wrong)})
        with pytest.raises(FormatError):
            pr.load(tmp_path / "m")


def test_what_is_no_model_of_order_is_refused(rankings):
    for wrong in ("PlackettLuce", pr.PlackettLuce, pr.ItemToItem(), 3):
        with pytest.raises(InputError, match="order="):
            pr.Recommender(wrong).fit(rankings)


def test_a_model_that_only_orders_says_so_once():
    rankings = groups(n_items=200)
    model = pr.PlackettLuce(prior="gaussian").fit(rankings)
    with pytest.warns(CatalogueWarning, match=r"permrank\.Recommender"):
        model.recommend("u001")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.recommend("u002")
        pr.Popularity().fit(rankings).recommend("u001")
        pr.ItemToItem(ridge=1.0, dropout=0.5).fit(rankings).recommend("u001")


def test_the_entries_held_out_are_those_of_the_judges():
    entries, dense = random_entries(1, n_users=60, n_items=30, density=0.5)
    known, judges = hold_out_entries(entries, 30, seed=3)
    assert known.items.size + judges.hidden.items.size == entries.items.size
    for place, user in enumerate(judges.users):
        left = set(judges.known.items[judges.known.indptr[place] : judges.known.indptr[place + 1]])
        hidden = set(judges.hidden.items[judges.hidden.indptr[place] : judges.hidden.indptr[place + 1]])
        assert not left & hidden
        assert left | hidden == set(np.flatnonzero(dense[user]))
        assert len(hidden) == round(0.2 * len(left | hidden))
    few, _ = random_entries(2, n_users=4, n_items=9, density=0.1)
    assert hold_out_entries(few, 9, seed=0) is None


def plain_gain(row, known, hidden, depth):
    """NDCG in plain Python."""
    order = sorted((item for item in range(row.size) if item not in known), key=lambda item: (-row[item], item))
    total = sum(hidden.get(item, 0.0) / math.log2(place + 2) for place, item in enumerate(order[:depth]))
    ideal = sorted(hidden.values(), reverse=True)[:depth]
    return total / sum(grade / math.log2(place + 2) for place, grade in enumerate(ideal))


@pytest.mark.parametrize("n_items", [6, 30])
def test_gains_are_the_ndcg_of_what_is_hidden(n_items):
    entries, _ = random_entries(5, n_users=40, n_items=n_items, density=0.9)
    _, judges = hold_out_entries(entries, n_items, seed=1)
    rows = np.random.default_rng(2).integers(0, 8, (judges.users.size, n_items)).astype(np.float32)  # with ties
    found = gains(rows[3:].copy(), judges, 3)
    wanted = []
    for place in range(3, judges.users.size):
        known = judges.known.items[judges.known.indptr[place] : judges.known.indptr[place + 1]].tolist()
        part = slice(judges.hidden.indptr[place], judges.hidden.indptr[place + 1])
        hidden = dict(zip(judges.hidden.items[part].tolist(), judges.hidden.grades[part].tolist(), strict=True))
        wanted.append(plain_gain(rows[place], known, hidden, min(20, n_items - 1)))
    assert_allclose(found, wanted, rtol=1e-6, atol=1e-12)
    assert max(wanted) > min(wanted)


def test_as_many_factors_are_tried_as_fit():
    assert numbers_of_factors(None, 50_000) == [64, 256, 480]
    assert numbers_of_factors(None, 5000) == [128]
    assert numbers_of_factors(None, 1_000_000) == numbers_of_factors(None, 10_000_000) == [64]
    assert numbers_of_factors(None, 100) == [100]
    assert numbers_of_factors(None, 10) == numbers_of_factors(12, 10) == [10]
    assert numbers_of_factors(12, 5000) == [12]


def test_a_filter_leans_to_popular_items_where_that_finds_more(monkeypatch):
    rng = np.random.default_rng(6)
    popular = 1.0 / np.arange(1, 401)
    lists = [np.sort(rng.choice(400, 5, replace=False, p=popular / popular.sum())) for _ in range(400)]
    entries = Entries(np.arange(0, 2001, 5), np.concatenate(lists).astype(np.int32), np.ones(2000, np.float32))
    known, judges = hold_out_entries(entries, 400, seed=1)
    data = Data(known, 400, np.ones(400))
    exponent, _, found = choose_exponent(data, None, judges)
    assert exponent == 0.4
    # Where it is what is usual, the symmetric one does not take its place.
    monkeypatch.setattr(implicit, "USUAL_EXPONENT", 0.4)
    monkeypatch.setattr(implicit, "OTHER_EXPONENT", 0.5)
    exponent, _, again = choose_exponent(data, None, judges)
    assert (exponent, again) == (0.4, found)


def test_a_descent_measures_no_more_than_it_may():
    measured = []

    def error(step):
        measured.append(step)
        return float(step[0])

    best, errors = descend(error, most=5)
    assert len(measured) == len(errors) == 5
    assert best == min(errors, key=errors.get)


def test_recommendations_have_the_types_of_the_ids(fitted):
    frame = fitted.recommend(["u000"], k=1)
    assert frame.schema["user"] == pl.String
    assert frame.schema["item"] == pl.Int64


@pytest.mark.parametrize("telling", [True, False])
def test_counts_are_left_out_if_they_say_nothing(telling):
    """People take what their taste tells; counts are noise, or tell it from what was taken once by chance."""
    rng, n_users, n_items = np.random.default_rng(8), 1_500, 150
    taste = rng.normal(size=(n_users, 8)) @ rng.normal(size=(8, n_items)) / np.sqrt(2.0)
    taken = np.argpartition(-taste - rng.gumbel(size=taste.shape), 12, axis=1)[:, :12]
    counts = np.exp(rng.normal(0.0, 3.0, taken.shape)) + 1.0
    if telling:
        chance = rng.integers(n_items, size=(n_users, 12))
        counts = np.concatenate((np.full(taken.shape, 50.0), np.ones(chance.shape)), axis=1)
        taken = np.concatenate((taken, chance), axis=1)
    rows = pl.DataFrame({"user": np.repeat(np.arange(n_users), taken.shape[1]), "item": taken.ravel()})
    rows = rows.with_columns(count=counts.ravel()).group_by("user", "item", maintain_order=True).max()
    rankings = pr.Rankings.from_interactions(rows, user="user", item="item", weight="count")
    assert (choose_scale(rankings, 0).median > 0) == telling


@pytest.mark.parametrize("most_dense", [10_000, 0])
def test_a_new_item_is_found_by_its_features_and_ranked_by_lists(most_dense, monkeypatch):
    """Half of the people take up sweet things alone; a new one is for them, wherever its id lies among the others."""
    monkeypatch.setattr(implicit, "MOST_DENSE", most_dense)
    rng, n_items = np.random.default_rng(1), 40
    sweet = np.arange(n_items) % 2
    lists = {u: rng.permutation(np.flatnonzero(sweet == u % 2))[:8].tolist() for u in range(120)}
    kinds = {"item": np.arange(n_items), "sweet": sweet.astype(float)}
    data = pr.Rankings.from_lists(lists).with_features(items=kinds)
    model = pr.Recommender(pr.FactoredPlackettLuce(2, max_iter=20), n_factors=4).fit(data)
    before = {u: model.recommend(u, k=10)["item"].to_list() for u in (0, 1)}
    for item in (-1, 99):
        more = model.fold_in_item(item, features={"sweet": 1.0})
        assert {u: more.recommend(u, k=10)["item"].to_list() for u in (0, 1)} == before
        # Of what they have not listed, twelve things are sweet and twelve are not.
        place, other = (more.recommend(u, k=n_items, include_new=True)["item"].to_list().index(item) for u in (1, 0))
        assert place < other
        assert other >= 11
        assert place <= 13
        liked = pr.Rankings.from_lists({u: [item, *lists[u][:4]] for u in range(1, 60, 2)})
        heard = model.fold_in_item(item, features={"sweet": 1.0}, rankings=liked)
        liking, before_it = (
            np.mean([each.prefers(61, item, y) for y in range(1, n_items, 2)]) for each in (heard, more)
        )
        assert liking > before_it + 0.03
    with pytest.raises(InputError, match="knows item 3 already"):
        model.fold_in_item(3)


def test_a_new_item_needs_features_or_an_order_that_takes_it():
    data = pr.datasets.load("simulated", n_users=60, n_items=20)
    plain = pr.Recommender(pr.PlackettLuce(prior="gaussian"), n_factors=4).fit(data)
    with pytest.raises(NotSupportedError, match="FactoredPlackettLuce"):
        plain.fold_in_item("waffle")
    rng = np.random.default_rng(1)
    lists = {u: (2 * rng.permutation(20)[:8] + u % 2).tolist() for u in range(120)}  # chosen: even things, or odd ones
    personal = pr.Recommender(pr.FactoredPlackettLuce(2, max_iter=10), n_factors=4).fit(pr.Rankings.from_lists(lists))
    assert personal.chosen_
    with pytest.raises(InputError, match=r"with_features\(items=\)"):
        personal.fold_in_item(99)


def test_pairs_are_those_of_the_order():
    data = pr.datasets.load("simulated", n_users=60, n_items=20)
    model = pr.Recommender(pr.FactoredPlackettLuce(2, max_iter=10), n_factors=4).fit(data)
    one, other = data.item_ids.ids[:2].to_list()
    for user in (data.user_ids[0], model.fold_in([one, other])):
        own = user if isinstance(user, str) else model.order_.fold_in([one, other])
        assert model.prefers(user, one, other) == model.order_.prefers(own, one, other)
