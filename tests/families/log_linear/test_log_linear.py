"""Log-linear models: the contract, learners against each other and planted truth, answers by enumeration."""

import itertools

import numpy as np
import pytest

import permrank as pr
from bounded import at_most
from permrank.errors import InputError
from permrank.families.log_linear.kernels import insertion
from permrank.families.log_linear.kernels.subsets import exact_draws
from permrank.families.log_linear.learning import Parameters, Task, learner_of
from permrank.families.log_linear.lists import no_pairs, pairs_of, position_functions, position_table
from permrank.learning.learner import run
from permrank.randomness import stream_key
from permrank.testing import ModelContract
from permrank.testing.learning import LearningContract
from permrank.testing.oracles import log_linear_energy
from threads import by_threads

ASKED = frozenset({"prefers", "top_probability", "position_probabilities", "sample", "log_likelihood"})


class TestPositionwiseContract(ModelContract):
    supports = ASKED

    def make(self, **parameters):
        return pr.PositionwiseLogLinear(**{"n_factors": 2, "max_iter": 20, "n_draws": 4, **parameters})

    def burn_in(self, model):
        return 13  # half of the sweeps if there are pairs to hold out, and a third of the rest


class TestPairwiseContract(LearningContract):
    def make(self, **parameters):
        return pr.PairwiseLogLinear(**{"n_factors": 0, "min_cooccurrence": 1, "pair_scale": 0.5, **parameters})


class TestPairwiseWithFactorsContract(ModelContract):
    supports = ASKED

    def make(self, **parameters):
        settings = {"n_factors": 2, "max_iter": 20, "n_draws": 4, "min_cooccurrence": 2, "method": "persistent"}
        return pr.PairwiseLogLinear(**{**settings, "insertion": "mode", **parameters})

    def burn_in(self, model):
        return 13  # half of the sweeps if there are pairs to hold out, and a third of the rest


def planted_pairs(n_lists, n_items, length, seed):
    """Lists drawn from a pairwise model by its own enumeration, and its λ."""
    rng = np.random.default_rng(seed)
    strength = 0.4 * rng.normal(size=(n_items, n_items))
    strength = np.triu(strength, 1) - np.triu(strength, 1).T
    nothing, basis = np.zeros((n_items, 1)), np.zeros((length, 1))
    lists = []
    for items in itertools.combinations(range(n_items), length):
        orders = list(itertools.permutations(items))
        weights = np.exp([-log_linear_energy(order, nothing, basis, strength) for order in orders])
        drawn = rng.choice(len(orders), size=n_lists, p=weights / weights.sum())
        lists += [list(orders[i]) for i in drawn]
    return pr.Rankings.from_lists(lists, users=range(len(lists))), strength


@pytest.fixture(scope="module")
def planted():
    return planted_pairs(1600, 5, 4, 0)


@pytest.mark.parametrize(
    ("learner", "tolerance"),
    [("exact", 0.03), ("relocation", 0.03), ("swaps", 0.04), ("windows", 0.04), ("persistent", 0.04)],
)
def test_every_learner_finds_planted_pairs_again(planted, learner, tolerance):
    rankings, strength = planted
    # γ g is a sum over pairs too: a narrow prior leaves it to λ.
    model = pr.PairwiseLogLinear(0, method=learner, item_scale=0.01, pair_scale=10.0, window=3).fit(rankings)
    np.testing.assert_allclose(model.pair_values_, strength[np.triu_indices(5, 1)], rtol=0, atol=3 * tolerance)
    assert np.sqrt(np.mean((model.pair_values_ - strength[np.triu_indices(5, 1)]) ** 2)) < tolerance


def test_one_step_of_contrast_is_biased_towards_nothing_and_longer_chains_less(planted):
    rankings, _ = planted
    settings = {"item_scale": 0.01, "pair_scale": 10.0}
    exact = pr.PairwiseLogLinear(0, method="exact", **settings).fit(rankings).log_likelihood(rankings).sum()
    values = [
        pr.PairwiseLogLinear(0, method="contrastive", n_steps=n, **settings)
        .fit(rankings)
        .log_likelihood(rankings)
        .sum()
        for n in (1, 0)
    ]
    assert exact > max(values)
    assert exact - min(values) < 0.02 * rankings.n_rankings


def test_the_exact_learner_is_at_a_stationary_point_and_groups_lists_rightly():
    rng = np.random.default_rng(3)
    lists = [[{*pair} if tied else pair[0], *([] if tied else [pair[1]]), third] for pair, third, tied in [
        ((int(a), int(b)), int(c), bool(rng.random() < 0.3)) for a, b, c in (rng.permutation(4)[:3] for _ in range(60))
    ]]  # fmt: skip
    rankings = pr.Rankings.from_lists(lists, users=range(60))
    pairs, positions = pairs_of(rankings, 1), position_table([3], "centred", 1)
    task = Task(rankings, positions, pairs, 1.0, 4.0, 3, 32, 0, 1e-12, 0)
    grouped = run(learner_of("exact", task, 500), max_iter=500).estimate
    # The same without grouping: given coefficients that are those found, every list is summed by itself.
    given = task._replace(scores=lambda users, items: grouped.items[items])
    single = run(learner_of("exact", given, 500), max_iter=500).estimate
    np.testing.assert_allclose(single.pairs, grouped.pairs, rtol=0, atol=1e-4)
    assert pairs.items.size == 6
    assert no_pairs(4).items.size == 0


@pytest.fixture(scope="module")
def models():
    """A model of each kind over six items with real coefficients, for answers by enumeration."""
    rng = np.random.default_rng(1)
    lists = {f"u{i}": [f"i{int(a)}" for a in rng.permutation(6)[: rng.integers(3, 6)]] for i in range(40)}
    lists["tied"] = ["i0", {"i1", "i2"}, "i3"]
    rankings = pr.Rankings.from_lists(lists)
    fits = {
        "pairwise": pr.PairwiseLogLinear(0, min_cooccurrence=1, pair_scale=1.0, degree=2),
        "with factors": pr.PairwiseLogLinear(2, min_cooccurrence=1, pair_scale=1.0, max_iter=30, n_draws=3),
        "position-wise": pr.PositionwiseLogLinear(2, max_iter=30, n_draws=3),
    }
    return {name: model.fit(rankings) for name, model in fits.items()}


def enumerated(model, user, items):
    """P(order of all items of the question | user), the rest of the list in its order; averaged over the draws."""
    listed = [item for block in model.rankings_.lists(user)[0] for item in [block]]
    rest = [item for item in listed if item not in items]
    codes = model.item_ids.indices([*items, *rest])
    index = model.rankings_.user_index(user)
    row = np.repeat(np.arange(6), np.diff(model.pair_indptr_))
    table = np.zeros((6, 6))
    table[row, model.pair_items_] = model.pair_values_
    table = (table - table.T)[np.ix_(codes, codes)]
    basis = position_functions(codes.size, model.position, model.item_draws_.shape[2] - model.user_modes_.shape[2])
    out = {}
    for draw, modes in zip(model.item_draws_.astype(float), model.user_modes_.astype(float), strict=True):
        k = modes.shape[1]
        unary = draw[codes, k:].copy()
        unary[:, 0] += model.personal_weight_ * draw[codes, :k] @ modes[index]
        orders = [
            order
            for order in itertools.permutations(range(codes.size))
            if [a for a in order if a >= len(items)] == list(range(len(items), codes.size))
        ]
        weights = np.exp([-log_linear_energy(order, unary, basis, table) for order in orders])
        for order, weight in zip(orders, weights / weights.sum(), strict=True):
            out[order] = out.get(order, 0.0) + weight / len(model.item_draws_)
    return out


@pytest.mark.parametrize("name", ["pairwise", "with factors", "position-wise"])
def test_answers_follow_from_the_model_by_enumeration(models, name):
    model, user = models[name], "u3"
    listed = model.rankings_.lists(user)[0]
    new = next(item for item in model.item_ids if item not in listed)
    items = [new, listed[1], listed[-1]]
    orders = enumerated(model, user, items)
    for k in (1, 2):
        wanted = [sum(p for o, p in orders.items() if a in [x for x in o if x < 3][:k]) for a in range(3)]
        np.testing.assert_allclose(model.top_probability(user, items, k), wanted, rtol=1e-9)
    pair = enumerated(model, user, items[:2])
    wanted = sum(p for o, p in pair.items() if o.index(0) < o.index(1))
    np.testing.assert_allclose(model.prefers(user, *items[:2]), wanted, rtol=1e-9)
    places = enumerated(model, user, [new])
    wanted = [sum(p for o, p in places.items() if o.index(0) == j) for j in range(len(listed) + 1)]
    np.testing.assert_allclose(model.position_probabilities(user, new), wanted, rtol=1e-9)
    drawn = model.sample(user, items, size=20_000, seed=1)
    np.testing.assert_allclose(
        np.mean(drawn[:, 0] == items[0]), model.top_probability(user, items, 1)[0], rtol=0, atol=0.02
    )


def test_expected_place_and_mode_are_those_of_the_probabilities(models):
    model, user = models["pairwise"], "u3"
    listed = model.rankings_.lists(user)[0]
    new = next(item for item in model.item_ids if item not in listed)
    places = model.position_probabilities(user, new)
    n = len(listed)
    np.testing.assert_allclose(model.score(user, [new]), [places @ np.arange(n, -1, -1) / n], rtol=1e-9)
    by_mode = model.clone().set_params(insertion="mode").fit(model.rankings_)
    score = by_mode.score(user, [new])[0] * (n + 1)
    assert 0 <= score - (n - places.argmax()) <= 1


@pytest.mark.parametrize("n", [2, 5, 6])
def test_surer_is_better_down_to_the_middle_and_worse_below_it(n):
    for best in range(n):
        likelier, less = np.full((2, n), 0.2)
        likelier[best], less[best] = 0.9, 0.4
        above, below = (insertion._position_score(p, n, insertion.MODE) for p in (likelier, less))
        assert (above > below) == (best <= (n - 1) / 2)
        # Either way it stays between the scores of the places beside.
        assert (n - 1 - best) / n <= min(above, below) <= max(above, below) <= (n - best) / n
        published = [insertion._position_score(p, n, insertion.PUBLISHED) for p in (likelier, less)]
        np.testing.assert_allclose(published, [(n - 1 - best + p) / n for p in (0.9, 0.4)])


def test_likelihoods_add_up_to_one_and_ties_sum_over_their_orders(models):
    items = ["i0", "i1", "i2", "i3"]
    orders = [list(order) for order in itertools.permutations(items)]
    model = models["pairwise"]
    values, errors = model.log_likelihood_with_error(pr.Rankings.from_lists(orders, users=range(24)))
    np.testing.assert_allclose(np.exp(values).sum(), 1, rtol=1e-10)
    assert (errors == 0).all()
    tied = pr.Rankings.from_lists([["i2", {"i0", "i3"}, "i1"]], users=[0])
    both = pr.Rankings.from_lists([["i2", "i0", "i3", "i1"], ["i2", "i3", "i0", "i1"]], users=[0, 1])
    np.testing.assert_allclose(
        model.log_likelihood(tied)[0], np.logaddexp.reduce(model.log_likelihood(both)), rtol=1e-10
    )


@pytest.mark.parametrize("name", ["with factors", "position-wise"])
def test_the_integrated_likelihood_adds_up_to_one_within_its_error(models, name):
    orders = [list(order) for order in itertools.permutations(["i0", "i1", "i2", "i3"])]
    values, errors = models[name].log_likelihood_with_error(pr.Rankings.from_lists(orders, users=range(24)))
    probability, spread = np.exp(values), np.exp(values) * errors
    assert models[name].pair_scale_ == (name == "with factors")
    assert abs(probability.sum() - 1) < 4 * np.sqrt(np.sum(spread**2)) + 0.02
    assert np.median(errors) < 0.2


def test_the_integrated_likelihood_of_two_items_is_that_of_quadrature(models):
    model, (nodes, shares) = models["position-wise"], np.polynomial.hermite_e.hermegauss(80)
    pairs = list(itertools.permutations(model.item_ids, 2))
    values, errors = model.log_likelihood_with_error(pr.Rankings.from_lists(pairs, users=range(len(pairs))))
    theta, wanted = model.item_draws_.astype(float), []
    for pair in pairs:
        apart = theta[:, model.item_ids.indices(pair)]
        apart = apart[:, 0] - apart[:, 1]
        spread = model.personal_weight_ * np.linalg.norm(apart[:, :-1], axis=1)
        wanted.append(
            np.log(np.mean(1 / (1 + np.exp(-apart[:, -1:] - spread[:, None] * nodes)) @ shares / shares.sum()))
        )
    assert np.abs((values - wanted) / errors).mean() < 1.4
    assert np.abs(values - wanted).max() < 0.6


def test_a_new_user_who_says_what_a_known_one_said_is_answered_alike(models):
    for model in models.values():
        said = model.rankings_.lists("u3")[0]
        new = model.fold_in(said)
        np.testing.assert_allclose(model.score(new), model.score("u3"), rtol=0, atol=2e-3)


def test_many_items_are_drawn_by_chains_that_agree_with_the_exact_draws(models, monkeypatch):
    model = models["pairwise"]
    items = ["i0", "i3", "i4", "i5"]
    exact = model.top_probability("u3", items, 2)
    monkeypatch.setattr("permrank.families.log_linear.law._MOST_STATES", 0)
    np.testing.assert_allclose(model.top_probability("u3", items, 2), exact, rtol=0, atol=0.04)
    np.testing.assert_allclose(model.prefers("u3", "i0", "i3"), 1 - model.prefers("u3", "i3", "i0"), atol=0.03)


@pytest.fixture(scope="module")
def planted_factors():
    """Lists of six by people with one strong factor, drawn exactly, and their true scores."""
    rng = np.random.default_rng(2)
    items, users = rng.normal(size=6), 3.0 * rng.normal(size=200)
    items = (items - items.mean()) / items.std()  # six random items may happen to be much alike
    scores = users[:, None] * items + 0.5 * rng.normal(size=6)
    basis, nothing = position_functions(6, "centred", 1), (np.empty((0, 1)), np.zeros((6, 6)), np.empty((6, 0)))
    lists = [
        exact_draws(row[:, None].copy(), nothing[0], basis, *nothing[1:], stream_key(2, u), 1)[0].tolist()
        for u, row in enumerate(scores)
    ]
    return pr.Rankings.from_lists(lists, users=range(200)), scores


@pytest.mark.parametrize(
    "learner", ["posterior", "exact", "relocation", "swaps", "windows", "contrastive", "persistent"]
)
def test_every_learner_finds_planted_factors_again(planted_factors, learner):
    rankings, scores = planted_factors
    model = pr.PositionwiseLogLinear(1, method=learner, factor_scale=3.0, max_iter=150).fit(rankings)
    found = np.stack([model.score(user) for user in range(200)])
    found, wanted = found - found.mean(axis=1, keepdims=True), scores - scores.mean(axis=1, keepdims=True)
    assert np.corrcoef(found.ravel(), wanted.ravel())[0, 1] > 0.65
    shuffled = np.random.default_rng(0).permutation(200)
    assert np.corrcoef(found[shuffled].ravel(), wanted.ravel())[0, 1] < 0.3


def test_factors_count_for_less_where_people_do_not_differ():
    rng, weights = np.random.default_rng(0), {}
    common, tastes = rng.normal(size=20), np.outer(rng.normal(size=600), rng.permutation(np.linspace(-1.5, 1.5, 20)))
    for strength in (0.0, 2.0):
        scores = common + strength * tastes + rng.gumbel(size=tastes.shape)
        shown = [rng.permutation(20)[:8] for _ in range(600)]
        lists = [items[np.argsort(-row[items])].tolist() for items, row in zip(shown, scores, strict=True)]
        model = pr.PositionwiseLogLinear(2, factor_scale=2.0, max_iter=120)
        weights[strength] = model.fit(pr.Rankings.from_lists(lists, users=range(600))).personal_weight_
    # Over seeds the two are about .33 and 1.08, with deviations of a third and an eighth of that.
    assert weights[0.0] < 0.9 * weights[2.0]
    assert 0.6 < weights[2.0] < 2.0


def test_gradients_of_parameters_are_those_of_differences():
    rng = np.random.default_rng(0)
    shape = Parameters(np.zeros((3, 1)), np.zeros((3, 2)), np.zeros((4, 2)), np.zeros(0))
    point, slope = rng.normal(size=3 + 6 + 8), rng.normal(size=5)
    items, users = np.array([0, 2, 1, 2, 0]), np.array([3, 0, 0, 1, 2])
    found = shape.split(point).gradient(slope[:, None], np.zeros(0), items, users)
    for place in range(point.size):
        step = np.zeros_like(point)
        step[place] = 1e-5
        up, down = (slope @ shape.split(point + sign * step).coefficients(items, users)[:, 0] for sign in (1, -1))
        np.testing.assert_allclose(found[place], (up - down) / 2e-5, rtol=1e-6, atol=1e-9)


def test_bad_parameters_are_refused_with_their_names(models):
    rankings = models["pairwise"].rankings_
    bad = [
        ({"method": "magic"}, "method='magic'"),
        ({"position": "steep"}, "position='steep'"),
        ({"position": [0.0, 1.0]}, "numbers that decrease"),
        ({"position": [0.5]}, "two or more numbers"),
        ({"window": 30}, "window=30"),
        ({"item_scale": 0}, "item_scale=0"),
        ({"factor_scale": -1}, "factor_scale=-1"),
        ({"max_iter": 0}, "max_iter=0"),
        ({"move": "leap"}, "move='leap', expected one of 'relocation', 'swap', 'sublist'"),
        ({"factor_scale": None}, "factor_scale=None"),
    ]
    for parameters, message in bad:
        for kind in (pr.PositionwiseLogLinear, pr.PairwiseLogLinear):
            with pytest.raises(InputError, match=message.replace("[", r"\[")):
                kind(**parameters).fit(rankings)
    with pytest.raises(InputError, match="cooccurrence_above=-1, expected a finite number from 0"):
        pr.PairwiseLogLinear(cooccurrence_above=-1).fit(rankings)
    with pytest.raises(InputError, match="intercepts='no', expected True or False"):
        pr.PositionwiseLogLinear(intercepts="no").fit(rankings)
    with pytest.raises(InputError, match="leaves nothing to learn"):
        pr.PositionwiseLogLinear(0, intercepts=False).fit(rankings)
    with pytest.raises(InputError, match="degree=2 with n_factors=16"):
        pr.PairwiseLogLinear(degree=2).fit(rankings)
    long = pr.Rankings.from_lists({"u": list(range(20))})
    with pytest.raises(InputError, match="the longest has 20; take another method"):
        pr.PairwiseLogLinear(0, method="exact").fit(long)


def test_a_given_position_function_is_interpolated_and_kept_in_the_file(models, tmp_path):
    model = pr.PositionwiseLogLinear(0, position=[1.0, 0.2, 0.0]).fit(models["pairwise"].rankings_)
    model.save(tmp_path / "m.permrank")
    loaded = pr.load(tmp_path / "m.permrank")
    assert loaded.position == [1.0, 0.2, 0.0]
    np.testing.assert_allclose(loaded.estimate_.basis(2, loaded.position)[:, 0], [0.6, 0.1])
    np.testing.assert_array_equal(loaded.score("u3"), model.score("u3"))


@pytest.mark.parametrize("learner", ["swaps", "exact", "contrastive", "persistent", "posterior"])
def test_without_intercepts_all_items_are_alike_to_somebody_unknown(models, learner, tmp_path):
    rankings, without = models["pairwise"].rankings_, {"intercepts": False, "item_scale": None, "n_draws": 2}
    model = pr.PositionwiseLogLinear(2, method=learner, max_iter=6, move="relocation", **without)
    model.fit(rankings, callback=lambda progress: progress.iteration == 6)
    # A posterior holds them at 0 by a prior of a millionth.
    np.testing.assert_allclose(model.item_draws_[:, :, -1], 0.0, rtol=0, atol=1e-4 if learner == "posterior" else 0.0)
    model.save(tmp_path / "m.permrank")
    loaded = pr.load(tmp_path / "m.permrank")
    assert (loaded.intercepts, loaded.item_scale, loaded.move) == (False, None, "relocation")
    np.testing.assert_array_equal(loaded.score("u3"), model.score("u3"))


@pytest.mark.parametrize("move", ["relocation", "swap", "sublist", "insertion"])
def test_a_move_is_chosen_where_all_items_may_move_and_refused_elsewhere(models, move):
    model, items = models["pairwise"], ["i3", "i0", "i2"]
    rows = model.sample(None, items, size=20, seed=1, move=move)
    assert all(sorted(row) == sorted(items) for row in rows.tolist())
    np.testing.assert_array_equal(rows, model.sample(None, items, size=20, seed=1, move=move))
    assert len({tuple(row) for row in rows.tolist()}) > 1
    orders, energies, names = model.chains("tied", ["i0", "i1", "i2", "i3"], 2, 5, move=move)
    assert (orders.shape, energies.shape, len(names)) == ((2, 5, 4), (2, 5), 4)
    with pytest.raises(InputError, match=f"move='{move}' moves every item, and 2 that the user has listed"):
        model.sample("tied", ["i1", "i3"], move=move)
    with pytest.raises(InputError, match="move='leap', expected one of"):
        model.sample(None, items, move="leap")


def test_pairs_above_a_threshold_count_lists_by_their_weights():
    lists = pr.Rankings.from_lists([["a", "b"], ["b", "c"]], weights=[2.0, 2.5])
    for threshold, wanted in ((1.9, 2), (2, 1), (2.4, 1), (2.5, 0)):
        model = pr.PairwiseLogLinear(0, cooccurrence_above=threshold, pair_scale=None, item_scale=1.0).fit(lists)
        assert model.pair_items_.size == wanted
        assert model.pair_scale_ == 0.0


def test_chains_are_diagnosed(models):
    pytest.importorskip("arviz_stats")
    frame = models["pairwise"].diagnose("u3", n_chains=4, size=300)
    assert frame["quantity"].to_list() == ["energy", *models["pairwise"].item_ids]
    assert frame["r_hat"].max() < 1.05
    assert frame["ess_bulk"].min() > 300
    with pytest.raises(InputError, match="give two or more"):
        models["pairwise"].diagnose("u3", ["i0"])


@pytest.mark.realdata
def test_learners_of_the_pairwise_model_come_near_the_exact_one_on_sushi(data_folder, monkeypatch, tmp_path):
    monkeypatch.setenv("PERMRANK_CACHE", str(tmp_path))
    rankings = pr.datasets.load("sushi-10")
    people = list(rankings.user_ids)
    train, test = rankings.select(users=people[1000:]), rankings.select(users=people[:1000])
    nats = {}
    for learner in ("exact", "relocation", "persistent"):
        model = pr.PairwiseLogLinear(0, method=learner, item_scale=10.0, pair_scale=10.0, max_iter=100).fit(train)
        nats[learner] = -model.log_likelihood(test).mean()
    pooled = -pr.PlackettLuce().fit(train).log_likelihood(test).mean()
    assert nats["exact"] < pooled - 0.3
    assert nats["relocation"] < nats["exact"] + 0.05
    assert nats["persistent"] < nats["exact"] + 0.05


@pytest.mark.parametrize("model", [pr.PositionwiseLogLinear(2, max_iter=6), pr.PairwiseLogLinear(0, tol=1e-3)])
def test_the_number_of_threads_changes_no_bit(model):
    rng = np.random.default_rng(3)
    lengths = [3, 90, 40, 70, 12, 100] * 3  # some are longer than what is swapped or relocated of a list
    rankings = pr.Rankings.from_lists([rng.permutation(100)[:n].tolist() for n in lengths], users=range(len(lengths)))
    one, all_of_them = by_threads(lambda: model.clone().fit(rankings, verbose=False).estimate_.tensors())
    for name, value in one.items():
        np.testing.assert_array_equal(value, all_of_them[name])
    assert one["pair_values_"].any() or model.n_factors


@pytest.fixture(scope="module")
def endless():
    """Somebody with a list of 20,000 items."""
    rng = np.random.default_rng(8)
    lists = {"all": rng.permutation(20_000).tolist()} | {f"u{u}": rng.permutation(9).tolist() for u in range(20)}
    return pr.Rankings.from_lists(lists)


def test_a_list_of_twenty_thousand_items_takes_memory_in_proportion(endless):
    model = pr.PositionwiseLogLinear(1, max_iter=2, n_draws=2).fit(endless)
    model.prefers("u0", 3, 4)  # compiled
    with at_most(2**30):  # a table of all pairs has 3.2 GB
        assert 0.0 < model.prefers("all", 3, 4) < 1.0
        law = model.distribution("all", [3, 4])
        orders = np.exp([law.log_probability([0, 1]), law.log_probability([1, 0])])
    np.testing.assert_allclose([*orders, orders.sum()], [*(law.prefers(a, 1 - a) for a in (0, 1)), 1.0], rtol=1e-9)


def test_tables_of_pairs_that_do_not_fit_are_refused_with_their_size(endless, monkeypatch):
    short = endless.select(users=[f"u{u}" for u in range(20)])
    model = pr.PairwiseLogLinear(0, min_cooccurrence=15, pair_scale=0.1, tol=0.1).fit(short)
    new = model.fold_in(endless.lists("all")[0])
    monkeypatch.setattr("permrank.checks.free_bytes", lambda: 2**33)
    with pytest.raises(InputError, match=r"pairs of 20,000 items, .* take 8.9 GiB, .*; ask about fewer items"):
        model.prefers(new, 3, 4)
    with pytest.raises(InputError, match=r"method='swaps' has tables .* take method='relocation'"):
        pr.PairwiseLogLinear(0, method="swaps").fit(endless)
