"""The point estimate of the factored model, and Benter's damping."""

import itertools

import numba
import numpy as np
import pytest
from scipy.linalg import subspace_angles
from scipy.optimize import minimize
from scipy.stats import chisquare

import permrank as pr
from permrank.errors import ConvergenceWarning, InputError, NotSupportedError
from permrank.families.factored.point import first_slopes, learnt_damping
from permrank.kernels.luce.damping import damped_statistics, damping_sequence
from permrank.kernels.luce.likelihood import BRESLOW, EFRON, EXACT, PARTITION, stage_statistics
from permrank.testing.learning import LearningContract

TREATMENTS = {"exact": EXACT, "efron": EFRON, "breslow": BRESLOW, "partition": PARTITION}


class TestDampedContract(LearningContract):
    def make(self, **parameters):
        settings = {"n_factors": 2, "method": "point", "ties": "shuffle", "damping": "log", "max_iter": 30}
        return pr.FactoredPlackettLuce(**settings | parameters)

    @pytest.fixture
    def rankings(self):
        lists = {
            "ann": ["toro", "ebi", "uni", "ika"],
            "bob": ["ebi", "toro", "uni"],
            "dan": ["tako", "uni", "ika", "toro"],
        }
        return pr.Rankings.from_lists(
            lists | {"eve": ["uni", "toro", "tako", "ika", "ebi"], "fay": ["toro"], "gus": []}
        )

    def test_what_is_not_supported_raises_one_clear_error(self, fitted):
        with pytest.raises(InputError, match=r"only k=1 has a closed form; count the rows of sample\(\)"):
            fitted.top_probability("ann", ["tako", "toro", "uni"], 2)
        with pytest.raises(NotSupportedError, match=r"cannot answer explain\(\); fit with damping='none'"):
            fitted.explain("ann", "tako")


def planted(n_users, seed=0, **options):
    return pr.datasets.simulated(n_users, 40, n_communities=1, separation=0.0, n_factors=2, seed=seed, **options)


def general_optimum(rankings, n_factors, alpha, beta, ties, damping=None, seed=3):
    """The objective of §3.1 at its maximum by scipy's L-BFGS over users and items together."""
    n_users, n_items = rankings.n_users, rankings.n_items
    owner = np.repeat(np.arange(n_users), np.diff(rankings.indptr[rankings.user_indptr]))
    items, cut = rankings.items, n_users * n_factors
    made, expected, unused = np.empty((3, rankings.n_entries))

    def minus(x):
        users, theta = x[:cut].reshape(n_users, -1), x[cut:].reshape(n_items, -1)
        scores = np.sum(users[owner] * theta[items, :-1], axis=1) + theta[items, -1]
        if damping is None:
            logs = stage_statistics(rankings.indptr, rankings.levels, scores, ties, made, expected)
        else:
            logs = damped_statistics(rankings.indptr, scores, damping, made, expected, unused)
        in_users, in_items = -2 * alpha * users, -2 * beta * theta
        residual = (made - expected)[:, None]
        np.add.at(in_users, owner, residual * theta[items, :-1])
        np.add.at(in_items, items, residual * np.column_stack((users[owner], np.ones(owner.size))))
        value = logs.sum() - alpha * np.sum(users**2) - beta * np.sum(theta**2)
        return -value, -np.concatenate((in_users.ravel(), in_items.ravel()))

    begin = 0.3 * np.random.default_rng(seed).normal(size=cut + n_items * (n_factors + 1))
    found = minimize(minus, begin, jac=True, method="L-BFGS-B", options={"maxiter": 5_000, "ftol": 1e-13, "gtol": 1e-6})
    return -found.fun


@pytest.mark.parametrize("ties", TREATMENTS)
def test_a_second_algorithm_meets_the_same_optimum(ties):
    rankings = planted(80, ties=4, list_length=8).rankings
    # With more factors than such penalties leave in use there are no other local maxima (it is a nuclear norm).
    model = pr.FactoredPlackettLuce(5, method="point", ties=ties, user_penalty=1.4, item_penalty=1.6, tol=1e-9)
    model.fit(rankings)
    best = general_optimum(rankings, 5, 1.4, 1.6, TREATMENTS[ties])
    np.testing.assert_allclose(model.history_[-1], best, rtol=1e-5)


@pytest.mark.parametrize("damping", ["log", "natural_log", [1.0, 0.5, 0.5, 0.2], [3.0, 1.0, 0.4, 0.0]])
def test_a_second_algorithm_meets_the_same_optimum_under_damping(damping):
    rankings, factors = planted(80, list_length=(4, 9)).rankings, damping_sequence(damping, 9)
    # Scores count times the factors: the penalties that leave no other local maxima grow with the first one.
    alpha, beta = 1.4 * factors[0], 1.6 * factors[0]
    model = pr.FactoredPlackettLuce(5, method="point", damping=damping, user_penalty=alpha, item_penalty=beta, tol=1e-9)
    model.fit(rankings)
    best = general_optimum(rankings, 5, alpha, beta, BRESLOW, factors)
    np.testing.assert_allclose(model.history_[-1], best, rtol=1e-5)
    assert (np.diff(model.history_) >= 0).all()
    np.testing.assert_array_equal(model.damping_, damping_sequence(damping, 9))


def test_the_best_of_several_starts_is_kept_and_all_are_told(tmp_path):
    """Weak penalties leave many maxima: each start ends in one of them."""
    rankings = planted(60, list_length=8).rankings
    settings = {"method": "point", "user_penalty": 0.05, "item_penalty": 0.05, "max_iter": 2_000}
    several = pr.FactoredPlackettLuce(2, **settings).fit(rankings)
    one = pr.FactoredPlackettLuce(2, n_starts=1, **settings).fit(rankings)
    reached = several.start_objectives_
    assert reached.size == 4
    assert reached.max() - reached.min() > 1.0
    assert several.history_[-1] == reached.max()
    assert (np.diff(several.history_) >= 0).all()
    np.testing.assert_array_equal(one.start_objectives_, reached[:1])
    assert one.history_[-1] == reached[0]
    # The factors are those of the best start, and the objective at them is what was said.
    users, theta = several.user_factors_.astype(float), several.item_draws_[0].astype(float)
    owner = np.repeat(np.arange(rankings.n_users), np.diff(rankings.indptr[rankings.user_indptr]))
    scores = np.sum(users[owner] * theta[rankings.items, :-1], axis=1) + theta[rankings.items, -1]
    logs = stage_statistics(rankings.indptr, rankings.levels, scores, BRESLOW, *np.empty((2, rankings.n_entries)))
    value = logs.sum() - 0.05 * (np.sum(users**2) + np.sum(theta**2))
    np.testing.assert_allclose(value, reached.max(), rtol=1e-5)
    several.save(tmp_path / "m.permrank")
    again = pr.load(tmp_path / "m.permrank")
    np.testing.assert_array_equal(again.start_objectives_, reached)


def test_one_thread_and_two_give_the_same_bits_on_many_blocks():
    rankings = planted(300).rankings
    before, found = numba.get_num_threads(), []
    try:
        for n_threads in (1, numba.config.NUMBA_NUM_THREADS):
            numba.set_num_threads(n_threads)
            with pytest.warns(ConvergenceWarning):
                found.append(pr.FactoredPlackettLuce(4, method="point", max_iter=8).fit(rankings))
    finally:
        numba.set_num_threads(before)
    np.testing.assert_array_equal(found[0].item_draws_, found[1].item_draws_)
    np.testing.assert_array_equal(found[0].user_modes_, found[1].user_modes_)


def test_the_angle_to_the_planted_factors_falls_with_the_data():
    angles = []
    for n_users in (60, 400, 3_000):
        rankings, truth = planted(n_users, seed=5, list_length=20)
        model = pr.FactoredPlackettLuce(2, method="point", user_penalty=0.5, item_penalty=0.1).fit(rankings)
        # A score is known up to a constant for each user: factors, up to a constant for each factor.
        found, wanted = (x - x.mean(axis=0) for x in (model.item_draws_[0, :, :-1], truth.item_factors))
        angles.append(np.degrees(subspace_angles(found, wanted).max()))
    assert angles[0] > angles[1] > angles[2]
    assert angles[2] < 12  # two random planes among 40 items are some 80 degrees apart


def damped_lists(n_users, length, damping, seed):
    """Lists drawn stage by stage from planted factors."""
    rng = np.random.default_rng(seed)
    users, items, lists = rng.normal(size=(n_users, 2)), 1.5 * rng.normal(size=(30, 3)), {}
    for user in range(n_users):
        left, order = rng.permutation(30)[:length].tolist(), []
        scores = items[:, :2] @ users[user] + items[:, 2]
        for i in range(length):
            keys = damping[i] * scores[left] + rng.gumbel(size=len(left))
            order.append(left.pop(int(np.argmax(keys))))
        lists[user] = order
    return pr.Rankings.from_lists(lists)


def test_a_planted_damping_is_learnt():
    planted_damping = np.array([1.0, 0.9, 0.6, 0.5, 0.45, 0.3, 0.3, 0.3, *[0.2] * 12])
    rankings = damped_lists(2_000, 20, planted_damping, seed=3)
    model = pr.FactoredPlackettLuce(
        2, method="point", damping="learned", user_penalty=0.1, item_penalty=0.02, n_starts=1
    )
    model.fit(rankings)
    assert (np.diff(model.history_) >= 0).all()
    assert model.damping_[0] == 1.0
    assert (np.diff(model.damping_) <= 0).all()
    # It begins 0.25 off on average.
    begin, far = (np.abs(d - planted_damping) for d in (learnt_damping(first_slopes(20)), model.damping_))
    assert far.max() < 0.2
    assert far.mean() < 0.4 * begin.mean()
    # The same data without damping in the model explain less.
    plain = pr.FactoredPlackettLuce(2, method="point", user_penalty=0.1, item_penalty=0.02, n_starts=1).fit(rankings)
    assert plain.history_[-1] < model.history_[-1] - 50


def test_slopes_make_a_sequence_that_begins_with_one_and_falls():
    for n in (3, 4, 40):
        damping = learnt_damping(first_slopes(n))
        assert damping.size == n
        np.testing.assert_allclose(damping[:-1], 1 / np.sqrt(np.log2(1.0 + np.arange(1, n))), rtol=1e-12)
        assert damping[-1] == damping[-2]
    wild = learnt_damping(np.array([-50.0, 5.0, -3.0]))
    assert (wild > 0).all()
    assert (np.diff(wild) <= 0).all()


def test_lists_of_two_have_nothing_to_damp():
    rankings = pr.Rankings.from_lists({u: ["a", "b"] if u % 3 else ["b", "a"] for u in range(9)})
    learnt = pr.FactoredPlackettLuce(1, method="point", damping="learned").fit(rankings)
    plain = pr.FactoredPlackettLuce(1, method="point").fit(rankings)
    np.testing.assert_array_equal(learnt.item_draws_, plain.item_draws_)


@pytest.fixture(scope="module")
def damped():
    rankings = damped_lists(200, 7, damping_sequence("log", 7), seed=2)
    return pr.FactoredPlackettLuce(1, method="point", damping="log", user_penalty=0.5, item_penalty=0.1).fit(rankings)


def log_probability(scores, damping):
    """log P of the order 0, 1, 2, ... term by term; scores: (..., n)."""
    n = scores.shape[-1]
    parts = [damping[i] * scores[..., i] - np.logaddexp.reduce(damping[i] * scores[..., i:], -1) for i in range(n - 1)]
    return np.sum(parts, axis=0)


def test_the_integrated_likelihood_under_damping_is_that_of_a_one_dimensional_integral(damped):
    rankings = damped_lists(4, 9, damping_sequence("log", 9), seed=3)  # longer lists than those learnt from
    values, errors = damped.log_likelihood_with_error(rankings, size=2_000)
    theta, grid = damped.item_draws_[0].astype(float), np.linspace(-8, 8, 4_001)
    for r in range(4):
        own = theta[damped.item_ids.indices(rankings.lists()[r])]
        logs = log_probability(own[:, 1] + grid[:, None] * own[:, 0], damping_sequence("log", 9))
        density = np.exp(-0.5 * grid**2) / np.sqrt(2 * np.pi)  # alpha = 1/2 is a standard normal prior
        assert abs(values[r] - np.log(np.trapezoid(np.exp(logs) * density, grid))) < max(5 * errors[r], 1e-6)
        assert errors[r] < 0.05


def test_places_under_damping_are_those_of_the_lists_with_the_item_put_in(damped):
    user = 5
    listed = damped.rankings_.lists(user)[0]
    item = next(i for i in damped.item_ids if i not in listed)
    found = damped.position_probabilities(user, item)
    scores = damped._score_draws(damped.fitted_, damped.person(user), damped.item_ids.indices([*listed, item]))
    orders = [np.insert(np.arange(7), j, 7) for j in range(8)]
    worths = np.exp([[log_probability(row[order], damping_sequence("log", 8)) for order in orders] for row in scores])
    np.testing.assert_allclose(found, np.mean(worths / worths.sum(axis=1, keepdims=True), axis=0), rtol=1e-9)


def test_samples_under_damping_follow_its_law_and_not_that_without(damped):
    items = list(damped.item_ids)[:4]
    scores = damped._score_draws(damped.fitted_, damped.person(3), damped.item_ids.indices(items)) * 1.0
    rows = damped.sample(3, items, size=20_000, seed=4)
    orders = list(itertools.permutations(range(4)))
    place = {tuple(items[i] for i in order): n for n, order in enumerate(orders)}
    counts = np.bincount([place[tuple(row)] for row in rows.tolist()], minlength=24)
    for damping, low, high in ((damping_sequence("log", 4), 1e-4, 1.0), (np.ones(4), 0.0, 1e-6)):
        law = np.mean(
            [[np.exp(log_probability(row[list(order)], damping)) for order in orders] for row in scores], axis=0
        )
        np.testing.assert_allclose(law.sum(), 1, rtol=1e-12)
        assert low <= chisquare(counts, law * counts.sum()).pvalue <= high
    first = [(rows[:, 0] == item).mean() for item in items]
    np.testing.assert_allclose(damped.top_probability(3, items), first, atol=0.02)


@pytest.mark.parametrize("damping", ["natural_log", [0.7, 0.3, 0.0]])
def test_a_first_factor_other_than_one_counts_in_every_answer(damping):
    rankings = damped_lists(200, 7, damping_sequence("log", 7), seed=2)
    model = pr.FactoredPlackettLuce(1, method="point", damping=damping, user_penalty=0.5, item_penalty=0.1)
    model.fit(rankings)
    items, factors = list(model.item_ids)[:4], damping_sequence(damping, 4)
    scores = model._score_draws(model.fitted_, model.person(3), model.item_ids.indices(items))
    worths = np.exp(factors[0] * scores)
    first = np.mean(worths / worths.sum(axis=1, keepdims=True), axis=0)
    np.testing.assert_allclose(model.top_probability(3, items), first, rtol=1e-12)
    pair = np.mean(1.0 / (1.0 + np.exp(factors[0] * (scores[:, 1] - scores[:, 0]))))
    np.testing.assert_allclose(model.prefers(3, items[0], items[1]), pair, rtol=1e-12)
    rows = model.sample(3, items, size=20_000, seed=4)
    np.testing.assert_allclose([(rows[:, 0] == item).mean() for item in items], first, atol=0.02)
    # Lists longer than those learnt from go on by the formula, or with the last of the factors given.
    np.testing.assert_array_equal(model.estimate_.damping_of(9), damping_sequence(damping, 9))


def test_a_new_user_under_damping_is_as_a_known_one(damped):
    for user in (0, 1, 2):
        new = damped.fold_in(damped.rankings_.lists(user)[0])
        # Learning ends when the objective hardly rises, which the scores do to a hundredth of their spread.
        wanted = damped.score(user)
        np.testing.assert_allclose(damped.score(new), wanted, rtol=0, atol=0.01 * np.ptp(wanted))
    tied = damped.fold_in([{1, 2}, 3])
    np.testing.assert_array_equal(damped.score(tied), damped.score(damped.fold_in([{2, 1}, 3])))
    with pytest.raises(InputError, match="strict orders only, and these rankings have ties"):
        damped.log_likelihood(tied.rankings)
    with pytest.raises(InputError, match="strict order only, and the user's list has ties"):
        damped.position_probabilities(tied, 9)


def test_ties_under_damping_are_shuffled_or_refused():
    rankings = planted(60, ties=4, list_length=8).rankings
    with pytest.raises(InputError, match="these rankings have ties: set ties='shuffle'"):
        pr.FactoredPlackettLuce(2, method="point", damping="log").fit(rankings)
    model = pr.FactoredPlackettLuce(2, method="point", damping="log", ties="shuffle", max_iter=20).fit(rankings)
    assert np.mean(model.history_[-5:]) > model.history_[0]


@pytest.mark.parametrize("ties", ["shuffle", "breslow"])
def test_shuffled_ties_are_learnt_from(ties):
    rankings, truth = planted(300, ties=4, seed=8)
    model = pr.FactoredPlackettLuce(2, method="point", ties=ties, max_iter=40, tol=1e-4).fit(rankings)
    alike = [np.corrcoef(model.score(rankings.user_ids[u]), truth.scores(u)[0])[0, 1] for u in range(50)]
    assert np.mean(alike) > 0.7


@pytest.mark.parametrize(
    ("damping", "message"),
    [
        ("linear", "damping='linear', expected one of 'none', 'log', 'natural_log', 'learned'"),
        ([1.0, 0.5, 0.6], "damping rises from 0.5 at stage 2 to 0.6"),
        ([0.0, 0.0], "damping begins with 0, expected a number above 0"),
        ([1.0, -0.1], "damping of stage 2 is -0.1, expected a finite number from 0"),
        ([1.0, float("nan")], "damping of stage 2 is nan"),
        ([], "damping has the shape"),
        ([[1.0]], "damping has the shape"),
        (["a"], "expected 'none', 'log', 'natural_log', 'learned' or numbers"),
        (None, "damping=None"),
    ],
)
def test_bad_damping_is_refused_by_fit(damping, message):
    with pytest.raises(InputError, match=message):
        pr.FactoredPlackettLuce(2, method="point", damping=damping).fit(planted(10).rankings)


def test_damping_needs_the_point_estimate_and_models_with_it_are_kept_in_files(tmp_path, damped):
    with pytest.raises(InputError, match="damping='log' is for method='point'"):
        pr.FactoredPlackettLuce(2, damping="log").fit(planted(10).rankings)
    given = pr.FactoredPlackettLuce(1, method="point", damping=np.array([1.0, 0.5]), tol=0.1)
    assert "damping=array" in repr(given)
    given.fit(damped.rankings_).save(tmp_path / "m.permrank")
    loaded = pr.load(tmp_path / "m.permrank")
    assert loaded.damping == [1.0, 0.5]
    np.testing.assert_array_equal(loaded.fold_in([1, 2, 3]).state["modes"], given.fold_in([1, 2, 3]).state["modes"])
