"""Which file is parsed next."""

from turnout.metadata.dags import ImportProblem
from turnout.scheduler.processor.folder import Stamp
from turnout.scheduler.processor.ledger import FileLedger
from turnout.scheduler.processor.parsed import ParsedFile

GOOD = ParsedFile()
BROKEN = ParsedFile(problem=ImportProblem("boo"))
STUCK = ParsedFile(problem=ImportProblem("slow"), is_stuck=True)


def listing(*files: str, size: int = 1) -> dict[str, Stamp]:
    return {file: Stamp(1, size, 1) for file in files}


def parsed(ledger: FileLedger, now: float = 0, **results: ParsedFile) -> FileLedger:
    """Parse all that waits."""
    while file := ledger.take(now):
        ledger.put_back(file, results.get(file, GOOD), now)
    return ledger


def test_new_files_are_handed_out_once_in_their_order() -> None:
    ledger = FileLedger(100, 2)
    ledger.see(listing("a", "b"))
    assert [ledger.take(0), ledger.take(0), ledger.take(0)] == ["a", "b", None]


def test_a_file_that_changes_while_it_is_parsed_is_parsed_again_afterwards() -> None:
    ledger = FileLedger(100, 2)
    ledger.see(listing("a"))
    assert ledger.take(0) == "a"
    ledger.see(listing("a", size=2))
    assert ledger.take(0) is None
    ledger.put_back("a", GOOD, 0)
    assert ledger.take(0) == "a"


def test_a_file_whose_plan_runs_low_is_not_parsed_twice_for_it() -> None:
    ledger = FileLedger(100, 2)
    ledger.see(listing("a"))
    assert ledger.take(0) == "a"
    ledger.request(["a"])
    ledger.put_back("a", GOOD, 0)
    assert ledger.is_idle()
    ledger.request(["a"])
    assert ledger.take(0) == "a"


def test_a_parse_that_came_to_nothing_is_repeated() -> None:
    ledger = FileLedger(100, 2)
    ledger.see(listing("a"))
    ledger.take(0)
    ledger.put_back("a", None, 0)
    assert ledger.take(0) == "a"


def test_a_file_is_due_again_when_its_interval_is_up() -> None:
    ledger = FileLedger(100, 2)
    ledger.see(listing("a"))
    parsed(ledger, now=5)
    assert ledger.next_due() == 105
    assert ledger.take(104) is None
    assert ledger.take(105) == "a"


def test_changed_files_go_before_those_that_are_due() -> None:
    ledger = FileLedger(100, 2)
    ledger.see(listing("a", "b"))
    parsed(ledger)
    ledger.see(listing("a") | listing("b", size=2))
    assert [ledger.take(200), ledger.take(200)] == ["b", "a"]


def test_files_that_hung_go_last_and_leave_a_place_free() -> None:
    ledger = FileLedger(100, 2)
    ledger.see(listing("h1", "h2"))
    parsed(ledger, h1=STUCK, h2=STUCK)
    ledger.see(listing("h1", "h2", size=2) | listing("a", "b"))
    assert [ledger.take(0), ledger.take(0), ledger.take(0), ledger.take(0)] == ["a", "b", "h1", None]
    ledger.put_back("h1", STUCK, 0)
    assert ledger.take(0) == "h2"


def test_one_place_is_enough_for_a_file_that_hung() -> None:
    ledger = FileLedger(100, 1)
    ledger.see(listing("h"))
    parsed(ledger, h=STUCK)
    assert ledger.take(100) == "h"


def test_any_change_gives_broken_files_another_chance_but_not_those_that_hang() -> None:
    ledger = FileLedger(100, 2)
    ledger.see(listing("bad", "hang"))
    parsed(ledger, bad=BROKEN, hang=STUCK)
    ledger.see(listing("bad", "hang"))
    assert ledger.is_idle()
    ledger.see(listing("bad", "hang", "new"))
    assert {ledger.take(0), ledger.take(0), ledger.take(0)} == {"bad", "new", None}


def test_a_file_that_is_gone_is_forgotten_even_while_it_is_parsed() -> None:
    ledger = FileLedger(100, 2)
    ledger.see(listing("a"))
    ledger.take(0)
    ledger.see({})
    ledger.put_back("a", GOOD, 0)
    assert ledger.is_idle()
    assert ledger.take(1000) is None
    ledger.see(listing("a"))
    assert ledger.take(0) == "a"
