"""The lease of a scheduler: kept from a thread of its own, begun anew when it is lost."""

from collections.abc import Callable, Iterator

import pytest
import structlog
from sqlalchemy import Connection, text

from tests.control import Control
from tests.integration.scheduler.conftest import Away
from turnout.metadata.errors import MetadataError, TermOverError
from turnout.metadata.processes import LoopReport, Registration
from turnout.scheduler.lease import Lease

Eventually = Callable[..., object]
Make = Callable[[float], Lease]


@pytest.fixture
def make(database_url: str) -> Iterator[Make]:
    made: list[Lease] = []

    def make(lease_s: float) -> Lease:
        made.append(Lease(database_url, Registration("scheduler", "s", lease_s), lambda: LoopReport('{"queued": 1}')))
        made[-1].start()
        return made[-1]

    yield make
    for lease in made:
        lease.stop()


def state(control: Control, process_id: int) -> str:
    return str(control.sql("SELECT state FROM process WHERE id = :id", id=process_id)[0])


def test_a_lease_is_renewed_before_it_expires(control: Control, make: Make, eventually: Eventually) -> None:
    lease = make(0.9)
    eventually(
        lambda: control.sql("SELECT heartbeat_at - started_at > interval '1 s' FROM process WHERE name = 's'")[0]
    )
    assert control.sql("SELECT lease_expires_at > now(), last_loop -> 'queued' FROM process WHERE name = 's'") == [
        (True, 1)
    ]
    assert state(control, lease.process_id) == "alive"


def test_a_stopped_lease_ends_its_term_and_may_be_stopped_again(control: Control, make: Make) -> None:
    lease = make(60)
    process_id = lease.process_id
    lease.stop()
    lease.stop()
    assert state(control, process_id) == "stopped"


def test_a_process_that_was_declared_dead_registers_anew_and_judges_nobody_at_first(
    control: Control, make: Make, eventually: Eventually
) -> None:
    lease = make(60)
    first = lease.process_id
    eventually(lambda: lease.steady_s > 0.2)
    control.sql("UPDATE process SET state = 'dead' WHERE id = :id", id=first)
    lease.run_once()
    assert lease.process_id != first
    assert (state(control, first), state(control, lease.process_id)) == ("dead", "alive")
    assert lease.steady_s < 0.2


def test_what_is_written_after_the_end_of_a_term_is_undone_and_the_next_term_begins_at_once(
    control: Control, make: Make, eventually: Eventually
) -> None:
    lease = make(3600)
    first = lease.process_id

    def write(connection: Connection) -> None:
        connection.execute(text("UPDATE pool SET slots = 1"))
        control.sql("UPDATE process SET state = 'dead' WHERE id = :id", id=first)

    with pytest.raises(TermOverError):
        lease.transact(control.engine, write)
    assert control.sql("SELECT slots FROM pool") == [128]
    eventually(lambda: lease.process_id != first)


def test_an_outage_resets_for_how_long_the_database_has_been_there(
    make: Make, eventually: Eventually, database_away: Away
) -> None:
    lease = make(1.5)
    eventually(lambda: lease.steady_s > 0.6)
    with database_away():
        with pytest.raises(MetadataError):
            lease.run_once()
        eventually(lambda: 0 < lease.steady_s < 0.5)
    eventually(lambda: lease.steady_s > 1.5)


def test_a_database_that_stands_still_does_so_too(control: Control, make: Make, eventually: Eventually) -> None:
    lease = make(0.6)
    eventually(lambda: lease.steady_s > 0.6)
    with control.engine.begin() as connection:
        connection.execute(text("LOCK TABLE process"))
        eventually(lambda: lease.steady_s == 0)
    assert lease.steady_s < 0.6
    eventually(lambda: lease.steady_s > 0.6)


def test_the_end_of_a_term_that_cannot_be_written_is_left_to_the_lease(
    control: Control, make: Make, database_away: Away
) -> None:
    lease = make(60)
    process_id = lease.process_id
    with database_away():
        lease.stop()
    assert state(control, process_id) == "alive"


def test_a_mistake_of_ours_is_logged_and_does_not_cost_the_lease(
    database_url: str, control: Control, eventually: Eventually
) -> None:
    reports: list[str] = []

    def report() -> LoopReport:
        reports.append("asked")
        if len(reports) == 1:
            raise ValueError("a bug")
        return LoopReport("{}")

    lease = Lease(database_url, Registration("scheduler", "s", 0.9), report)
    with structlog.testing.capture_logs() as said:
        lease.start()
        try:
            eventually(lambda: control.sql("SELECT last_loop IS NOT NULL FROM process WHERE name = 's'")[0])
        finally:
            lease.stop()
    assert [entry["log_level"] for entry in said if entry["event"] == "lease.failed"] == ["error"]
