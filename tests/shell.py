"""The command line in this process."""

from typer.testing import CliRunner

from permrank.interfaces.cli.app import app


def run(*arguments, code=0):
    """What a command prints, if it ends as it should."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, (arguments, result.output, result.exception)
    return result
