"""`turnout version`."""

from importlib.metadata import version as version_of

import typer


def version() -> None:
    """Print the version of Turnout."""
    typer.echo(version_of("turnout"))
