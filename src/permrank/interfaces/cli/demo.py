"""``permrank demo``: the main job from beginning to end, offline, in one readable script."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

import permrank as pr
from permrank.files.atomic import writable_target
from permrank.interfaces.output import plain, table

_SHOWN = 5


def demo(
    context: typer.Context,
    seed: Annotated[int, typer.Option(help="Seed of the simulated people.")] = 0,
    report: Annotated[
        Path | None, typer.Option(help="Where to write the page of the comparison; among temporary files if not given.")
    ] = None,
) -> None:
    """Simulate people, learn from their lists, rank what one has not seen, compare models: offline, in seconds."""
    context.obj.loud = True
    # A folder of one's own: a name that is known in a shared one may be somebody else's.
    path = report or Path(tempfile.mkdtemp(prefix="permrank-")) / "demo.html"
    writable_target(path)
    run(seed, path)


def run(seed: int, report: Path) -> None:
    """Simulate, learn, find what two people would choose, say how good it is, and compare ways to order."""
    import polars as pl
    from rich.console import Console

    from permrank.interfaces.cli.comparing import comparison_tables

    begin = time.perf_counter()
    console = Console()

    # 1. Data: people of three tastes, who choose what they list, and put it in order.
    rankings, truth = pr.datasets.simulated(
        n_users=2_000, n_items=60, n_communities=3, separation=2.5, choice=0.7, list_length=(8, 14), seed=seed
    )
    console.print(
        f"[bold]1. Data[/bold]  {rankings.n_users:,} simulated people choose and rank 8 to 14 of "
        f"{rankings.n_items} dishes"
    )

    # 2. Learn what people take up, and how they order it.
    console.print("[bold]2. Model[/bold] of what people take up, and how they order it")
    split = pr.Catalogue().split(rankings, seed)
    model = pr.Recommender(pr.PlackettLuce(prior="gaussian"), n_factors=8, seed=seed).fit(split.train)
    everybody = pr.Popularity(count="listed").fit(split.train)
    console.print(f"   {model.call()}: {model.fit_seconds_:.1f} s")

    # 3. Two people of different tastes side by side, beside the order that is the same for all.
    people = [rankings.user_ids[int((truth.memberships == taste).argmax())] for taste in (0, 1)]
    console.print("[bold]3. Two people[/bold], what they have put first and what each would choose next")
    columns = {str(person): _said_and_found(model, split.train, person) for person in people}
    columns["the same for all"] = ["", *everybody.recommend(people[0], k=_SHOWN, exclude_listed=False)["item"]]
    console.print(table(pl.DataFrame({"": ["has listed", *map(str, range(1, _SHOWN + 1))], **columns})))
    for person in people:
        first = model.recommend(person, k=1)["item"][0]
        console.print(plain(f"   {person}: {model.because(person, first)}"), soft_wrap=True)

    # 4. How good is it? What was hidden, over all dishes, against what is the same for everybody.
    console.print("[bold]4. Finding[/bold] a fifth of everybody's choices was hidden; the ten dishes shown hold of it")
    for name, each in {"Recommender": model, "Popularity": everybody}.items():
        found = pr.evaluate(each, split, metrics=["recall"], k=10).means()["recall"]
        console.print(f"   {name:12} {found:.0%}")

    # 5. Which model orders best? The same hidden items for all, person by person, and a page to read.
    console.print(
        "[bold]5. Ordering[/bold] six dishes of everybody's list are given, the order of the others is hidden"
    )
    splits = [pr.Given(6).split(rankings, seed)]
    models = {
        "Random": pr.Random(),
        "MeanRating": pr.MeanRating(),
        "PlackettLuce(prior='gaussian')": pr.PlackettLuce(prior="gaussian"),
        "PairwiseFactorisation": pr.PairwiseFactorisation(),
    }
    compared = pr.compare(models, splits, n_pairs=1000)
    console.print(comparison_tables(compared, 10, 80)[0])
    compared.command = f"permrank demo --seed {seed}"
    compared.report(report, title="simulated people")
    console.print(plain(f"   with pictures: {report}"), soft_wrap=True)
    console.print(
        f"[dim]{time.perf_counter() - begin:.1f} s in all. Next: permrank fit YOUR.csv -o m.permrank, "
        "permrank recommend m.permrank SOMEBODY, permrank compare YOUR.csv --report out.html; "
        "for a group that ranks together: permrank serve --demo[/dim]"
    )


def _said_and_found(model: pr.Recommender, rankings: pr.Rankings, person: object) -> list[str]:
    """What a person has put first, and what they would choose next, each with the dishes that speak for it."""
    lines = [", ".join(map(str, rankings.lists(person)[0][:4])) + " ..."]
    for item in model.recommend(person, k=_SHOWN)["item"]:
        reasons = [row["item"] for row in model.explain(person, item).to_dicts() if row["reason"] == "for"]
        lines.append(f"{item} (for {' and '.join(map(str, reasons))})" if reasons else str(item))
    return lines
