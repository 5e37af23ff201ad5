"""How an explanation is printed: the verdict first, then the reasons, then the place in the line."""

from turnout.cli.options import Output
from turnout.cli.output import plain, print_table, say, show_json
from turnout.metadata.listings.explanations import Line, Reason, RunExplanation, TaskExplanation
from turnout.metadata.listings.spoken import listed

_COLUMNS = ("reason", "what", "what to do")


def show_explanation(explanation: TaskExplanation | RunExplanation, output: Output) -> None:
    """Print an explanation: a sentence and a table, or a JSON object."""
    if output is Output.JSON:
        show_json(plain(explanation))
        return
    say(explanation.verdict)
    say("")
    print_table(_COLUMNS, (_row(reason) for reason in explanation.reasons))
    if isinstance(explanation, TaskExplanation) and explanation.line is not None:
        say("")
        say(_place(explanation.line))


def _row(reason: Reason) -> tuple[str, str, str]:
    return reason.reason if reason.is_blocking else f"({reason.reason})", reason.message, reason.remedy


def _place(line: Line) -> str:
    """Say where in the line it stands, and what decides that."""
    rank = (
        f"run priority {line.run_priority}, priority weight {line.priority_weight}, "
        f"run date {line.run_date:%Y-%m-%d %H:%M:%S} UTC"
    )
    if not line.before:
        return f"It is the first in the line of pool {line.pool} ({rank})."
    many = f"{line.before:,} or more" if line.is_cut else f"{line.before:,}"
    return f"Before it in the line of pool {line.pool} ({rank}): {many}. First: {listed(line.first)}."
