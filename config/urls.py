"""URLs as people may see them."""

import re

#: A password in a URL: after the user's name, up to the last @ before the path, or as a parameter.
_PASSWORD = re.compile(r"(?<=://)([^:/@]*):[^/]*(?=@)|(?<=[?&])(password)=[^&]*")


def without_password(url: str) -> str:
    """Write a URL with stars in place of its password."""
    return _PASSWORD.sub(lambda found: f"{found[1]}:***" if found[2] is None else f"{found[2]}=***", url)
