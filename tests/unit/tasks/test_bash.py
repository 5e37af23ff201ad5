import json
import logging
import os
import signal
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from turnout.tasks import DAG, BashOperator


def bash(command: str, **arguments: Any) -> BashOperator:
    return BashOperator(task_id="shell", bash_command=command, dag=DAG("bash"), **arguments)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_output_is_logged_line_by_line_and_the_last_line_is_the_result(
    run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "turnout.task")
    done = run(bash("echo one; echo two >&2; printf three"))
    assert [record.message for record in caplog.records] == ["one", "two", "three"]
    assert done.return_value == '"three"'


def test_a_command_without_output_has_an_empty_result(run: Any) -> None:
    assert run(bash("true")).return_value == '""'


def test_the_result_may_be_made_from_the_last_line(run: Any) -> None:
    assert run(bash("""echo '{"rows": 3}'""", output_processor=json.loads)).return_value == '{"rows": 3}'


def test_an_exit_code_other_than_zero_is_a_failure_that_may_be_retried(run: Any) -> None:
    done = run(bash("echo 'disk full'; exit 3"))
    assert (done.outcome, done.retry) == ("failed", True)
    assert done.error == "The command failed with exit code 3. Its last line was 'disk full'"


def test_a_command_that_is_killed_says_by_which_signal(run: Any) -> None:
    assert "was killed by signal 9 (SIGKILL)" in run(bash("kill -9 $$")).error


def test_exit_code_99_means_skipped_unless_said_otherwise(run: Any) -> None:
    assert run(bash("exit 99")).outcome == "skipped"
    assert run(bash("exit 99", skip_on_exit_code=None)).outcome == "failed"
    assert run(bash("exit 4", skip_on_exit_code=[3, 4])).outcome == "skipped"


def test_the_environment_is_that_of_the_worker_unless_given(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FROM_WORKER", "w")
    show = 'echo "$FROM_WORKER $OWN $AIRFLOW_CTX_TASK_ID"'
    path = os.environ["PATH"]
    assert run(bash(show)).return_value == '"w  shell"'
    assert run(bash(show, env={"OWN": "{{ ds }}", "PATH": path})).return_value == '" 2013-01-01 shell"'
    assert run(bash(show, env={"OWN": "o"}, append_env=True)).return_value == '"w o shell"'


def test_a_command_runs_in_an_empty_folder_of_its_own_or_where_it_is_told(run: Any, tmp_path: Path) -> None:
    assert run(bash("ls | wc -l")).return_value == '"0"'
    assert run(bash("pwd", cwd=str(tmp_path))).return_value == json.dumps(str(tmp_path))
    missing = run(bash("pwd", cwd="/no/such/folder"))
    assert (missing.retry, missing.error) == (
        False,
        "Cannot run in the folder '/no/such/folder' on this worker (cwd): No such file or directory.",
    )


def test_a_worker_without_bash_says_so(run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (
        run(bash("true", env={"PATH": str(tmp_path)})).error == "There is no program 'bash' on this worker: install it."
    )


def test_bytes_that_are_no_text_are_shown_as_escapes(run: Any) -> None:
    assert run(bash(r"printf 'a\xffb'")).return_value == r'"a\\xffb"'


def test_a_timeout_ends_every_process_the_command_has_started(
    run: Any, tmp_path: Path, eventually: Callable[..., object]
) -> None:
    command = f"trap '' TERM; sleep 600 & echo $! > {tmp_path}/child; echo $$ > {tmp_path}/shell; wait"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("turnout.tasks.command.GRACE_S", 0.2)
        done = run(bash(command, execution_timeout=timedelta(seconds=0.5)))
    assert done.cause == "timeout"
    pids = [int((tmp_path / name).read_text()) for name in ("child", "shell")]
    eventually(lambda: not any(map(is_alive, pids)))  # the kernel takes a moment to kill


def test_a_command_has_time_to_clean_up_after_a_timeout(run: Any, tmp_path: Path) -> None:
    command = f"trap 'echo bye > {tmp_path}/note; exit' TERM; sleep 600 & wait"
    assert run(bash(command, execution_timeout=timedelta(seconds=0.5))).cause == "timeout"
    assert (tmp_path / "note").read_text() == "bye\n"


def test_an_exit_of_the_worker_ends_the_command(run: Any, tmp_path: Path) -> None:
    def leave(*_: object) -> None:
        raise SystemExit(1)

    before = signal.signal(signal.SIGUSR1, leave)
    try:
        done = run(bash(f"echo $$ > {tmp_path}/shell; kill -USR1 {os.getpid()}; sleep 600"))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert done.cause == "exit"
    assert not is_alive(int((tmp_path / "shell").read_text()))
