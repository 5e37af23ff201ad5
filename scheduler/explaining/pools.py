"""Reasons that lie with a task's pools and pass only when a person does something."""

from turnout.metadata.engine import Connection
from turnout.metadata.listings.explanations import Reason, Why
from turnout.metadata.listings.missing import near_name
from turnout.metadata.listings.platform_facts import read_pool_facts
from turnout.metadata.listings.spoken import counted
from turnout.metadata.listings.task_facts import TaskFacts
from turnout.metadata.pools import pool_names


def lasting_pool_reasons(connection: Connection, task: TaskFacts) -> list[Reason]:
    """Say which of a task's pools are not there, have no slots, or fewer in all than it needs."""
    reasons = []
    for pool, needed in task.pools.items():
        facts = read_pool_facts(connection, pool)
        if facts is None:
            reasons.append(pool_missing(pool, needed, pool_names(connection)))
        elif facts.slots < needed:
            reasons.append(_too_small(pool, facts.slots, needed))
    return reasons


def pool_missing(pool: str, needed: int, known: list[str]) -> Reason:
    """Say that there is no pool of a name."""
    near = near_name(pool, known)
    hint = f"Did the task mean pool {near}? Else make it: " if near else "Make it: "
    remedy = f"{hint}turnout pools set {pool} SLOTS"
    return Reason(Why.POOL_MISSING, f"There is no pool {pool}.", remedy, pool, limit=0, needed=needed)


def _too_small(pool: str, slots: int, needed: int) -> Reason:
    remedy = f"Give it more slots: turnout pools set {pool} {needed}"
    if slots == 0:
        give = f"Give it some: turnout pools set {pool} N"
        return Reason(Why.POOL_FULL, f"Pool {pool} has no slots.", give, pool, limit=0, used=0, needed=needed)
    message = (
        f"Pool {pool} has {counted(slots, 'slot')} in all, and the task needs {needed}: it will fail (pool_too_small)."
    )
    return Reason(Why.POOL_TOO_SMALL, message, remedy, pool, limit=slots, needed=needed)
