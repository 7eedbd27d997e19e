"""How often `compare` calls a model worse: than itself with other seeds, than many equals, and than a better one.

Simulated data sets: 60 people, of 12 items each in order, six of them given. `--repeats` of them for each row; a share
of .05 of 200 is known to .015. Takes a quarter of an hour.

- twins: one model twice, under two names. "one fit each" is the test that ignores what a seed does: Student's, paired
  over people, of the first fits.
- equals: Random (the quickest) 2, 5, 10 and 20 times; how often any is called worse.
- better: the values of one of two twins are raised by twice the standard deviation of a fit's mean between seeds (the
  standard error of one fit), and by twice and 2.8 times the standard error of the whole comparison.
- intervals: how often those of 95 % hold the mean of few people, and the percentile bootstrap, of 500 samples, beside.
"""

import argparse
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context

import numpy as np
import polars as pl
from scipy.stats import ttest_1samp

import permrank as pr
from permrank.evaluation.significance import interval

MODELS = {
    "FactoredPlackettLuce": pr.FactoredPlackettLuce(n_factors=2, max_iter=20),
    "point estimate": pr.FactoredPlackettLuce(n_factors=4, method="point", user_penalty=0.3, item_penalty=0.3),
    "LatentPlackettLuce": pr.LatentPlackettLuce(n_communities=3, n_starts=1, prior_strength=0.1, max_iter=30),
    "Random": pr.Random(),
}
NUMBERS = (2, 5, 10, 20)


def split_of(number):
    """A data set, half of every list hidden."""
    rankings, _ = pr.datasets.simulated(
        n_users=60, n_items=20, list_length=12, n_communities=3, separation=1.5, choice=0.0, seed=number
    )
    return pr.Given(6).split(rankings, seed=number)


def compared(name, number, n_models=2):
    """The same model under so many names; without the fitted models and the data."""
    found = pr.compare({f"{n}": MODELS[name] for n in range(n_models)}, split_of(number))
    return replace(found, results=[replace(result, model=None) for result in found.results], first_split=None)


def worse(found):
    """Whether any model is called worse."""
    return "worse" in found.table()["verdict"].to_list()


def raised(found, by):
    """The same comparison with a better first model."""
    column = pl.col(found.metric) + by
    results = [replace(r, per_user=r.per_user.with_columns(column)) if r.name == "0" else r for r in found.results]
    return replace(found, results=results, _cache={})


def naive(found):
    """Whether one is worse by people alone, of the first fits."""
    one, other = (found.of(n)[0].per_user[found.metric].to_numpy() for n in ("0", "1"))
    return bool(np.any(one != other) and ttest_1samp(one - other, 0.0).pvalue < 0.05)


def detected(found, by):
    """Whether the one that is better by so much is best and the other one worse."""
    table = raised(found, by).table()
    return table["verdict"].to_list() == ["best", "worse"] and table["model"][0] == "0"


def deviations(twins):
    """Standard deviation of the mean of one fit between seeds, and standard error of the difference of all fits."""
    means = np.array([[[r.means()[r.metrics[0]] for r in f.of(n)][: len(f.of("0"))] for n in "01"] for f in twins if
                      len(f.of("0")) == len(f.of("1")) == len(twins[0].of("0"))])  # fmt: skip
    return np.sqrt(means.var(axis=2, ddof=1).mean()), np.sqrt(np.mean((means[:, 0] - means[:, 1]).mean(axis=1) ** 2))


def equals(name, number):
    """Whether some of 2, 5, 10 and 20 equal models is worse."""
    found = compared(name, number, NUMBERS[-1])
    parts = [[r for r in found.results if int(r.name) < n] for n in NUMBERS]
    return [worse(replace(found, results=part, _cache={})) for part in parts]


def intervals(n_samples=3000):
    """Print the coverage of intervals of a mean."""
    rng, sizes = np.random.default_rng(0), (5, 8, 15, 30, 100)
    laws = {"normal": (rng.normal, 0.0, ()), "beta(5, 1)": (rng.beta, 5 / 6, (5, 1)),
            "beta(0.5, 0.5)": (rng.beta, 0.5, (0.5, 0.5)), "exponential": (rng.exponential, 1.0, (1.0,))}  # fmt: skip
    print("\n| intervals | " + " | ".join(f"n = {n}" for n in sizes) + " |\n" + "|---" * 6 + "|")
    for name, (draw, mean, shape) in laws.items():
        of = {"Student": [], "percentile bootstrap": []}
        for n in sizes:
            ends = [interval(draw(*shape, size=n)) for _ in range(n_samples)]
            of["Student"].append(np.mean([low <= mean <= high for low, high in ends]))
            again = (draw(*shape, size=n)[rng.integers(0, n, (1000, n))].mean(axis=1) for _ in range(n_samples // 6))
            ends = [np.quantile(means, [0.025, 0.975]) for means in again]
            of["percentile bootstrap"].append(np.mean([low <= mean <= high for low, high in ends]))
        for kind, shares in of.items():
            print(f"| {name}, {kind} | " + " | ".join(f"{share:.3f}" for share in shares) + " |", flush=True)


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=200, help="data sets of each row")
    parser.add_argument("--models", nargs="+", default=list(MODELS), help="of the twins")
    parser.add_argument("--equals", default="Random", help="the model of the equals")
    parser.add_argument("--only", choices=["twins", "equals", "intervals"], help="one table")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    given = parser.parse_args()
    numbers = range(given.repeats)
    if given.only in (None, "intervals"):
        intervals()
    os.environ |= {"NUMBA_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with ProcessPoolExecutor(given.processes, mp_context=get_context("spawn")) as pool:
        if given.only in (None, "twins"):
            print("| two fits of one model | worse | one fit each | better by 2 of a fit | 2 of the comparison | 2.8 |")
            print("|---" * 6 + "|")
            for name in given.models:
                found = list(pool.map(compared, [name] * given.repeats, numbers))
                fit, whole = deviations(found)
                shares = [np.mean(list(map(worse, found))), np.mean(list(map(naive, found)))]
                for by in (2.0 * fit, 2.0 * whole, 2.8 * whole):
                    shares.append(np.mean([detected(each, by) for each in found]))
                print(f"| {name} | " + " | ".join(f"{share:.3f}" for share in shares) + " |", flush=True)
        if given.only in (None, "equals"):
            shares = np.mean(list(pool.map(equals, [given.equals] * given.repeats, numbers)), axis=0)
            print("\n| equal models | " + " | ".join(map(str, NUMBERS)) + " |\n" + "|---" * 5 + "|")
            print(f"| {given.equals}: some called worse | " + " | ".join(f"{share:.3f}" for share in shares) + " |")


if __name__ == "__main__":
    main()
