import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from turnout.tasks import DAG, BashOperator, PythonOperator, task


def echo(*values: Any) -> list[Any]:
    return list(values)


def render(run: Any, *values: Any, dag: DAG | None = None, results: Any = None, **facts: Any) -> list[Any]:
    """Return what templates become in the run of 1 January 2013."""
    operator = PythonOperator(task_id="echo", python_callable=echo, op_args=values, dag=dag or DAG("templates"))
    done = run(operator, results, **facts)
    assert done.outcome == "success", done.error
    rendered: list[Any] = json.loads(done.return_value)
    return rendered


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ ds }} {{ ds_nodash }}", "2013-01-01 20130101"),
        ("{{ ts }}", "2013-01-01T00:00:00+00:00"),
        ("{{ ts_nodash }} {{ ts_nodash_with_tz }}", "20130101T000000 20130101T000000+0000"),
        ("{{ logical_date }}", "2013-01-01 00:00:00+00:00"),
        ("{{ data_interval_start | ds }} {{ data_interval_end | ds_nodash }}", "2013-01-01 20130102"),
        ("{{ data_interval_end | ts }}", "2013-01-02T00:00:00+00:00"),
        ("{{ run_id }} {{ dag_run.run_id }} {{ ti.run_id }}", " ".join(["scheduled__2013-01-01"] * 3)),
        ("{{ dag.dag_id }}.{{ task.task_id }} {{ task_instance.task_id }}", "templates.echo echo"),
        ("{{ task_instance_key_str }}", "templates__echo__20130101"),
        ("{{ try_number }} {{ ti.try_number }} {{ map_index }}", "1 1 -1"),
        ("{{ dag_run.conf.region }} {{ params.region }}", "eu eu"),
        ("{{ dag_run.run_type }} {{ dag_run.data_interval_end.day }}", "scheduled 2"),
        ("{{ macros.ds_add(ds, -7) }} {{ macros.ds_format(ds, '%Y-%m-%d', '%d.%m.%y') }}", "2012-12-25 01.01.13"),
        ("{{ macros.timedelta(days=1) + logical_date }}", "2013-01-02 00:00:00+00:00"),
        ("{% if params.region == 'eu' %}yes{% endif %}{# no #}", "yes"),
        ("no template", "no template"),
    ],
)
def test_templates_know_the_names_of_airflow(run: Any, template: str, text: str) -> None:
    assert render(run, template, conf={"region": "eu"}) == [text]


def test_params_of_the_run_come_before_those_of_task_and_dag(run: Any) -> None:
    dag = DAG("params", params={"a": "dag", "b": "dag", "c": "dag"})
    operator = PythonOperator(
        task_id="echo",
        python_callable=lambda params: params,
        params={"b": "task", "c": "task"},
        dag=dag,
    )
    assert json.loads(run(operator, conf={"c": "run"}).return_value) == {"a": "dag", "b": "task", "c": "run"}


def test_templates_are_rendered_inside_containers_and_other_values_are_left_alone(run: Any) -> None:
    class Point(NamedTuple):
        x: str
        y: int

    rendered = render(run, ["{{ ds }}", {"k": "{{ ds }}"}], ("{{ ds }}",), Point("{{ ds }}", 2), 5, None)
    assert rendered == [["2013-01-01", {"k": "2013-01-01"}], ["2013-01-01"], ["2013-01-01", 2], 5, None]


def test_results_of_other_tasks_can_be_used_in_templates(run: Any) -> None:
    @task
    def extract() -> Any: ...

    with DAG("pull") as dag:
        future = extract()
    results = {"extract": {"rows": [1, 2]}}
    rendered = render(
        run,
        "{{ ti.xcom_pull(task_ids='extract')['rows'] }}",
        "{{ ti.xcom_pull('extract', key='rows')[1] }}",
        "{{ ti.xcom_pull(['extract', 'other'], default=0) }}",
        f"rows: {future['rows'][0]}",
        future["rows"],
        dag=dag,
        results=results,
    )
    assert rendered == ["[1, 2]", "2", "[{'rows': [1, 2]}, 0]", "rows: 1", [1, 2]]


def test_a_result_that_holds_a_template_is_not_rendered_again(run: Any) -> None:
    @task
    def extract() -> Any: ...

    with DAG("pull") as dag:
        future = extract()
    assert render(run, future, dag=dag, results={"extract": "{{ ds }}"}) == ["{{ ds }}"]


def test_macros_and_filters_of_the_author_are_known(run: Any) -> None:
    dag = DAG("own", user_defined_macros={"bucket": "raw"}, user_defined_filters={"shout": str.upper})
    assert render(run, "{{ bucket | shout }}", dag=dag) == ["RAW"]


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{{ dss }}", "'dss' is unknown: did you mean 'ds'?"),
        ("{{ zzzz }}", "'zzzz' is unknown: the names are dag, dag_run,"),
        ("{{ params.limit }}", "'dict object' has no attribute 'limit'."),
        ("{{ ds", "TemplateSyntaxError: unexpected end of template"),
        ("{{ ds | upcase }}", "No filter named 'upcase'"),
        ("{{ macros.ds_add('x', 1) }}", "ValueError: time data 'x' does not match"),
    ],
)
def test_a_template_that_cannot_be_rendered_says_where_and_why(run: Any, template: str, words: str) -> None:
    operator = PythonOperator(task_id="echo", python_callable=echo, op_args=[template], dag=DAG("wrong"))
    done = run(operator)
    assert done.outcome == "failed"
    assert done.error.startswith("The template in op_args of task 'echo' (DAG 'wrong') cannot be rendered: ")
    assert words in done.error


def test_a_run_without_logical_date_says_so_when_a_template_needs_one(run: Any) -> None:
    operator = PythonOperator(task_id="echo", python_callable=echo, op_args=["{{ ds }}"], dag=DAG("undated"))
    done = run(operator, logical_date=None)
    assert "'ds' is unknown, because this run has no logical date or data interval." in done.error


def test_a_command_file_is_found_beside_the_dag_file_and_rendered(run: Any, load: Any, tmp_path: Path) -> None:
    (tmp_path / "report.sh").write_text("echo file {{ ds }}\n")
    (dag,) = load(
        "from turnout.tasks import DAG, BashOperator\n"
        "with DAG('files'):\n"
        "    BashOperator(task_id='found', bash_command='report.sh')\n"
        "    BashOperator(task_id='lost', bash_command='missing.sh')\n"
    )
    assert run(dag.get_task("found")).return_value == '"file 2013-01-01"'
    assert "there is no file 'missing.sh' beside the DAG file" in run(dag.get_task("lost")).error


def test_a_command_that_ends_in_a_file_name_is_no_file(run: Any, tmp_path: Path) -> None:
    (tmp_path / "report.sh").write_text("echo from afar")
    operator = BashOperator(task_id="x", bash_command=f"bash {tmp_path}/report.sh", dag=DAG("afar"))
    assert run(operator).return_value == '"from afar"'
