"""The metadata database: tables, migrations, the law of states, every SQL statement."""
