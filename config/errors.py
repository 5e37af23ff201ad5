"""The root of every error that Turnout raises for a person to read."""


class TurnoutError(Exception):
    """Something went wrong that the message explains.

    A subclass's docstring is its default message. The command line prints the message on one line of standard error
    and exits with `exit_code`; it never prints a traceback for one of these.
    """

    exit_code = 1

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip().splitlines()[0])


class SettingsError(TurnoutError):
    """The settings are not valid."""

    exit_code = 2
