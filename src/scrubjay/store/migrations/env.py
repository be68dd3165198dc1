"""What Alembic runs for every upgrade: on the connection it was given, in that connection's transaction."""

from __future__ import annotations

from alembic import context

from scrubjay.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,  # SQLite changes a table by making it anew
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
