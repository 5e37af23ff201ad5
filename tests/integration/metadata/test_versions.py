"""DAG versions never change, so each is read once."""

from functools import partial
from typing import Any

from sqlalchemy import event

from tests.control import Control, graph
from turnout.metadata.versions import VersionCache


def test_a_version_is_read_once_and_the_last_used_are_kept(control: Control) -> None:
    control.declare(*(graph(name, {}) for name in "abc"))
    a, b, c = control.sql("SELECT current_version_id FROM dag ORDER BY dag_id")
    cache, read = VersionCache(size=2), []

    @event.listens_for(control.engine, "before_cursor_execute")
    def note(_c: Any, _u: Any, _s: str, parameters: Any, _x: Any, _m: Any) -> None:
        read.append(parameters["ids"])

    for wanted in ([a, b], [a], [c], [a, c], [b], [], [a, b, c]):
        found = control.do(partial(cache.get, version_ids=wanted))
        assert sorted(found) == sorted(wanted)
        assert all(content["dag_id"] in "abc" for content in found.values())
    assert read == [[a, b], [c], [b], [a]]
