"""The command line. Heavy libraries are imported when a command runs, so that ``--help`` is quick."""

from __future__ import annotations

import sys
import warnings
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from permrank.errors import ARGUMENT, PermrankError
from permrank.interfaces.cli.answers import explain, rank, recommend, similar
from permrank.interfaces.cli.demo import demo
from permrank.interfaces.cli.evaluate import compare, evaluate, split, tune
from permrank.interfaces.cli.fit import fit
from permrank.interfaces.cli.info import info, plot, summary
from permrank.interfaces.cli.installation import doctor, warm
from permrank.interfaces.cli.serve import serve
from permrank.interfaces.cli.sources import convert
from permrank.interfaces.output import message_of, say
from permrank.kernels.compiling import told_of_compiling


class _SaysOnce:
    """Called with every kernel that is compiled, says so at the first one; elsewhere than on a terminal if ``loud``."""

    loud = False
    _said = False

    def __call__(self, kernel: str) -> None:
        if not self._said and (self.loud or sys.stderr.isatty()):
            self._said = True
            say("compiling what this needs, once; 'permrank warm' compiles ahead", err=True)


class _Group(TyperGroup):
    """Turns every error that permrank raises on purpose into one line and exit code 1."""

    def invoke(self, ctx: Any) -> Any:
        spelling = ARGUMENT.set("--{}")
        ctx.obj = _SaysOnce()
        try:
            with told_of_compiling(ctx.obj):
                return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except (PermrankError, OSError) as error:
            typer.secho("error: ", fg="red", bold=True, nl=False, err=True)
            typer.echo(message_of(error), err=True)
            raise typer.Exit(1) from error
        finally:
            ARGUMENT.reset(spelling)


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Learn how each person ranks things, from the partial ranked lists or ratings of many people.\n\n"
    "Start with [bold]permrank demo[/bold]. With data of your own: "
    "[bold]permrank info ratings.csv[/bold], "
    "[bold]permrank fit ratings.csv -o m.permrank[/bold], "
    "[bold]permrank recommend m.permrank ann[/bold].",
)


def _version(wanted: bool) -> None:
    if wanted:
        from permrank import __version__

        typer.echo(f"permrank {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    pass


for _command in (
    demo, fit, recommend, info, convert, rank, explain, similar, summary, plot, split, evaluate, compare, tune, warm,
    doctor, serve,
):  # fmt: skip
    app.command()(_command)


def main() -> None:
    """Entry point of the ``permrank`` command."""
    # A locale that has no sign for what is to be printed gets a question mark, as from most programs.
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    warnings.showwarning = lambda message, *where: say(f"warning: {message}", err=True)
    app()
