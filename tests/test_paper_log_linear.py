"""The paper, equation by equation, §4: public answers against its formulas, transcribed literally.

See `test_paper.py`.
"""

import itertools
import math

import numpy as np
import pytest

import permrank as pr
from laws import p_value
from leaning import ITEMS, leaning_lists, stopped_after
from permrank.families.log_linear.kernels.moves import acceptance


def orders_of(weights):
    """Orders and their probabilities from a function of an order to log e^{-E}, given as a dict."""
    total = math.fsum(math.exp(value) for value in weights.values())
    return {order: math.exp(value) / total for order, value in weights.items()}


def centred(i, n):
    return (1 + n - 2 * i) / n


def linear(i, n):
    return 1 - i / n


def energy(order, unary, pair, g):
    """E(π, u) = Σ_i E(π_i, u) + Σ_{i<j} E(π_i, π_j) with E(π_i, u) = -γ g(i) and E(π_i, π_j) = -λ (eq. 5)."""
    n = len(order)
    single = math.fsum(-unary[order[i - 1]] * g(i, n) for i in range(1, n + 1))
    return single + math.fsum(-pair.get((order[i], order[j]), 0.0) for i in range(n) for j in range(i + 1, n))


def distribution(items, unary, pair, g):
    return orders_of({order: -energy(order, unary, pair, g) for order in itertools.permutations(items)})


def scores(model):
    """γ by items."""
    return dict(zip(model.item_ids, model.item_draws_[0, :, -1].tolist(), strict=True))


def potentials(model):
    """γ and λ by items: λ_yy' of each order of a pair."""
    unary, pair = scores(model), {}
    for a, item in enumerate(model.item_ids):
        for j in range(model.pair_indptr_[a], model.pair_indptr_[a + 1]):
            other, value = model.item_ids[int(model.pair_items_[j])], float(model.pair_values_[j])
            pair[item, other], pair[other, item] = value, -value
    return unary, pair


PAIRWISE = {"position": "linear", "item_scale": None, "pair_scale": None, "cooccurrence_above": 0, "tol": 1e-11}


@pytest.fixture(scope="module")
def pairwise():
    """The pairwise model by exact maximum likelihood, without any prior."""
    rankings = pr.Rankings.from_lists(leaning_lists(60, [3, 4, 2], seed=2, n_items=5))
    return pr.PairwiseLogLinear(0, method="exact", insertion="published", window=3, **PAIRWISE).fit(rankings)


@pytest.fixture(scope="module")
def positionwise():
    """The position-wise model without intercepts and prior, broken off before it fits twelve people perfectly."""
    rankings = pr.Rankings.from_lists(leaning_lists(12, [4, 3, 5], seed=3))
    published = {"intercepts": False, "factor_scale": None, "item_scale": None}
    model = pr.PositionwiseLogLinear(2, method="exact", window=3, **published)
    return model.fit(rankings, callback=stopped_after(4))


def personal(model, user):
    """s_y^u = Σ_k W_uk H_ky by items."""
    W, H = model.user_modes_[0, model.user_ids.index(user)].astype(float), model.item_draws_[0, :, :-1].astype(float).T
    return dict(zip(model.item_ids, (W @ H).tolist(), strict=True))


def test_section_4_equation_5_energies_and_the_normaliser(pairwise):
    law = distribution(["a", "b", "c", "e"], *potentials(pairwise), linear)
    found = pairwise.log_likelihood(pr.Rankings.from_lists([list(order) for order in law]))
    np.testing.assert_allclose(np.exp(found), list(law.values()), rtol=1e-9)
    np.testing.assert_allclose(np.exp(found).sum(), 1.0, rtol=1e-9)


def test_section_4_exact_maximum_likelihood_matches_the_moments(pairwise):
    lists, (unary, pair) = pairwise.rankings_.lists(), potentials(pairwise)
    for item in pairwise.item_ids:
        said = expected = 0.0
        for listed in lists:
            if item in listed:
                said += linear(listed.index(item) + 1, len(listed))
                law = distribution(listed, unary, pair, linear)
                expected += sum(p * linear(order.index(item) + 1, len(listed)) for order, p in law.items())
        np.testing.assert_allclose(said, expected, rtol=0, atol=0.01)
    for first, second in itertools.combinations(pairwise.item_ids, 2):
        said = expected = 0.0
        for listed in lists:
            if first in listed and second in listed:
                said += listed.index(first) < listed.index(second)
                law = distribution(listed, unary, pair, linear)
                expected += sum(p for order, p in law.items() if order.index(first) < order.index(second))
        np.testing.assert_allclose(said, expected, rtol=0, atol=0.02)


@pytest.mark.parametrize("move", ["relocation", "swap", "sublist"])
def test_section_4_1_moves(pairwise, positionwise, move):
    four = ["a", "b", "c", "d"]
    user = next(u for u in positionwise.user_ids if len(positionwise.rankings_.lists(u)[0]) == 4)
    own = positionwise.rankings_.lists(user)[0]
    laws = {
        (pairwise, None): distribution(four, *potentials(pairwise), linear),
        (positionwise, user): distribution(own, personal(positionwise, user), {}, centred),
    }
    for (model, who), law in laws.items():
        drawn = model.sample(who, list(next(iter(law))), size=6_000, seed=5, move=move)
        assert p_value(drawn, law) > 1e-4


def test_section_4_1_equation_6_acceptance():
    for change in (-3.0, 0.0, 0.2, 7.0):
        np.testing.assert_allclose(acceptance(change), min(1.0, math.exp(-change)), rtol=1e-15)


@pytest.mark.parametrize("move", ["swap", "relocation", "sublist"])
def test_section_4_2_contrastive_divergence_stands_still_at_the_law_of_the_data(move):
    unary, pair = {"a": 0.5, "b": 0.0, "c": -0.4}, {("a", "b"): 0.3, ("b", "c"): 0.2, ("c", "a"): 0.5}
    planted = distribution(["a", "b", "c"], unary, pair, linear)
    lists = [list(order) for order, p in planted.items() for _ in range(round(900 * p))]
    settings = {**PAIRWISE, "tol": 1e-7, "window": 3}
    model = pr.PairwiseLogLinear(0, method="contrastive", move=move, n_steps=0, max_iter=100, **settings)
    model.fit(pr.Rankings.from_lists(lists, users=range(len(lists))))
    found = distribution(["a", "b", "c"], *potentials(model), linear)
    np.testing.assert_allclose(list(found.values()), list(planted.values()), rtol=0, atol=0.03)


def log_share(energies, own):
    """log of e^{-E} over the sum of all of them."""
    return -energies[own] - math.log(math.fsum(math.exp(-e) for e in energies))


def relocation_pseudo(listed, unary, pair, g):
    total = 0.0
    for i, item in enumerate(listed):
        others = [*listed[:i], *listed[i + 1 :]]
        places = [[*others[:j], item, *others[j:]] for j in range(len(listed))]
        total += log_share([energy(each, unary, pair, g) for each in places], i)
    return total


def swap_pseudo(listed, unary, pair, g):
    total, here = 0.0, energy(listed, unary, pair, g)
    for i, j in itertools.combinations(range(len(listed)), 2):
        swapped = list(listed)
        swapped[i], swapped[j] = swapped[j], swapped[i]
        total -= math.log(1 + math.exp(-(energy(swapped, unary, pair, g) - here)))
    return total


def sublist_pseudo(listed, unary, pair, g, width=3):
    """Over the permutations of one and the same sublist; i and j are mixed up in the paper."""
    total, width = 0.0, min(width, len(listed))
    for i in range(len(listed) + 1 - width):
        inside = list(itertools.permutations(listed[i : i + width]))
        every = [[*listed[:i], *part, *listed[i + width :]] for part in inside]
        total += log_share([energy(each, unary, pair, g) for each in every], 0)
    return total


PSEUDO = {"relocation": relocation_pseudo, "swaps": swap_pseudo, "windows": sublist_pseudo}


@pytest.mark.parametrize("learner", PSEUDO)
def test_section_4_3_pseudo_likelihoods(learner, pairwise, positionwise):
    settings = {**PAIRWISE, "window": 3, "max_iter": 1_000}
    model = pr.PairwiseLogLinear(0, method=learner, **settings).fit(pairwise.rankings_)
    unary, pair = potentials(model)
    lists = model.rankings_.lists()

    def published(unary, pair):
        return math.fsum(PSEUDO[learner](listed, unary, pair, linear) for listed in lists)

    np.testing.assert_allclose(model.history_[-1], published(unary, pair), rtol=1e-9)
    for item in model.item_ids:  # and at its top
        up, down = ({**unary, item: unary[item] + sign * 1e-3} for sign in (1, -1))
        assert abs(published(up, pair) - published(down, pair)) / 2e-3 < 0.02
    key = ("a", "b")
    up, down = ({**pair, key: pair[key] + sign * 1e-3} for sign in (1, -1))
    assert abs(published(unary, up) - published(unary, down)) / 2e-3 < 0.02
    other = pr.PositionwiseLogLinear(2, method=learner, intercepts=False, factor_scale=None, item_scale=None, window=3)
    other.fit(positionwise.rankings_, callback=stopped_after(4))
    total = math.fsum(
        PSEUDO[learner](other.rankings_.lists(user)[0], personal(other, user), {}, centred) for user in other.user_ids
    )
    np.testing.assert_allclose(other.history_[-1], total, rtol=1e-5)


@pytest.mark.parametrize("model", [pr.PairwiseLogLinear, pr.PositionwiseLogLinear])
def test_section_4_3_all_relocations_of_a_long_list_are_the_published_sum(model):
    rng, items = np.random.default_rng(7), [f"i{k:02}" for k in range(34)]
    rankings = pr.Rankings.from_lists([[items[k] for k in rng.permutation(34)] for _ in range(2)])
    none = {"position": "linear", "item_scale": None}  # no prior
    paired = {"pair_scale": None, "cooccurrence_above": 0} if model is pr.PairwiseLogLinear else {}
    for n in ("all", 32):
        fitted = model(0, method="relocation", n_relocations=n, **none, **paired)
        fitted.fit(rankings, callback=stopped_after(3))
        unary, pair = potentials(fitted) if paired else (scores(fitted), {})
        published = math.fsum(relocation_pseudo(listed, unary, pair, linear) for listed in rankings.lists())
        exact = abs(fitted.history_[-1] - published) < 1e-9 * abs(published)
        assert exact == (n == "all")  # some of them are not the sum: a control


def test_section_4_3_and_4_4_one_pass_and_prediction_by_the_lowest_energy(pairwise):
    unary, pair = potentials(pairwise)
    together = 0
    for user in ("u0", "u2", "u5"):
        listed = pairwise.rankings_.lists(user)[0]
        places = {}
        for item in set(pairwise.item_ids) - set(listed):
            every = [[*listed[:j], item, *listed[j:]] for j in range(len(listed) + 1)]
            energies = [energy(each, unary, pair, linear) for each in every]  # g is that of the longer list
            shares = [math.exp(log_share(energies, j)) for j in range(len(every))]
            np.testing.assert_allclose(pairwise.position_probabilities(user, item), shares, rtol=1e-9)
            for j in range(1, len(every)):
                # From j to j + 1 only the energies of two places and of one pair change.
                n, other = len(every[0]), listed[j - 1]
                old = -unary[item] * linear(j, n) - unary[other] * linear(j + 1, n) - pair.get((item, other), 0.0)
                new = -unary[other] * linear(j, n) - unary[item] * linear(j + 1, n) - pair.get((other, item), 0.0)
                np.testing.assert_allclose(new - old, energies[j] - energies[j - 1], rtol=0, atol=1e-12)
            best = min(range(len(every)), key=energies.__getitem__)
            places[item] = (best, -shares[best])
        together += len({place for place, _ in places.values()}) < len(places)
        assert pairwise.rank(user, sorted(places))["item"].to_list() == sorted(places, key=places.__getitem__)
    assert together  # at the same place by how likely it is there


def test_section_4_5_1_positionwise_parameters(positionwise):
    for user in ("u0", "u1", "u2"):
        listed, s = positionwise.rankings_.lists(user)[0], personal(positionwise, user)
        n = len(listed)
        law = distribution(listed, s, {}, centred)
        by_pairs = orders_of(
            {order: math.fsum(s[x] - s[y] for x, y in itertools.combinations(order, 2)) / n for order in law}
        )
        np.testing.assert_allclose(list(by_pairs.values()), list(law.values()), rtol=1e-9)
        last = [math.fsum(p for order, p in law.items() if order[-1] == item) for item in listed]
        np.testing.assert_allclose(positionwise.top_probability(user, listed, k=n - 1), 1 - np.array(last), rtol=1e-9)
        for first, second in itertools.combinations(listed, 2):
            # The two enter the rest of the list, whose order stays.
            rest = [item for item in listed if item not in (first, second)]
            kept = {order: p for order, p in law.items() if [item for item in order if item in rest] == rest}
            before = math.fsum(p for order, p in kept.items() if order.index(first) < order.index(second))
            wanted = before / math.fsum(kept.values())
            np.testing.assert_allclose(positionwise.prefers(user, first, second), wanted, rtol=1e-9)
        # A swap of l and m changes the energy by 2 (s_l - s_m)(m - l) / n; the paper lacks the 1 / n.
        for low, high in itertools.combinations(range(1, n + 1), 2):
            swapped = list(listed)
            swapped[low - 1], swapped[high - 1] = swapped[high - 1], swapped[low - 1]
            change = math.log(law[tuple(listed)] / law[tuple(swapped)])
            published = 2 * (s[listed[low - 1]] - s[listed[high - 1]]) * (high - low)
            np.testing.assert_allclose(change, published / n, rtol=1e-7, atol=1e-9)
        ranked = positionwise.rank(user, ITEMS)["item"].to_list()
        assert ranked == sorted(ITEMS, key=lambda item: -s[item])
    assert not positionwise.item_draws_[:, :, -1].any()
    likelihood = math.fsum(
        math.log(distribution(tuple(listed), personal(positionwise, user), {}, centred)[tuple(listed)])
        for user, (listed,) in ((user, positionwise.rankings_.lists(user)) for user in positionwise.user_ids)
    )
    np.testing.assert_allclose(positionwise.history_[-1], likelihood, rtol=1e-5)


def test_section_4_5_2_pairwise_parameters(pairwise):
    unary, pair = potentials(pairwise)
    listed = ("d", "a", "c", "b", "e")
    law, g = distribution(listed, unary, pair, linear), linear
    for low, high in itertools.combinations(range(1, 6), 2):
        first, last, between = listed[low - 1], listed[high - 1], listed[low : high - 1]
        change = (unary[first] - unary[last]) * (g(low, 5) - g(high, 5)) + pair[first, last] - pair[last, first]
        change += math.fsum(pair[first, i] + pair[i, last] - pair[i, first] - pair[last, i] for i in between)
        swapped = list(listed)
        swapped[low - 1], swapped[high - 1] = last, first
        np.testing.assert_allclose(change, math.log(law[listed] / law[tuple(swapped)]), rtol=1e-7, atol=1e-9)


def test_section_4_5_2_pairs_ranked_together_more_often_than_the_threshold():
    lists = [["a", "b"]] * 5 + [["b", "c"]] * 6 + [["c", "a"]] * 2
    rankings = pr.Rankings.from_lists(lists, users=range(len(lists)))
    for settings, wanted in (
        ({"cooccurrence_above": 5}, {("b", "c")}),
        ({"min_cooccurrence": 5}, {("a", "b"), ("b", "c")}),
        ({"cooccurrence_above": 1.5}, {("a", "b"), ("b", "c"), ("a", "c")}),
    ):
        model = pr.PairwiseLogLinear(0, pair_scale=1.0, **settings).fit(rankings)
        assert {key for key in potentials(model)[1] if key[0] < key[1]} == wanted
