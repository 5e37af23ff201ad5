"""What can be wrong with a DAG, said to its author."""

from turnout.config.errors import TurnoutError


class DagError(TurnoutError):
    """A DAG is declared wrongly."""


class DagFileError(TurnoutError):
    """A DAG file cannot be loaded.

    Attributes:
        message: what is wrong, on one line, for the author.
        line: the line of the file that is to blame, when known.
    """

    def __init__(self, message: str, line: int | None = None) -> None:
        self.message = " ".join(message.split())
        self.line = line
        super().__init__(self.message)


class TemplateError(TurnoutError):
    """A template cannot be rendered."""


class CommandFailed(TurnoutError):  # noqa: N818 - named like the state it leads to
    """A command ended with an exit code that says failure."""


class XComError(TurnoutError):
    """A value cannot be passed from task to task."""
