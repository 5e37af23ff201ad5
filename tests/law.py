"""The law of states, enforced by a test's database itself: a change that the law does not know raises there.

The triggers are built from `metadata.states`, so that whatever SQL a test runs, each change of a state that it makes
is a row of the law for whoever makes it, and an attempt id changes with the step to `queued`, goes when a person clears
the row, and changes at no other time. A transaction is a person's once it has said so (`metadata.persons`); any other
is a process's.
"""

from collections.abc import Iterable

from sqlalchemy import Connection, text

from turnout.metadata.states import LAW, RUN_LAW, Law

_FUNCTION = """
    CREATE FUNCTION law_of_{table}() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        by_person CONSTANT boolean := COALESCE(current_setting('turnout.actor', true), '') = 'person';
    BEGIN
        IF OLD.state <> NEW.state
           AND NOT (by_person AND (OLD.state, NEW.state) IN ({of_persons}))
           AND NOT (NOT by_person AND (OLD.state, NEW.state) IN ({of_processes})) THEN
            RAISE EXCEPTION 'no law for {table} % by a %: % -> %', OLD.id,
                CASE WHEN by_person THEN 'person' ELSE 'process' END, OLD.state, NEW.state;
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
        IF by_person AND NEW.state = 'none' THEN
            IF NEW.attempt_id IS NOT NULL THEN
                RAISE EXCEPTION 'attempt_id of task_instance % kept when it was cleared', OLD.id;
            END IF;
        ELSIF (OLD.attempt_id IS DISTINCT FROM NEW.attempt_id)
              <> ((OLD.state, NEW.state) = ('scheduled', 'queued')) THEN
            RAISE EXCEPTION 'attempt_id of task_instance % renewed by % -> %', OLD.id, OLD.state, NEW.state;
        END IF;
"""


def enforce(connection: Connection) -> None:
    """Make the database refuse what the law does not allow; new rows may have any state."""
    for table, law, more in (("task_instance", LAW, _RENEWAL), ("dag_run", RUN_LAW, "")):
        of_persons = _pairs(row for row in law if "person" in row.actors)
        of_processes = _pairs(row for row in law if set(row.actors) - {"person"})
        filled = _FUNCTION.format(table=table, of_persons=of_persons, of_processes=of_processes, more=more)
        connection.execute(text(filled))
        connection.execute(text(_TRIGGER.format(table=table)))


def _pairs(law: Iterable[Law]) -> str:
    return ", ".join(sorted({f"('{row.before}', '{row.after}')" for row in law}))
