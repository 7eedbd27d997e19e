"""The pictures of the documentation: ``python benchmarks/draw.py [NAME ...]`` draws docs/pictures/NAME.svg, or all.

Run by hand where a picture should change; it needs the extra ``plot``. Everything is simulated, as on the pages. Text
is text, nothing has a background, and colours are of middle lightness: one file serves light and dark pages.
"""

import sys
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

import permrank as pr
from permrank.evaluation.comparison import paired

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
TEXT, BLUE, ORANGE, GREEN = "#868e96", "#4c86d9", "#e08a2e", "#2f9e77"
LARGEST = 60_000  # bytes
matplotlib.rcParams.update({
    "svg.fonttype": "none", "svg.hashsalt": "permrank", "font.family": "sans-serif", "font.size": 11,
    "text.color": TEXT, "axes.labelcolor": TEXT, "axes.edgecolor": TEXT, "xtick.color": TEXT, "ytick.color": TEXT,
    "axes.spines.top": False, "axes.spines.right": False, "axes.titlelocation": "left", "axes.titlesize": 11,
    "axes.titleweight": "bold",
})  # fmt: skip


def ratings():
    """People of two tastes who chose what they rated: the data of have-ratings.md and compare-models.md."""
    return pr.datasets.simulated(
        n_users=200, n_items=60, n_communities=2, separation=1.5, choice=1.0, ties=5, list_length=(10, 20), seed=3
    )


def ballots():
    """The ballots of have-ballots.md."""
    return pr.datasets.simulated(
        n_users=400, n_items=8, n_communities=2, separation=1.2, n_factors=0, list_length=(3, 8), seed=3
    )[0]


def personal():
    """What two people of different tastes rated best, and what they would choose next, with probabilities."""
    rankings, truth = ratings()
    order = pr.FactoredPlackettLuce(n_factors=4, max_iter=40)
    model = pr.Recommender(order, n_factors=8).fit(rankings)
    people = [rankings.user_ids[int(np.flatnonzero(truth.memberships == taste)[0])] for taste in (0, 1)]
    figure = Figure(figsize=(9.0, 4.0), layout="constrained")
    for axes, person, colour in zip(figure.subplots(1, 2), people, (BLUE, ORANGE), strict=True):
        best = sorted(rankings.lists(person)[0][0])[:2]
        items = model.recommend(person, k=6)["item"].to_list()
        first = model.top_probability(person, items, k=3)
        rows = np.argsort(-first)
        axes.barh([items[row] for row in rows], first[rows], color=colour, height=0.6)
        for place, row in enumerate(rows):
            axes.text(first[row] + 0.02, place, f"{first[row]:.0%}", va="center")
        axes.invert_yaxis()
        axes.set(xlim=(0, 1.1), xticks=[], title=f"{person}, who likes\n{', '.join(best)}")
        axes.spines[["bottom", "left"]].set_visible(False)
        axes.tick_params(length=0)
        axes.set_xlabel("next: P(among the first three)")
    return figure


def found():
    """How much of what was hidden is among ten dishes shown: personal, and the same for everybody."""
    rankings, _ = ratings()
    split = pr.Catalogue().split(rankings, seed=0)
    models = {"Recommender": pr.Recommender(pr.PlackettLuce(prior="gaussian"), n_factors=8),
              "Popularity": pr.Popularity(count="listed"), "Random": pr.Random()}  # fmt: skip
    recall = [pr.evaluate(model, split, metrics=["recall"]).means()["recall"] for model in models.values()]
    figure = Figure(figsize=(7.0, 1.8), layout="constrained")
    axes = figure.subplots()
    axes.barh(list(models), recall, color=[BLUE, TEXT, TEXT], height=0.6)
    for place, value in enumerate(recall):
        axes.text(value + 0.01, place, f"{value:.0%}", va="center")
    axes.invert_yaxis()
    axes.set(xlim=(0, 1), xticks=[], title="hidden favourites among ten dishes shown")
    axes.spines[["bottom", "left"]].set_visible(False)
    axes.tick_params(length=0)
    return figure


def worths():
    """Log-worths with 95 % comparison intervals from quasi standard errors."""
    frame = pr.PlackettLuce().fit(ballots()).standard_errors()
    figure = Figure(figsize=(7.0, 3.2), layout="constrained")
    axes = figure.subplots()
    score, error = frame["score"].to_numpy(), 1.96 * frame["quasi_standard_error"].to_numpy()
    axes.errorbar(score, frame["item"].to_list(), xerr=error, fmt="o", color=BLUE, capsize=0)
    axes.invert_yaxis()
    axes.grid(axis="x", color=TEXT, alpha=0.25)
    axes.set(xlabel="log-worth, 95 % comparison interval")
    axes.spines["left"].set_visible(False)
    return figure


def voters():
    """Two groups of voters, and what each ranks first more often than the other."""
    model = pr.LatentPlackettLuce(n_communities=2, n_starts=2).fit(ballots())
    figure = Figure(figsize=(8.0, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    items = list(model.item_ids)
    scores = np.asarray(model.scores_)[0]
    order = np.argsort(-(scores[:, 0] - scores[:, 1]))
    for axes, community, colour in ((left, 0, BLUE), (right, 1, ORANGE)):
        worth = np.exp(scores[order, community] - scores[:, community].max())
        size = model.communities(n_items=1, n_users=0)["size"][community]
        axes.barh([items[row] for row in order], worth / worth.sum(), color=colour, height=0.6)
        axes.set(title=f"group {community + 1}, {size:.0%} of voters", xlabel="P(first of all)")
        axes.spines["left"].set_visible(False)
    left.invert_yaxis()
    return figure


def compared():
    """The comparison of compare-models.md."""
    rankings, _ = ratings()
    models = {
        "FactoredPlackettLuce": pr.FactoredPlackettLuce(n_factors=4, max_iter=40), "MeanRating": pr.MeanRating(),
        "PlackettLuce": pr.PlackettLuce(prior="gaussian"), "PairwiseFactorisation": pr.PairwiseFactorisation(),
    }  # fmt: skip
    return pr.compare(models, rankings, seeds=range(3))


def differences():
    """Differences from the best model, with intervals."""
    frame = compared().differences()
    figure = Figure(figsize=(7.5, 2.2), layout="constrained")
    axes = figure.subplots()
    low, high = (frame["difference"] - frame["low"]).to_numpy(), (frame["high"] - frame["difference"]).to_numpy()
    for row, (name, value) in enumerate(frame.select("model", "difference").iter_rows()):
        axes.errorbar(value, name, xerr=[[low[row]], [high[row]]], fmt="o", color=GREEN if row == 0 else BLUE)
    axes.axvline(0.0, color=TEXT, linewidth=0.8)
    axes.invert_yaxis()
    axes.set(xlabel="NDCG@10: difference from the best, 95 % interval over people")
    axes.spines["left"].set_visible(False)
    return figure


def gains():
    """Who gains and who loses by a personal model: differences from MeanRating, person by person."""
    values, _ = paired(compared().per_user("ndcg"), "FactoredPlackettLuce", "MeanRating")
    figure = Figure(figsize=(7.0, 2.6), layout="constrained")
    axes = figure.subplots()
    reach = np.quantile(np.abs(values), 0.98)
    _, edges, bars = axes.hist(np.clip(values, -reach, reach), bins=np.linspace(-reach, reach, 29), color=BLUE)
    for edge, bar in zip(edges, bars, strict=False):
        bar.set_facecolor(ORANGE if edge < -1e-9 else BLUE)
    better, worse = np.mean(values > 1e-12), np.mean(values < -1e-12)
    axes.set(xlabel="gain of a person in NDCG@10", ylabel="people", title=f"{better:.0%} gain, {worse:.0%} lose")
    return figure


PICTURES = {each.__name__: each for each in (personal, found, worths, voters, differences, gains)}


def main():
    FOLDER.mkdir(exist_ok=True)
    for name in sys.argv[1:] or PICTURES:
        path = FOLDER / f"{name}.svg"
        PICTURES[name]().savefig(path, transparent=True, metadata={"Date": None, "Creator": None})
        text = "\n".join(line.rstrip() for line in path.read_text(encoding="utf-8").splitlines())
        path.write_text(f"{text}\n", encoding="utf-8")
        assert path.stat().st_size < LARGEST, f"{path} is too large: {path.stat().st_size} bytes"
        print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
