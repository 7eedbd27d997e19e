"""The paper, equation by equation: the library's public answers against its formulas, transcribed literally.

Every test is named by the section it is about, and `docs/paper.md` has a row for each. The formulas below are plain
Python, 1-based positions written as in the paper, and share no code with the library.
"""

import itertools
import math
import random
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chisquare

import permrank as pr
from permrank.kernels.log_linear_moves import acceptance

ITEMS = ["a", "b", "c", "d", "e", "f"]
DOCUMENT = Path(__file__).parent.parent / "docs" / "paper.md"


def drawn_lists(n_users, lengths, seed=0, n_items=6):
    """Lists of random items in a random order that leans to the alphabet."""
    rng = random.Random(seed)
    lists = {}
    for u in range(n_users):
        chosen = rng.sample(ITEMS[:n_items], lengths[u % len(lengths)])
        lists[f"u{u}"] = sorted(chosen, key=lambda item: ITEMS.index(item) + 4 * rng.random())
    return lists


def stopped_after(sweeps):
    return lambda progress: progress.iteration >= sweeps


def differences(function, point, step=1e-4):
    """Gradient of a function of an array, by central differences."""
    found = np.empty(point.size)
    for k in range(point.size):
        up, down = point.copy(), point.copy()
        up.flat[k] += step
        down.flat[k] -= step
        found[k] = (function(up) - function(down)) / (2 * step)
    return found


def orders_of(weights):
    """Orders and their probabilities from a function of an order to log e^{-E}, given as a dict."""
    total = math.fsum(math.exp(value) for value in weights.values())
    return {order: math.exp(value) / total for order, value in weights.items()}


# §2


LOSSES = {
    "squared": lambda d: (1 - d) ** 2,
    "hinge": lambda d: max(0.0, 1 - d),
    "logistic": lambda d: math.log(1 + math.exp(-d)),
}


def regularised_loss(lists, W, H, loss, alpha, beta):
    """R = (1/N) Σ_u Σ_{i<j} L(d_ij) + α Σ W² + β Σ H² with d_ij = sign(j - i)(s_i - s_j), s = Σ_k W_uk H_ky."""
    total = 0.0
    for u, listed in enumerate(lists):
        s = [math.fsum(W[u][k] * H[k][y] for k in range(len(H))) for y in listed]
        for i in range(len(s)):
            for j in range(i + 1, len(s)):
                total += LOSSES[loss](math.copysign(1, j - i) * (s[i] - s[j]))
    return total / len(lists) + alpha * np.sum(np.square(W)) + beta * np.sum(np.square(H))


@pytest.mark.parametrize("loss", LOSSES)
def test_section_2_regularised_pairwise_losses(loss):
    rankings = pr.Rankings.from_lists(drawn_lists(8, [3, 4, 5]))
    settings = {"weighting": "published", "intercepts": False, "alpha": 0.05, "beta": 0.02, "smoothing": 0.0}
    tol = 1e-3 if loss == "hinge" else 1e-10
    model = pr.PairwiseFactorisation(2, loss=loss, tol=tol, max_iter=3_000, **settings).fit(rankings)
    lists = [model.item_ids.indices(listed) for listed in rankings.lists()]
    W, H = model.user_factors_, model.item_factors_.T
    published = regularised_loss(lists, W, H, loss, 0.05, 0.02)
    np.testing.assert_allclose(-model.history_[-1] / 8, published, rtol=1e-9)
    assert not model.item_intercepts_.any()
    np.testing.assert_allclose(model.score("u0"), W[0] @ H, rtol=1e-12)
    if loss != "hinge":  # whose least value lies on an edge
        point = np.concatenate((W.ravel(), H.ravel()))

        def value(x):
            return regularised_loss(lists, x[: W.size].reshape(W.shape), x[W.size :].reshape(H.shape), loss, 0.05, 0.02)

        assert np.abs(differences(value, point)).max() < 1e-3


# §3: stage-wise choices


def plackett_luce(scores):
    """Π_i e^{s_i} / Σ_{j>=i} e^{s_j} of scores in the order of the list (eq. 1)."""
    n = len(scores)
    return math.prod(math.exp(scores[i]) / math.fsum(math.exp(scores[j]) for j in range(i, n)) for i in range(n))


def benter(scores, damping):
    """Π_i e^{ρ_i s_i} / Σ_{j>=i} e^{ρ_i s_j}."""
    n = len(scores)
    return math.prod(
        math.exp(damping[i] * scores[i]) / math.fsum(math.exp(damping[i] * scores[j]) for j in range(i, n))
        for i in range(n)
    )


def test_section_3_equation_1_plackett_luce():
    rankings = pr.Rankings.from_lists(drawn_lists(30, [4], n_items=4))
    model = pr.PlackettLuce(prior=None).fit(rankings)
    every = [list(order) for order in itertools.permutations(model.item_ids)]
    found = np.exp(model.log_likelihood(pr.Rankings.from_lists(every)))
    np.testing.assert_allclose(found, [plackett_luce(model.score(None, order)) for order in every], rtol=1e-9)
    np.testing.assert_allclose(found.sum(), 1.0, rtol=1e-9)

    def likelihood(scores):
        return sum(math.log(plackett_luce(scores[model.item_ids.indices(listed)])) for listed in rankings.lists())

    assert np.abs(differences(likelihood, model.scores_.copy())).max() < 1e-5


DAMPINGS = {
    "none": lambda i: 1.0,
    "natural_log": lambda i: 1 / math.log(1 + i),
    "given, to 0": lambda i: [1.5, 0.5, 0.0][min(i, 3) - 1],
}


@pytest.mark.parametrize("kind", DAMPINGS)
def test_section_3_1_regularised_likelihood_of_the_factored_model(kind):
    alpha, beta = 0.3, 0.2
    damping = [1.5, 0.5, 0.0] if kind == "given, to 0" else kind
    lists = drawn_lists(12, [3, 4, 6])
    # As ratings, so that whatever a rating might add would show.
    rows = [(user, item, 10.0 - i) for user, listed in lists.items() for i, item in enumerate(listed)]
    rankings = pr.Rankings.from_ratings(dict(zip(("user", "item", "rating"), zip(*rows, strict=True), strict=True)))
    settings = {"posterior": "point", "intercepts": False, "alpha": alpha, "beta": beta, "tol": 1e-9}
    model = pr.FactoredPlackettLuce(2, damping=damping, **settings).fit(rankings)
    W, H = model.user_modes_[0].astype(float), model.item_draws_[0, :, :-1].astype(float).T
    listed = [model.item_ids.indices(lists[user]) for user in model.user_ids]
    rho = [DAMPINGS[kind](i) for i in range(1, 7)]

    def published(x):
        W_, H_ = x[: W.size].reshape(W.shape), x[W.size :].reshape(H.shape)
        logs = [math.log(benter((W_[u] @ H_)[own], rho)) for u, own in enumerate(listed)]
        return math.fsum(logs) - alpha * np.sum(W_**2) - beta * np.sum(H_**2)

    point = np.concatenate((W.ravel(), H.ravel()))
    np.testing.assert_allclose(model.history_[-1], published(point), rtol=1e-5)
    assert np.abs(differences(published, point)).max() < 0.02  # factors are kept in single precision
    assert not model.item_draws_[0, :, -1].any()
    assert model.temperature_ == 1.0
    assert model.thresholds_.size == model.company_.size == 0
    np.testing.assert_allclose(model.damping_, rho[: model.damping_.size], rtol=1e-12)
    np.testing.assert_allclose(model.score("u0"), W[model.user_ids.index("u0")] @ H, rtol=1e-5, atol=1e-6)
    assert model.rank("u0", ITEMS)["item"].to_list() == sorted(ITEMS, key=lambda y: -model.score("u0", [y])[0])


def test_section_3_1_damped_choices_are_a_distribution():
    rho = [1 / math.log(1 + i) for i in range(1, 5)]
    assert rho[0] > 1
    scores = [0.3, -1.0, 0.7, 0.1]
    total = math.fsum(benter([scores[y] for y in order], rho) for order in itertools.permutations(range(4)))
    np.testing.assert_allclose(total, 1.0, rtol=1e-12)
    lists = drawn_lists(12, [3, 4, 6])
    model = pr.FactoredPlackettLuce(2, posterior="point", damping="natural_log", intercepts=False, alpha=1e4, beta=1e-3)
    model.fit(pr.Rankings.from_lists(lists))
    # A penalty this strong leaves the user at the point, which answers average around otherwise.
    drawn = model.sample("u0", ITEMS[:4], size=20_000, seed=1)
    own = model.score("u0", ITEMS[:4])
    law = {order: benter([own[y] for y in order], rho) for order in itertools.permutations(range(4))}
    counts = [np.sum((drawn == [ITEMS[y] for y in order]).all(axis=1)) for order in law]
    assert chisquare(counts, 20_000 * np.array(list(law.values()))).pvalue > 1e-4


# §3.2: communities


def stage(listed, s, i, z):
    """P_i(π | z, u), i from 1 (eq. 2), by the recursion of A."""
    A = [0.0] * (len(listed) + 2)
    for j in range(len(listed), 0, -1):
        A[j] = A[j + 1] + math.exp(s[listed[j - 1]][z])
    return math.exp(s[listed[i - 1]][z]) / A[i]


def mixed(listed, s, P):
    """P(π | u) (eq. 3)."""
    n, communities = len(listed), range(len(P))
    return math.prod(math.fsum(P[z] * stage(listed, s, i, z) for z in communities) for i in range(1, n + 1))


def responsibilities(listed, s, P):
    """Q_i(z | π, u) of the E-step, [i][z]."""
    found = []
    for i in range(1, len(listed) + 1):
        terms = [P[z] * stage(listed, s, i, z) for z in range(len(P))]
        found.append([term / math.fsum(terms) for term in terms])
    return found


def bound(lists, s, P, Q):
    """The lower bound, Σ_u Σ_i Σ_z Q_i log P(z | u) P_i(π | z, u)."""
    return math.fsum(
        Q[u][i - 1][z] * math.log(P[u][z] * stage(listed, s, i, z))
        for u, listed in enumerate(lists)
        for i in range(1, len(listed) + 1)
        for z in range(len(P[u]))
    )


def gradient_of_bound(lists, s, Q):
    """∂Q / ∂s_y^z = Σ_u Σ_i Q_i(z) {δ - e^{s_y} [y is left] / Σ_{j>=i} e^{s_j}}; the sum over u is not in the paper."""
    found = np.zeros(np.shape(s))
    for u, listed in enumerate(lists):
        for i in range(1, len(listed) + 1):
            for z in range(len(s[0])):
                found[listed[i - 1]][z] += Q[u][i - 1][z]
                A = math.fsum(math.exp(s[y][z]) for y in listed[i - 1 :])
                for y in listed[i - 1 :]:
                    found[y][z] -= Q[u][i - 1][z] * math.exp(s[y][z]) / A
    return found


@pytest.fixture(scope="module")
def em():
    """The published EM on the same lists, broken off after 3 and 4 sweeps: lists, and the two models."""
    lists = drawn_lists(15, [2, 3, 4, 6], seed=1)
    published = {"m_step": "published", "concentration": None, "prior_strength": None, "accelerate": False}
    models = [
        pr.LatentPlackettLuce(2, n_starts=1, position="mode", **published).fit(
            pr.Rankings.from_lists(lists), callback=stopped_after(sweeps)
        )
        for sweeps in (3, 4)
    ]
    return [models[0].item_ids.indices(lists[user]) for user in models[0].user_ids], *models


def test_section_3_2_equations_2_and_3_communities(em):
    _, model, _ = em
    four = ["b", "e", "a", "d"]
    every = [list(order) for order in itertools.permutations(four)]
    s, P = model.scores_[0], model.memberships_[0, model.user_ids.index("u3")]
    found = [model.log_likelihood(pr.Rankings.from_lists({"u3": order}))[0] for order in every]
    wanted = [mixed(model.item_ids.indices(order), s, P) for order in every]
    np.testing.assert_allclose(np.exp(found), wanted, rtol=1e-9)
    np.testing.assert_allclose(math.fsum(wanted), 1.0, rtol=1e-9)


def test_section_3_2_1_em_steps_are_the_published_ones(em):
    lists, before, after = em
    s, P = before.scores_[0], before.memberships_[0]
    Q = [responsibilities(listed, s, own) for listed, own in zip(lists, P, strict=True)]
    # E-step and the closed M-step, the certain last stage included.
    wanted = np.array([np.sum(own, axis=0) / len(listed) for own, listed in zip(Q, lists, strict=True)])
    same = min(([0, 1], [1, 0]), key=lambda names: np.abs(after.memberships_[0][:, names] - wanted).sum())
    np.testing.assert_allclose(after.memberships_[0][:, same], wanted, rtol=0, atol=1e-9)
    # Scores go uphill along the published gradient, and the bound with them.
    gradient, new = gradient_of_bound(lists, s, Q), after.scores_[0][:, same]
    numeric = differences(lambda x: bound(lists, x, P, Q), s.copy())
    np.testing.assert_allclose(gradient.ravel(), numeric, rtol=1e-5, atol=1e-6)
    assert np.sum(gradient * (new - s)) > 0
    assert bound(lists, new, P, Q) > bound(lists, s, P, Q)
    # What is traced is the likelihood alone, and the bound touches it.
    likelihood = math.fsum(math.log(mixed(listed, s, own)) for listed, own in zip(lists, P, strict=True))
    np.testing.assert_allclose(after.history_[-1], likelihood, rtol=1e-9)
    entropy = math.fsum(q * math.log(q) for own in Q for row in own for q in row if q > 0)
    np.testing.assert_allclose(bound(lists, s, P, Q) - entropy, likelihood, rtol=1e-9)
    assert (np.diff(after.history_) >= 0).all()


def test_section_3_2_2_prediction_by_insertion(em):
    _, _, model = em
    s = model.scores_[0]
    for user in ("u0", "u1", "u2"):
        listed = model.item_ids.indices(model.rankings_.lists(user)[0]).tolist()
        P = model.memberships_[0, model.user_ids.index(user)]
        places = {}
        for item in set(ITEMS) - set(model.rankings_.lists(user)[0]):
            y = model.item_ids.index(item)
            enlarged = [[*listed[:j], y, *listed[j:]] for j in range(len(listed) + 1)]
            values = [mixed(each, s, P) for each in enlarged]
            found = model.position_probabilities(user, item)
            np.testing.assert_allclose(found, np.array(values) / math.fsum(values), rtol=1e-9)
            # The odds O_j (eq. 4), of which all but four sums over communities have cancelled.
            for j in range(1, len(enlarged)):
                old, new = enlarged[j - 1], enlarged[j]
                terms = [
                    math.fsum(P[z] * stage(each, s, i, z) for z in (0, 1)) for each in (new, old) for i in (j, j + 1)
                ]
                odds = terms[0] * terms[1] / (terms[2] * terms[3])
                np.testing.assert_allclose(found[j] / found[j - 1], odds, rtol=1e-9)
            best = max(range(len(values)), key=values.__getitem__)
            places[item] = (best, -values[best])
        # By place; at the same place by the likelihood of the introduction.
        assert model.rank(user, sorted(places))["item"].to_list() == sorted(places, key=places.__getitem__)


# §4: log-linear models


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


def potentials(model):
    """γ and λ by items: λ_yy' of each order of a pair."""
    unary = dict(zip(model.item_ids, model.item_draws_[0, :, -1].tolist(), strict=True))
    pair = {}
    for a, item in enumerate(model.item_ids):
        for j in range(model.pair_indptr_[a], model.pair_indptr_[a + 1]):
            other, value = model.item_ids[int(model.pair_items_[j])], float(model.pair_values_[j])
            pair[item, other], pair[other, item] = value, -value
    return unary, pair


PAIRWISE = {"position": "linear", "item_scale": None, "pair_scale": None, "cooccurrence_above": 0, "tol": 1e-11}


@pytest.fixture(scope="module")
def pairwise():
    """The pairwise model by exact maximum likelihood, without any prior."""
    rankings = pr.Rankings.from_lists(drawn_lists(60, [3, 4, 2], seed=2, n_items=5))
    return pr.PairwiseLogLinear(0, learner="exact", insertion="published", window=3, **PAIRWISE).fit(rankings)


@pytest.fixture(scope="module")
def positionwise():
    """The position-wise model without intercepts and prior, broken off before it fits twelve people perfectly."""
    rankings = pr.Rankings.from_lists(drawn_lists(12, [4, 3, 5], seed=3))
    published = {"intercepts": False, "factor_scale": None, "item_scale": None}
    model = pr.PositionwiseLogLinear(2, learner="exact", window=3, **published)
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
        drawn = model.sample(who, list(next(iter(law))), size=6_000, seed=5, move=move).tolist()
        counts = np.array([drawn.count(list(order)) for order in law])
        expected = 6_000 * np.array(list(law.values()))
        likely = expected > 5  # the rest together
        counts = [*counts[likely], counts[~likely].sum()]
        expected = [*expected[likely], max(expected[~likely].sum(), 1e-9)]
        assert chisquare(counts, np.array(expected) * sum(counts) / sum(expected)).pvalue > 1e-4


def test_section_4_1_equation_6_acceptance():
    for change in (-3.0, 0.0, 0.2, 7.0):
        np.testing.assert_allclose(acceptance(change), min(1.0, math.exp(-change)), rtol=1e-15)


@pytest.mark.parametrize("move", ["swap", "relocation", "sublist"])
def test_section_4_2_contrastive_divergence_stands_still_at_the_law_of_the_data(move):
    unary, pair = {"a": 0.5, "b": 0.0, "c": -0.4}, {("a", "b"): 0.3, ("b", "c"): 0.2, ("c", "a"): 0.5}
    planted = distribution(["a", "b", "c"], unary, pair, linear)
    lists = [list(order) for order, p in planted.items() for _ in range(round(900 * p))]
    settings = {**PAIRWISE, "tol": 1e-7, "window": 3}
    model = pr.PairwiseLogLinear(0, learner="contrastive", move=move, n_steps=0, max_iter=100, **settings)
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
    model = pr.PairwiseLogLinear(0, learner=learner, **settings).fit(pairwise.rankings_)
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
    other = pr.PositionwiseLogLinear(2, learner=learner, intercepts=False, factor_scale=None, item_scale=None, window=3)
    other.fit(positionwise.rankings_, callback=stopped_after(4))
    total = math.fsum(
        PSEUDO[learner](other.rankings_.lists(user)[0], personal(other, user), {}, centred) for user in other.user_ids
    )
    np.testing.assert_allclose(other.history_[-1], total, rtol=1e-5)


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


def test_every_row_of_the_document_has_a_test_and_every_test_a_row():
    if not DOCUMENT.exists():
        pytest.skip("the documents are not part of this copy")
    here = {name for name in globals() if name.startswith("test_section")}
    assert set(re.findall(r"test_section\w+", DOCUMENT.read_text(encoding="utf-8"))) == here
