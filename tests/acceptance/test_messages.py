"""Messages that are lost at the broker, or are there twice."""

from collections import Counter
from collections.abc import Callable

import redis

from tests.platform import Platform

Eventually = Callable[..., object]


def test_a_message_deleted_from_the_broker_is_replaced_by_any_scheduler(
    platform: Platform, broker_client: "redis.Redis", eventually: Eventually
) -> None:
    platform.declare("scripted.py", small=1)
    platform.pretend_worker()
    platform.start("scheduler", "scheduler-1", TURNOUT_SCHEDULER__MESSAGE_PATIENCE_S="3600")
    run_id = platform.trigger("scripted", {"*": ["succeed"]}, pids="/dev/null", command="true")
    eventually(lambda: broker_client.llen("default_pool.default") > 0)
    broker_client.flushdb()
    platform.start("scheduler", "scheduler-2")
    platform.start("worker", "worker-1", "-q", "default,gpu", "-c", "2")

    eventually(lambda: platform.run_state(run_id) == "success", timeout_s=90)

    lost = platform.rows("SELECT DISTINCT outcome, cause FROM task_attempt")
    assert lost == [{"outcome": "returned", "cause": "message_lost"}]
    starts = Counter(entry["attempt_id"] for entry in platform.ledger())
    assert set(starts.values()) == {1}
    assert platform.scalar("SELECT max(infra_failures) FROM task_instance") == 0
    assert platform.scalar("SELECT max(try_number) FROM task_instance") == 1


def test_work_of_a_queue_whose_last_worker_left_waits_for_the_next_worker(
    platform: Platform, broker_client: "redis.Redis", eventually: Eventually
) -> None:
    platform.declare("scripted.py", small=1)
    platform.pretend_worker()
    platform.start("scheduler", "scheduler-1")
    run_id = platform.trigger("scripted", {"*": ["succeed"]}, pids="/dev/null", command="true")
    eventually(lambda: broker_client.llen("default_pool.default") > 0)
    with platform.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE process SET state = 'stopped' WHERE name = 'only-a-row'")

    eventually(lambda: platform.states(run_id)["queued"] == 0 and platform.states(run_id)["scheduled"] > 0)
    assert platform.scalar("SELECT count(*) FROM task_instance WHERE cause = 'no_worker'") > 0

    platform.start("worker", "worker-1", "-q", "default,gpu", "-c", "2")
    eventually(lambda: platform.run_state(run_id) == "success", timeout_s=90)
    assert set(Counter(entry["attempt_id"] for entry in platform.ledger()).values()) == {1}
