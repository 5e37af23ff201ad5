"""Tasks that run a shell command."""

import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

from turnout.tasks.errors import CommandFailed, DagError
from turnout.tasks.masking import process_masker
from turnout.tasks.operator import BaseOperator, OperatorArgs
from turnout.tasks.references import DagParam, XComArg
from turnout.tasks.signals import TaskSkipped

if TYPE_CHECKING:
    from turnout.tasks.context import Context

#: Names that Airflow gives a command's environment, and where the values are in the context.
_CONTEXT_VARIABLES = {
    "AIRFLOW_CTX_DAG_ID": "dag_id",
    "AIRFLOW_CTX_TASK_ID": "task_id",
    "AIRFLOW_CTX_DAG_RUN_ID": "run_id",
    "AIRFLOW_CTX_TRY_NUMBER": "try_number",
    "AIRFLOW_CTX_LOGICAL_DATE": "logical_date",
}


class BashOperator(BaseOperator):
    """A task that runs a command in bash.

    What the command prints goes to the task's log, line by line; the last line is the result. When the attempt is ended
    early, so is every process that the command has started.

    Args:
        bash_command: the command, a template; or the name of a template file that ends in `.sh` or `.bash`.
        append_env: whether `env` comes on top of the worker's environment, and not in its place.
        output_encoding: how its output is to be read.
        skip_on_exit_code: exit code or codes that end the task as skipped.
        output_processor: what makes the result of the last line.
        kwargs: as for `BaseOperator`; without `cwd` it runs in an empty temporary folder.
    """

    template_fields: ClassVar[Sequence[str]] = ("bash_command",)
    template_ext: ClassVar[Sequence[str]] = (".sh", ".bash")

    def __init__(
        self,
        *,
        task_id: str,
        bash_command: str | XComArg,
        append_env: bool = False,
        output_encoding: str = "utf-8",
        skip_on_exit_code: int | Collection[int] | None = 99,
        output_processor: Callable[[str], Any] = str,
        **kwargs: Unpack[OperatorArgs],
    ) -> None:
        super().__init__(task_id=task_id, **kwargs)
        if not isinstance(bash_command, str | XComArg | DagParam):
            raise DagError(f"bash_command must be a text, not {bash_command!r}.")
        self.bash_command = bash_command
        self.append_env = append_env
        self.output_encoding = output_encoding
        self.skip_on_exit_code = _as_codes(skip_on_exit_code)
        self.output_processor = output_processor

    def execute(self, context: "Context") -> Any:
        """Run the command.

        Raises:
            TaskSkipped: its exit code says so.
            TaskFailed: there is no bash.
            CommandFailed: it failed.
        """
        from turnout.tasks.command import run_command  # noqa: PLC0415 - subprocess, only where it is used

        folder = None if self.cwd is None else str(Path.cwd())  # where `run_task` has gone
        ended = run_command(
            ["bash", "-c", str(self.bash_command)], self._environment(context), folder, self.output_encoding
        )
        if ended.exit_code in self.skip_on_exit_code:
            raise TaskSkipped(f"The command ended with exit code {ended.exit_code}, which means skipped.")
        if ended.exit_code != 0:
            raise CommandFailed(
                f"The command {ended.describe()}. Its last line was {process_masker.mask(ended.last_line)!r:.300}"
            )
        return self.output_processor(ended.last_line)

    def _environment(self, context: "Context") -> dict[str, str]:
        instance = context["ti"]
        facts = {name: getattr(instance, attribute) for name, attribute in _CONTEXT_VARIABLES.items()}
        inherited = os.environ if self.env is None or self.append_env else {}
        known = {name: str(value) for name, value in facts.items() if value is not None}
        return {**inherited, **known, **{name: str(value) for name, value in (self.env or {}).items()}}


def _as_codes(codes: Any) -> frozenset[int]:
    if codes is None:
        return frozenset()
    values = {codes} if isinstance(codes, int) else set(codes)
    if not all(isinstance(code, int) for code in values):
        raise DagError(f"skip_on_exit_code must be an exit code or several, not {codes!r}.")
    return frozenset(values)
