"""Communities (LatentPlackettLuce): accuracy on Sushi and MovieLens, planted communities, and speed against implicit.

Needs PERMRANK_DATA (Sushi, MovieLens 100K and 1M) or a network to fetch them. ``--only`` runs some of the parts.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numba
import numpy as np

import permrank as pr
import splits
from accuracy import as_rankings, asked_by, model_scores
from peers import peer_python, run_peer
from permrank.families.latent.kernels.insertion import EXPECTED, insertion_scores
from permrank.families.latent.kernels.stages import BY_STAGE, EFRON, Rules
from permrank.families.latent.learning import CommunityData, e_step_of
from permrank.kernels.lists import Lists

SEEDS = range(5)


def sushi() -> None:
    """Pairs of hidden items put right: pooled, default settings, and the paper's rule for the same fits."""
    for given, wanted in ((7, 0.672), (5, 0.662)):
        rows = []
        for seed in SEEDS:
            split = splits.given_and_hidden(given, seed)
            rankings = as_rankings(split.train, split.strict)
            pooled = pr.PlackettLuce(prior="gaussian").fit(rankings, verbose=False)
            model = pr.LatentPlackettLuce().fit(rankings, verbose=False)
            by_list = pr.LatentPlackettLuce(mixing="list").fit(rankings, verbose=False)
            found = [model_scores(pooled, split.test), model_scores(model, split.test)]
            found.append(model_scores(asked_by(model, insertion="mode"), split.test))
            found.append(model_scores(by_list, split.test))
            rows.append([splits.pairs_right(split.test, scores) for scores in found])
            print(f"  seed {seed}:", " ".join(f"{x:.4f}" for x in rows[-1]), flush=True)
        mean, spread = np.mean(rows, axis=0), np.std(rows, axis=0)
        names = ("pooled", "default", "default, the paper's rule", "one community a list")
        for name, m, s in zip(names, mean, spread, strict=True):
            print(
                f"sushi, {given} given {10 - given} hidden: {name:<26} {m:.4f} ±{s:.4f}  (wanted {wanted})", flush=True
            )


def sushi_10() -> None:
    """Nats of held-out people's lists of ten, five folds."""
    settings = {f"{k} communities, by list": {"n_communities": k, "mixing": "list"} for k in (2, 4, 8)}
    settings |= {f"{k} communities, by stage": {"n_communities": k} for k in (4, 8)}
    for name, parameters in settings.items():
        nats, errors = [], []
        for seed in SEEDS:
            split = splits.fold_of_people(seed)
            model = pr.LatentPlackettLuce(**parameters).fit(as_rankings(split.train, split.strict), verbose=False)
            values, error = model.log_likelihood(as_rankings(split.test, split.strict), with_error=True)
            nats.append(-values.mean())
            errors.append(np.sqrt(np.sum(error**2)) / values.size)
        print(f"sushi-10: {name:<24} {np.mean(nats):.3f} ±{np.std(nats):.3f}  error {np.mean(errors):.4f}", flush=True)


def movielens() -> None:
    """NDCG@10 with 50 ratings a user, beside the pooled model with the same treatment of ties."""
    for seed in SEEDS:
        split = splits.weak_generalisation("ml-100k", 50, seed)
        rankings = as_rankings(split.train, split.strict)
        found = {}
        for name, model in {
            "pooled": pr.PlackettLuce(prior="gaussian", ties="efron"),
            "pooled, Breslow": pr.PlackettLuce(prior="gaussian", ties="breslow"),
            "latent": pr.LatentPlackettLuce(),
        }.items():
            fitted = model.fit(rankings, verbose=False)
            found[name] = splits.ndcg(split.test, model_scores(fitted, split.test), seed)
        print(f"ml-100k, N = 50, seed {seed}:", "  ".join(f"{k} {v:.4f}" for k, v in found.items()), flush=True)


def planted() -> None:
    """Leading communities of 5,000 simulated people against the truth: adjusted Rand index."""
    for separation in (1.5, 2.0, 3.0):
        simulated = pr.datasets.simulated(
            5_000, 200, n_communities=4, n_factors=0, list_length=15, separation=separation, seed=0
        )
        for mixing in ("stage", "list"):
            model = pr.LatentPlackettLuce(4, mixing=mixing).fit(simulated.rankings, verbose=False)
            index = rand_index(model.memberships_[0].argmax(axis=1), simulated.truth.memberships)
            print(f"planted, separation {separation}, by {mixing}: adjusted Rand index {index:.4f}", flush=True)


def rand_index(first: np.ndarray, second: np.ndarray) -> float:
    """Adjusted Rand index (Hubert and Arabie 1985)."""
    table = np.zeros((first.max() + 1, second.max() + 1))
    np.add.at(table, (first, second), 1)
    rows, columns, cells, n = (
        float(np.sum(x * (x - 1) / 2)) for x in (table.sum(axis=1), table.sum(axis=0), table, np.array(first.size))
    )
    return (cells - rows * columns / n) / ((rows + columns) / 2 - rows * columns / n)


def shortest(job: Callable[[], object], repeats: int = 15) -> float:
    """Shortest wall time, JIT warm."""
    job()
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        job()
        times.append(time.perf_counter() - begin)
    return min(times)


def em_pass(rankings: pr.Rankings, n_communities: int) -> Callable[[], object]:
    """One E-step with the sums of the M-step, and the M-step."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(rankings.n_items, n_communities))
    mixture = rng.dirichlet(np.ones(n_communities), size=rankings.n_users)
    e_step = e_step_of(CommunityData.of(rankings, np.zeros(rankings.n_items), EFRON, "mm", None), n_communities)

    def job() -> object:
        _, counts, chosen, available = e_step(scores, mixture, BY_STAGE)
        new = counts + 0.1
        return np.log((chosen + 1.0) / (available + 1.0)), new / new.sum(axis=1, keepdims=True)

    return job


def speed() -> None:
    """An EM pass against an ALS iteration; growth with the entries; a million candidates."""
    print(f"{numba.get_num_threads()} threads")
    data = pr.datasets.load("ml-1m")
    ours = shortest(em_pass(data, 16))
    als = als_seconds(data, 16)
    again = shortest(em_pass(data, 16))
    print(f"ml-1m, K = 16: EM iteration {ours:.3f} s (again {again:.3f}), ALS iteration {als:.3f} s, "
          f"ratio {min(ours, again) / als:.2f} (wanted at most 1.0)", flush=True)  # fmt: skip
    sizes, times = [], []
    for n_users in (750, 1500, 3000, 6000):
        part = data.select(users=data.user_ids.take(np.arange(n_users)).to_list())
        sizes.append(part.n_entries)
        times.append(shortest(em_pass(part, 16)))
    slope = np.polyfit(np.log(sizes), np.log(times), 1)[0]
    print(
        f"EM iteration over {sizes} entries: {[round(t, 4) for t in times]} s, slope {slope:.2f} (wanted 0.95 to 1.1)"
    )
    rng = np.random.default_rng(1)
    worths, theta = np.exp(rng.normal(size=(1_000_020, 16))), rng.dirichlet(np.ones(16), size=1)
    users, indptr = np.array([0, 1]), np.array([0, 20])
    items, levels = np.arange(20, dtype=np.int32), np.arange(20, dtype=np.int32)
    candidates, asked = np.arange(20, 1_000_020), np.array([0, 1_000_000])
    seconds = shortest(
        lambda: insertion_scores(
            Lists(users, indptr, items, levels, np.ones(1)), worths, theta, asked, candidates,
            Rules(EFRON, BY_STAGE), EXPECTED,
        ), 3
    )  # fmt: skip
    print(f"a list of 20 against 1,000,000 candidates, K = 16: {seconds:.2f} s (wanted below 1)", flush=True)


def als_seconds(data: pr.Rankings, factors: int) -> float:
    """Seconds of one iteration of implicit's ALS over the same ratings."""
    users = data.entry_users()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ratings.npz"
        np.savez(path, users=users, items=data.items, ratings=data.ratings)
        return run_peer(peer_python("implicit"), "peer_als_iteration.py", path, factors)["seconds"]


PARTS = {"sushi": sushi, "sushi-10": sushi_10, "ml-100k": movielens, "planted": planted, "speed": speed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=tuple(PARTS), default=tuple(PARTS))
    for name in parser.parse_args().only:
        PARTS[name]()


if __name__ == "__main__":
    main()
