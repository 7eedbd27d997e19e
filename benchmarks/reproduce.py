"""Whether permrank's own protocols, metrics and baselines agree with code that shares nothing with them.

On the one side splits.py (numpy only, ties in scores broken at random) and the alternating ridge regressions of
accuracy.py; on the other `pr.WeakGeneralisation`, `pr.Given`, `pr.MeanRating` and `pr.compare`, all with the same
penalties. Each side draws its own splits, seeds 0 to 4, so means may differ by chance: by two standard errors of a
difference. ``recorded`` is what was measured once with penalties tuned for every data set on a validation part; pooled
Plackett-Luce is compared with choix there.
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


def apart(ours: list[float], mean: float, deviation: float) -> float:
    """Difference of two means over five seeds in standard errors."""
    return float((np.mean(ours) - mean) / np.sqrt((np.var(ours, ddof=1) + deviation**2) / len(SEEDS)))


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
        for metric, (mean, deviation) in recorded.items():
            ours = [result.means()[metric] for result in found.of("bias")]
            other = independent[metric]
            errors = apart(ours, float(np.mean(other)), float(np.std(other, ddof=1)))
            good.append(abs(errors) <= 2.0)
            print(
                f"{protocol} bias {metric}: {np.mean(ours):.4f} ±{np.std(ours, ddof=1):.4f}, independent code "
                f"{np.mean(other):.4f} ±{np.std(other, ddof=1):.4f}: {errors:+.1f} standard errors "
                f"(recorded {mean:.4f} ±{deviation:.4f})",
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
