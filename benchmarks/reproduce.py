"""Whether permrank's own protocols, metrics and baselines agree with code that shares nothing with them.

On the one side splits.py (numpy only, ties in scores broken at random) and the alternating ridge regressions of
accuracy.py; on the other `pr.WeakGeneralisation`, `pr.Given`, `pr.MeanRating` and `pr.compare`, all with the same
penalties. Each side draws its own splits, seeds 0 to 4, so means may differ by chance: by two standard errors of a
difference.

``recorded`` is what was measured once on the splits of splits.py (ML-1M seeds 0 and 1 only) with penalties tuned for
every protocol on a validation part of the training data of seed 0. The second part tunes `pr.MeanRating` in that way,
by NDCG@10 (Sushi: by pairs) over ten settings, and compares; pooled Plackett-Luce is compared with choix.
"""

from __future__ import annotations

import argparse

import numpy as np

import accuracy
import permrank as pr
import splits

RECORDED = {
    "ml-100k/10": {"ndcg": (0.7163, 0.0052), "pairs_right": (0.6385, 0.0040)},
    "ml-100k/20": {"ndcg": (0.7169, 0.0021), "pairs_right": (0.6545, 0.0014)},
    "ml-100k/50": {"ndcg": (0.7119, 0.0039), "pairs_right": (0.6849, 0.0016)},
    "ml-1m/10": {"ndcg": (0.7433, 0.0050), "pairs_right": (0.6803, 0.0002)},
    "ml-1m/20": {"ndcg": (0.7536, 0.0016), "pairs_right": (0.6896, 0.0001)},
    "ml-1m/50": {"ndcg": (0.7522, 0.0004), "pairs_right": (0.6978, 0.0008)},
    "sushi/7": {"pairs_right": (0.6638, 0.0032)},
    "sushi/5": {"pairs_right": (0.6608, 0.0021)},
}
POOLED = {"sushi/7": (0.6629, 0.0029), "sushi/5": (0.6602, 0.0026)}  # choix, I-LSR
SEEDS = range(5)
# Penalties of users and of items that are tried.
TRIED = [(user, item) for item in (2.0, 5.0, 10.0, 15.0, 25.0) for user in (5.0, 10.0)]


def apart(ours: list[float], mean: float, deviation: float) -> float:
    """Difference of two means over as many seeds in standard errors."""
    return float((np.mean(ours) - mean) / np.sqrt((np.var(ours, ddof=1) + deviation**2) / len(ours)))


def measured(split: splits.Split, penalties: tuple[float, float], seed: int) -> dict[str, float]:
    """`pr.MeanRating` on a split of splits.py, marked by its metrics."""
    model = pr.MeanRating(user_penalty=penalties[0], item_penalty=penalties[1])
    model.fit(accuracy.as_rankings(split.train, split.strict), verbose=False)
    scores = accuracy.model_scores(model, split.test)
    return {"ndcg": splits.ndcg(split.test, scores, seed), "pairs_right": splits.pairs_right(split.test, scores)}


def tuned(protocol: str) -> tuple[tuple[float, float], dict[str, list[float]]]:
    """The best penalties on a validation part of the training data of seed 0, and what they reach on the test parts."""
    draw = accuracy.PROTOCOLS[protocol].split
    part, by = splits.validation(draw(0)), next(iter(RECORDED[protocol]))
    best = max(TRIED, key=lambda penalties: measured(part, penalties, 0)[by])
    seeds = SEEDS[:2] if protocol.startswith("ml-1m") else SEEDS
    found = [measured(draw(seed), best, seed) for seed in seeds]
    return best, {name: [each[name] for each in found] for name in found[0]}


def theirs(protocol: str) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {"ndcg": [], "pairs_right": []}
    for seed in SEEDS:
        split = accuracy.PROTOCOLS[protocol].split(seed)
        scores = accuracy.biases(split, "", seed).scores
        found["ndcg"].append(splits.ndcg(split.test, scores, seed))
        found["pairs_right"].append(splits.pairs_right(split.test, scores))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["ml-100k", "sushi", "ml-1m"])
    chosen = parser.parse_args().data
    good = []
    for protocol, recorded in RECORDED.items():
        dataset, n_train = protocol.split("/")
        if dataset not in chosen:
            continue
        models: dict[str, pr.Ranker] = {"bias": pr.MeanRating(item_penalty=10.0, user_penalty=5.0)}
        if protocol in POOLED:
            models["pooled"] = pr.PlackettLuce(prior="gaussian")
        kind = pr.Given if dataset == "sushi" else pr.WeakGeneralisation
        found = pr.compare(
            models,
            pr.datasets.load(dataset),
            protocol=kind(int(n_train)),
            seeds=SEEDS,
            metrics=["ndcg", "pairs_right"],
        )
        if found.problems():
            raise SystemExit(str(found.problems()))
        independent = theirs(protocol)
        for metric in recorded:
            ours = [result.means()[metric] for result in found.of("bias")]
            other = independent[metric]
            errors = apart(ours, float(np.mean(other)), float(np.std(other, ddof=1)))
            good.append(abs(errors) <= 2.0)
            print(
                f"{protocol} bias {metric}: {np.mean(ours):.4f} ±{np.std(ours, ddof=1):.4f}, independent code "
                f"{np.mean(other):.4f} ±{np.std(other, ddof=1):.4f}: {errors:+.1f} standard errors",
                flush=True,
            )
        (user, item), reached = tuned(protocol)
        for metric, (mean, deviation) in recorded.items():
            ours = reached[metric]
            errors = apart(ours, mean, deviation)
            good.append(abs(errors) <= 2.0)
            print(
                f"{protocol} bias {metric}, penalties {user:g} and {item:g} by validation: {np.mean(ours):.4f} "
                f"±{np.std(ours, ddof=1):.4f}, recorded {mean:.4f} ±{deviation:.4f}: {errors:+.1f} standard errors",
                flush=True,
            )
        if protocol in POOLED:
            ours = [result.means()["pairs_right"] for result in found.of("pooled")]
            errors = apart(ours, *POOLED[protocol])
            good.append(abs(errors) <= 2.0)
            print(
                f"{protocol} pooled Plackett-Luce pairs_right: {np.mean(ours):.4f} ±{np.std(ours, ddof=1):.4f}, "
                f"choix recorded {POOLED[protocol][0]:.4f} ±{POOLED[protocol][1]:.4f}: {errors:+.1f} standard errors",
                flush=True,
            )
    print(f"{sum(good)} of {len(good)} within two standard errors")


if __name__ == "__main__":
    main()
