"""``permrank demo``: the main job from beginning to end, offline, in one readable script."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import polars as pl
from rich.columns import Columns
from rich.console import Console

import permrank as pr
from permrank.interfaces.cli.comparing import comparison_tables
from permrank.interfaces.output import plain, table
from permrank.interfaces.report.report import write_report

HELD_OUT = 200  # people whose lists the model does not see


def run(seed: int, report: Path) -> None:
    """Simulate, learn, rank what a person has not seen, say how good it is, and compare with other models."""
    begin = time.perf_counter()
    console = Console()

    # 1. Data: people with tastes of their own, each with a ranked list of some dishes.
    rankings, truth = pr.datasets.simulated(n_users=2_000, n_items=60, n_communities=1, separation=0.0, seed=seed)
    people = list(rankings.user_ids)
    train, test = rankings.select(users=people[:-HELD_OUT]), rankings.select(users=people[-HELD_OUT:])
    console.print(
        f"[bold]1. Data[/bold]  {rankings.n_users:,} simulated people rank 8 to 16 of {rankings.n_items} dishes"
    )

    # 2. Learn one worth for each dish.
    model = pr.PlackettLuce(prior="gaussian").fit(train)
    console.print(
        f"[bold]2. Model[/bold] {model!r}: {model.n_iter_} sweeps, "
        f"{model.fit_seconds_:.1f} s (most of it compiling, once)"
    )

    # 3. One person's list, and what she has not seen, with an interval of each rank.
    ann = people[0]
    ranked = train.lists(ann)[0]
    listed = pl.DataFrame({"rank": range(1, len(ranked) + 1), "item": ranked})
    unseen = model.recommend(ann, k=10, interval=True).select(
        "rank", "item", pl.format("{} to {}", "rank_low", "rank_high").alias("90 % interval")
    )
    console.print("[bold]3. Ranking[/bold]")
    console.print(Columns([table(listed, f"{ann} says"), table(unseen, "and has not seen")], padding=(0, 3)))
    first, second = model.recommend(ann, k=2)["item"]
    console.print(f"   P({first} before {second}) = {model.prefers(ann, first, second):.2f}")

    # 4. How good is it? The lists of people that the model has not seen, against a guess and the truth.
    uniform = -np.mean([np.log(np.arange(1, len(each) + 1)).sum() for each in test.lists()])
    console.print(
        f"[bold]4. Check[/bold] on {HELD_OUT} people held out, log-probability of a list: "
        f"{model.log_likelihood(test).mean():.2f} (blind guess {uniform:.2f}); "
        f"worths correlate {np.corrcoef(model.scores_, truth.popularity)[0, 1]:.3f} with the planted ones"
    )

    # 5. Is another model better? The same hidden items for all, person by person, and a page to read.
    console.print(
        "[bold]5. Comparison[/bold] six dishes of everybody's list are given, the order of the others is hidden"
    )
    splits = [pr.Given(6).split(rankings, seed)]
    models = {
        "Random": pr.Random(),
        "MeanRating": pr.MeanRating(),
        "PlackettLuce(prior='gaussian')": pr.PlackettLuce(prior="gaussian"),
        "PairwiseFactorisation": pr.PairwiseFactorisation(),
    }
    found = pr.compare(models, splits, n_pairs=1000)
    console.print(comparison_tables(found, 10, 80)[0])
    write_report(found, splits, report, command=f"permrank demo --seed {seed}", title="simulated people")
    console.print(plain(f"   with pictures: {report}"), soft_wrap=True)
    console.print(
        f"[dim]{time.perf_counter() - begin:.1f} s in all. Next: permrank compare YOUR.csv --report out.html, "
        "permrank fit YOUR.csv -o m.permrank[/dim]"
    )
