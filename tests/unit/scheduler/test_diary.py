"""The diary of a loop."""

import json

import pytest

from turnout.scheduler import diary
from turnout.scheduler.diary import Diary


def test_a_diary_tells_what_the_last_pass_with_work_did_and_when_the_last_pass_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter([100.0, 110.0, 115.0])
    monkeypatch.setattr(diary.time, "monotonic", lambda: next(clock))
    kept = Diary()
    kept.note({"queued": 3}, did_something=True)
    kept.note({"queued": 0}, did_something=False)
    report = kept.report()
    assert report is not None
    assert json.loads(report.did) == {"queued": 3}
    assert (report.did_s_ago, report.ended_s_ago) == (15.0, 5.0)


def test_a_diary_has_nothing_to_tell_before_the_first_pass_has_ended() -> None:
    assert Diary().report() is None
