"""What can keep the one-machine platform from running."""

from turnout.config.errors import TurnoutError


class LocalError(TurnoutError):
    """The one-machine platform cannot run."""


class ExtraMissingError(LocalError):
    """The embedded servers are not installed: `pip install 'turnout[local]'`, or set the URLs of your own servers."""


class HomeInUseError(LocalError):
    """Another process runs Turnout in this home."""


class HomeUnusableError(LocalError):
    """The home folder cannot be written."""


class ForeignFolderError(LocalError):
    """A folder is not Turnout's own, so Turnout leaves it alone."""


class OtherVersionError(LocalError):
    """A data folder was written by another major version of its server."""


class ServerFailedError(LocalError):
    """An embedded server did not start."""
