"""Log-linear models: normalisers, likelihoods of all learners with the exact normaliser, accuracy, chains, speed.

Needs PERMRANK_DATA (Sushi, MovieLens 100K and 1M) or a network to fetch them. ``--only`` runs some of the parts.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial

import numba
import numpy as np

import permrank as pr
import splits
from accuracy import as_rankings, asked_by, model_scores
from permrank.families.log_linear.kernels.arguments import Schedule, Terms
from permrank.families.log_linear.kernels.moves import MOVES, SWAP, draw_orders, steps
from permrank.families.log_linear.kernels.pseudo_likelihood import BY_RELOCATION
from permrank.families.log_linear.law import chain_summary
from permrank.families.log_linear.likelihood import log_normaliser
from permrank.families.log_linear.lists import (
    likelihoods,
    pairs_of,
    partners_of,
    position_functions,
    position_table,
    shards_of_lists,
    strict_lists,
    usual_cooccurrence,
)

SEEDS = range(5)
# Wide priors: with 4,000 lists for 45 pairs they have no influence, and the estimate is maximum likelihood.
FLAT = {"n_factors": 0, "item_scale": 10.0, "pair_scale": 10.0}


def sushi_10() -> None:
    """Nats of held-out lists of ten with the exact normaliser, five folds, for every learner of the pairwise model."""
    settings = {
        "exact": {"method": "exact"},
        "exact, item x position": {"method": "exact", "degree": 9},
        "relocation": {"method": "relocation"},
        "swaps": {"method": "swaps"},
        "windows of 3": {"method": "windows", "window": 3},
        "windows of 5": {"method": "windows"},
        "contrastive, 1 swap": {"method": "contrastive", "n_steps": 1},
        "contrastive, n swaps": {"method": "contrastive"},
        "contrastive, 10 n swaps": {"method": "contrastive", "n_steps": 100},
        "persistent": {"method": "persistent"},
        "position-wise, exact": None,
    }
    rows: dict[str, list[tuple[float, float]]] = {name: [] for name in settings}
    for seed in SEEDS:
        split = splits.fold_of_people(seed)
        train, test = as_rankings(split.train, split.strict), as_rankings(split.test, split.strict)
        for name, parameters in settings.items():
            model = (
                pr.PositionwiseLogLinear(0, method="exact", item_scale=10.0)
                if parameters is None
                else pr.PairwiseLogLinear(**FLAT, **parameters)
            )
            model.fit(train, verbose=False)
            rows[name].append((-float(model.log_likelihood(test).mean()), model.fit_seconds_))
    best = np.mean([nats for nats, _ in rows["exact"]])
    for name, found in rows.items():
        nats, seconds = np.array(found).T
        gap = nats.mean() - best
        print(
            f"sushi-10: {name:<24} {nats.mean():.4f} ±{nats.std():.4f}  {gap:+.4f}  {seconds.min():.2f} s", flush=True
        )


def sushi() -> None:
    """Pairs of hidden items put right, 7 given and 3 hidden; default settings unless said otherwise."""
    models: dict[str, Callable[[int], pr.Ranker]] = {
        "pooled Plackett-Luce": lambda seed: pr.PlackettLuce(prior="gaussian"),
        "position-wise": lambda seed: pr.PositionwiseLogLinear(seed=seed),
        "position-wise, no factors": lambda seed: pr.PositionwiseLogLinear(0),
        "position-wise, point estimate": lambda seed: pr.PositionwiseLogLinear(method="swaps", seed=seed),
        "pairwise": lambda seed: pr.PairwiseLogLinear(seed=seed),
        "pairwise, no factors": lambda seed: pr.PairwiseLogLinear(0),
    }
    rows: dict[str, list[float]] = {name: [] for name in (*models, "pairwise, mode", "pairwise, no factors, mode")}
    seconds: dict[str, float] = {}
    for seed in SEEDS:
        split = splits.given_and_hidden(7, seed)
        rankings = as_rankings(split.train, split.strict)
        for name, make in models.items():
            model = make(seed).fit(rankings, verbose=False)
            seconds[name] = min(model.fit_seconds_, seconds.get(name, np.inf))
            rows[name].append(splits.pairs_right(split.test, model_scores(model, split.test)))
            if name.startswith("pairwise"):
                model = asked_by(model, insertion="mode")
                rows[f"{name}, mode"].append(splits.pairs_right(split.test, model_scores(model, split.test)))
    for name, found in rows.items():
        took = f"{seconds[name]:.1f} s" if name in seconds else ""
        print(f"sushi, 7 given 3 hidden: {name:<30} {np.mean(found):.4f} ±{np.std(found):.4f}  {took}", flush=True)


def movielens() -> None:
    """NDCG@10 on ML-100K, default settings."""
    models: list[tuple[str, int, Callable[[int], pr.Ranker]]] = [
        ("position-wise", 50, lambda seed: pr.PositionwiseLogLinear(seed=seed)),
        ("position-wise, no factors", 50, lambda seed: pr.PositionwiseLogLinear(0)),
        ("position-wise", 20, lambda seed: pr.PositionwiseLogLinear(seed=seed)),
        ("position-wise", 10, lambda seed: pr.PositionwiseLogLinear(seed=seed)),
        ("pairwise", 50, lambda seed: pr.PairwiseLogLinear(seed=seed)),
    ]
    for name, given, make in models:
        found, seconds = [], []
        for seed in SEEDS:
            split = splits.weak_generalisation("ml-100k", given, seed)
            model = make(seed).fit(as_rankings(split.train, split.strict), verbose=False)
            found.append(splits.ndcg(split.test, model_scores(model, split.test), seed))
            seconds.append(model.fit_seconds_)
        each = " ".join(f"{x:.4f}" for x in found)
        mean = f"{np.mean(found):.4f} ±{np.std(found):.4f}"
        print(f"ml-100k, N = {given}: {name:<26} NDCG@10 {mean}  ({each})  {min(seconds):.1f} s", flush=True)


def learnt_potentials(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Coefficients, position functions and pairs of n items as strong as those learnt from Sushi-10."""
    rng = np.random.default_rng(seed)
    pair = np.triu(0.3 * rng.normal(size=(n, n)) * np.sqrt(10 / n), 1)
    return rng.normal(size=(n, 1)), position_functions(n, "centred", 1), pair - pair.T


def normaliser() -> None:
    """Annealed importance sampling against the exact sum, and its bracket where there is none."""
    for n in (10, 14):
        gaps, errors, seconds = [], [], []
        for seed in range(3):
            arrays = learnt_potentials(n, seed)
            exact = log_normaliser(*arrays).value
            begin = time.perf_counter()
            found = log_normaliser(*arrays, exact=False, n_runs=1000, n_levels=400, key=seed)
            seconds.append(time.perf_counter() - begin)
            gaps.append(found.value - exact)
            errors.append(found.error)
        shown = " ".join(f"{gap:+.4f}" for gap in gaps)
        print(f"log Z, n = {n}: off by {shown}, said {max(errors):.4f}, {min(seconds):.1f} s", flush=True)
    for n_levels in (200, 1000):
        begin = time.perf_counter()
        found = log_normaliser(*learnt_potentials(50), n_levels=n_levels, n_runs=200)
        print(
            f"log Z, n = 50: {n_levels} levels, forward {found.low:.4f}, reverse {found.high:.4f}, "
            f"error {found.error:.4f}, {time.perf_counter() - begin:.1f} s",
            flush=True,
        )


def chains() -> None:
    """Effective draws a second of every move at n = 50, and whether the burn-in and thinning of `sample` will do."""
    unary, basis, pair = learnt_potentials(50)
    for kind, table in (("position-wise", np.zeros((0, 0))), ("pairwise", pair)):
        for name, move in MOVES.items():
            start = np.stack([np.random.default_rng(c).permutation(50) for c in range(4)])
            arguments = start, 50, move, 3, Terms(unary, basis, table), np.uint64(1)
            draw_orders(*arguments, Schedule(10, 10, 2))
            begin = time.perf_counter()
            orders, energies = draw_orders(*arguments, Schedule(2_500, 200, 500))
            seconds = time.perf_counter() - begin
            positions = np.argsort(orders, axis=2)
            frame = chain_summary({"energy": energies} | {a: positions[:, :, a] for a in range(0, 50, 7)})
            ess, r_hat = frame["ess_bulk"].min(), frame["r_hat"].max()
            print(f"chains, n = 50, {kind}, {name:<14}: R-hat {r_hat:.3f}, least {ess:.0f} effective draws of 2000, "
                  f"{ess / seconds:,.0f} a second", flush=True)  # fmt: skip


def shortest(job: Callable[[], object], repeats: int = 3) -> float:
    """Shortest processor time with one thread, JIT warm: other work on the machine counts less than in wall time."""
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    job()
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        job()
        times.append(time.process_time() - begin)
    numba.set_num_threads(before)
    return min(times)


def speed() -> None:
    """Swaps a second with one thread, and a sweep of the pairwise pseudo-likelihoods over the lists of ML-1M."""
    n_steps = 5_000_000
    for n, kind in ((50, "position-wise"), (20, "pairwise")):
        unary, basis, pair = learnt_potentials(n)
        table = pair if kind == "pairwise" else np.zeros((0, 0))
        order = np.random.default_rng(0).permutation(n)
        seconds = shortest(partial(steps, order, n, SWAP, 3, unary, basis, table, np.uint64(1), n_steps))
        print(f"speed, {kind}, n = {n}: {n_steps / seconds / 1e6:.1f} million swaps a second, one thread", flush=True)
    rankings = pr.datasets.load("ml-1m")
    begin = time.perf_counter()
    least = usual_cooccurrence(rankings)
    pairs = pairs_of(rankings, least)
    print(
        f"speed, ml-1m: {pairs.items.size:,} pairs ranked together {least} times, {time.perf_counter() - begin:.1f} s",
        flush=True,
    )
    positions, partners = position_table(rankings.lengths, "centred", 1), partners_of(pairs)
    values = 0.1 * np.random.default_rng(0).normal(size=pairs.items.size)
    for part in (4, 2, 1):
        users = rankings.user_ids.take(np.arange(0, rankings.n_users, part)).to_list()
        lists = strict_lists(rankings.select(users=users), 0)
        shards = shards_of_lists(lists, pairs)
        unary, n = np.random.default_rng(1).normal(size=(lists.items.size, 1)), lists.items.size
        job = partial(likelihoods, shards, unary, BY_RELOCATION, n, positions, pairs, partners, values)
        job()
        seconds = shortest(job, 1)
        print(f"speed, ml-1m, 1/{part} of the users, relocation: {n / 1e6:.2f} million entries of strict lists, "
              f"{seconds:.2f} s, {1e9 * seconds / n:.0f} ns each, one thread", flush=True)  # fmt: skip
    for name in ("PositionwiseLogLinear", "PairwiseLogLinear"):
        model = getattr(pr, name)
        model(max_iter=1).fit(rankings, verbose=False)
        few, more = (shortest(partial(model(max_iter=n).fit, rankings, verbose=False), 1) for n in (3, 8))
        print(f"speed, ml-1m, {name}: {(more - few) / 5:.2f} s a sweep, one thread", flush=True)


def fits() -> None:
    """Default fits of MovieLens 1M, from end to end; compiled before."""
    rankings = pr.datasets.load("ml-1m")
    for name in ("PositionwiseLogLinear", "PairwiseLogLinear"):
        model = getattr(pr, name)()
        model.set_params(max_iter=1).fit(rankings, verbose=False)
        begin = time.process_time(), time.perf_counter()
        model.set_params(max_iter=None).fit(rankings, verbose=False)
        processor, wall = time.process_time() - begin[0], time.perf_counter() - begin[1]
        print(f"fits, ml-1m, {name}: {processor:.0f} s of processor, {wall:.0f} s, {model.n_iter_} sweeps", flush=True)


PARTS = {f.__name__: f for f in (sushi_10, sushi, movielens, normaliser, chains, speed, fits)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=sorted(PARTS), default=list(PARTS))
    warnings.simplefilter("ignore")
    for name in parser.parse_args().only:
        PARTS[name]()


if __name__ == "__main__":
    main()
