"""What can go wrong between Turnout and its metadata database."""

from turnout.config.errors import TurnoutError


class MetadataError(TurnoutError):
    """The metadata database refused a statement."""


class DatabaseUnavailableError(MetadataError):
    """The metadata database cannot be reached."""


class SchemaError(MetadataError):
    """The tables are not those of this version of Turnout: run `turnout db migrate`."""


class TermOverError(MetadataError):
    """The lease of this process is over: nothing of this transaction counts."""


class NotFoundError(MetadataError):
    """There is no such thing in the metadata database."""


class ConflictError(MetadataError):
    """The metadata database holds something that stands in the way."""


class RequestError(MetadataError):
    """The request cannot be carried out as it stands."""

    exit_code = 2
