import logging
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from turnout.tasks import DAG, BashOperator, EmptyOperator, TaskFailed, TaskSkipped, task
from turnout.tasks.errors import DagError
from turnout.tasks.loading import load_file

DAY = datetime(2013, 1, 1, tzinfo=UTC)


def test_a_dag_runs_from_start_to_end_in_this_process() -> None:
    with DAG("trip", schedule="@daily", start_date=DAY) as trip:

        @task
        def extract(ds: str) -> dict[str, Any]:
            return {"day": ds, "rows": (1, 2)}

        @task
        def count(rows: list[int], ti: Any = None) -> int:
            assert ti.xcom_pull("extract")["day"] == "2013-01-01"
            return len(rows)

        end = BashOperator(task_id="end", bash_command="echo {{ params.who }} {{ data_interval_end | ds }}")
        count(extract()["rows"]) >> EmptyOperator(task_id="middle") >> end
    done = trip.test(logical_date=DAY, conf={"who": "me"})
    assert done.state == "success"
    assert done.tasks == dict.fromkeys(["extract", "count", "middle", "end"], "success")
    assert done.results == {"extract": {"day": "2013-01-01", "rows": [1, 2]}, "count": 2, "end": "me 2013-01-02"}


def test_retries_are_used_without_waiting() -> None:
    tries = []

    with DAG("again") as again:

        @task(retries=2, retry_delay=3600)
        def flaky(try_number: int) -> None:
            tries.append(try_number)
            if try_number < 3:
                raise ValueError("not yet")

        @task(retries=5)
        def hopeless() -> None:
            tries.append(0)
            raise TaskFailed("never")

        flaky()
        hopeless()
    done = again.test()
    assert sorted(tries) == [0, 1, 2, 3]
    assert (done.tasks, done.state) == ({"flaky": "success", "hopeless": "failed"}, "failed")
    assert done.errors == {"hopeless": "never"}


def test_what_comes_after_a_failed_or_skipped_task_is_not_run() -> None:
    with DAG("states") as states:

        @task
        def fail() -> None:
            raise ValueError

        @task
        def skip() -> None:
            raise TaskSkipped

        after_fail, after_both, after_skip = (
            EmptyOperator(task_id=f"after_{name}") for name in ("fail", "both", "skip")
        )
        failing, skipping = fail(), skip()
        failing >> after_fail
        [failing, skipping] >> after_both
        skipping >> after_skip
    done = states.test()
    assert done.tasks == {
        "fail": "failed",
        "skip": "skipped",
        "after_fail": "upstream_failed",
        "after_both": "upstream_failed",
        "after_skip": "skipped",
    }
    assert done.state == "failed"


def test_an_interrupt_ends_the_trial() -> None:
    with DAG("stop") as stop:

        @task
        def interrupted() -> None:
            raise KeyboardInterrupt

        interrupted()
    with pytest.raises(KeyboardInterrupt):
        stop.test()


def test_a_dag_that_is_not_valid_is_not_tried() -> None:
    with DAG("round") as rounded:
        a, b = EmptyOperator(task_id="a"), EmptyOperator(task_id="b")
        a >> b >> a
    with pytest.raises(DagError, match="has a cycle"):
        rounded.test()


def test_without_a_date_the_latest_closed_interval_is_used() -> None:
    with DAG("latest", schedule="@daily") as latest:
        BashOperator(
            task_id="x", bash_command="echo {{ (data_interval_end - data_interval_start).days }} {{ ts[11:] }}"
        )
    assert latest.test().results == {"x": "1 00:00:00+00:00"}


def test_a_dag_file_that_is_run_as_a_program_prints_what_happens(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.py"
    path.write_text(
        "from turnout.tasks import DAG, BashOperator\n"
        "with DAG('told') as told:\n"
        "    BashOperator(task_id='hello', bash_command='echo hi there')\n"
        "    BashOperator(task_id='bad', bash_command='exit 3', retries=1)\n"
        "if __name__ == '__main__':\n"
        "    told.test()\n"
    )
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert "hi there" in lines
    assert "Task hello: success" in lines
    assert "Task bad: try 1 of 2 failed, trying again" in lines
    assert "Task bad: failed" in lines
    assert sum(line.endswith("The command failed with exit code 3. Its last line was ''") for line in lines) == 2
    assert lines[-1] == "DAG told: failed"
    assert done.stderr == ""


def test_a_program_that_has_set_logging_up_is_left_to_it(capsys: pytest.CaptureFixture[str]) -> None:
    handler = logging.NullHandler()
    logging.getLogger().addHandler(handler)
    try:
        with DAG("quiet") as quiet:
            EmptyOperator(task_id="x")
        quiet.test()
    finally:
        logging.getLogger().removeHandler(handler)
    assert capsys.readouterr().out == ""


def test_trigger_rules_are_those_of_the_schedulers() -> None:
    with DAG("rules") as rules:

        @task
        def fail() -> None:
            raise ValueError

        failing, fine = fail(), EmptyOperator(task_id="fine")
        for rule in ("all_success", "one_failed", "one_success", "all_done", "none_skipped", "all_failed", "always"):
            [failing, fine] >> EmptyOperator(task_id=rule, trigger_rule=rule)
    done = rules.test()
    assert [name for name, state in done.tasks.items() if state == "upstream_failed"] == ["all_success"]
    assert [name for name, state in done.tasks.items() if state == "skipped"] == ["all_failed"]
    assert done.state == "failed"


def test_a_teardown_runs_after_work_that_failed_and_has_no_part_in_the_end() -> None:
    with DAG("clean") as clean:

        @task
        def broken() -> None:
            raise ValueError

        up, end = EmptyOperator(task_id="up"), EmptyOperator(task_id="end")
        up >> broken().as_teardown(setups=up)
        up >> end
    done = clean.test()
    assert (done.tasks, done.state) == ({"up": "success", "broken": "failed", "end": "success"}, "success")


def test_fail_fast_skips_what_comes_after_the_first_failure_except_teardowns() -> None:
    with DAG("fast", fail_fast=True) as fast:

        @task
        def bad() -> None:
            raise ValueError

        up = EmptyOperator(task_id="a_up")
        first = bad()
        up >> first >> EmptyOperator(task_id="after") >> EmptyOperator(task_id="down").as_teardown(setups=up)
        EmptyOperator(task_id="b") >> EmptyOperator(task_id="c") >> EmptyOperator(task_id="d")
    done = fast.test()
    assert (done.tasks["bad"], done.tasks["after"], done.tasks["down"]) == ("failed", "upstream_failed", "success")
    assert done.tasks["d"] == "skipped"
    assert done.state == "failed"


def test_the_example_of_the_page_about_rules_runs(tmp_path: Path) -> None:
    page = Path(__file__).parents[3] / "docs" / "reference" / "trigger-rules.md"
    path = tmp_path / "report.py"
    path.write_text(page.read_text().split("```python\n")[1].split("```")[0])
    (report,) = load_file(path)
    assert report.test().tasks == dict.fromkeys(["make_table", "fill", "drop_table"], "success")
    assert [task.task_id for task in report.tasks if task.is_teardown] == ["drop_table"]
