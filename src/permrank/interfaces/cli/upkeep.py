"""Commands about the installation: ``permrank warm`` and ``permrank doctor``."""

from __future__ import annotations

from typing import Annotated

import typer

from permrank.interfaces.cli.options import Json


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(warm)
    app.command()(doctor)


def warm(
    models: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MODEL]...", help="Models to compile for; without any, those taken by default."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="For every model (minutes).")] = False,
    processes: Annotated[
        int | None, typer.Option(min=1, show_default="one for each core", help="How many compile at a time.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compile ahead what models need, in parallel processes, so that the first fit need not.

    Machine code is kept for this version on this machine ('permrank doctor' says where). Code that is there is not
    compiled again.

    Example: permrank warm

    Example: permrank warm PlackettLuce BradleyTerry
    """
    from permrank.families import MODELS
    from permrank.interfaces.cli.warm import USUAL, warm
    from permrank.interfaces.output import show

    names = list(MODELS) if everything else models or list(USUAL)
    show(warm(names, processes), as_json=as_json, title="compiled")


def doctor(as_json: Json = False) -> None:
    """Check this installation: versions, threads, caches, data folder, start-up time and a self-test."""
    from permrank.interfaces.cli.doctor import examine
    from permrank.interfaces.output import show

    report, healthy = examine()
    show(report, as_json=as_json, title="permrank doctor")
    if not healthy:
        raise typer.Exit(1)
