"""The paper, equation by equation, §2 and §3: public answers against its formulas, transcribed literally.

Every test is named by the section it is about, and `docs/paper.md` has a row for each. The formulas below are plain
Python, 1-based positions written as in the paper, and share no code with the library. `test_paper_log_linear.py`
goes on with §4.
"""

import itertools
import math
import re
from pathlib import Path

import numpy as np
import pytest

import permrank as pr
from laws import p_value
from leaning import ITEMS, leaning_lists, stopped_after
from permrank.testing.oracles import differences

DOCUMENT = Path(__file__).parent.parent / "docs" / "paper.md"


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
    rankings = pr.Rankings.from_lists(leaning_lists(8, [3, 4, 5]))
    penalties = {"user_penalty": 0.05, "item_penalty": 0.02}
    settings = {"weighting": "published", "intercepts": False, "smoothing": 0.0, **penalties}
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
    rankings = pr.Rankings.from_lists(leaning_lists(30, [4], n_items=4))
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
    lists = leaning_lists(12, [3, 4, 6])
    # As ratings, so that whatever a rating might add would show.
    rows = [(user, item, 10.0 - i) for user, listed in lists.items() for i, item in enumerate(listed)]
    rankings = pr.Rankings.from_ratings(dict(zip(("user", "item", "rating"), zip(*rows, strict=True), strict=True)))
    settings = {"method": "point", "intercepts": False, "user_penalty": alpha, "item_penalty": beta, "tol": 1e-9}
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
    assert model.thresholds_.size == model.co_listing_.size == 0
    np.testing.assert_allclose(model.damping_, rho[: model.damping_.size], rtol=1e-12)
    np.testing.assert_allclose(model.score("u0"), W[model.user_ids.index("u0")] @ H, rtol=1e-5, atol=1e-6)
    assert model.rank("u0", ITEMS)["item"].to_list() == sorted(ITEMS, key=lambda y: -model.score("u0", [y])[0])


def test_section_3_1_damped_choices_are_a_distribution():
    rho = [1 / math.log(1 + i) for i in range(1, 5)]
    assert rho[0] > 1
    scores = [0.3, -1.0, 0.7, 0.1]
    total = math.fsum(benter([scores[y] for y in order], rho) for order in itertools.permutations(range(4)))
    np.testing.assert_allclose(total, 1.0, rtol=1e-12)
    # Answers average over what is not known of the user: nothing, where a million people have said each list.
    many, lists = 1e6, leaning_lists(12, [3, 4, 6])
    rankings = pr.Rankings.from_lists(list(lists.values()), users=list(lists), weights=[many] * 12)
    settings = {"method": "point", "intercepts": False, "user_penalty": 0.05 * many, "item_penalty": 0.05 * many}
    model = pr.FactoredPlackettLuce(2, damping="natural_log", **settings).fit(rankings)
    own = model.score("u2", ITEMS[:4])
    drawn = model.sample("u2", ITEMS[:4], size=20_000, seed=1)
    for factors, low, high in ((rho, 1e-4, 1.0), ([1.0] * 4, 0.0, 1e-6)):
        law = {order: benter([own[y] for y in order], factors) for order in itertools.permutations(range(4))}
        assert low <= p_value(drawn, {tuple(ITEMS[y] for y in order): p for order, p in law.items()}) <= high
    first = [math.exp(rho[0] * s) for s in own]
    wanted = [worth / math.fsum(first) for worth in first]
    np.testing.assert_allclose(model.top_probability("u2", ITEMS[:4]), wanted, rtol=0, atol=0.01)


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
    lists = leaning_lists(15, [2, 3, 4, 6], seed=1)
    published = {"method": "published", "concentration": None, "prior_strength": None, "accelerate": False}
    models = [
        pr.LatentPlackettLuce(2, n_starts=1, insertion="mode", **published).fit(
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


def test_every_row_of_the_document_has_a_test_and_every_test_a_row():
    if not DOCUMENT.exists():
        pytest.skip("the documents are not part of this copy")
    tests = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_paper*.py"))
    here = set(re.findall(r"^def (test_section\w+)", tests, re.MULTILINE))
    assert set(re.findall(r"test_section\w+", DOCUMENT.read_text(encoding="utf-8"))) == here
