"""The pooled model: likelihood, optima, uncertainty, answers."""

import itertools

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import permrank as pr
from permrank.errors import ConvergenceWarning, EstimateError, InputError
from permrank.families.plackett_luce.model import _first_guess
from permrank.inference.standard_errors import quasi_variances
from permrank.posterior.item_scores import GaussianPrior
from permrank.randomness import stream_key
from permrank.testing import ModelContract
from permrank.testing.learning import LearningContract
from tied_lists import consistent_orders, random_rankings, ranking_probability

ALL = {"prefers", "top_probability", "position_probabilities", "sample", "log_likelihood"}
TIES = ["exact", "efron", "breslow", "partition"]


class TestPlackettLuceContract(ModelContract):
    supports = frozenset(ALL)

    def make(self, **parameters):
        return pr.PlackettLuce(**{"prior": "gaussian", **parameters})


class TestMaximumLikelihoodContract(LearningContract):
    def make(self, **parameters):
        return pr.PlackettLuce(**{"ties": "efron", **parameters})


class TestShuffledContract(LearningContract):
    def make(self, **parameters):
        return pr.PlackettLuce(**{"prior": "gamma", "ties": "shuffle", **parameters})


def test_the_likelihood_of_a_tied_list_is_the_sum_over_its_orders():
    model = pr.PlackettLuce(prior="gaussian").fit(random_rankings(0))
    tied = pr.Rankings.from_lists({"u": [{0, 3}, 1, {2, 4, 5}], "v": [5, {1, 2}], "w": [0, 1, 2]})
    scores = dict(zip(model.item_ids, model.scores_, strict=True))
    expected = [np.log(sum(ranking_probability(o, scores) for o in consistent_orders(each))) for each in tied.lists()]
    np.testing.assert_allclose(model.log_likelihood(tied), expected, rtol=1e-12, atol=0)


def test_the_likelihood_of_rankings_with_another_vocabulary_is_matched_by_id():
    model = pr.PlackettLuce(prior="gaussian").fit(random_rankings(0))
    scores = dict(zip(model.item_ids, model.scores_, strict=True))
    few = pr.Rankings.from_lists({"u": [5, 2]}, items=[77])  # an unranked stranger does no harm
    np.testing.assert_allclose(model.log_likelihood(few), np.log(ranking_probability([5, 2], scores)), rtol=1e-12)


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("prior", [None, "gaussian", "gamma"])
@pytest.mark.parametrize("seed", [1, 2])
def test_newton_and_mm_meet_at_the_same_optimum(ties, prior, seed):
    rankings = random_rankings(seed)
    arguments = {"ties": ties, "prior": prior, "prior_scale": 1.3}
    by_newton = pr.PlackettLuce(**arguments).fit(rankings)
    by_mm = pr.PlackettLuce(**arguments, method="mm", tol=1e-10).fit(rankings)
    np.testing.assert_allclose(by_newton.scores_, by_mm.scores_, rtol=0, atol=1e-6)
    np.testing.assert_allclose(by_newton.history_[-1], by_mm.history_[-1], rtol=1e-12)


@pytest.mark.parametrize("method", ["newton", "mm"])
@pytest.mark.parametrize("ties", TIES)
def test_the_objective_never_falls(method, ties):
    for seed in range(5):
        model = pr.PlackettLuce(ties=ties, method=method, tol=1e-6).fit(random_rankings(seed))
        steps = np.diff(model.history_)
        assert (steps >= -1e-11 * abs(model.history_[-1])).all()


def test_the_optimum_is_that_of_a_general_optimiser_on_the_enumerated_likelihood():
    rankings = random_rankings(3, n_rankings=40, n_items=4)
    lists, weights = rankings.lists(), rankings.weights

    def loss(free):
        scores = dict(enumerate(np.append(free, 0.0)))
        terms = [np.log(sum(ranking_probability(o, scores) for o in consistent_orders(each))) for each in lists]
        return -float(weights @ terms)

    found = minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-8})
    expected = np.append(found.x, 0.0)
    model = pr.PlackettLuce().fit(rankings)
    np.testing.assert_allclose(model.scores_, expected - expected.mean(), rtol=0, atol=1e-5)


def test_planted_worths_are_recovered_and_the_error_falls_with_the_data():
    truth = np.linspace(-1.5, 1.5, 12)
    errors = []
    for n in (200, 3_200):
        rng = np.random.default_rng(n)
        keys = truth + rng.gumbel(size=(n, 12))
        picked = np.argsort(rng.random((n, 12)), axis=1)[:, :7]
        lists = [[i for i in np.argsort(-keys[u]) if i in set(picked[u])] for u in range(n)]
        model = pr.PlackettLuce().fit(pr.Rankings.from_lists(lists, users=range(n)))
        errors.append(np.sqrt(np.mean((model.scores_ - truth) ** 2)))
    # Eleven squared errors, of one standard error each: beyond four times their sum once in 1e5.
    assert errors[1] < 2 * np.sqrt((model.standard_errors()["standard_error"] ** 2).mean()) < 0.1
    assert errors[1] < errors[0] / 1.5  # sixteen times the data: a quarter of the error, give or take a third


def test_planted_worths_are_recovered_from_tied_and_from_top_k_data():
    truth = np.linspace(-1.5, 1.5, 8)
    rng = np.random.default_rng(5)
    orders = np.argsort(-(truth + rng.gumbel(size=(4_000, 8))), axis=1)
    tied = [[set(row[:3]), row[3], set(row[4:])] for row in orders.tolist()]
    top = [row[:3] for row in orders.tolist()]
    users = range(len(tied))
    for rankings in (
        pr.Rankings.from_lists(tied, users=users),
        pr.Rankings.from_lists(top, users=users, unlisted="last"),
    ):
        model = pr.PlackettLuce().fit(rankings)
        np.testing.assert_allclose(model.scores_, truth, rtol=0, atol=0.2)  # five standard errors of the last item
    # The control: Breslow takes the large last block for evidence of closeness, and shrinks.
    shrunk = pr.PlackettLuce(ties="breslow").fit(rankings)
    assert np.abs(shrunk.scores_ - truth).max() > 0.3


def test_shuffled_ties_come_near_the_estimate_of_many_fixed_shuffles():
    # Only the best is known. A shuffle takes the rest for a random order, and draws the worths together.
    best = np.argsort(-(np.linspace(-1, 1, 6) + np.random.default_rng(4).gumbel(size=(200, 6))), axis=1)
    lists = [[row[0], set(row[1:])] for row in best.tolist()]
    rankings = pr.Rankings.from_lists(lists, users=range(200))
    model = pr.PlackettLuce(ties="shuffle", max_iter=200).fit(rankings)
    copies = [rankings.shuffled_ties(seed) for seed in range(100, 150)]
    lists = [each for copy in copies for each in copy.lists()]
    fixed = pr.PlackettLuce().fit(pr.Rankings.from_lists(lists))
    np.testing.assert_allclose(model.scores_, fixed.scores_, rtol=0, atol=0.06)
    other = pr.PlackettLuce(ties="exact").fit(rankings)
    assert np.abs(other.scores_ - fixed.scores_).max() > 0.3  # the control: it is another model


def test_shuffled_ties_need_no_prior_where_only_a_tie_tells_of_an_item():
    rankings = pr.Rankings.from_lists([["a", {"b", "c"}], ["b", "a"]])
    model = pr.PlackettLuce(ties="shuffle", max_iter=1_000).fit(rankings)
    # Either order of b and c, each half a ballot.
    orders = pr.Rankings.from_lists([["a", "b", "c"], ["a", "c", "b"], ["b", "a"]], weights=[1, 1, 2])
    np.testing.assert_allclose(model.scores_, pr.PlackettLuce().fit(orders).scores_, rtol=0, atol=0.1)


def test_neighbouring_seeds_of_shuffled_ties_share_no_orders(monkeypatch):
    rankings = random_rankings(4)
    drawn = {}
    original = pr.Rankings.shuffled_ties
    for seed in (0, 1):
        seen = drawn.setdefault(seed, [])
        monkeypatch.setattr(
            pr.Rankings, "shuffled_ties", lambda r, seed, seen=seen: seen.append(seed) or original(r, seed)
        )
        pr.PlackettLuce(ties="shuffle", prior="gaussian", prior_scale=1.0, seed=seed).fit(rankings)
    assert len(set(drawn[0] + drawn[1])) == 400


def test_shuffled_ties_claim_convergence_only_after_averaging():
    rankings = random_rankings(4)
    model = pr.PlackettLuce(ties="shuffle")
    assert model.fit(rankings).converged_
    assert not model.fit(rankings, callback=lambda progress: progress.iteration == 30).converged_
    with pytest.warns(ConvergenceWarning, match="did not converge in 20 sweeps"):
        assert not pr.PlackettLuce(ties="shuffle", max_iter=20).fit(rankings).converged_


def test_the_trace_of_shuffled_ties_has_likelihood_and_prior_at_the_same_scores():
    rankings = random_rankings(4)
    with pytest.warns(ConvergenceWarning):
        first = pr.PlackettLuce(ties="shuffle", prior="gaussian", prior_scale=0.01, max_iter=1).fit(rankings)
    start = _first_guess(rankings)
    strict = rankings.shuffled_ties(int(stream_key(0, 0)))
    here = pr.PlackettLuce(prior="gaussian").fit(rankings)
    here.fitted_ = here.fitted_.with_estimate(scores=start)
    value = rankings.weights @ here.log_likelihood(strict) + GaussianPrior(0.01).value(start)
    np.testing.assert_allclose(first.history_, [value], rtol=1e-10)


def test_newton_climbs_out_of_where_partition_is_not_concave():
    lists = [[{1, 2}, {3, 4}, 0], [{0, 1, 4}, {2, 3}], [{0, 2}, {1, 4}, 3], [{2, 4}], [4, 3], [{0, 1}, 4, 2, 3]]
    rankings = pr.Rankings.from_lists([*lists, [3, 1], [2, 0]])
    settings = {"ties": "partition", "prior": "gaussian", "prior_scale": 10.0}
    by_newton = pr.PlackettLuce(**settings).fit(rankings)
    by_mm = pr.PlackettLuce(**settings, method="mm").fit(rankings)
    assert by_newton.converged_
    assert by_newton.history_[-1] >= by_mm.history_[-1] - 1e-9


@pytest.mark.parametrize("method", ["newton", "mm"])
@pytest.mark.parametrize("ties", [*TIES, "shuffle"])
def test_a_single_item_has_the_score_zero(method, ties):
    model = pr.PlackettLuce(method=method, ties=ties).fit(pr.Rankings.from_lists([["a"]]))
    assert model.scores_.tolist() == [0.0]
    assert model.converged_
    assert model.worths()["worth"].to_list() == [1.0]


def test_the_update_under_a_gaussian_prior_is_found_from_far_away():
    scores, chosen, expected = np.array([500.0, -300, 0, 2]), np.array([1.0, 2, 0, 3]), np.array([1e150, 3, 5, 0])
    for scale in (0.5, 3.0, 10.0):
        found = GaussianPrior(scale).maximise(scores, chosen, expected)
        slope = chosen - expected * np.exp(found - scores) - found / scale**2
        np.testing.assert_allclose(slope, 0, rtol=0, atol=1e-9)


@pytest.mark.parametrize("wanted", [-1e4, -760.0, -40.0, -1.0, 0.999, 1.0, 1.001, 30.0, 1e6, 1e12])
def test_the_update_under_a_gaussian_prior_has_all_its_digits(wanted):
    # With scale 1 and nothing chosen it is t = u - s, where e^u + u = s.
    found = float(GaussianPrior(1.0).maximise(np.array([-wanted]), np.zeros(1), np.ones(1))[0])
    with mpmath.workdps(50):
        first = mpmath.log(wanted) if wanted > 1 else mpmath.mpf(wanted)
        u = mpmath.findroot(lambda u: mpmath.exp(u) + u - wanted, first)
        assert abs(found - (u - wanted)) <= 2e-15 * max(abs(u), abs(wanted), 1)


def test_weights_count_as_repetitions():
    rankings = random_rankings(6)
    repeated = [each for each, n in zip(rankings.lists(), rankings.weights, strict=True) for _ in range(int(n))]
    again = pr.Rankings.from_lists(repeated, users=range(len(repeated)))
    np.testing.assert_allclose(
        pr.PlackettLuce().fit(rankings).scores_, pr.PlackettLuce().fit(again).scores_, rtol=0, atol=1e-7
    )


@settings(deadline=None, max_examples=20)
@given(st.permutations(range(6)))
def test_relabelling_the_items_permutes_the_scores(names):
    rankings = random_rankings(7)
    renamed = [[{names[i] for i in e} if isinstance(e, set) else names[e] for e in each] for each in rankings.lists()]
    other = pr.Rankings.from_lists(renamed, users=range(len(renamed)), weights=rankings.weights)
    first, second = pr.PlackettLuce().fit(rankings), pr.PlackettLuce().fit(other)
    np.testing.assert_allclose(first.scores_, second.scores_[list(names)], rtol=0, atol=1e-7)


def test_the_learnt_scale_follows_the_planted_spread():
    learnt = []
    for spread in (0.3, 1.5):
        rng = np.random.default_rng(11)
        truth = spread * rng.normal(size=60)
        lists = []
        for _ in range(400):
            items = rng.permutation(60)[:8]
            lists.append(items[np.argsort(-(truth[items] + rng.gumbel(size=8)))].tolist())
        model = pr.PlackettLuce(prior="gaussian").fit(pr.Rankings.from_lists(lists, users=range(400)))
        learnt.append(model.prior_scale_)
        assert abs(np.log(model.prior_scale_ / truth.std())) < 0.35
    assert learnt[0] < learnt[1] / 3


def test_standard_errors_match_the_spread_over_repeated_surveys():
    truth = np.array([1.0, 0.3, -0.2, -1.1])
    rng = np.random.default_rng(12)
    estimates, claimed = [], []
    for _ in range(200):
        orders = np.argsort(-(truth + rng.gumbel(size=(150, 4))), axis=1)
        model = pr.PlackettLuce().fit(pr.Rankings.from_lists(orders.tolist()))
        estimates.append(model.scores_)
        claimed.append(model.standard_errors().sort("item")["standard_error"].to_numpy())
    # 200 repetitions fix a standard deviation to 5 % (one sigma); 20 % is four sigma.
    np.testing.assert_allclose(np.mean(claimed, axis=0), np.std(estimates, axis=0), rtol=0.2, atol=0)


def test_standard_errors_are_null_or_an_error_where_there_are_none(monkeypatch):
    rankings = random_rankings(2)
    model = pr.PlackettLuce(prior="gaussian", prior_scale=1.0).fit(rankings)
    with monkeypatch.context() as patch:  # not a maximum: the information need not be positive
        saddle = np.diag([3.0, -3.0, 3.0, 3.0, 3.0, 3.0])
        patch.setattr("permrank.families.plackett_luce.inference.observed_information", lambda *_: saddle.copy())
        errors = model.standard_errors().sort("item")
    assert errors["standard_error"].to_list() == [0.5, None, 0.5, 0.5, 0.5, 0.5]
    assert errors["quasi_standard_error"].null_count() == 6
    alone = pr.PlackettLuce().fit(pr.Rankings.from_lists([["a"]])).standard_errors()
    assert alone["standard_error"].to_list() == [None]


def test_a_singular_information_matrix_is_reported(monkeypatch):
    model = pr.PlackettLuce().fit(random_rankings(2))
    monkeypatch.setattr("permrank.families.plackett_luce.inference.observed_information", lambda *_: np.zeros((6, 6)))
    with pytest.raises(InputError, match="standard errors do not exist"):
        model.standard_errors()


def test_quasi_variances_reproduce_the_variances_of_differences():
    rng = np.random.default_rng(13)
    independent = np.diag(rng.uniform(0.1, 1.0, 7))
    np.testing.assert_allclose(quasi_variances(independent), np.diag(independent), rtol=1e-6)
    model = pr.PlackettLuce().fit(random_rankings(14, n_rankings=80))
    covariance = model.vcov()
    np.testing.assert_allclose(covariance.sum(axis=0), 0, rtol=0, atol=1e-8)
    quasi = quasi_variances(covariance)
    for i, j in itertools.combinations(range(6), 2):
        wanted = covariance[i, i] + covariance[j, j] - 2 * covariance[i, j]
        np.testing.assert_allclose(quasi[i] + quasi[j], wanted, rtol=0.1)
    assert quasi_variances(covariance[:2, :2]) is None


def test_quasi_variances_are_a_minimum_of_their_loss():
    rng = np.random.default_rng(15)
    root = rng.normal(size=(5, 9))
    covariance = root @ root.T / 9
    found = np.log(quasi_variances(covariance))

    def loss(logs):
        q = np.exp(logs)
        return sum(
            (np.log(q[i] + q[j]) - np.log(covariance[i, i] + covariance[j, j] - 2 * covariance[i, j])) ** 2
            for i, j in itertools.combinations(range(5), 2)
        )

    assert all(loss(found + 1e-3 * rng.normal(size=5)) >= loss(found) for _ in range(50))


def test_questions_that_cannot_be_answered_are_refused():
    model = pr.PlackettLuce().fit(random_rankings(16))
    with pytest.raises(InputError, match="GiB of memory that are free; draw them in parts"):
        model.sample(None, size=10**15)


def test_worths_add_up_to_one_and_are_best_first():
    frame = pr.PlackettLuce().fit(random_rankings(16)).worths()
    np.testing.assert_allclose(frame["worth"].sum(), 1, rtol=1e-12)
    assert frame["worth"].is_sorted(descending=True)


def test_answers_follow_from_the_scores_by_enumeration():
    model = pr.PlackettLuce().fit(random_rankings(17))
    scores = dict(zip(model.item_ids, model.scores_, strict=True))
    items = [1, 4, 2, 5]
    orders = {o: ranking_probability(o, scores) for o in itertools.permutations(items)}
    np.testing.assert_allclose(
        model.prefers(None, 4, 5), sum(p for o, p in orders.items() if o.index(4) < o.index(5)), rtol=1e-10
    )
    np.testing.assert_allclose(
        model.top_probability(None, items, 2),
        [sum(p for o, p in orders.items() if item in o[:2]) for item in items],
        rtol=1e-8,
    )
    new = model.fold_in([2, 5, 4])
    entered = np.array(
        [
            sum(p for o, p in orders.items() if [i for i in o if i != 1] == [2, 5, 4] and o[place] == 1)
            for place in range(4)
        ]
    )
    np.testing.assert_allclose(model.position_probabilities(new, 1), entered / entered.sum(), rtol=1e-8)
    with pytest.raises(InputError, match="in the user's list already"):
        model.position_probabilities(new, 2)
    with pytest.raises(InputError, match="the user has 0 rankings"):
        model.position_probabilities(None, 2)


@pytest.mark.realdata
def test_nascar_worths_are_those_of_hunter(data_folder):
    races = pr.datasets.load("nascar")
    with pytest.raises(EstimateError) as caught:
        pr.PlackettLuce().fit(races)
    dropped = caught.value.items
    assert len(dropped) == 4
    for name in ("Hillenburg", "Bradberry", "Hedlesky", "Renfrow"):
        assert any(name in driver for driver in dropped)
        assert name in str(caught.value)
    worths = dict(pr.PlackettLuce().fit(races.drop(items=dropped)).worths().select("item", "worth").iter_rows())
    assert len(worths) == 83
    published = {"PJ Jones": 0.1864, "Scott Pruett": 0.1096, "Mark Martin": 0.0235, "Tony Stewart": 0.0184}
    assert {name: round(worths[name], 4) for name in published} == published


@pytest.mark.realdata
def test_sushi_likelihood_is_the_published_one(data_folder):
    sushi = pr.datasets.load("sushi-10")
    fold = np.random.default_rng(0).permutation(sushi.n_users) % 5
    users = np.array(list(sushi.user_ids))
    losses = []
    for k in range(5):
        model = pr.PlackettLuce().fit(sushi.select(users=users[fold != k].tolist()))
        losses.append(-model.log_likelihood(sushi.select(users=users[fold == k].tolist())).mean())
    assert abs(np.mean(losses) - 14.24) < 0.02
