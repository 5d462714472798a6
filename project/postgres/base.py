"""The engine itself: Django's own, with a server behind it that it can start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
from django.db import NotSupportedError
from django.db.backends.postgresql import base, creation, features
from django.db.backends.postgresql.psycopg_any import register_tzloader
from psycopg import OperationalError

from project.embedded_postgres import EmbeddedPostgres

#: psycopg's own loader of timestamptz, in C where psycopg has its C parts.
_OID = psycopg.adapters.types["timestamptz"].oid
_TIMESTAMPTZ = psycopg.adapters.get_loader(_OID, psycopg.pq.Format.TEXT)


class DatabaseFeatures(features.DatabaseFeatures):
    """What may be relied on; statements here need MERGE and NULLS NOT DISTINCT."""

    minimum_database_version = (15,)


class DatabaseCreation(creation.DatabaseCreation):
    """Makes and drops the databases of tests."""

    def _destroy_test_db(self, test_database_name: str, verbosity: int) -> None:
        """Drop a test database even if a process of a story still holds a connection to it."""
        del verbosity
        with self.connection._nodb_cursor() as cursor:  # noqa: SLF001 - as Django's own does
            name = self.connection.ops.quote_name(test_database_name)
            cursor.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's connection; with EMBEDDED in its settings, the server is started on demand."""

    features_class = DatabaseFeatures
    creation_class = DatabaseCreation

    @property
    def embedded(self) -> EmbeddedPostgres | None:
        """The server that comes with the project, unless DATABASE_URL names another."""
        var = self.settings_dict.get("EMBEDDED")
        return EmbeddedPostgres(Path(var)) if var else None

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:  # noqa: ANN401 - Django's
        """Connect; if nobody answers and the server is our own, start it and connect again."""
        # An open door is tried before anything is looked at: a request costs nothing more.
        try:
            return super().get_new_connection(conn_params)
        except OperationalError:
            if self.embedded is None or self.embedded.running():
                raise
        self.embedded.ensure_running()
        return super().get_new_connection(conn_params)

    def create_cursor(self, name: str | None = None) -> Any:  # noqa: ANN401 - Django's
        """Make a cursor that reads times with psycopg's own loader, written in C.

        Django's is Python: it costs more than all else that a row of times costs.  Both give aware
        datetimes in UTC, for the connection's time zone is UTC.
        """
        adapters = self.connection.adapters
        if name is not None or self.timezone_name != "UTC":
            # Django asks the loader of the connection for its time zone, which ours does not say.
            if adapters.get_loader(_OID, psycopg.pq.Format.TEXT) is _TIMESTAMPTZ:
                register_tzloader(self.timezone, self.connection)
            return super().create_cursor(name)
        self.read_times_quickly()
        return self.connection.cursor()

    def read_times_quickly(self) -> None:
        """Have the connection read times with psycopg's own loader, where UTC is meant."""
        # One of the pool may be new to us.
        adapters = self.connection.adapters
        if (
            self.timezone_name == "UTC"
            and adapters.get_loader(_OID, psycopg.pq.Format.TEXT) is not _TIMESTAMPTZ
        ):
            adapters.register_loader(_OID, _TIMESTAMPTZ)

    def check_database_version_supported(self) -> None:
        """Refuse a server that is too old, with a sentence."""
        found, least = self.get_database_version(), self.features.minimum_database_version
        if least and found < least:
            raise NotSupportedError(
                f"DATABASE_URL leads to PostgreSQL {found[0]}, and Manyhands needs {least[0]} or "
                "later.\nHint: unset DATABASE_URL to use the PostgreSQL that comes with it."
            )
