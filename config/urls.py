"""URLs as people may see them."""

import re
from collections.abc import Iterator
from urllib.parse import parse_qsl, unquote, urlsplit

#: A password in a URL: after the user's name, up to the last @ before the path, or as a parameter.
_PASSWORD = re.compile(r"(?<=://)([^:/@]*):[^/]*(?=@)|(?<=[?&])(password)=[^&]*")


def without_password(url: str) -> str:
    """Write a URL with stars in place of its password."""
    return _PASSWORD.sub(lambda found: f"{found[1]}:***" if found[2] is None else f"{found[2]}=***", url)


def passwords_in(url: str) -> Iterator[str]:
    """Yield the passwords of a URL, as they stand there and as they are."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return
    if parts.password:
        yield from {parts.password, unquote(parts.password)}
    yield from (value for name, value in parse_qsl(parts.query) if name == "password")
