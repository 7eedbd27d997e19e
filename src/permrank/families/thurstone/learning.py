"""How `FactoredThurstone` learns: from its settings and data to a stream of estimates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from permrank.checks import require_memory
from permrank.errors import InputError
from permrank.families.thurstone.estimate import ThurstoneEstimate
from permrank.families.thurstone.full import FullSampler
from permrank.families.thurstone.kept import MOST_KEPT, RANK, Collected
from permrank.families.thurstone.problem import Observations, problem_of
from permrank.families.thurstone.sampler import Sampler
from permrank.learning.learner import Learner, Step, standing
from permrank.learning.learner import State as Kept
from permrank.learning.linear_algebra import unthreaded
from permrank.posterior.co_listing import co_listing_coordinates
from permrank.posterior.known import Known
from permrank.posterior.problem import thresholds_of
from permrank.randomness import stream_key
from permrank.rankings.rankings import Rankings
from permrank.types import Float64Array, Int64Array, Named

if TYPE_CHECKING:
    from permrank.families.thurstone.model import FactoredThurstone

# Sweeps by default: this many entries are visited in all, within the bounds.
_ENTRIES_VISITED, _FEWEST_SWEEPS, _MOST_SWEEPS = 20_000_000, 100, 600
# Items at most that have a full covariance matrix by default, and at all: moves of a user who speaks of all take n³.
_MOST_ITEMS, _MOST_FULL = 50, 200
# A component for so many people for each number in its mean and covariance, and at most so many.
_PEOPLE, _MOST_COMPONENTS = 10, 4
# Draws are kept after the first third of the sweeps.
_FIRST_KEPT = 3


class Begun(NamedTuple):
    """An estimate of less data, and the indices of its items among all."""

    estimate: ThurstoneEstimate
    indices: Int64Array

    def apply(self, sampler: Sampler) -> None:
        """Let a sampler begin at the last draw, as far as it fits."""
        state = sampler.state
        theta, variances = state.theta.copy(), state.variances.copy()
        last, own = self.estimate.item_draws[-1], self.estimate.noise_variances[-1]
        theta[:, self.indices, -1] = last[..., -1]
        if last.shape[2] == theta.shape[2]:
            theta[:, self.indices], variances[:, self.indices] = last, own
        shares, thresholds = self.estimate.shares[-1], self.estimate.threshold_draws[-1]
        sampler.state = state._replace(
            theta=theta, variances=variances, shares=np.maximum(shares.astype(np.float64), 1e-300),
            thresholds=thresholds.astype(np.float64) if thresholds.size else state.thresholds,
        )  # fmt: skip
        sampler.items.hold(sampler.items.flat(theta), sampler.items.slopes)


def learner_of(
    settings: FactoredThurstone, rankings: Rankings, n_sweeps: int, begun: Begun | None = None
) -> Learner[ThurstoneEstimate]:
    """From the data alone, or from an estimate of less data."""
    thresholds = thresholds_of(rankings) if settings.rating_thresholds else np.zeros(0)
    if begun is not None and thresholds.size:
        thresholds = begun.estimate.thresholds
    full, seed = is_full(settings, rankings, thresholds), settings.seed
    listed = settings.co_listing and not full
    table = co_listing_coordinates(rankings, seed) if listed else np.zeros((rankings.n_items, 0))
    problem, first = problem_of(rankings, thresholds, table, Known.of(rankings))
    observed = Observations.of(problem, one_draw=settings.one_draw)
    kind = FullSampler if full else Sampler
    n_components = begun.estimate.shares.shape[1] if begun else settings.n_components
    n_components = n_components or usual_components(rankings, full=full)
    sizes = rankings.n_items if full else settings.n_factors, n_components

    def sampler() -> Sampler:
        key = stream_key(seed) if begun is None else stream_key(seed, 1)
        made = kind(problem, observed, *sizes, settings.item_noise, key)
        if begun is not None:
            begun.apply(made)
        return made

    wanted = kept_sweeps(n_sweeps, settings.n_draws)
    return draw_posterior(sampler, first, rankings.n_items, sizes, wanted, settings._rules())


def is_full(settings: FactoredThurstone, rankings: Rankings, thresholds: Float64Array) -> bool:
    """Whether there is a full covariance matrix."""
    fresh = not settings.one_draw and bool((np.diff(rankings.user_indptr) > 1).any())
    featured = has_features(rankings)
    if settings.covariance != "full":
        small = rankings.n_items <= _MOST_ITEMS and not (fresh or featured) and thresholds.size == 0
        return settings.covariance == "auto" and small
    for wrong, what in (
        (thresholds.size > 0, "thresholds of ratings; take rating_thresholds=False"),
        (featured, "features or links; leave these out: with_features(items=False, users=False), with_links(False)"),
        (fresh, "fresh noise for every ranking; take one_draw=True"),
        (rankings.n_items > _MOST_FULL, f"{rankings.n_items:,} items, more than {_MOST_FULL}"),
    ):
        if wrong:
            raise InputError(f'covariance="full" does not go with {what}, or covariance="factors"')
    return True


def has_features(rankings: Rankings) -> bool:
    """Whether there are features or links to learn from."""
    return not Known.of(rankings).is_nothing


def usual_sweeps(rankings: Rankings) -> int:
    """Sweeps where none are asked for."""
    return int(np.clip(_ENTRIES_VISITED // max(rankings.n_entries, 1), _FEWEST_SWEEPS, _MOST_SWEEPS))


def usual_components(rankings: Rankings, *, full: bool) -> int:
    """Populations where no number is asked for: with a full covariance as many as the people can tell apart.

    Components that the data do not need stay nearly empty, or resemble others: a few too many cost time.
    """
    n, n_people = rankings.n_items, float(np.sum(rankings.weights)) if rankings.anonymous else rankings.n_users
    return int(np.clip(n_people // (_PEOPLE * (n * (n + 3) // 2)), 1, _MOST_COMPONENTS)) if full else 1


def kept_sweeps(n_sweeps: int, n_draws: int) -> list[int]:
    """Sweeps whose state is kept: evenly spread over the last two thirds, the last one among them."""
    first = min(n_sweeps - 1, n_sweeps // _FIRST_KEPT)
    return np.unique(np.linspace(first, n_sweeps - 1, n_draws).round().astype(int)).tolist()  # type: ignore[no-any-return]


def draw_posterior(
    make: Callable[[], Sampler],
    users: Int64Array,
    n_items: int,
    sizes: tuple[int, int],
    wanted: list[int],
    rules: Named,
) -> Learner[ThurstoneEstimate]:
    """Sweeps of a sampler; the wanted ones are kept.

    users: row of every user of the data among those of the sampler; sizes: numbers of factors and of components.
    """
    n_factors, n_components = sizes
    n_numbers = len(wanted) * n_components * n_items * (n_factors + 3)
    n_numbers += 2 * RANK * users.size * n_components * (n_factors + 1)
    require_memory(
        2 * 4 * n_numbers + MOST_KEPT, f"{len(wanted)} draws of {n_factors} factors",
        "take fewer draws (n_draws) or factors (n_factors)",
    )  # fmt: skip

    def steps(kept: Kept | None) -> Iterator[Step[ThurstoneEstimate]]:
        sampler, n_sweeps = make(), wanted[-1] + 1
        collected, done = Collected(sampler, users, sizes, len(wanted), rules), 0
        if kept:
            sampler.go_on(kept)
            collected.resume(kept)
            done = kept["done"]

        def estimate() -> ThurstoneEstimate:
            return collected.estimate(sampler)

        def state() -> Kept:
            return {**sampler.position(), **collected.state(sampler), "done": done}

        def look(now: Sampler) -> None:
            if sweep in wanted:
                collected.keep(now)
            if sweep >= wanted[0]:
                collected.average(now)

        yield standing(estimate, state)
        for sweep in range(done, n_sweeps):
            value = sampler.sweep(sweep, look)
            done = sweep + 1
            yield Step(value, estimate, state, converged=done == n_sweeps, burn_in=done <= wanted[0])

    return unthreaded(steps)
