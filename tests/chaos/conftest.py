"""The platform, for the tests of this room as well."""

from tests.acceptance.conftest import platform

__all__ = ["platform"]
