"""Communities: the contract, planted truth, answers by enumeration, new people."""

import itertools

import numpy as np
import pytest

import permrank as pr
from laws import p_value
from permrank.errors import InputError
from permrank.testing import ModelContract
from permrank.testing.learning import LearningContract
from permrank.testing.oracles import community_probability


class TestByStageContract(ModelContract):
    supports = frozenset({
        "prefers", "top_probability", "position_probabilities", "sample", "log_likelihood", "similar_items",
        "similar_users",
    })  # fmt: skip

    def make(self, **parameters):
        return pr.LatentPlackettLuce(**{"n_communities": 2, "n_starts": 2, **parameters})


class TestByListContract(LearningContract):
    def make(self, **parameters):
        return pr.LatentPlackettLuce(**{"n_communities": 2, "n_starts": 1, "mixing": "list", **parameters})


class TestShuffledContract(LearningContract):
    def make(self, **parameters):
        settings = {"n_communities": 2, "ties": "shuffle", "insertion": "mode", "method": "gradient", **parameters}
        return pr.LatentPlackettLuce(**{"prior_strength": 1.0, "concentration": 2.0, "n_starts": 1, **settings})


class TestPublishedContract(LearningContract):
    """The paper's EM: no prior, no acceleration, one start; ended early, before seven people are fitted perfectly."""

    def make(self, **parameters):
        settings = {"n_communities": 2, "method": "published", "insertion": "mode", "accelerate": False, "tol": 0.05}
        without = {"prior_strength": None, "concentration": None, "n_starts": 1}
        return pr.LatentPlackettLuce(**{**settings, **without, **parameters})


def adjusted_rand_index(first, second):
    """Hubert and Arabie (1985), from the table of counts."""
    table = np.zeros((first.max() + 1, second.max() + 1))
    np.add.at(table, (first, second), 1)

    def pairs(counts):
        return float(np.sum(counts * (counts - 1) / 2))

    rows, columns, n = pairs(table.sum(axis=1)), pairs(table.sum(axis=0)), pairs(np.array([first.size]))
    expected = rows * columns / n
    return (pairs(table) - expected) / ((rows + columns) / 2 - expected)


def planted(n_users, n_items, n_communities, length, spread, seed):
    rng = np.random.default_rng(seed)
    scores = spread * rng.normal(size=(n_communities, n_items))
    community = rng.integers(n_communities, size=n_users)
    seen = np.argsort(rng.random((n_users, n_items)), axis=1)[:, :length]
    keys = np.take_along_axis(scores[community] + rng.gumbel(size=(n_users, n_items)), seen, axis=1)
    lists = np.take_along_axis(seen, np.argsort(-keys, axis=1), axis=1)
    return pr.Rankings.from_lists(lists.tolist(), users=range(n_users)), community, scores


@pytest.fixture(scope="module")
def small():
    """Two tastes over six items, for questions that are answered by enumeration."""
    rankings, _, _ = planted(80, 6, 2, 4, 1.5, 0)
    fixed = {"prior_strength": 2.0, "concentration": 2.0, "n_starts": 2}
    return {mixing: pr.LatentPlackettLuce(2, mixing=mixing, **fixed).fit(rankings) for mixing in ("stage", "list")}


def enumerated(model, user, items):
    """P(order | user) of all orders of the items: the mean over the starts."""
    places = model.item_ids.indices(items)
    u = model.rankings_.user_index(user)
    return {
        order: np.mean(
            [
                community_probability(
                    [items.index(item) for item in order], np.exp(scores[places]), own[u], model.mixing
                )
                for scores, own in zip(model.scores_, model.memberships_, strict=True)
            ]
        )
        for order in itertools.permutations(items)
    }


@pytest.mark.parametrize("mixing", ["stage", "list"])
def test_answers_follow_from_the_model_by_enumeration(small, mixing):
    model, items = small[mixing], [4, 0, 2, 5]
    orders = enumerated(model, 7, items)
    np.testing.assert_allclose(sum(orders.values()), 1.0, rtol=1e-12)
    for k in (1, 2, 3):
        wanted = [sum(p for order, p in orders.items() if item in order[:k]) for item in items]
        np.testing.assert_allclose(model.top_probability(7, items, k), wanted, rtol=1e-8)
    pair = enumerated(model, 7, [4, 0])
    np.testing.assert_allclose(model.prefers(7, 4, 0), pair[4, 0], rtol=1e-12)
    ranking = pr.Rankings.from_lists({7: [2, 0, 5, 4]})
    np.testing.assert_allclose(model.log_likelihood(ranking), np.log(orders[2, 0, 5, 4]), rtol=1e-10)


@pytest.mark.parametrize("mixing", ["stage", "list"])
def test_samples_follow_the_enumerated_distribution_of_that_user_and_not_of_another(small, mixing):
    model, items = small[mixing], [4, 0, 2, 5]
    theta = model.memberships_[0, :, 0]
    one, other = int(np.argmin(theta)), int(np.argmax(theta))
    drawn = model.sample(one, items, size=20_000, seed=3)
    assert p_value(drawn, enumerated(model, one, items)) > 1e-4
    assert p_value(drawn, enumerated(model, other, items)) < 1e-6


@pytest.mark.parametrize("mixing", ["stage", "list"])
def test_places_in_the_list_are_those_of_whole_lists(small, mixing):
    model = small[mixing]
    new = model.fold_in([3, 1, 0])
    places = model.item_ids.indices([3, 1, 0, 5])
    wanted = np.zeros(4)
    for scores, own in zip(model.scores_, new.state["memberships"], strict=True):
        worths = np.exp(scores[places])
        orders = [[*range(j), 3, *range(j, 3)] for j in range(4)]
        if mixing == "stage":
            every = np.array([community_probability(order, worths, own, mixing) for order in orders])
        else:
            every = sum(
                own[z] * np.array([community_probability(order, worths, row, mixing) for order in orders])
                / community_probability(range(3), worths, row, mixing)
                for z, row in enumerate(np.eye(2))
            )  # fmt: skip
        wanted += every / every.sum() / len(model.scores_)
    found = model.position_probabilities(new, 5)
    np.testing.assert_allclose(found, wanted, rtol=1e-9)
    np.testing.assert_allclose(model.score(new, [5])[0], (3 - found @ np.arange(4)) / 3, rtol=1e-9)
    with pytest.raises(InputError, match="in the user's list already"):
        model.position_probabilities(new, 3)
    with pytest.raises(InputError, match="the user has 0 rankings"):
        model.position_probabilities(None, 3)


@pytest.mark.parametrize("mixing", ["stage", "list"])
def test_the_likelihood_of_strangers_adds_up_to_one_and_the_maximum_is_a_bound(small, mixing):
    model = small[mixing]
    orders = list(itertools.permutations([0, 2, 3, 5]))
    strangers = pr.Rankings.from_lists(orders, users=[f"new {i}" for i in range(24)])
    values, errors = model.log_likelihood(strangers, n_draws=4000, with_error=True)
    assert abs(np.exp(values).sum() - 1) < 5 * np.sqrt(np.sum((np.exp(values) * errors) ** 2)) + 1e-9
    assert (errors == 0).all() == (mixing == "list")
    best = model.log_likelihood(strangers, new="maximised")
    assert (best >= values - 5 * errors - 1e-9).all()
    with pytest.raises(InputError, match="new='guessed'"):
        model.log_likelihood(strangers, new="guessed")


def test_a_known_user_who_says_the_same_again_has_the_same_membership(small):
    for model in small.values():
        for user in (0, 11):
            new = model.fold_in(model.rankings_.lists(user)[0])
            np.testing.assert_allclose(new.state["memberships"], model.memberships_[:, user], rtol=0, atol=1e-9)
            np.testing.assert_array_equal(model.score(new), model.score(user))


@pytest.mark.parametrize("mixing", ["stage", "list"])
def test_planted_communities_are_found_and_shuffled_ones_are_not(mixing):
    rankings, truth, _ = planted(1500, 60, 3, 12, 2.2, 1)
    model = pr.LatentPlackettLuce(3, mixing=mixing, n_starts=2, prior_strength=2.0, concentration=1.0)
    model.fit(rankings)
    leading = model.memberships_[0].argmax(axis=1)
    assert adjusted_rand_index(leading, truth) > 0.95
    assert abs(adjusted_rand_index(leading, np.random.default_rng(2).permutation(truth))) < 0.02


def test_communities_serve_people_better_than_one_order_for_all():
    rankings, community, scores = planted(500, 30, 3, 10, 1.2, 3)
    model = pr.LatentPlackettLuce(3, n_starts=2).fit(rankings)
    pooled = pr.PlackettLuce(prior="gaussian").fit(rankings)
    right = {"latent": np.zeros(100), "pooled": np.zeros(100)}
    for user in range(100):
        unseen = [i for i in range(30) if i not in rankings.lists(user)[0]][:8]
        truth = scores[community[user], unseen]
        for name, score in (("latent", model.score(user, unseen)), ("pooled", pooled.score(user, unseen))):
            right[name][user] = sum(
                (truth[i] > truth[j]) == (score[i] > score[j]) for i, j in itertools.combinations(range(8), 2)
            )
    more = right["latent"] - right["pooled"]  # of 28 pairs
    assert more.mean() > 3 * more.std() / np.sqrt(100)


def test_a_rare_item_in_a_rare_community_stays_near_its_pooled_score():
    rankings, _, _ = planted(300, 12, 2, 6, 1.0, 4)
    lists = [*rankings.lists(), [0, "rare"], ["rare", 1]]
    lists = [[str(item) for item in each] for each in lists]
    both = pr.Rankings.from_lists(lists, users=range(len(lists)))
    apart = {}
    for strength in (0.02, 4.0):
        model = pr.LatentPlackettLuce(4, prior_strength=strength, concentration=2.0, n_starts=1).fit(both)
        rare = model.item_ids.index("rare")
        apart[strength] = np.abs(model.scores_[0, rare] - model.pooled_scores_[rare]).max()
    assert apart[4.0] < 0.5 < apart[0.02]


def test_ballots_of_many_people_count_as_many_people():
    lists = [["a", "b", "c"], ["c", "b", "a"], ["b", "a", "c"], ["c", "a", "b"]]
    counts = [5, 4, 2, 3]
    merged = pr.Rankings.from_lists(lists, weights=counts)
    apart = pr.Rankings.from_lists(
        [each for each, n in zip(lists, counts, strict=True) for _ in range(n)], users=range(14)
    )
    fixed = {"prior_strength": 1.0, "concentration": 1.0, "n_starts": 1, "tol": 1e-10, "max_iter": 3000}
    for mixing in ("stage", "list"):
        one, other = (pr.LatentPlackettLuce(2, mixing=mixing, **fixed).fit(each) for each in (merged, apart))
        np.testing.assert_allclose(one.history_[-1], other.history_[-1], rtol=1e-7)


def test_similar_people_share_communities():
    rankings, truth, _ = planted(400, 40, 3, 12, 1.8, 5)
    model = pr.LatentPlackettLuce(3, n_starts=1, prior_strength=2.0, concentration=1.0).fit(rankings)
    frame = model.similar_users(0, 20)
    assert np.mean(truth[frame["user"].to_numpy()] == truth[0]) > 0.9
    assert 0 not in frame["user"]
    assert frame["similarity"].is_sorted(descending=True)
    assert model.membership(0)["probability"].sum() == pytest.approx(1.0)


def test_communities_are_described_by_what_sets_them_apart():
    rng = np.random.default_rng(6)
    lists = []
    for user in range(300):
        # Everybody likes "rice"; tastes differ in the rest.
        scores = {"rice": 4.0, "fish": 0.0, "meat": 0.0, "soup": 0.0, "cake": 0.0}
        scores["fish" if user % 3 else "meat"] += 2.5
        lists.append(sorted(scores, key=lambda item: -scores[item] - rng.gumbel()))
    rankings = pr.Rankings.from_lists(lists, users=range(300), items=["never listed"])
    model = pr.LatentPlackettLuce(2, mixing="list", n_starts=2, prior_strength=2.0).fit(rankings)
    frame = model.communities(n_items=1, n_users=10)
    assert frame["items"].to_list() == [["fish"], ["meat"]]
    np.testing.assert_allclose(frame["size"], [2 / 3, 1 / 3], rtol=0, atol=0.08)
    assert frame["lifts"][1][0] > 2
    # Who likes fish puts meat first and fish last now and then: 2 to 12.2² of those who do.
    assert np.mean([user % 3 == 0 for user in frame["users"][1]]) >= 0.7
    assert "never listed" not in [item for row in model.communities(9)["items"] for item in row]
    with pytest.raises(InputError, match="n_items=-1"):
        model.communities(-1)


def test_the_number_of_communities_is_found_and_its_curve_kept(tmp_path):
    rankings, _, _ = planted(600, 25, 4, 10, 2.0, 7)
    model = pr.LatentPlackettLuce("auto", mixing="list", n_starts=1, prior_strength=2.0).fit(rankings)
    assert model.scores_.shape[2] in (4, 8)  # of eight, four are hardly used
    assert model.curve_[2, 1] > model.curve_[:, 1].max() - 2 * model.curve_[2, 2]
    assert model.curve_[:, 0].tolist() == [1, 2, 4, 8, 16, 32]
    assert model.curve_[2, 1] > model.curve_[0, 1] + 5 * model.curve_[0, 2]
    model.save(tmp_path / "m.permrank")
    np.testing.assert_array_equal(pr.load(tmp_path / "m.permrank").curve_, model.curve_)


def test_people_who_do_not_differ_need_one_community():
    rankings, _, _ = planted(600, 12, 1, 8, 1.5, 8)
    model = pr.LatentPlackettLuce("auto", mixing="list", n_starts=1, prior_strength=4.0).fit(rankings)
    assert model.curve_[:, 1].max() < model.curve_[0, 1] + 2 * model.curve_[0, 2]


def test_many_pairs_at_once_have_the_scores_of_one_user_at_a_time():
    lists = {"u": ["a", "b", {"c", "d"}], "v": [], "w": ["d", "a"], "x": ["c"]}
    model = pr.LatentPlackettLuce(2, n_starts=2, prior_strength=1.0, concentration=1.0)
    model.fit(pr.Rankings.from_lists(lists))
    users, items = ["w", "u", "v", "w", "x", "v"], ["c", "a", "b", "b", "d", "a"]
    wanted = [model.score(user, [item])[0] for user, item in zip(users, items, strict=True)]
    np.testing.assert_allclose(model.score_pairs(users, items), wanted, rtol=1e-12)
    with pytest.raises(InputError, match="2 users and 1 items"):
        model.score_pairs(["u", "v"], ["a"])


@pytest.mark.parametrize("method", ["mm", "gradient", "published"])
def test_without_priors_the_likelihood_alone_is_raised(method, tmp_path):
    # c is never chosen, d never there with others: neither has a maximum-likelihood estimate.
    lists = [["a", "b", "c"], ["b", "a", "c"], ["b", "c"], ["a", "c"], ["d"], ["b", "a"], ["a", "b"]] * 4
    rankings = pr.Rankings.from_lists(lists, users=range(28))
    without = {"prior_strength": None, "concentration": None, "method": method, "accelerate": False}
    model = pr.LatentPlackettLuce(2, n_starts=2, **without)
    model.fit(rankings, callback=lambda progress: progress.iteration == 150)  # it would go on for ever
    assert (np.diff(model.history_) >= -1e-9).all()
    assert model.prior_strength_ == 0.0
    assert model.log_likelihood(rankings).sum() > pr.LatentPlackettLuce(2).fit(rankings).log_likelihood(rankings).sum()
    assert model.rank(0, ["c", "a"])["item"].to_list() == ["a", "c"]
    model.save(tmp_path / "m.permrank")
    loaded = pr.load(tmp_path / "m.permrank")
    assert (loaded.prior_strength, loaded.concentration, loaded.method) == (None, None, method)
    np.testing.assert_array_equal(loaded.score(1), model.score(1))


def test_one_prior_may_be_chosen_and_the_other_left_out():
    rankings, _, _ = planted(40, 6, 2, 4, 1.5, 0)
    for given in ({"prior_strength": None}, {"concentration": None}):
        model = pr.LatentPlackettLuce(2, n_starts=1, **given).fit(rankings)
        assert (model.prior_strength_ == 0.0) == ("prior_strength" in given)
        assert (model.concentration_.sum() < 1e-6) == ("concentration" in given)


def test_bad_parameters_are_refused_by_fit():
    rankings = pr.Rankings.from_lists([["a", "b"], ["b", "a"]])
    for parameters, message in (
        ({"mixing": "both"}, "mixing='both', expected one of 'stage', 'list'"),
        ({"ties": "exact"}, "ties='exact'"),
        ({"insertion": "median"}, "insertion='median'"),
        ({"method": "newton"}, "method='newton'"),
        ({"n_communities": 0}, "n_communities=0, expected a whole number from 1"),
        ({"n_communities": "many"}, "n_communities='many'"),
        ({"prior_strength": 0}, "prior_strength=0, expected a finite number above 0"),
        ({"concentration": "none"}, "concentration='none'"),
        ({"tol": float("nan")}, "tol=nan"),
    ):
        with pytest.raises(InputError, match=message):
            pr.LatentPlackettLuce(**parameters).fit(rankings)
