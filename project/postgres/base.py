"""Extends Django's PostgreSQL engine, to start the embedded server on demand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
from django.db import NotSupportedError
from django.db.backends.postgresql import base, creation, features
from django.db.backends.postgresql.psycopg_any import register_tzloader
from psycopg import OperationalError

from project.embedded_postgres import EmbeddedPostgres

#: psycopg's own loader of timestamptz; it is written in C if psycopg's C extension is installed.
_OID = psycopg.adapters.types["timestamptz"].oid
_TIMESTAMPTZ = psycopg.adapters.get_loader(_OID, psycopg.pq.Format.TEXT)


class DatabaseFeatures(features.DatabaseFeatures):
    """Sets the minimum version of PostgreSQL to 15.

    The SQL statements of this project use MERGE and NULLS NOT DISTINCT.
    """

    minimum_database_version = (15,)


class DatabaseCreation(creation.DatabaseCreation):
    def _destroy_test_db(self, test_database_name: str, verbosity: int) -> None:
        """Drop a test database even if another process still has a connection to it."""
        del verbosity
        with self.connection._nodb_cursor() as cursor:  # noqa: SLF001 - as Django's own does
            name = self.connection.ops.quote_name(test_database_name)
            cursor.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection of Django, which starts the embedded server on demand.

    The embedded server is used if the database settings contain EMBEDDED.
    """

    features_class = DatabaseFeatures
    creation_class = DatabaseCreation

    @property
    def embedded(self) -> EmbeddedPostgres | None:
        """Return the embedded server, or None if DATABASE_URL is set."""
        var = self.settings_dict.get("EMBEDDED")
        return EmbeddedPostgres(Path(var)) if var else None

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:  # noqa: ANN401 - Django's
        """Connect to the database.  If the embedded server does not run, start it and retry."""
        # The connection is tried first, so that the usual case has no extra cost.
        try:
            return super().get_new_connection(conn_params)
        except OperationalError:
            if self.embedded is None or self.embedded.running():
                raise
        self.embedded.ensure_running()
        return super().get_new_connection(conn_params)

    def create_cursor(self, name: str | None = None) -> Any:  # noqa: ANN401 - Django's
        """Return a cursor; if it has no name, it reads times with psycopg's own loader.

        Django's loader, which is written in Python, takes most of the time of reading a row of
        times.  Both loaders return aware datetimes in UTC.  If the connection's time zone is not
        UTC, Django's loader is used.
        """
        adapters = self.connection.adapters
        if name is not None or self.timezone_name != "UTC":
            # Django reads the time zone from the connection's loader; psycopg's loader has none.
            if adapters.get_loader(_OID, psycopg.pq.Format.TEXT) is _TIMESTAMPTZ:
                register_tzloader(self.timezone, self.connection)
            return super().create_cursor(name)
        self.read_times_quickly()
        return self.connection.cursor()

    def read_times_quickly(self) -> None:
        """Register psycopg's own loader of times, if the connection's time zone is UTC."""
        # A connection of the pool may not have this loader yet.
        adapters = self.connection.adapters
        if (
            self.timezone_name == "UTC"
            and adapters.get_loader(_OID, psycopg.pq.Format.TEXT) is not _TIMESTAMPTZ
        ):
            adapters.register_loader(_OID, _TIMESTAMPTZ)

    def check_database_version_supported(self) -> None:
        """Raise NotSupportedError if the server is too old."""
        version, minimum = self.get_database_version(), self.features.minimum_database_version
        if minimum and version < minimum:
            raise NotSupportedError(
                f"DATABASE_URL leads to PostgreSQL {version[0]}, and Manyhands needs {minimum[0]} "
                "or later.\nHint: unset DATABASE_URL to use the embedded PostgreSQL."
            )
