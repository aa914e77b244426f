"""What Alembic runs: the revisions in versions/, against the schema `headwater` of the captured database.

headwater/migrate.py calls it, with a connection that is already in a transaction and holds the migration lock; without
a connection it writes the SQL instead of running it. The revisions are plain SQL, so both give the same statements.
"""

from __future__ import annotations

from alembic import context

SCHEMA = "headwater"

connection = context.config.attributes.get("connection")
if connection is None:
    context.configure(dialect_name="postgresql", version_table_schema=SCHEMA, literal_binds=True)
else:
    context.configure(connection=connection, version_table_schema=SCHEMA)
with context.begin_transaction():
    context.run_migrations()
