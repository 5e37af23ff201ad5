"""A child's end of the channel."""

import socket
from types import TracebackType
from typing import Any, Self

from turnout.executor.assignment import Assignment
from turnout.executor.frames import read_frame, write_frame
from turnout.tasks.errors import XComError


class ChannelClient:
    """What the child asks of the main process, over a connection that is made when it is first needed."""

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._connection: socket.socket | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if self._connection is not None:
            self._connection.close()

    def pull(self, dag_id: str, run_id: str, task_id: str, key: str, map_index: int) -> Any:
        """Return an XCom of the attempt's own DAG run.

        Raises:
            LookupError: the task has pushed no such key.
            XComError: the run is another.
        """
        facts = self._assignment.facts
        if (dag_id, run_id) != (facts.dag_id, facts.run_id):
            raise XComError(f"A task may read XComs of its own run only, not of DAG {dag_id}, run {run_id}.")
        answer = self._ask("xcom", task_id=task_id, key=key, map_index=map_index)
        if "missing" in answer:
            raise LookupError(answer["missing"])
        return answer["value"]

    def fetch_conf(self) -> dict[str, Any]:
        """Return the conf of the attempt's DAG run."""
        conf: dict[str, Any] = self._ask("conf")["value"]
        return conf

    def send_return_value(self, value: str) -> None:
        """Hand over a return value (JSON) that is too large for the pipe."""
        self._ask("return_value", value=value)

    def note(self, event: str) -> None:
        """Tell how far the attempt is: `importing` or `imported`."""
        self._ask(event)

    def _ask(self, what: str, **arguments: Any) -> dict[str, Any]:
        if self._connection is None:
            self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._connection.connect(self._assignment.channel)
        write_frame(self._connection, {"token": self._assignment.token, "ask": what, **arguments})
        answer = read_frame(self._connection)
        if "error" in answer:
            raise ConnectionError(answer["error"])
        return answer
