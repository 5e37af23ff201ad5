"""`turnout dags trigger`."""

import json
from typing import Annotated, Any

import typer

from turnout.cli.database import actor, in_database
from turnout.cli.options import DagArgument, LogicalDateOption, Output, OutputOption
from turnout.cli.output import remark
from turnout.cli.run_record import show_run_record
from turnout.cli.waiting import wait_for_run
from turnout.metadata.engine import Connection
from turnout.metadata.errors import RequestError
from turnout.metadata.triggers import Trigger, Triggered, trigger


def parse_conf(value: str) -> dict[str, Any]:
    """Read the configuration of a run from the command line.

    Raises:
        typer.BadParameter: it is no JSON object.
    """
    try:
        conf = json.loads(value)
    except ValueError as error:
        raise typer.BadParameter(f"it is no JSON: {error}.") from None
    if not isinstance(conf, dict):
        raise typer.BadParameter(f'it must be a JSON object such as {{"day": 1}}, not {value}.')
    return conf


ConfOption = Annotated[
    dict[str, Any] | None,
    typer.Option("--conf", metavar="JSON", parser=parse_conf, help="JSON object that overrides params."),
]


def dag_trigger(
    dag_id: DagArgument,
    *,
    run_id: Annotated[str | None, typer.Option("--run-id", help="Id of the run; by default made of its date.")] = None,
    logical_date: LogicalDateOption = None,
    conf: ConfOption = None,
    priority: Annotated[
        int, typer.Option("--priority", help="Its tasks go before those of all runs of lower priority (0 by default).")
    ] = 0,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for its end, as `turnout runs wait` does.")] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Start a run of a DAG."""
    wanted = Trigger(dag_id, run_id=run_id, logical_date=logical_date, conf=conf or {}, priority=priority)
    triggered = in_database(lambda connection: _trigger(connection, wanted, wait=wait))
    if triggered.dag_is_paused:
        remark(f"DAG {dag_id} is paused: the run waits until `turnout dags unpause {dag_id}`.")
    if wait:
        wait_for_run(dag_id, triggered.run.dag_run_id, timeout_s=None, output=output)
    else:
        show_run_record(triggered.run, output)


def _trigger(connection: Connection, wanted: Trigger, *, wait: bool) -> Triggered:
    triggered = trigger(connection, wanted, actor=actor())
    if wait and triggered.dag_is_paused:  # nobody would ever come back from this wait; the transaction is rolled back
        raise RequestError(
            f"DAG {wanted.dag_id} is paused, so that --wait would not end: "
            f"`turnout dags unpause {wanted.dag_id}` first, or trigger it without --wait."
        )
    return triggered
