"""Shipping logs from the spool to the store."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID, uuid4

import pytest
import structlog

from turnout.config.masking import Masker
from turnout.executor import shipper as shipper_module
from turnout.executor.log_store import LogStore, LogStoreError
from turnout.executor.roster import Roster
from turnout.executor.shipper import Shipper
from turnout.executor.spool import Spool

NAME = Path("dag/run/task/-1/1-x.jsonl")
MAX_LOG_BYTES = 1 << 20
FOLDER = "dag/run/task/-1/1-x"


class FakeStore(LogStore):
    """A store in a folder that can be away."""

    is_away = False

    def put(self, parts: Any) -> None:
        if self.is_away:
            raise LogStoreError("away")
        super().put(parts)


class Worker:
    """A worker's spool and shipper, and the attempts that it holds."""

    def __init__(self, tmp_path: Path, store: LogStore, max_bytes: int = 1 << 30) -> None:
        self.spool = Spool(tmp_path / "logs")
        self.held: list[UUID] = []
        roster = SimpleNamespace(
            running=lambda: [SimpleNamespace(claimed=SimpleNamespace(attempt_id=held)) for held in self.held]
        )
        self.shipper = Shipper(
            store,
            self.spool,
            cast("Roster", roster),
            Masker(["hunter2"]),
            max_log_bytes=MAX_LOG_BYTES,
            max_spool_bytes=max_bytes,
        )

    def write(self, text: str, attempt_id: UUID | None = None, name: Path = NAME) -> UUID:
        attempt_id = attempt_id or uuid4()
        if attempt_id not in self.held:
            self.held.append(attempt_id)
        path = self.spool.path(attempt_id, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(text)
        return attempt_id

    def spooled(self) -> int:
        return len(list(self.spool.folder.rglob("*.jsonl")))

    def die(self) -> None:
        assert self.spool._lock is not None
        os.close(self.spool._lock)


@pytest.fixture
def store(tmp_path: Path) -> FakeStore:
    return FakeStore(f"file://{tmp_path}/store")


@pytest.fixture
def worker(tmp_path: Path, store: FakeStore) -> Worker:
    return Worker(tmp_path, store)


@pytest.fixture
def contents(store: LogStore) -> Callable[..., dict[str, str]]:
    def read(folder: str = FOLDER) -> dict[str, str]:
        return {part: store.read(f"{folder}/{part}").decode() for part in store.list_parts(folder)}

    return read


@pytest.fixture(autouse=True)
def said() -> Iterator[list[Any]]:
    with structlog.testing.capture_logs() as said:
        yield said


def test_what_an_attempt_says_is_shipped_in_parts_and_the_rest_at_its_end(worker: Worker, contents: Any) -> None:
    attempt = worker.write("one\nhal")
    assert worker.shipper.run_once() == 1
    assert worker.shipper.run_once() == 0
    worker.write("f\nthree", attempt)
    worker.shipper.run_once()
    worker.held.clear()
    worker.shipper.run_once()
    assert contents() == {"000001.jsonl": "one\n", "000002.jsonl": "half\n", "000003.end.jsonl": "three"}
    assert list(worker.spool.folder.iterdir()) == []


def test_a_store_that_is_away_gets_the_same_part_again_and_then_the_rest(
    worker: Worker, store: FakeStore, contents: Any
) -> None:
    attempt = worker.write("one\n")
    store.is_away = True
    with pytest.raises(LogStoreError):
        worker.shipper.run_once()
    worker.write("two\n", attempt)
    worker.held.clear()
    store.is_away = False
    worker.shipper.run_once()
    assert contents() == {"000001.jsonl": "one\n", "000002.end.jsonl": "two\n"}


def test_an_outage_of_the_store_is_said_once(worker: Worker, store: FakeStore, said: list[Any]) -> None:
    worker.write("one\n")
    store.is_away = True
    for _ in range(3):
        assert worker.shipper._pass() > 0
    store.is_away = False
    worker.shipper._pass()
    assert [entry["event"] for entry in said] == ["outage.began", "outage.over"]
    assert said[0]["what"] == "log store"


def test_the_oldest_logs_are_given_up_when_the_spool_is_full(
    tmp_path: Path, store: FakeStore, said: list[Any], contents: Any
) -> None:
    worker = Worker(tmp_path, store, max_bytes=12)
    ids = sorted(uuid4() for _ in range(4))
    for number, attempt in enumerate(ids):
        worker.write(f"log {number}\n", attempt, Path(f"{number}.jsonl"))
    worker.held = ids[:1]
    store.is_away = True
    worker.shipper._pass()
    assert worker.spooled() == 2  # the one that runs, whatever its age, and the newest
    assert [entry["event"] for entry in said] == ["logs.given_up", "outage.began"]
    store.is_away = False
    worker.held = []
    worker.shipper._pass()
    assert [contents(str(number)) for number in range(4)] == [
        {"000001.jsonl": "log 0\n", "000002.end.jsonl": ""},
        {},
        {},
        {"000001.end.jsonl": "log 3\n"},
    ]


def test_a_long_log_is_shipped_in_several_parts(worker: Worker, contents: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipper_module, "_PART_BYTES", 8)
    monkeypatch.setattr(shipper_module, "_LONGEST_LINE", 4)
    worker.write("abc\ndef\nghi\nno end for very long\n")
    worker.shipper.run_once()
    parts = contents()
    assert "".join(parts.values()) == "abc\ndef\nghi\nno end for very long\n"
    assert max(map(len, parts.values())) == 8


def test_another_worker_ships_what_a_dead_one_has_left(
    tmp_path: Path, worker: Worker, store: FakeStore, contents: Any
) -> None:
    worker.write("one\n")
    worker.shipper.run_once()
    worker.write("two\n", worker.held[0])
    other = Worker(tmp_path, store)
    other.spool.take_over()
    assert other.shipper.run_once() == 0
    worker.die()
    other.spool.take_over()
    other.shipper.run_once()
    other.spool.take_over()
    assert contents() == {"000001.jsonl": "one\n", "000002.end.jsonl": "two\n"}
    assert not worker.spool.folder.exists()


def test_a_worker_that_ends_ships_what_is_left(worker: Worker, contents: Any) -> None:
    worker.write("one\n")
    worker.held.clear()
    worker.shipper._stopping.set()
    worker.shipper.run()
    assert contents() == {"000001.end.jsonl": "one\n"}
    assert not worker.spool.folder.exists()


def test_a_log_that_is_too_large_is_shipped_up_to_its_limit_with_the_marker(worker: Worker, contents: Any) -> None:
    attempt = worker.write(f"{'first':<99}\n" * 10_000)
    worker.shipper.run_once()
    for _ in range(2):
        worker.write(f"{'later':<99}\n" * 10_000, attempt)
        worker.shipper.run_once()
    worker.held.clear()
    worker.shipper.run_once()
    *lines, last = "".join(contents().values()).splitlines()
    assert len(lines) == MAX_LOG_BYTES // 100
    assert {line.strip() for line in lines} == {"first", "later"}
    assert "The log has reached its limit of 1 MiB" in last


def test_passwords_of_the_platform_are_masked_on_the_way(worker: Worker, contents: Any) -> None:
    worker.write("cat turnout.toml: postgresql://ada:hunter2@db/turnout\n")
    worker.shipper.run_once()
    assert contents() == {"000001.jsonl": "cat turnout.toml: postgresql://ada:***@db/turnout\n"}


def test_a_spool_that_could_not_be_made_is_made_later_and_is_nobody_elses(
    tmp_path: Path, store: FakeStore, contents: Any
) -> None:
    (tmp_path / "logs").write_text("a file where the folder should be")
    worker = Worker(tmp_path, store)
    (tmp_path / "logs").unlink()
    worker.shipper.run_once()
    worker.write("one\n")
    other = Worker(tmp_path, store)
    other.spool.take_over()
    assert other.shipper.run_once() == 0
    worker.shipper.run_once()
    assert contents() == {"000001.jsonl": "one\n"}
