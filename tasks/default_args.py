"""The check of a DAG's `default_args`."""

from typing import TYPE_CHECKING

from turnout.tasks.bash import BashOperator
from turnout.tasks.errors import DagError
from turnout.tasks.operator_meta import argument_names
from turnout.tasks.python import PythonOperator
from turnout.tasks.values import refuse_unknown

if TYPE_CHECKING:
    from turnout.tasks.dags import DAG

#: Airflow's DAG takes these from its default_args.
_FOR_THE_DAG = {"start_date", "end_date"}


def check_default_args(dag: "DAG") -> None:
    """Refuse keys that no operator takes: nobody would notice that they have no effect.

    Raises:
        DagError: there is one.
    """
    kinds = {BashOperator, PythonOperator, *map(type, dag.tasks)}
    known = _FOR_THE_DAG.union(*map(argument_names, kinds))
    try:
        refuse_unknown(dag.default_args, known, "default_args")
    except DagError as error:
        raise DagError(f"DAG {dag.dag_id!r}: {error}") from None
