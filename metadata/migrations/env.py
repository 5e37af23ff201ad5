"""Alembic's entry point: run the migrations on the connection that `turnout.metadata.migrate` hands over."""

from alembic import context

from turnout.metadata.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
