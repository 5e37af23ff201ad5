"""One attempt, from its message to its outcome, through a real worker."""

import signal
from collections.abc import Callable
from pathlib import Path

import psutil

from tests.integration.executor.conftest import Stage, WorkerProcess, eventually
from turnout.executor.logs import LOG_LIMIT_LOGGER

StartWorker = Callable[..., WorkerProcess]


def test_a_task_succeeds_and_hands_its_result_to_the_next(stage: Stage, worker: WorkerProcess) -> None:
    first = stage.publish({"one": ["succeed:hello"], "two": ["pull:one"]})
    assert stage.wait(first["one"], "success").outcome == "success"
    assert stage.xcom(first["one"]) == "hello"
    stage.wait(first["two"], "success")
    again = stage.publish({"one": ["succeed:for the next"]})
    stage.wait(again["one"], "success")
    assert worker.process.poll() is None


def test_a_result_pulled_by_the_next_task_comes_from_the_same_run(stage: Stage, worker: WorkerProcess) -> None:
    ids = stage.insert({"one": ["succeed:mine"], "two": ["pull:one"]})
    other = stage.insert({"one": ["succeed:another run's"]})
    for task_instance_id in (other["one"], ids["one"], ids["two"]):
        stage.broker.publish(stage.queue(task_instance_id))
        stage.wait(task_instance_id, "success")
    assert stage.xcom(ids["two"]) == "mine"
    assert worker.process.poll() is None


def test_a_large_result_and_a_large_conf_arrive_whole(stage: Stage, worker: WorkerProcess) -> None:
    ids = stage.publish({"one": ["return_bytes:200000"]}, padding="y" * 300_000)
    stage.wait(ids["one"], "success")
    assert stage.xcom(ids["one"]) == "x" * 200_000
    assert worker.process.poll() is None


def test_a_failure_waits_for_its_retry_and_succeeds_then(stage: Stage, worker: WorkerProcess) -> None:
    ids = stage.publish({"retried": ["fail:boom", "succeed"]})
    failed = stage.wait(ids["retried"], "up_for_retry")
    assert (failed.outcome, failed.cause, failed.try_number) == ("failed", "error", 1)
    assert "RuntimeError: boom" in str(failed.error)
    with stage.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE task_instance SET state = 'scheduled' WHERE state = 'up_for_retry'")
    stage.broker.publish(stage.queue(ids["retried"]))
    assert stage.wait(ids["retried"], "success").try_number == 2
    assert [entry.level for entry in stage.logged("retried")][:1] == ["error"]
    assert worker.process.poll() is None


def test_a_failure_for_good_is_not_retried(stage: Stage, worker: WorkerProcess) -> None:
    ids = stage.publish({"retried": ["fail_for_good:never"], "one": ["skip:not today"]})
    assert stage.wait(ids["retried"], "failed", "up_for_retry").state == "failed"
    assert stage.wait(ids["one"], "skipped", "failed").state == "skipped"
    assert worker.process.poll() is None


def test_a_task_out_of_time_fails_and_its_child_goes_on_with_the_next(stage: Stage, worker: WorkerProcess) -> None:
    ids = stage.publish({"limited": ["hang"]})
    failed = stage.wait(ids["limited"], "failed")
    assert failed.cause == "timeout"
    assert "execution_timeout" in str(failed.error)
    assert stage.wait(stage.publish({"one": ["succeed"]})["one"], "success")
    assert worker.process.poll() is None


def test_a_task_out_of_time_that_does_not_stop_is_killed_and_gone(stage: Stage, worker: WorkerProcess) -> None:
    ids = stage.publish({"limited": ["ignore_sigterm"]})
    [start] = stage.wait_for_start()
    failed = stage.wait(ids["limited"], "failed")
    assert failed.cause == "timeout"
    eventually(lambda: not psutil.pid_exists(start["pid"]))
    assert worker.process.poll() is None


def test_the_command_of_a_bash_task_out_of_time_is_gone(stage: Stage, worker: WorkerProcess, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    ids = stage.publish({"bash_limited": []}, pids=str(pids), command="sleep 3600")
    assert stage.wait(ids["bash_limited"], "failed").cause == "timeout"
    eventually(lambda: not psutil.pid_exists(int(pids.read_text())))
    assert worker.process.poll() is None


def test_a_task_that_calls_sys_exit_has_failed(stage: Stage, worker: WorkerProcess) -> None:
    ids = stage.publish({"one": ["sys_exit:0"]})
    failed = stage.wait(ids["one"], "failed")
    assert (failed.outcome, failed.cause) == ("failed", "error")
    assert "sys.exit(0)" in str(failed.error)
    assert worker.process.poll() is None


def test_a_task_that_ends_its_process_has_failed_and_is_retried(stage: Stage, worker: WorkerProcess) -> None:
    ids = stage.publish({"one": ["os_exit:3"], "retried": ["os_exit:0"]})
    failed = stage.wait(ids["one"], "failed")
    assert (failed.outcome, failed.cause, failed.infra_failures) == ("failed", "child_exited", 0)
    assert "exit code 3" in str(failed.error)
    assert stage.wait(ids["retried"], "up_for_retry").cause == "child_exited"
    assert worker.process.poll() is None


def test_a_child_killed_by_sigkill_is_reported_by_its_worker_with_the_cause(
    stage: Stage, worker: WorkerProcess
) -> None:
    ids = stage.publish({"one": ["hang"]})
    [start] = stage.wait_for_start()
    psutil.Process(start["pid"]).send_signal(signal.SIGKILL)
    lost = stage.wait(ids["one"], "scheduled")
    assert (lost.outcome, lost.cause, lost.infra_failures) == ("lost", "child_killed", 1)
    assert str(lost.error).startswith("Killed by signal 9 (SIGKILL): probably out of memory. Its peak memory was ")
    assert worker.process.poll() is None


def test_a_child_killed_by_any_signal_costs_only_its_own_attempt(stage: Stage, worker: WorkerProcess) -> None:
    ids = stage.publish({"one": ["signal:SIGSEGV"], "two": ["signal:SIGTERM"]})
    assert str(stage.wait(ids["one"], "scheduled").error).startswith("Killed by signal 11 (SIGSEGV). Its peak memory ")
    assert stage.wait(ids["two"], "scheduled").error == "Killed by signal 15 (SIGTERM)."
    for _ in range(3):
        assert stage.wait(stage.publish({"one": ["succeed"]})["one"], "success")
    assert worker.process.poll() is None


def test_ten_megabytes_of_prints_are_all_in_the_log(stage: Stage, worker: WorkerProcess) -> None:
    ids = stage.publish({"one": ["print_mb:10"]})
    stage.wait(ids["one"], "success")
    printed = [entry for entry in stage.logged("one") if entry.stream == "stdout"]
    assert len(printed) == 10 * 1024 * 1024 // 100
    assert printed[-1].msg == f"{len(printed) - 1:099}"
    assert worker.process.poll() is None


def test_a_task_that_floods_its_log_goes_on_without_it(stage: Stage, start_worker: StartWorker) -> None:
    start_worker(TURNOUT_WORKER__MAX_LOG_PER_ATTEMPT_MB="1")
    gate = stage.settings.home / "gate"
    ids = stage.publish({"one": [f"flood_and_wait:{gate}"]})
    eventually(lambda: [entry.logger for entry in stage.logged("one")][-1:] == [LOG_LIMIT_LOGGER])
    assert len(stage.logged("one")) <= 1 + 1024 * 1024 // 15
    gate.touch()
    assert stage.wait(ids["one"], "success")


def test_a_secret_is_neither_in_the_log_nor_in_the_error_that_is_kept(stage: Stage, worker: WorkerProcess) -> None:
    ids = stage.publish({"one": ["tell_secret:open-sesame"]})
    failed = stage.wait(ids["one"], "failed")
    assert str(failed.error).startswith("RuntimeError: failed with ***")
    messages = [entry.msg for entry in stage.logged("one")]
    assert messages[:2] == ["printed ***", "echoed ***"]
    assert "RuntimeError: failed with ***" in messages[2]
    assert "open-sesame" not in repr(messages)
    assert worker.process.poll() is None


def test_a_log_folder_that_cannot_be_written_does_not_cost_the_outcome(stage: Stage, worker: WorkerProcess) -> None:
    stage.settings.logs_path.parent.mkdir(exist_ok=True)
    stage.settings.logs_path.write_text("a file where the folder should be")
    assert stage.wait(stage.publish({"one": ["succeed"]})["one"], "success")
    assert worker.process.poll() is None
