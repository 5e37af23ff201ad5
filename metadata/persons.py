"""Transactions of people: what only a person may change is changed in a transaction that says so.

The database of a test refuses it in any other, so that no scheduler and no worker can ever make a person's change.
"""

from sqlalchemy import Connection, text


def act_as_person(connection: Connection) -> None:
    """Say that a person makes the changes of this transaction."""
    connection.execute(text("SELECT set_config('turnout.actor', 'person', true)"))
