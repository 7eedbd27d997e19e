"""The Gibbs sampler: Geweke's joint test of all moves together, and controls that must fail."""

import numpy as np
import pytest
from scipy import special, stats

import permrank as pr
from permrank.families.thurstone import full, priors, thresholds
from permrank.families.thurstone import sampler as module
from permrank.families.thurstone.kernels.orders import Statements
from permrank.families.thurstone.passes import UtilityPasses
from permrank.families.thurstone.problem import Observations, problem_of
from permrank.families.thurstone.sampler import Sampler
from permrank.posterior import regression
from permrank.posterior.known import Known
from permrank.posterior.links import UserGraph
from permrank.posterior.regression import Scales
from permrank.ragged import frozen
from permrank.randomness import stream_key
from permrank.rankings.links import Edges

USERS, ITEMS, FACTORS = 12, 5, 2
TAU = 1.5


@pytest.fixture(autouse=True)
def nothing_is_cut(monkeypatch):
    """Scales have their prior, without bounds, and the strength of links is given: it is judged by other means."""
    for name, bound in (("_LEAST_VARIANCE", 1e-300), ("_LEAST_OF_NOISE", 0.0), ("_MOST_VARIANCE", 1e300)):
        monkeypatch.setattr(regression, name, bound)
    monkeypatch.setattr(UserGraph, "drawn", lambda *_: TAU)


def blank(*, featured=False, linked=False):
    """A problem with the right sizes; what is observed is replaced in every round.

    featured: two features of items in two groups, two of users in one; nobody lists the last item. linked: ten of the
    users in a ring, the first with three friends more.
    """
    rng, p = np.random.default_rng(1), 2 * featured
    rankings = pr.Rankings.from_lists(
        {u: rng.permutation(ITEMS - featured).tolist() for u in range(USERS)}, items=range(ITEMS)
    )
    nothing = np.zeros((ITEMS, 0))
    problem, _ = problem_of(rankings, np.zeros(0), nothing)
    base = rng.normal(size=(ITEMS, 2)), rng.normal(size=(USERS, 1))  # of the covariates the last is of co-listing
    items, users = rng.normal(size=(ITEMS, p)), rng.normal(size=(USERS, p))
    ends = np.append(np.arange(10), [0, 0, 0]), np.append((np.arange(10) + 1) % 10, [3, 5, 7])
    graph = UserGraph(Edges(*ends, np.ones(13)), USERS) if linked else None
    known = Known(items, np.arange(p), users, np.zeros(p, np.int64), graph)
    return problem._replace(
        covariates=np.hstack((base[0], items)), co_listing=base[0][:, 1:], known=known, unsure=np.zeros((2, 2)),
        user_coordinates=np.hstack((base[1], users)),
    )  # fmt: skip


def sampler_of(problem, n_factors, n_components, kind=Sampler):
    return kind(problem, Observations.of(problem, one_draw=True), n_factors, n_components, True, stream_key(5))


def variance(rng, prior, size):
    return prior[1] / rng.gamma(prior[0], size=size)


def scales_of(rng, n_groups):
    """Half-Cauchy scales with a common one, and what they are drawn with: v, a, then t² and b."""
    b = 1.0 / rng.gamma(0.5)
    t = 1.0 / b / rng.gamma(0.5)
    a = 1.0 / t / rng.gamma(0.5, size=n_groups)
    return Scales(1.0 / a / rng.gamma(0.5, size=n_groups), a, t, b)


def users_from_the_prior(rng, sampler):
    """Slopes, scales and factors of users; those who are linked are drawn together."""
    users, problem, n_features = sampler.users, sampler.problem, sampler.problem.known.users.shape[1]
    users.scales, users.tau = [scales_of(rng, users.regression.n_groups)], TAU
    ridge = np.append(1.0, np.full(n_features, 1.0 / users.scales[0].groups[0] if n_features else 1.0))
    slopes = rng.normal(size=(ridge.size, FACTORS)) / np.sqrt(ridge)[:, None]
    precision = np.eye(USERS)
    if users.graph is not None:
        scale = float(users.graph.scale(TAU))
        precision = np.diag(np.where(users.graph.linked, scale, 1.0))
        precision += scale * TAU * users.graph.laplacian(np.eye(USERS))
    lower = np.linalg.cholesky(precision)
    draws = problem.user_coordinates @ slopes + np.linalg.solve(lower.T, rng.normal(size=(USERS, FACTORS)))
    users.hold(slopes, draws, draws.copy())
    return draws


def from_the_prior(rng, sampler, begin):
    """Everything but utilities and what is observed, drawn from the prior."""
    items, problem = sampler.items, sampler.problem
    z, _, size = items.shape
    factors = variance(rng, (priors._FACTORS[0], priors._FACTORS[1] / FACTORS), (z, FACTORS))
    means = variance(rng, priors._MEANS, 1000)
    spreads = np.column_stack((factors, means[means <= priors._MOST_SPREAD][:z]))
    items.precision = 1.0 / spreads.ravel()
    items.scales = [scales_of(rng, items.regression.n_groups) for _ in items.blocks]
    slopes = np.empty_like(items.slopes)
    for block, scales in zip(items.blocks, items.scales, strict=True):
        ridge = np.concatenate(([priors._RIDGE] * 2, 1.0 / scales.groups))
        noise = rng.normal(size=(ridge.size, block.size))
        slopes[:, block] = noise / np.sqrt(ridge[:, None] * items.precision[block])
    theta = problem.covariates @ slopes + rng.normal(size=(ITEMS, z * size)) * np.sqrt(spreads.ravel())
    items.hold(theta, slopes)
    draws, shares = users_from_the_prior(rng, sampler), rng.dirichlet(np.full(z, module._SHARE))
    sampler.state = begin._replace(
        theta=np.ascontiguousarray(items.by_component(theta)), variances=variance(rng, module._NOISE, (z, ITEMS)),
        draws=draws, means=draws.copy(), shares=shares, components=rng.choice(z, size=USERS, p=shares),
    )  # fmt: skip


def say(sampler, rng, cut=3):
    """New utilities given all else, and what follows from them: full lists, the last ``cut`` items of half the tied."""
    state, problem = sampler.state, sampler.problem
    n = ITEMS - (problem.known.items.shape[1] > 0)
    x = np.einsum("uyk,uk->uy", state.theta[state.components][..., :-1], state.draws)
    x = x + state.theta[state.components][..., -1]
    x += rng.normal(size=x.shape) * np.sqrt(state.variances[state.components])
    order = np.argsort(-x[:, :n], axis=1)
    levels = np.tile(np.arange(n), (USERS, 1))
    levels[::2] = np.minimum(levels[::2], n - cut)
    indptr, rankings = np.arange(USERS + 1) * n, np.arange(USERS + 1)
    said = Statements(
        *frozen(
            rankings, indptr, levels.ravel().astype(np.int32), np.tile(np.arange(n), USERS).astype(np.int32),
            indptr, order.ravel().astype(np.int32), np.full(USERS * n, -1, np.int32),
        ),
        True,
    )  # fmt: skip
    sampler.observed = sampler.observed._replace(statements=said)
    sampler._passes = UtilityPasses(said, ITEMS)
    sampler.state = state._replace(x=np.take_along_axis(x, order, axis=1).ravel())


def statistics(sampler):
    """Functions of the state with finite moments."""
    state, items, users = sampler.state, sampler.items, sampler.users
    away = state.theta - items.by_component(items.centre)
    scaled = away / np.sqrt(items.spreads)[:, None]
    scales = [np.log(each.packed()) for each in [*items.scales, *users.scales]]
    of_users = users.away(state.draws)[:10]
    values = [
        np.log(items.spreads).mean(axis=0), np.log(state.variances).mean(), np.tanh(users.slopes).ravel(),
        (scaled**2).mean(axis=(0, 1)), np.log(np.abs(state.theta).mean()), np.log((state.draws**2).mean(axis=0)),
        np.log(np.mean(state.x**2)), np.tanh(state.theta[..., -1]).mean(), np.square(state.shares).sum(),
        np.log(np.abs(items.slopes)).mean(axis=0), np.log(np.var(state.x.reshape(USERS, -1), axis=1)).mean(),
        *scales, np.log(np.abs(state.theta[:, -1])).mean(axis=0), np.mean(of_users * np.roll(of_users, 1, axis=0)),
    ]  # fmt: skip
    return np.concatenate([np.atleast_1d(v) for v in values])


def geweke(n_components, n_chains, n_rounds=16, wrong=None, **known):
    """t-statistics of functions of the state: after some rounds of sweeps and new data against where chains begin.

    Every chain begins with a draw from the joint distribution of everything, and stays there if all moves are right.
    The chains are independent, so that the error does not depend on how well they mix. known: see `blank`.
    """
    rng = np.random.default_rng(3)
    sampler = sampler_of(blank(**known), FACTORS, n_components)
    begin, sweep, away = sampler.state, 0, []
    for _ in range(n_chains):
        from_the_prior(rng, sampler, begin)
        say(sampler, rng)
        first, later = statistics(sampler), []
        for _ in range(n_rounds):
            sampler.sweep(sweep)
            sweep += 1
            if wrong is not None:
                wrong(sampler)
            later.append(statistics(sampler))
            say(sampler, rng)
        away.append(np.mean(later, axis=0) - first)
    away = np.array(away)
    moving = away.std(axis=0) > 1e-9  # the share of a single component never does
    return away.mean(axis=0)[moving] / (away.std(axis=0, ddof=1)[moving] / np.sqrt(n_chains))


def test_all_moves_together_leave_the_joint_distribution_invariant():
    z = geweke(2, 150)  # of one component: with features, below
    assert np.abs(z).max() < 4.8, z  # some twenty statistics: by chance less than once in ten thousand times


def stretched(sampler):
    sampler.items.stretch(np.full(FACTORS + 1, 1.1), 1.1 * sampler.state.theta)
    sampler.state.theta[:] *= 1.1


def narrowed(sampler):
    sampler.items.precision[:FACTORS] /= 0.6


def shaken(sampler):
    sampler.state.variances[:] *= 1.2


def trusted(sampler):
    sampler.users.scales[0].groups[:] *= 10.0


def doubted(sampler):
    sampler.items.scales[1].groups[:] *= 0.1


def forgot_friends(sampler):
    sampler.users.tau = 0.01 * TAU


@pytest.mark.parametrize("wrong", [None, trusted, doubted])
def test_features_leave_the_joint_distribution_invariant_unless_their_scales_are_wrong(wrong):
    z = np.abs(geweke(1, 120 if wrong is None else 40, wrong=wrong, featured=True)).max()
    assert z < 4.8 if wrong is None else z > 6.0


@pytest.mark.parametrize("wrong", [None, forgot_friends])
def test_links_leave_the_joint_distribution_invariant_unless_their_strength_is_wrong(wrong):
    z = np.abs(geweke(1, 120, wrong=wrong, featured=True, linked=True)).max()
    assert z < 4.8 if wrong is None else z > 6.0


@pytest.mark.parametrize("wrong", [stretched, narrowed, shaken])
def test_a_move_that_is_wrong_is_noticed(wrong):
    assert np.abs(geweke(1, 60, wrong=wrong)).max() > 6.0


# A full covariance: the same test with its own prior. Item 4 is unknown to every other user, and completed.


def full_prior(rng, n_components):
    """Everything about the items, drawn from the prior of `FullSampler`."""
    n, grid = ITEMS, full._GRID
    freedom, m = n + rng.choice(grid), n + rng.choice(grid)
    kappa, precision = rng.gamma(*full._MEANS, size=2)
    omega = full.wishart(rng, m, np.eye(n) / m)
    centre = rng.normal(size=n) / np.sqrt(precision)
    theta, variances = np.empty((n_components, n, n + 1)), np.empty((n_components, n))
    for z in range(n_components):
        covariance = np.linalg.inv(full.wishart(rng, freedom, np.linalg.inv((freedom - n - 1.0) * omega)))
        mean = rng.multivariate_normal(centre, covariance / kappa)
        theta[z], variances[z] = full._with_factors(covariance, mean)
    shares = rng.dirichlet(np.full(n_components, module._SHARE))
    return {
        "theta": theta, "variances": variances, "shape": np.column_stack((omega, centre)), "shares": shares,
        "strengths": np.array([freedom, m, kappa, precision]),
        "components": rng.choice(n_components, size=USERS, p=shares),
    }  # fmt: skip


def say_some(sampler, rng):
    """New factors, utilities and orders given the items; every other user speaks of the first four items only."""
    state = sampler.state
    draws = rng.normal(size=(USERS, ITEMS))
    theta = state.theta[state.components]
    x = np.einsum("uyk,uk->uy", theta[..., :-1], draws) + theta[..., -1]
    x += rng.normal(size=x.shape) * np.sqrt(state.variances[state.components])
    x[1::2, -1] = -np.inf
    order = np.argsort(-x, axis=1)
    lengths = np.where(np.arange(USERS) % 2, ITEMS - 1, ITEMS)
    said = np.arange(ITEMS) < lengths[:, None]
    indptr = np.concatenate(([0], np.cumsum(lengths)))
    place = np.tile(np.arange(ITEMS), (USERS, 1))[said].astype(np.int32)
    nothing = np.full(place.size, -1, np.int32)
    arrays = frozen(np.arange(USERS + 1), indptr, place, place, indptr, order[said].astype(np.int32), nothing)
    statements = Statements(*arrays, True)
    sampler.observed = sampler.observed._replace(statements=statements)
    sampler._passes = UtilityPasses(statements, ITEMS)
    sampler.state = state._replace(x=np.take_along_axis(x, order, axis=1)[said], draws=draws)


def full_statistics(sampler):
    state, n = sampler.state, ITEMS
    covariance = np.einsum("zik,zjk->zij", state.theta[..., :n], state.theta[..., :n])
    covariance = covariance + state.variances[:, :, None] * np.eye(n)
    omega, away = state.shape[:, :n], state.theta[..., n] - state.shape[:, n]
    square = np.einsum("zi,zij,zj->z", away, np.linalg.inv(covariance), away)
    values = [
        np.log(state.strengths - [n, n, 0.0, 0.0]), np.linalg.slogdet(covariance)[1].mean(), np.log(square).mean(),
        np.linalg.slogdet(omega)[1], np.log(np.trace(omega)), np.tanh(state.theta[..., n]).mean(axis=0),
        np.log(covariance[:, [0, 4], [0, 4]]).mean(axis=0), np.tanh(covariance[:, 0, 4]).mean(),
        np.tanh(state.shape[:, n]).mean(), np.square(state.shares).sum(),
    ]  # fmt: skip
    return np.concatenate([np.atleast_1d(v) for v in values])


@pytest.fixture
def four_freedoms(monkeypatch):
    """A grid without the heaviest and the lightest tails, so that moments of statistics are well measured."""
    monkeypatch.setattr(full, "_GRID", full._GRID[1:5])


def full_geweke(n_components, n_chains, n_rounds=12, wrong=None):
    rng = np.random.default_rng(4)
    problem = blank()._replace(user_coordinates=np.zeros((USERS, 0)))
    sampler = sampler_of(problem, ITEMS, n_components, full.FullSampler)
    begin, sweep, away = sampler.state, 0, []
    for _ in range(n_chains):
        sampler.state = begin._replace(**full_prior(rng, n_components))
        say_some(sampler, rng)
        first, later = full_statistics(sampler), []
        for _ in range(n_rounds):
            sampler.sweep(sweep)
            sweep += 1
            if wrong is not None:
                wrong(sampler)
            later.append(full_statistics(sampler))
            say_some(sampler, rng)
        away.append(np.mean(later, axis=0) - first)
    away = np.array(away)
    moving = away.std(axis=0) > 1e-9
    return away.mean(axis=0)[moving] / (away.std(axis=0, ddof=1)[moving] / np.sqrt(n_chains))


@pytest.mark.parametrize("n_components", [1, 2])
def test_a_full_covariance_leaves_the_joint_distribution_invariant(n_components, four_freedoms):
    z = full_geweke(n_components, 150)
    assert np.abs(z).max() < 4.8, z


def inflated(sampler):
    sampler.state.theta[..., :ITEMS] *= 1.25


def forgotten(sampler):
    sampler.state.strengths[2] *= 1.5


@pytest.mark.parametrize("wrong", [inflated, forgotten])
def test_a_wrong_move_of_a_full_covariance_is_noticed(wrong, four_freedoms):
    assert np.abs(full_geweke(1, 60, wrong=wrong)).max() > 6.0


# Thresholds of ratings: their move, begun in the distribution that it must leave alone.


def rated_problem():
    rng = np.random.default_rng(6)
    rows = [(u, y, 1 + int(rng.integers(3))) for u in range(3) for y in range(4)]
    rated = pr.Rankings.from_ratings(dict(zip(("user", "item", "rating"), zip(*rows, strict=True), strict=True)))
    thresholds, nothing = np.array([1.5, 2.5]), np.zeros((4, 0))
    return problem_of(rated, thresholds, nothing)[0]


def moved_thresholds(n_starts):
    """Thresholds drawn from their posterior given all but the utilities, on a grid, before and after one move."""
    problem, rng = rated_problem(), np.random.default_rng(2)
    sampler = sampler_of(problem, 1, 1)
    state, said = sampler.state, sampler.observed.statements
    owner = np.repeat(np.arange(3), np.diff(said.slot_indptr))
    theta = state.theta[0, said.slot_items]
    eta = np.einsum("sk,sk->s", theta[:, :-1], state.draws[owner]) + theta[:, -1]
    grid = np.linspace(-4.0, 4.0, 320)
    below = special.ndtr(grid[:, None] - eta)  # variances begin at 1
    low, middle, high = (said.slot_grades == g for g in range(3))
    logs = np.log(below[:, low]).sum(axis=1)[:, None] + np.log1p(-below[:, high]).sum(axis=1)[None]
    with np.errstate(divide="ignore"):
        logs = logs + np.log(np.maximum(below[None, :, middle] - below[:, None, middle], 0.0)).sum(axis=2)
    p = np.exp(logs - logs.max()).ravel()
    drawn = rng.choice(p.size, size=n_starts, p=p / p.sum())
    step = grid[1] - grid[0]
    begin = np.column_stack(np.divmod(drawn, grid.size)) * step + grid[0] + step * (rng.random((n_starts, 2)) - 0.5)
    after = np.empty_like(begin)
    for i, at in enumerate(np.sort(begin, axis=1)):
        sampler.state = state._replace(thresholds=at, x=state.x.copy())
        sampler._move_thresholds(i, np.random.default_rng([3, i]))
        after[i] = sampler.state.thresholds
    return begin, after, sampler


def agreement(begin, after):
    """Smallest p-value that both thresholds, and their distance, are distributed alike."""
    pairs = [(b, a) for b, a in zip(begin.T, after.T, strict=True)] + [(np.diff(begin)[:, 0], np.diff(after)[:, 0])]
    return min(stats.ks_2samp(b, a).pvalue for b, a in pairs)


def test_the_move_of_thresholds_leaves_their_posterior_alone():
    begin, after, sampler = moved_thresholds(1500)
    assert np.mean(begin[:, 0] != after[:, 0]) > 0.5
    assert agreement(begin, after) > 1e-4
    ends = np.concatenate(([-np.inf], sampler.state.thresholds, [np.inf]))
    grades = sampler.observed.statements.slot_grades
    assert ((ends[grades] <= sampler.state.x) & (sampler.state.x <= ends[grades + 1])).all()


def test_a_proposal_wider_than_its_density_is_noticed(monkeypatch):
    draw = thresholds.Proposal.draw
    monkeypatch.setattr(
        thresholds.Proposal, "draw", lambda self, rng: self.centre + 1.7 * (draw(self, rng) - self.centre)
    )
    begin, after, _ = moved_thresholds(1500)
    assert agreement(begin, after) < 1e-6


def test_thresholds_have_the_derivatives_of_their_likelihood():
    """A wrong proposal leaves the posterior alone, too: only how often it is accepted tells."""
    sampler = sampler_of(rated_problem(), 1, 1)
    at, h = np.array([-0.4, 0.7]), 1e-4

    def sums(point):
        return sampler._passes.thresholds(sampler.population, np.asarray(point), sampler.people)

    here = sums(at)
    bend = np.array([[here[3], here[5]], [here[5], here[4]]])
    for j, step in enumerate(h * np.eye(2)):
        up, down = sums(at + step), sums(at - step)
        np.testing.assert_allclose(here[1 + j], (up[0] - down[0]) / (2 * h), rtol=1e-5)
        np.testing.assert_allclose(bend[j], -(up[1:3] - down[1:3]) / (2 * h), rtol=1e-5)
    np.testing.assert_allclose(thresholds.Proposal.of(here, at).centre, at + np.linalg.solve(bend, here[1:3]))
