"""What can go wrong in a command itself."""

from turnout.config.errors import TurnoutError


class NotUpError(TurnoutError):
    """Turnout is not up in this home: run `turnout up`, or set TURNOUT_DATABASE_URL to a PostgreSQL of yours."""


class ChecksFailedError(TurnoutError):
    """Something that the settings name cannot be used."""


class NotAliveError(TurnoutError):
    """No process of this name holds a lease."""


class UsageError(TurnoutError):
    """The command was called wrongly."""

    exit_code = 2
