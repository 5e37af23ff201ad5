"""Where work goes, as people decide it: workers that are drained, and queues that are paused.

Both last until they are undone, also when the worker is restarted. What is published already goes on its way; what runs
goes on.
"""

from sqlalchemy import Connection, text

from turnout.metadata import audit
from turnout.metadata.errors import NotFoundError
from turnout.metadata.listings.missing import near_name
from turnout.metadata.wakeups import notify_schedulers

_DRAIN = text("INSERT INTO drained_worker (name, actor) VALUES (:name, :actor) ON CONFLICT DO NOTHING")
_UNDRAIN = text("DELETE FROM drained_worker WHERE name = :name")
_DRAINED_BY = text("SELECT actor FROM drained_worker WHERE name = :name")

_PAUSE = text("INSERT INTO paused_queue (queue, actor) VALUES (:name, :actor) ON CONFLICT DO NOTHING")
_UNPAUSE = text("DELETE FROM paused_queue WHERE queue = :name")
_PAUSED_BY = text("SELECT actor FROM paused_queue WHERE queue = :name")

_WORKERS = text("SELECT DISTINCT name FROM process WHERE kind = 'worker'")


def set_drained(connection: Connection, name: str, *, drained: bool, actor: str) -> bool:
    """Let all workers of a name take nothing new, or take work again; return whether that changed anything.

    Raises:
        NotFoundError: nobody of that name has been seen within the last day, and nobody of it is drained.
    """
    changed = connection.execute(_DRAIN if drained else _UNDRAIN, {"name": name, "actor": actor}).rowcount > 0
    if changed == drained:
        _require_worker(connection, name)
    if changed:
        audit.record(connection, actor, "worker.drain" if drained else "worker.undrain", worker=name)
        notify_schedulers(connection)
    return changed


def drained_by(connection: Connection, name: str) -> str | None:
    """Say who has drained the workers of a name; None when nobody has."""
    return connection.execute(_DRAINED_BY, {"name": name}).scalar_one_or_none()


def set_queue_paused(connection: Connection, queue: str, *, paused: bool, actor: str) -> bool:
    """Pause or unpause a queue name in all pools; return whether that changed anything.

    The name need not be in use yet: pausing ahead is how a queue is kept shut until all is ready.
    """
    changed = connection.execute(_PAUSE if paused else _UNPAUSE, {"name": queue, "actor": actor}).rowcount > 0
    if changed:
        audit.record(connection, actor, "queue.pause" if paused else "queue.unpause", queue=queue)
        notify_schedulers(connection)
    return changed


def paused_by(connection: Connection, queue: str) -> str | None:
    """Say who has paused a queue name; None when nobody has."""
    return connection.execute(_PAUSED_BY, {"name": queue}).scalar_one_or_none()


def _require_worker(connection: Connection, name: str) -> None:
    known = set(connection.scalars(_WORKERS))
    if name not in known:
        near = near_name(name, known)
        hint = f" Did you mean {near}?" if near else ""
        raise NotFoundError(f"There is no worker {name}.{hint} See `turnout workers list --all`.")
