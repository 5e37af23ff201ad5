"""DAG versions: immutable, therefore cached by whoever needs their content."""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, text

Content = dict[str, Any]


class VersionCache:
    """The contents of the DAG versions used last, by id.

    Args:
        size: how many to keep.
    """

    def __init__(self, size: int = 256) -> None:
        self._size = size
        self._contents: OrderedDict[int, Content] = OrderedDict()

    def get(self, connection: Connection, version_ids: Iterable[int]) -> dict[int, Content]:
        """Return the content of each version, reading those not yet known in one statement."""
        wanted = set(version_ids)
        missing = wanted - self._contents.keys()
        found = {version: self._contents[version] for version in wanted - missing}
        if missing:
            rows = connection.execute(
                text("SELECT id, content FROM dag_version WHERE id = ANY(:ids)"), {"ids": sorted(missing)}
            )
            found |= {row.id: row.content for row in rows}
        for version, content in found.items():
            self._contents[version] = content
            self._contents.move_to_end(version)
        while len(self._contents) > self._size:
            self._contents.popitem(last=False)
        return found
