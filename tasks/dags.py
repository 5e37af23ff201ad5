"""The DAG: a named graph of tasks, and when it runs."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Never, Self, TypedDict

from turnout.tasks.callbacks import Callbacks, check_callbacks
from turnout.tasks.dates import check_dates
from turnout.tasks.declaring import caller, close_dag, collecting, open_dag
from turnout.tasks.errors import DagError
from turnout.tasks.graph import topological_order
from turnout.tasks.ids import check_key
from turnout.tasks.params import check_params
from turnout.tasks.schedule import CatchUp, Schedule, as_catchup, as_timetable, can_begin_anywhere
from turnout.tasks.setups import check_setups
from turnout.tasks.timetables import BuiltInTimetable
from turnout.tasks.trigger_rule import TriggerRule
from turnout.tasks.values import as_duration, check_count, check_type, refuse_unknown

if TYPE_CHECKING:
    from turnout.tasks.operator import BaseOperator
    from turnout.tasks.trial import TrialResult

#: As in Airflow, where tags are columns of 100 characters.
_LONGEST_TAG = 100


class DagArgs(TypedDict, total=False):
    """The arguments that a DAG takes beside `dag_id`; `DAG` explains them."""

    description: str | None
    schedule: Schedule
    start_date: datetime | None
    end_date: datetime | None
    catchup: bool | str
    jitter: timedelta | None
    default_args: Mapping[str, Any] | None
    params: Mapping[str, Any] | None
    tags: Collection[str] | None
    max_active_runs: int
    max_active_tasks: int
    max_consecutive_failed_dag_runs: int
    dagrun_timeout: timedelta | None
    fail_fast: bool
    is_paused_upon_creation: bool | None
    doc_md: str | None
    template_searchpath: str | Iterable[str] | None
    user_defined_macros: Mapping[str, Any] | None
    user_defined_filters: Mapping[str, Callable[..., Any]] | None
    on_success_callback: Callbacks
    on_failure_callback: Callbacks


class DAG:
    """A graph of tasks. Inside `with DAG(...)`, every task that is declared becomes one of its tasks.

    Argument names, defaults and meanings are those of Airflow 3.

    Args:
        dag_id: its name, unique in the installation.
        description: what it is for, in a line.
        schedule: when it runs: a cron expression, a preset such as `@daily`, a `timedelta`, a timetable, or None.
        start_date: no data interval starts earlier; its time zone is that of the schedule (UTC if it has none).
        end_date: no data interval starts later.
        catchup: what becomes of runs that were missed, the first since the start date: `none` of them is run, the
            `latest` (False), `all` (True), or one run for all their data intervals together (`coalesce`).
        jitter: up to how much later its scheduled runs start; by how much is fixed for each DAG, so that the many that
            are due at midnight do not start at once.
        default_args: arguments that every task takes unless it has its own.
        params: values for templates and tasks, which a run may override by its conf.
        tags: words to find it by.
        max_active_runs: how many of its runs may be running at once.
        max_active_tasks: how many tasks of one of its runs may be queued and running at once.
        max_consecutive_failed_dag_runs: after so many failed runs in a row it is paused; 0 for never.
        dagrun_timeout: how long a run may take from its start; then it fails, and what is left of it is skipped.
        fail_fast: whether the first task that fails ends the run at once, with all that is running in it.
        is_paused_upon_creation: whether it is paused when first seen; None leaves it to the settings.
        doc_md: what it does, in Markdown.
        template_searchpath: folders of template files, beside that of the DAG file.
        user_defined_macros: more names for templates.
        user_defined_filters: more filters for templates.
        on_success_callback: functions to call with the context when a run has succeeded; one, or a list.
        on_failure_callback: the same when a run has failed.
    """

    def __init__(
        self,
        dag_id: str,
        *,
        description: str | None = None,
        schedule: Schedule = None,
        start_date: datetime | None = None,
        end_date: datetime | None = None,
        catchup: bool | str = False,
        jitter: timedelta | None = None,
        default_args: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        tags: Collection[str] | None = None,
        max_active_runs: int = 16,
        max_active_tasks: int = 16,
        max_consecutive_failed_dag_runs: int = 0,
        dagrun_timeout: timedelta | None = None,
        fail_fast: bool = False,
        is_paused_upon_creation: bool | None = None,
        doc_md: str | None = None,
        template_searchpath: str | Iterable[str] | None = None,
        user_defined_macros: Mapping[str, Any] | None = None,
        user_defined_filters: Mapping[str, Callable[..., Any]] | None = None,
        on_success_callback: Callbacks = None,
        on_failure_callback: Callbacks = None,
        **unknown: Never,
    ) -> None:
        self.dag_id = check_key(dag_id, "dag_id")
        self.declared_at = caller()
        self.task_dict: dict[str, BaseOperator] = {}
        try:
            refuse_unknown(unknown, DagArgs.__annotations__, "DAG")
            self.description = None if description is None else check_type(description, str, "description")
            self.doc_md = None if doc_md is None else check_type(doc_md, str, "doc_md")
            self.default_args = dict(check_type(default_args or {}, dict, "default_args"))
            given_start = start_date or self.default_args.get("start_date")
            self.start_date, self.end_date = check_dates(given_start, end_date or self.default_args.get("end_date"))
            self.timetable = as_timetable(schedule, None if given_start is None else given_start.tzinfo)
            self.catchup = as_catchup(catchup, self.timetable)
            self.jitter = None if jitter is None else as_duration(jitter, "jitter")
            self.params = check_params(params)
            self.tags = _check_tags(tags)
            self.max_active_runs = check_count(max_active_runs, "max_active_runs", 1)
            self._check_schedule()
            self.max_active_tasks = check_count(max_active_tasks, "max_active_tasks", 1)
            self.max_consecutive_failed_dag_runs = check_count(
                max_consecutive_failed_dag_runs, "max_consecutive_failed_dag_runs", 0
            )
            self.dagrun_timeout = None if dagrun_timeout is None else as_duration(dagrun_timeout, "dagrun_timeout")
            self.fail_fast = check_type(fail_fast, bool, "fail_fast")
            paused = is_paused_upon_creation
            self.is_paused_upon_creation = (
                None if paused is None else check_type(paused, bool, "is_paused_upon_creation")
            )
            self.template_searchpath = _as_list(template_searchpath)
            self.user_defined_macros = _as_names(user_defined_macros, "user_defined_macros")
            self.user_defined_filters = _as_names(user_defined_filters, "user_defined_filters")
            self.on_success_callback = check_callbacks(on_success_callback, "on_success_callback")
            self.on_failure_callback = check_callbacks(on_failure_callback, "on_failure_callback")
        except DagError as error:
            raise DagError(f"DAG {dag_id!r}: {error}") from None
        if (declarations := collecting()) is not None:
            declarations.dags.append(self)

    def __enter__(self) -> Self:
        """Make it the DAG of the tasks that are declared from here on."""
        open_dag(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the block."""
        close_dag()

    @property
    def tasks(self) -> "list[BaseOperator]":
        """The tasks, in order of declaration."""
        return list(self.task_dict.values())

    @property
    def task_ids(self) -> list[str]:
        """The ids of the tasks, in order of declaration."""
        return list(self.task_dict)

    @property
    def owner(self) -> str:
        """The owners of the tasks."""
        return ", ".join(sorted({task.owner for task in self.tasks}))

    def get_task(self, task_id: str) -> "BaseOperator":
        """Return a task.

        Raises:
            DagError: there is no such task.
        """
        if task_id not in self.task_dict:
            raise DagError(f"DAG {self.dag_id!r} has no task {task_id!r}; it has {', '.join(self.task_ids) or 'none'}.")
        return self.task_dict[task_id]

    def add_task(self, task: "BaseOperator") -> None:
        """Take in a task.

        Raises:
            DagError: there is one of this id already.
        """
        other = self.task_dict.setdefault(task.task_id, task)
        if other is not task:
            raise DagError(
                f"there is a task of this id already (line {other.declared_at.line}): task ids are unique in a DAG, "
                "rename one."
            )
        task.dag = self

    def topological_order(self) -> list[str]:
        """Return the task ids, upstream first.

        Raises:
            DagError: the graph has a cycle.
        """
        return topological_order(self.dag_id, self.task_dict)

    def validate(self) -> None:
        """Check what can only be checked once all tasks are there.

        Raises:
            DagError: the graph has a cycle, `default_args` has a key that no task takes, or a task has a trigger rule
                that it cannot have where it stands.
        """
        from turnout.tasks.default_args import check_default_args  # noqa: PLC0415 - it needs the operators

        self.topological_order()
        check_default_args(self)
        check_setups(self)
        if self.fail_fast:
            self._check_fail_fast()

    def test(self, logical_date: datetime | None = None, conf: Mapping[str, Any] | None = None) -> "TrialResult":
        """Run the DAG once in this process, without any server, and print what happens.

        Retries are honoured without waiting for their delays.

        Args:
            logical_date: the run's logical date; that of the latest closed data interval by default.
            conf: the run's conf.

        Raises:
            DagError: the DAG is not valid, or is being loaded.
        """
        from turnout.tasks.trial import try_dag  # noqa: PLC0415 - a DAG that only runs in production does not need it

        return try_dag(self, logical_date, conf)

    def _check_fail_fast(self) -> None:
        for task in self.tasks:
            if task.trigger_rule is not TriggerRule.ALL_SUCCESS and not task.is_teardown:
                raise DagError(
                    f"DAG {self.dag_id!r}: fail_fast ends the run with the first failure, so that task "
                    f"{task.task_id!r} could never run by its trigger_rule {str(task.trigger_rule)!r}: make it "
                    "'all_success' or a teardown, or remove fail_fast."
                )

    def _check_schedule(self) -> None:
        """Refuse what does not go with the timetable."""
        wants_all = self.catchup in (CatchUp.ALL, CatchUp.COALESCE)
        if wants_all and self.start_date is None and can_begin_anywhere(self.timetable):
            given = True if self.catchup is CatchUp.ALL else str(self.catchup)
            raise DagError(f"catchup={given!r} needs a start_date: there is no telling where to begin.")
        if isinstance(self.timetable, BuiltInTimetable) and self.timetable.follows_runs:
            if self.max_active_runs != 1:
                raise DagError(
                    "schedule='@continuous' needs max_active_runs=1: each run begins where another has ended."
                )
            if self.jitter:
                raise DagError("schedule='@continuous' has no use for jitter: its runs follow one another at once.")

    def __repr__(self) -> str:
        return f"<DAG {self.dag_id}>"


def _check_tags(tags: Any) -> list[str]:
    is_list = isinstance(tags or (), Collection) and not isinstance(tags, str)
    if not is_list or not all(isinstance(tag, str) for tag in tags or ()):
        raise DagError(f'tags must be a list of texts such as ["sales"], not {tags!r}.')
    for tag in tags or ():
        if not 0 < len(tag) <= _LONGEST_TAG:
            raise DagError(f"The tag {tag!r} must have 1 to {_LONGEST_TAG} characters.")
    return sorted(set(tags or ()))


def _as_list(paths: Any) -> Sequence[str]:
    paths = [paths] if isinstance(paths, str | PathLike) else paths or ()
    if not isinstance(paths, Iterable):
        raise DagError(f"template_searchpath must be a path or a list of paths, not {paths!r}.")
    return [str(path) for path in paths]


def _as_names(given: Any, name: str) -> dict[str, Any]:
    if not isinstance(given or {}, Mapping):
        raise DagError(f"{name} must be a dict of names, not {given!r}.")
    return dict(given or {})
