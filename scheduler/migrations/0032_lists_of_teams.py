from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import ProjectState
from django.db.models.functions import Collate, Lower


class AddIndexAgain(AddIndexConcurrently):
    """Adds an index also if an interrupted migration has left it, whole or invalid."""

    def database_forwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        name = schema_editor.quote_name(self.index.name)
        schema_editor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}", params=None)
        super().database_forwards(app_label, schema_editor, from_state, to_state)


class Migration(migrations.Migration):
    """Adds the indexes of the lists of teams and of their members while the server runs."""

    # CREATE INDEX CONCURRENTLY cannot run in a transaction.
    atomic = False

    dependencies = [("scheduler", "0031_computers_hidden_by_default")]

    operations = [
        AddIndexAgain(
            model_name="account",
            index=models.Index(
                fields=["team", "id"],
                condition=models.Q(("is_active", True), ("team__isnull", False)),
                name="list_members_of_teams",
            ),
        ),
        AddIndexAgain(
            model_name="team",
            index=models.Index(
                Collate(Lower("name"), "C"), models.F("id"), name="list_teams_by_name"
            ),
        ),
        AddIndexAgain(
            model_name="team",
            index=models.Index(fields=["expavg_credit", "id"], name="list_teams_by_recent_credit"),
        ),
        AddIndexAgain(
            model_name="team",
            index=models.Index(fields=["total_credit", "id"], name="list_teams_by_total_credit"),
        ),
    ]
