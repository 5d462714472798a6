"""Adds indexes while the server runs, also after an interruption."""

from __future__ import annotations

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import ProjectState


class ReplaceIndexConcurrently(AddIndexConcurrently):
    """Adds an index; replaces one that an interrupted migration has left, whole or invalid."""

    def database_forwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        """Drop the index if it exists, and create it."""
        name = schema_editor.quote_name(self.index.name)
        schema_editor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}", params=None)
        super().database_forwards(app_label, schema_editor, from_state, to_state)
