from datetime import timedelta
from typing import Any, ClassVar

import pytest

from turnout.tasks import DAG, BaseOperator, BashOperator, Context, EmptyOperator, PythonOperator, TriggerRule
from turnout.tasks.errors import DagError


class Greeting(BaseOperator):
    """An operator of an author's own."""

    template_fields: ClassVar[tuple[str, ...]] = ("name",)

    def __init__(self, name: str, punctuation: str = "!", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.name = name
        self.punctuation = punctuation

    def execute(self, context: Context) -> str:
        return f"Hello {self.name}{self.punctuation} It is {context['ds']}."


def test_a_task_has_the_defaults_of_airflow() -> None:
    with DAG("plain"):
        plain = EmptyOperator(task_id="plain")
    assert (plain.retries, plain.retry_delay, plain.retry_exponential_backoff) == (0, timedelta(minutes=5), 0.0)
    assert (plain.pool, plain.pool_slots, plain.queue) == ("default_pool", 1, "default")
    assert (plain.priority_weight, plain.weight_rule, plain.trigger_rule) == (1, "downstream", TriggerRule.ALL_SUCCESS)
    assert (plain.execution_timeout, plain.max_retry_delay, plain.do_xcom_push) == (None, None, True)


def test_delays_may_be_given_in_seconds_and_doubling_by_true() -> None:
    with DAG("delays"):
        delayed = EmptyOperator(
            task_id="delayed", retry_delay=90, max_retry_delay=600.5, retry_exponential_backoff=True
        )
    assert delayed.retry_delay == timedelta(seconds=90)
    assert delayed.max_retry_delay == timedelta(seconds=600.5)
    assert delayed.retry_exponential_backoff == 2.0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"retrys": 1}, "EmptyOperator has no argument 'retrys': did you mean 'retries'"),
        ({"max_active_tis_per_dag": 0}, "max_active_tis_per_dag must be at least 1"),
        ({"max_active_tis_per_dagrun": 0}, "max_active_tis_per_dagrun must be at least 1"),
        ({"depends_on_past": 1}, "depends_on_past must be True or False"),
        ({"wait_for_downstream": "x"}, "wait_for_downstream must be True or False"),
        ({"pool": {}}, "name each pool with its slots"),
        ({"pool": {"db": 1}, "pool_slots": 2}, "and no pool_slots"),
        ({"pool": {"db": 0}}, "must be at least 1, not 0"),
        ({"run_as_user": "x"}, "does not support 'run_as_user' yet"),
        ({"retries": -1}, "retries must be at least 0, not -1"),
        ({"retries": 2**31}, "retries must be at most 2147483647, not 2147483648"),
        ({"retries": "3"}, "retries must be a whole number, not '3'"),
        ({"retry_delay": "5m"}, "retry_delay must be a timedelta, not '5m'"),
        ({"retry_delay": -1}, "retry_delay must not be negative"),
        ({"retry_delay": 1e300}, "retry_delay must be at most 36525 days"),
        ({"execution_timeout": timedelta.max}, "execution_timeout must be at most 36525 days"),
        ({"retry_exponential_backoff": -1}, "must be a multiplier such as 2.0"),
        ({"retry_exponential_backoff": float("nan")}, "must be a multiplier such as 2.0"),
        ({"retry_exponential_backoff": float("inf")}, "must be a multiplier such as 2.0"),
        ({"retry_exponential_backoff": 10**400}, "must be a multiplier such as 2.0"),
        ({"retry_exponential_backoff": "yes"}, "must be a multiplier such as 2.0"),
        ({"execution_timeout": 60}, "execution_timeout must be a timedelta, not 60"),
        ({"execution_timeout": timedelta(0)}, "execution_timeout must be above zero"),
        ({"pool": ""}, "pool ''"),
        ({"pool_slots": 0}, "pool_slots must be at least 1, not 0"),
        ({"queue": "my queue"}, "queue 'my queue' may hold only letters"),
        ({"priority_weight": 1.5}, "priority_weight must be a whole number"),
        ({"weight_rule": "sideways"}, "use 'downstream' or 'upstream' or 'absolute'"),
        ({"trigger_rule": "all_sucess"}, "trigger_rule 'all_sucess' does not exist: use 'all_success'"),
        ({"params": {"x": object()}}, "The param 'x' cannot be kept"),
        ({"do_xcom_push": 1}, "do_xcom_push must be True or False"),
    ],
)
def test_a_wrong_argument_is_refused_with_dag_task_and_remedy(arguments: dict[str, Any], words: str) -> None:
    with DAG("sales"), pytest.raises(DagError, match=f"^DAG 'sales', task 'load': .*{words}"):
        EmptyOperator(task_id="load", **arguments)


@pytest.mark.parametrize("task_id", ["", "my task", "a/b", "größe", "x" * 251, 7])
def test_a_task_id_that_airflow_would_not_take_is_refused(task_id: Any) -> None:
    with DAG("ids"), pytest.raises(DagError, match="task_id"):
        EmptyOperator(task_id=task_id)


def test_a_missing_argument_is_named() -> None:
    with DAG("missing"):
        with pytest.raises(DagError, match="DAG 'missing', task 'shell': BashOperator needs bash_command"):
            BashOperator(task_id="shell")  # type: ignore[call-arg]
        with pytest.raises(DagError, match="DAG 'missing': EmptyOperator needs task_id"):
            EmptyOperator()  # type: ignore[call-arg]
        with pytest.raises(DagError, match="EmptyOperator takes its arguments by name"):
            EmptyOperator("shell")  # type: ignore[call-arg]


def test_a_refused_task_does_not_stay_in_its_dag() -> None:
    with DAG("clean") as clean, pytest.raises(DagError):
        EmptyOperator(task_id="load", retries=-1)
    assert clean.task_ids == []


def test_an_operator_of_the_authors_own_takes_default_args_and_joins_the_dag(run: Any) -> None:
    with DAG("own", default_args={"punctuation": "?", "retries": 2}) as own:
        greeting = Greeting(task_id="greet", name="{{ run_id }}")
    own.validate()
    assert greeting.retries == 2
    assert run(greeting).return_value == '"Hello scheduled__2013-01-01? It is 2013-01-01."'


def test_an_operator_that_forgets_its_base_says_so() -> None:
    class Forgetful(Greeting):
        def __init__(self, **kwargs: Any) -> None:
            pass

    with DAG("forget"), pytest.raises(DagError, match=r"Forgetful.__init__ does not call super\(\).__init__"):
        Forgetful(task_id="x")


def test_an_operator_without_execute_says_so() -> None:
    class Idle(BaseOperator):
        pass

    with DAG("idle"), pytest.raises(DagError, match=r"Idle has no execute\(\)"):
        Idle(task_id="x")  # type: ignore[abstract]


def test_a_template_field_that_is_no_attribute_is_named() -> None:
    class Wrong(EmptyOperator):
        template_fields: ClassVar[tuple[str, ...]] = ("sql",)

    with DAG("wrong"), pytest.raises(DagError, match="Wrong names 'sql' in template_fields, but has no such attribute"):
        Wrong(task_id="x")


def test_a_python_task_gets_the_context_values_that_it_names(run: Any) -> None:
    def report(limit: int, ds: str, *, try_number: int = 0, other: str = "x") -> list[Any]:
        return [limit, ds, try_number, other]

    with DAG("python"):
        named = PythonOperator(task_id="named", python_callable=report, op_args=[3])
        everything = PythonOperator(
            task_id="all", python_callable=lambda x, **context: [x, context["run_id"]], op_args=["{{ ds }}"]
        )
    assert run(named, try_number=2).return_value == '[3, "2013-01-01", 2, "x"]'
    assert run(everything).return_value == '["2013-01-01", "scheduled__2013-01-01"]'


def test_what_is_no_function_cannot_be_called() -> None:
    with DAG("python"), pytest.raises(DagError, match="python_callable must be a function, not 3"):
        PythonOperator(task_id="x", python_callable=3)  # type: ignore[arg-type]


def test_a_command_must_be_a_text() -> None:
    with DAG("bash"), pytest.raises(DagError, match="bash_command must be a text, not \\['ls'\\]"):
        BashOperator(task_id="x", bash_command=["ls"])  # type: ignore[arg-type]


def test_skip_codes_must_be_numbers() -> None:
    with DAG("bash"), pytest.raises(DagError, match="skip_on_exit_code"):
        BashOperator(task_id="x", bash_command="true", skip_on_exit_code=["99"])  # type: ignore[list-item]
