"""How one run is printed."""

from turnout.cli.options import Output
from turnout.cli.output import plain, show_record
from turnout.metadata.listings.runs import RunRow


def show_run_record(run: RunRow, output: Output) -> None:
    """Print a run: of its DAG versions a person sees the numbers, a program all of it."""
    record = plain(run)
    if output is Output.TABLE:
        record["dag_versions"] = [version.version_number for version in run.dag_versions]
    show_record(record, output)
