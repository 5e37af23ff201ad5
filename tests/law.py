"""The law of states, enforced by a test's database itself: a change that the law does not know raises there.

The triggers are built from `metadata.states`, so that whatever SQL a test runs, each change of a state that it makes
is a row of the law, and an attempt id changes with the step to `queued` and at no other time.
"""

from collections.abc import Iterable

from sqlalchemy import Connection, text

from turnout.metadata.states import LAW, RUN_LAW, Law

_FUNCTION = """
    CREATE FUNCTION law_of_{table}() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF OLD.state <> NEW.state AND (OLD.state, NEW.state) NOT IN ({pairs}) THEN
            RAISE EXCEPTION 'no law for {table} %: % -> %', OLD.id, OLD.state, NEW.state;
        END IF;
        {more}
        RETURN NEW;
    END $$
"""
_TRIGGER = """
    CREATE TRIGGER law BEFORE UPDATE ON {table} FOR EACH ROW
    WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION law_of_{table}()
"""
_RENEWAL = """
        IF (OLD.attempt_id IS DISTINCT FROM NEW.attempt_id) <> ((OLD.state, NEW.state) = ('scheduled', 'queued')) THEN
            RAISE EXCEPTION 'attempt_id of task_instance % renewed by % -> %', OLD.id, OLD.state, NEW.state;
        END IF;
"""


def enforce(connection: Connection) -> None:
    """Make the database refuse what the law does not allow; new rows may have any state."""
    for table, law, more in (("task_instance", LAW, _RENEWAL), ("dag_run", RUN_LAW, "")):
        connection.execute(text(_FUNCTION.format(table=table, pairs=_pairs(law), more=more)))
        connection.execute(text(_TRIGGER.format(table=table)))


def _pairs(law: Iterable[Law]) -> str:
    return ", ".join(sorted({f"('{row.before}', '{row.after}')" for row in law}))
