"""The report of the demo."""

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

from rich.console import Console

from turnout.cli.local.demo_findings import Failover, Findings
from turnout.cli.local.demo_job import POOL, POOL_SLOTS, RUNS, TASKS_OF_A_RUN


def print_report(findings: Findings, took_s: float, console: Console) -> None:
    """Print what happened, and whether all of it was right."""
    console.print()
    for title, text in _facts(findings):
        console.print(f"[bold]{title:<16}[/] {text}")
    console.print()
    for check in findings.checks:
        console.print("[green]✓[/]" if check.holds else "[red]✗[/]", check.promise)
    for death in findings.history.deaths:
        console.print(f"[red]{death}[/]")
    console.print()
    broken = sum(not check.holds for check in findings.checks)
    verdict = "[green]All of it holds.[/]" if not broken else f"[red]{broken} of these do not hold.[/]"
    console.print(f"{verdict} It took {took_s:.0f} s.")


def _facts(findings: Findings) -> Iterator[tuple[str, str]]:
    history, totals, outcomes = findings.history, findings.totals, findings.outcomes
    states = Counter(run.state for run in history.runs)
    yield "Runs", f"{_counts(states)}, of {RUNS} due"
    yield "Attempts", f"{_counts(outcomes)}, for {RUNS * TASKS_OF_A_RUN} tasks"
    yield "Retries", f"{outcomes['failed']} after failures, {outcomes['lost']} after infra failures"
    for (queue, worker), count in sorted(findings.places.items()):
        yield f"Queue {queue}", f"{count} attempts on {worker}"
    yield f"Pool {POOL}", f"at most {findings.most_slots} of {POOL_SLOTS} slots in use"
    for name, count in sorted(findings.queued_by.items()):
        killed = findings.failover is not None and findings.failover.kill.ended.name == name
        yield name, f"queued {count} attempts{', until it was killed' if killed else ''}"
    if findings.failover:
        yield "Failover", _failover(findings.failover)
    for airport, count in sorted(totals.by_airport.items()):
        yield airport, f"{count:,} departures, {totals.cancelled[airport]:,} of them cancelled"
    yield "January", f"{totals.by_day.total():,} departures in {len(totals.by_day)} days"


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.most_common()) or "none"


def _failover(failover: Failover) -> str:
    if failover.gap is None:
        return f"{failover.survivor} queued nothing after the kill"
    return (
        f"{failover.survivor} queued the next task {_ms(failover.gap)} after the kill "
        f"(longest pause before it: {_ms(failover.usual)})"
    )


def _ms(time: timedelta) -> str:
    return f"{time.total_seconds() * 1000:,.0f} ms"
