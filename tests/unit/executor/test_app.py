"""How the Celery application is set up for each broker."""

import pytest
from pydantic import SecretStr

from turnout.config.settings import Settings
from turnout.executor.app import ATTEMPT_TASK, declared_queue, kombu_url, make_app


def settings(url: str) -> Settings:
    return Settings(broker_url=SecretStr(url))


@pytest.mark.parametrize(
    ("url", "translated"),
    [
        ("redis://h/1", "redis://h/1"),
        ("rediss://h/1", "rediss://h/1"),
        ("valkey://h:1/2", "redis://h:1/2"),
        ("redis+socket:///run/valkey.sock", "redis+socket:///run/valkey.sock"),
        ("amqp://u:p@h//", "amqp://u:p@h//"),
    ],
)
def test_valkey_is_redis_to_kombu_and_other_urls_stay(url: str, translated: str) -> None:
    assert kombu_url(url) == translated


def test_messages_are_json_only_and_nothing_keeps_results() -> None:
    app = make_app(settings("redis://h/1"))
    assert app.conf.accept_content == ["json"]
    assert app.conf.task_ignore_result is True
    assert app.conf.result_backend is None
    assert ATTEMPT_TASK in app.tasks


def test_a_worker_on_redis_takes_no_more_than_it_can_start() -> None:
    conf = make_app(settings("redis://h/1")).conf
    assert (conf.worker_prefetch_multiplier, conf.worker_disable_prefetch) == (1, True)


def test_queues_are_durable_and_replicated_on_rabbitmq() -> None:
    assert declared_queue("amqp://h", "p.q").durable
    assert declared_queue("amqp://h", "p.q").queue_arguments == {"x-queue-type": "quorum"}
    assert declared_queue("redis://h", "p.q").queue_arguments is None


def test_two_applications_in_one_process_have_queues_of_their_own() -> None:
    first, second = make_app(settings("redis://h/1"), ["a.b"]), make_app(settings("redis://h/2"), ["c.d"])
    assert list(first.amqp.queues) == ["a.b"]
    assert list(second.amqp.queues) == ["c.d"]
