"""Run the migrations on the connection, and for the prefix, that `flask_solid_objects.store.schema` hands in.

There is no alembic.ini: the application's configuration says which database and which prefix are meant.
"""

from __future__ import annotations

from alembic import context

attributes = context.config.attributes
if "connection" not in attributes:
    raise SystemExit("These migrations have no database of their own: run `flask solid upgrade` in an application.")

context.configure(
    connection=attributes["connection"],
    version_table=f"{attributes['solid_objects_prefix']}schema_version",
)
with context.begin_transaction():
    context.run_migrations()
