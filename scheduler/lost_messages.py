"""Lost messages: queued attempts for which the broker holds no message any more.

The broker is asked from a thread of its own, so that one that hangs keeps neither the loop nor a stop waiting; an
answer that comes late is used by a later pass. Nothing that happens between the question and the answer does harm: the
compare-and-set decides, and a message without its attempt is dropped.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from threading import Thread

import structlog

from turnout.config.outage import Ongoing, Outage
from turnout.metadata.messages import Broker, BrokerUnavailableError, celery_queue
from turnout.metadata.stuck import Unclaimed

log = structlog.get_logger(__name__)

#: How long the loop waits for an answer, once in an outage: a broker that is well needs milliseconds.
PATIENCE_S = 1.0


@dataclass(frozen=True)
class _Question:
    """How deep the queues are in which some attempts wait."""

    by_queue: Mapping[str, Sequence[Unclaimed]]
    answer: "Future[dict[str, int]]"


class LostMessages:
    """Finds them.

    Args:
        broker: asked how deep its queues are.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._question: _Question | None = None
        self._outage = Outage("broker depth")

    @property
    def ongoing(self) -> Ongoing | None:
        """The outage of the broker, if there is one as far as is known here."""
        return self._outage.ongoing

    def find(self, waiting: Sequence[Unclaimed]) -> list[Unclaimed]:
        """Name attempts that are late while their queue holds fewer messages than attempts wait for one.

        Args:
            waiting: all that wait to be claimed; an earlier list is gone by when its answer has come only now.
        """
        if not any(attempt.is_late for attempt in waiting):
            self._question = None
            self._outage.over()
            return []
        question = self._question = self._question or self._ask(waiting)
        if not wait([question.answer], 0.0 if self._outage.ongoing else PATIENCE_S).done:
            if not self._outage.ongoing:
                self._outage.note(BrokerUnavailableError("The message broker does not answer."))
            return []
        self._question = None
        try:
            depths = question.answer.result()
        except BrokerUnavailableError as error:
            self._outage.note(error)
            return []
        self._outage.over()
        return _missing(question.by_queue, depths)

    def _ask(self, waiting: Sequence[Unclaimed]) -> _Question:
        by_queue: dict[str, list[Unclaimed]] = defaultdict(list)
        for attempt in waiting:
            by_queue[celery_queue(attempt.pool, attempt.queue)].append(attempt)
        question = _Question(by_queue, Future())
        Thread(target=self._put, args=(question,), name="depths", daemon=True).start()
        return question

    def _put(self, question: _Question) -> None:
        try:
            question.answer.set_result(self._broker.depths(question.by_queue))
        except Exception as error:  # noqa: BLE001  it is raised where the answer is taken
            question.answer.set_exception(error)


def _missing(by_queue: Mapping[str, Sequence[Unclaimed]], depths: Mapping[str, int]) -> list[Unclaimed]:
    missing: list[Unclaimed] = []
    for name, queued in by_queue.items():
        late = [attempt for attempt in queued if attempt.is_late]
        missing += late[: max(0, len(queued) - depths[name])]
    return missing
