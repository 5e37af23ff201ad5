"""What every task has in common."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from datetime import timedelta
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Never, TypedDict

from turnout.tasks.callbacks import CALLBACK_QUEUE, Callbacks, check_callbacks
from turnout.tasks.declaring import Place
from turnout.tasks.errors import DagError
from turnout.tasks.ids import check_key
from turnout.tasks.linking import Linkable
from turnout.tasks.operator_meta import OperatorMeta, argument_names
from turnout.tasks.params import check_params
from turnout.tasks.references import DagParam, XComArg
from turnout.tasks.trigger_rule import check_trigger_rule
from turnout.tasks.values import LARGEST_COUNT, as_duration, check_choice, check_count, check_type, refuse_unknown
from turnout.tasks.weights import WEIGHT_RULES

if TYPE_CHECKING:
    from turnout.tasks.context import Context
    from turnout.tasks.dags import DAG

#: The templates that every task has.
_TEMPLATE_FIELDS = ("env", "cwd")

#: The multiplier that `retry_exponential_backoff=True` stands for, as in Airflow 2.
_DOUBLING = 2.0


class OperatorArgs(TypedDict, total=False):
    """The arguments that every operator takes beside `task_id`; `BaseOperator` explains them."""

    owner: str
    retries: int
    retry_delay: timedelta | float
    retry_exponential_backoff: float | bool
    max_retry_delay: timedelta | float | None
    execution_timeout: timedelta | None
    env: Mapping[str, Any] | None
    cwd: Any
    memory_limit_mb: int | None
    cpu_time_limit: timedelta | float | None
    max_active_tis_per_dag: int | None
    max_active_tis_per_dagrun: int | None
    depends_on_past: bool
    wait_for_downstream: bool
    pool: str | Mapping[str, int]
    pool_slots: int
    queue: str
    priority_weight: int
    weight_rule: str
    trigger_rule: str
    params: Mapping[str, Any] | None
    do_xcom_push: bool
    doc_md: str | None
    on_execute_callback: Callbacks
    on_success_callback: Callbacks
    on_failure_callback: Callbacks
    on_retry_callback: Callbacks
    on_skipped_callback: Callbacks
    dag: "DAG | None"


class BaseOperator(Linkable, metaclass=OperatorMeta):
    """A task. Subclass it and write `execute` to make an operator of your own.

    Argument names, defaults and meanings are those of Airflow 3.

    Args:
        task_id: the task's name, unique in its DAG.
        owner: who answers for it.
        retries: how often it is tried again after a failure.
        retry_delay: how long to wait before that (`timedelta` or seconds).
        retry_exponential_backoff: what to multiply the delay with after each failure; 0 keeps it as it is.
        max_retry_delay: the longest delay that the multiplication may lead to.
        execution_timeout: how long one attempt may run.
        env: environment variables of its attempts, on top of those of the worker; a template.
        cwd: the folder that its attempts run in, on the worker; a template.
        memory_limit_mb: how much resident memory (MiB) the process of an attempt may use, with all that it starts.
        cpu_time_limit: how much CPU time they may use (`timedelta` or seconds).
        max_active_tis_per_dag: how many of its instances may be queued and running at once in all runs together.
        max_active_tis_per_dagrun: the same in one run.
        depends_on_past: whether it waits until it has succeeded, or was skipped, in the run before.
        wait_for_downstream: whether it also waits for the tasks directly downstream of it in the run before.
        pool: the pool whose slots it takes; or several, as `{pool: slots}`: it takes slots of all of them or of none,
            and travels in the Celery queue of the first.
        pool_slots: how many slots it takes of its one pool.
        queue: the queue of the workers that may run it.
        priority_weight: how much more urgent than others it is.
        weight_rule: `downstream` adds the weights of all tasks after it, `upstream` of all before, `absolute` none.
        trigger_rule: when it may run, given how its upstream tasks ended.
        params: values for templates, over those of the DAG.
        do_xcom_push: whether what `execute` returns is kept for other tasks.
        doc_md: what it does, in Markdown.
        on_execute_callback: functions to call with the context when an attempt has started; one, or a list.
        on_success_callback: the same when it has succeeded, also when a person has marked it so.
        on_failure_callback: the same when it has failed for good.
        on_retry_callback: the same when an attempt has failed and is to be tried again.
        on_skipped_callback: the same when it was skipped by itself or by a person, not by the graph.
        dag: its DAG; that of the surrounding `with DAG(...)` by default.
    """

    #: The attributes that are templates.
    template_fields: ClassVar[Sequence[str]] = ()
    #: The endings of texts that name a template file.
    template_ext: ClassVar[Sequence[str]] = ()
    #: Whether a worker runs it; otherwise the scheduler marks it done by itself.
    sends_to_worker: ClassVar[bool] = True

    dag: "DAG | None"
    declared_at: Place

    def __init__(
        self,
        *,
        task_id: str,
        owner: str = "turnout",
        retries: int = 0,
        retry_delay: timedelta | float = timedelta(seconds=300),
        retry_exponential_backoff: float | bool = 0,
        max_retry_delay: timedelta | float | None = None,
        execution_timeout: timedelta | None = None,
        env: Mapping[str, Any] | None = None,
        cwd: Any = None,
        memory_limit_mb: int | None = None,
        cpu_time_limit: timedelta | float | None = None,
        max_active_tis_per_dag: int | None = None,
        max_active_tis_per_dagrun: int | None = None,
        depends_on_past: bool = False,
        wait_for_downstream: bool = False,
        pool: str | Mapping[str, int] = "default_pool",
        pool_slots: int = 1,
        queue: str = "default",
        priority_weight: int = 1,
        weight_rule: str = "downstream",
        trigger_rule: str = "all_success",
        params: Mapping[str, Any] | None = None,
        do_xcom_push: bool = True,
        doc_md: str | None = None,
        on_execute_callback: Callbacks = None,
        on_success_callback: Callbacks = None,
        on_failure_callback: Callbacks = None,
        on_retry_callback: Callbacks = None,
        on_skipped_callback: Callbacks = None,
        dag: "DAG | None" = None,
        **unknown: Never,
    ) -> None:
        refuse_unknown(unknown, argument_names(type(self)), type(self).__name__)
        self.task_id = check_key(task_id, "task_id")
        self.owner = check_type(owner, str, "owner")
        self.retries = check_count(0 if retries is None else retries, "retries", 0)
        self.retry_delay = as_duration(retry_delay, "retry_delay")
        self.retry_exponential_backoff = _as_multiplier(retry_exponential_backoff)
        self.max_retry_delay = None if max_retry_delay is None else as_duration(max_retry_delay, "max_retry_delay")
        self.execution_timeout = _as_timeout(execution_timeout)
        self.env = _as_env(env)
        self.cwd = _as_folder(cwd)
        self.memory_limit_mb = _as_limit(memory_limit_mb, "memory_limit_mb")
        self.cpu_time_limit = _as_cpu_time(cpu_time_limit)
        self.max_active_tis_per_dag = _as_limit(max_active_tis_per_dag, "max_active_tis_per_dag")
        self.max_active_tis_per_dagrun = _as_limit(max_active_tis_per_dagrun, "max_active_tis_per_dagrun")
        self.wait_for_downstream = check_type(wait_for_downstream, bool, "wait_for_downstream")
        self.depends_on_past = check_type(depends_on_past, bool, "depends_on_past") or self.wait_for_downstream
        (self.pool, self.pool_slots), *extra = _as_pools(pool, pool_slots)
        self.extra_pools = dict(extra)
        self.queue = _as_queue(queue)
        self.priority_weight = check_type(priority_weight, int, "priority_weight")
        self.weight_rule = check_choice(weight_rule, WEIGHT_RULES, "weight_rule")
        self.trigger_rule = check_trigger_rule(trigger_rule)
        self.params = check_params(params)
        self.do_xcom_push = check_type(do_xcom_push, bool, "do_xcom_push")
        self.doc_md = None if doc_md is None else check_type(doc_md, str, "doc_md")
        self.on_execute_callback = check_callbacks(on_execute_callback, "on_execute_callback")
        self.on_success_callback = check_callbacks(on_success_callback, "on_success_callback")
        self.on_failure_callback = check_callbacks(on_failure_callback, "on_failure_callback")
        self.on_retry_callback = check_callbacks(on_retry_callback, "on_retry_callback")
        self.on_skipped_callback = check_callbacks(on_skipped_callback, "on_skipped_callback")
        self.dag = dag
        self.is_setup = False
        self.is_teardown = False
        self.on_failure_fail_dagrun = False
        self.upstream_task_ids: set[str] = set()
        self.downstream_task_ids: set[str] = set()

    @abstractmethod
    def execute(self, context: "Context") -> Any:
        """Do the work of one attempt.

        Args:
            context: what is known about the run, under Airflow's names.

        Returns:
            The result that other tasks may use, or None.
        """

    def on_kill(self) -> None:
        """Stop what `execute` has started elsewhere, when the attempt is ended from outside."""

    @property
    def rendered_fields(self) -> tuple[str, ...]:
        """The attributes that are templates: those of every task, and those of its operator."""
        return tuple(dict.fromkeys((*_TEMPLATE_FIELDS, *self.template_fields)))

    @property
    def linked_task(self) -> "BaseOperator":
        """The task itself."""
        return self

    @property
    def output(self) -> XComArg:
        """The future result of the task."""
        return XComArg(self)

    @property
    def dag_id(self) -> str:
        """The id of the task's DAG, empty while it has none."""
        return "" if self.dag is None else self.dag.dag_id

    @property
    def operator_name(self) -> str:
        """The name of the operator for people."""
        return type(self).__name__

    def __repr__(self) -> str:
        return f"<{self.operator_name} {self.task_id}>"


def _as_multiplier(value: Any) -> float:
    if value is True:
        return _DOUBLING
    # NaN is neither above nor below, and JSON has no word for it nor for infinity.
    if not isinstance(value, int | float) or not 0 <= value <= LARGEST_COUNT:
        raise DagError(f"retry_exponential_backoff must be a multiplier such as 2.0, or 0 for none, not {value!r}.")
    return float(value)


def _as_timeout(value: Any) -> timedelta | None:
    if value is None:
        return None
    if check_type(value, timedelta, "execution_timeout") <= timedelta(0):
        raise DagError(f"execution_timeout must be above zero, not {value}.")
    return as_duration(value, "execution_timeout")


def _as_env(value: Any) -> dict[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, Mapping) or not all(isinstance(name, str) and name for name in value):
        raise DagError(f"env must be a dict of names and texts, not {value!r}.")
    for name, text in value.items():
        if not isinstance(text, str | XComArg | DagParam):
            raise DagError(f"env[{name!r}] must be a text, not {text!r}: write str(…) around it.")
        if "=" in name:
            raise DagError(f"env[{name!r}]: the name of a variable has no '='.")
    return dict(value)


def _as_folder(value: Any) -> Any:
    if value is None or isinstance(value, XComArg | DagParam):
        return value
    if not isinstance(value, str | PathLike):
        raise DagError(f"cwd must be a path, not {value!r}.")
    return str(value)


def _as_cpu_time(value: Any) -> timedelta | None:
    if value is None:
        return None
    limit = as_duration(value, "cpu_time_limit")
    if limit <= timedelta(0):
        raise DagError(f"cpu_time_limit must be above zero, not {value}.")
    return limit


def _as_limit(value: int | None, name: str) -> int | None:
    return None if value is None else check_count(value, name, 1)


def _as_queue(value: Any) -> str:
    if value == CALLBACK_QUEUE:
        raise DagError(f"queue={value!r} is kept for callbacks: choose another name.")
    return check_key(value, "queue")


def _as_pools(pool: str | Mapping[str, int], pool_slots: int) -> list[tuple[str, int]]:
    """Return the pools of a task with the slots that it takes of each, the one that names its Celery queue first."""
    slots = check_count(pool_slots, "pool_slots", 1)
    if not isinstance(pool, Mapping):
        return [(check_key(pool, "pool"), slots)]
    if not pool or pool_slots != 1:
        raise DagError(f'pool={dict(pool)!r}: name each pool with its slots, {{"db": 2, "api": 1}}, and no pool_slots.')
    return [(check_key(name, "pool"), check_count(count, f"pool[{name!r}]", 1)) for name, count in pool.items()]
