"""What a person asks for: which runs of a DAG, and which of their task instances."""

from dataclasses import dataclass
from datetime import datetime

from turnout.metadata.errors import RequestError


@dataclass(frozen=True)
class RunSelection:
    """Runs of a DAG: one and perhaps those before and after it, or those of a range of logical dates.

    A run without a logical date stands where it was due (`run_after`).

    Attributes:
        dag_id: the DAG.
        run_id: the run; None: those of the range.
        past: all runs before that one, too.
        future: all runs after that one, too.
        from_date: the first logical date of the range; None: no first.
        to_date: the last logical date of the range, itself included; None: no last.
    """

    dag_id: str
    run_id: str | None = None
    past: bool = False
    future: bool = False
    from_date: datetime | None = None
    to_date: datetime | None = None

    def check(self) -> None:
        """Refuse what is no selection.

        Raises:
            RequestError: it names neither a run nor a range, or both.
        """
        has_range = self.from_date is not None or self.to_date is not None
        if self.run_id is None and not has_range:
            raise RequestError(f"Name a run of DAG {self.dag_id}, or the first or last logical date of several.")
        if self.run_id is not None and has_range:
            raise RequestError("Name either a run or a range of logical dates, not both.")
        if self.run_id is None and (self.past or self.future):
            raise RequestError("The past and the future are those of a run: name one.")


@dataclass(frozen=True)
class TaskSelection:
    """Task instances of some runs.

    Attributes:
        runs: the runs.
        task_ids: the tasks; none given: all of them.
        map_index: only this instance of each of the tasks named; None: all of them.
        upstream: all that the tasks wait for, too, near and far.
        downstream: all that waits for the tasks, too, near and far.
        only_failed: of all these only those that failed, or did not run since something upstream had failed.
        only_running: of all these only those that run.
    """

    runs: RunSelection
    task_ids: tuple[str, ...] = ()
    map_index: int | None = None
    upstream: bool = False
    downstream: bool = False
    only_failed: bool = False
    only_running: bool = False
