"""The store of logs: numbered parts on any file system, written and read."""

from pathlib import Path
from uuid import uuid4

import pytest

from turnout.executor.log_store import LogStore, LogStoreError, StoredTail
from turnout.executor.logs import LogTail

LOG = "dag/scheduled__2013-01-01T00:00:00+00:00/task/-1/1-x"


@pytest.fixture(params=["file", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> LogStore:
    return LogStore(f"file://{tmp_path}/logs" if request.param == "file" else f"memory://{uuid4()}/logs")


def read(tail: StoredTail, *, to_the_end: bool = False) -> list[str]:
    return [entry.msg for entry in tail.read(to_the_end=to_the_end)]


def tail_of(store: LogStore, local: Path = Path("/nowhere")) -> StoredTail:
    return StoredTail(store, LOG, LogTail(local))


def test_parts_are_read_in_order_and_only_once(store: LogStore) -> None:
    tail = tail_of(store)
    store.put({f"{LOG}/000001.jsonl": b"one\ntwo\n"})
    assert read(tail) == ["one", "two"]
    store.put({f"{LOG}/000002.jsonl": b"three\n", f"{LOG}/000003.jsonl": b"four\n"})
    assert read(tail) == ["three", "four"]
    assert read(tail) == []


def test_a_line_may_go_on_in_the_next_part(store: LogStore) -> None:
    tail = tail_of(store)
    store.put({f"{LOG}/000001.jsonl": b"whole\nfirst ha"})
    assert read(tail) == ["whole"]
    store.put({f"{LOG}/000002.jsonl": b"lf\nno end"})
    assert read(tail, to_the_end=True) == ["first half", "no end"]


def test_the_last_part_says_that_the_log_is_whole(store: LogStore) -> None:
    tail = tail_of(store)
    assert not tail.exists()
    store.put({f"{LOG}/000001.jsonl": b"one\n"})
    assert (tail.exists(), tail.is_whole()) == (True, False)
    store.put({f"{LOG}/000002.end.jsonl": b""})
    assert tail.is_whole()


def test_a_log_that_was_read_whole_is_not_looked_for_again(store: LogStore, monkeypatch: pytest.MonkeyPatch) -> None:
    tail = tail_of(store)
    store.put({f"{LOG}/000001.end.jsonl": b"one\ntwo"})
    assert read(tail) == ["one"]
    monkeypatch.setattr(store, "list_parts", None)
    assert read(tail, to_the_end=True) == ["two"]
    assert (tail.is_whole(), tail.exists()) == (True, True)


def test_a_part_that_was_sent_again_with_more_is_read_once(store: LogStore) -> None:
    store.put({f"{LOG}/000001.jsonl": b"one\n", f"{LOG}/000001.end.jsonl": b"one\ntwo\n"})
    assert read(tail_of(store)) == ["one", "two"]


def test_a_log_from_before_there_was_a_store_is_read_where_it_is(store: LogStore, tmp_path: Path) -> None:
    local = tmp_path / "earlier.jsonl"
    with pytest.raises(FileNotFoundError):
        read(tail_of(store, local))
    local.write_text("said long ago\n")
    assert read(tail_of(store, local)) == ["said long ago"]


def test_a_part_of_a_folder_appears_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LogStore(f"file://{tmp_path}")

    def fail(*_: object) -> None:
        raise OSError("cut")

    monkeypatch.setattr(store._files, "mv", fail)
    with pytest.raises(LogStoreError, match=r"Cannot write to the log store file://.*: cut"):
        store.put({f"{LOG}/000001.jsonl": b"half"})
    assert store.list_parts(LOG) == []


def test_a_store_of_an_unknown_kind_is_one_clear_line() -> None:
    with pytest.raises(LogStoreError, match=r"Cannot use TURNOUT_LOGS_URL=nosuch://u:\*\*\*@x: .*nosuch"):
        LogStore("nosuch://u:secret@x")
