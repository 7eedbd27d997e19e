"""Metrics over 10 million test entries: seconds, the ratio to ranx, and agreement with others on 10,000 random lists.

ranx runs in .venv-peers; scikit-learn and scipy, which average over tied scores as permrank does, run here.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numba
import numpy as np
from scipy import stats

from peers import peer_python, run_peer
from permrank.evaluation.metrics import of_kind, per_list

N_LISTS, LENGTH, N_RANX = 100_000, 100, 10_000
GRADED, ORDERED = of_kind("graded"), of_kind("order")


def best_of(repeats: int, *arguments: object, **options: object) -> float:
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        per_list(*arguments, **options)
        times.append(time.perf_counter() - begin)
    return min(times)


def main() -> None:
    numba.set_num_threads(min(2, numba.config.NUMBA_NUM_THREADS))
    rng = np.random.default_rng(0)
    indptr = np.arange(0, N_LISTS * LENGTH + 1, LENGTH)
    grades = rng.integers(1, 6, N_LISTS * LENGTH).astype(np.float64)
    for what, scores in (
        ("scores without ties", rng.normal(size=grades.size)),
        ("scores of 20 values", rng.integers(0, 20, grades.size).astype(np.float64)),
    ):
        per_list((*GRADED, *ORDERED), indptr[:2], grades[:LENGTH], scores[:LENGTH])  # compiles
        first, second = (
            best_of(3, GRADED, indptr, grades, scores),
            best_of(3, ORDERED, indptr, grades, scores),
        )
        print(
            f"{grades.size:,} entries in {N_LISTS:,} lists, {what}, {numba.get_num_threads()} threads: "
            f"{', '.join(GRADED)} {first:.2f} s; {', '.join(ORDERED)} {second:.2f} s; all {first + second:.2f} s",
            flush=True,
        )
    ranx(rng)
    ties(rng)


def ranx(rng: np.random.Generator) -> None:
    """The six metrics that ranx defines too, on lists without tied scores: it has no rule for those."""
    grades = rng.integers(0, 5, (N_RANX, LENGTH))
    scores = rng.permuted(np.tile(np.arange(LENGTH, dtype=np.float64), (N_RANX, 1)), axis=1)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "lists.npz", Path(folder) / "values.npz"
        np.savez(source, grades=grades, scores=scores)
        theirs = run_peer(peer_python("ranx"), "peer_ranx.py", source, target)["seconds"]
        values = dict(np.load(target))
    indptr = np.arange(0, grades.size + 1, LENGTH)
    flat = grades.ravel().astype(np.float64), scores.ravel()
    ours = best_of(3, list(values), indptr, *flat, relevant_from=1.0)
    found = per_list(list(values), indptr, *flat, relevant_from=1.0)
    worst = max(float(np.nanmax(np.abs(found[name] - values[name]))) for name in values)
    print(
        f"{', '.join(values)} of {N_RANX:,} lists of {LENGTH}: {ours:.3f} s, ranx {theirs:.3f} s: "
        f"{theirs / ours:.1f} times as fast; largest difference {worst:.1e}"
    )


def ties(rng: np.random.Generator) -> None:
    """Lists full of tied grades and tied scores, one by one with scikit-learn and scipy."""
    from sklearn.metrics import ndcg_score

    lengths = rng.integers(2, 30, N_RANX)
    indptr = np.concatenate(([0], np.cumsum(lengths)))
    grades = rng.integers(0, 6, indptr[-1]).astype(np.float64)
    scores = np.where(rng.random(grades.size) < 0.5, rng.integers(0, 4, grades.size), rng.normal(size=grades.size))
    found = per_list(["ndcg", "ndcg_linear", "tau_b", "spearman"], indptr, grades, scores)
    worst = dict.fromkeys(found, 0.0)
    for u in range(N_RANX):
        g, s = grades[indptr[u] : indptr[u + 1]], scores[indptr[u] : indptr[u + 1]]
        expected = {}
        if g.max() > 0:
            expected["ndcg"] = ndcg_score([2.0**g - 1.0], [s], k=10)
            expected["ndcg_linear"] = ndcg_score([g], [s], k=10)
        if np.ptp(g) > 0 and np.ptp(s) > 0:
            expected["tau_b"] = stats.kendalltau(g, s).statistic
            expected["spearman"] = stats.spearmanr(g, s).statistic
        for name, value in expected.items():
            worst[name] = max(worst[name], abs(float(found[name][u]) - value))
    told = ", ".join(f"{name} {value:.1e}" for name, value in worst.items())
    print(f"{N_RANX:,} lists with ties: largest difference from scikit-learn and scipy: {told}")


if __name__ == "__main__":
    main()
