"""Compares the versions of Manyhands, its database and the PostgreSQL server."""

from __future__ import annotations

from contextlib import suppress
from importlib import metadata

from django.conf import settings
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder


def version() -> str:
    """Return the version of Manyhands, as in pyproject.toml."""
    with suppress(metadata.PackageNotFoundError):
        return metadata.version("manyhands")
    for line in (settings.BASE_DIR / "pyproject.toml").read_text(encoding="utf-8").splitlines():
        if line.startswith("version"):
            return line.partition("=")[2].strip().strip('"')
    return "unknown"


def applied_migrations() -> list[str]:
    """Return the migrations that are recorded in the database, as ``app.name``."""
    return sorted(
        f"{app}.{name}" for app, name in MigrationRecorder(connection).applied_migrations()
    )


def missing_migrations() -> list[str]:
    """Return the migrations of this version that are not applied, as ``app.name``."""
    loader = MigrationLoader(connection)
    missing = set(loader.disk_migrations or ()) - set(loader.applied_migrations or ())
    return sorted(f"{app}.{name}" for app, name in missing)


def unknown_migrations(applied: list[str]) -> list[str]:
    """Return those of the `applied` migrations that this version does not have."""
    existing = MigrationLoader(None).disk_migrations or {}
    known_migrations = {
        *existing,
        *(old for migration in existing.values() for old in migration.replaces),
    }
    apps = {app for app, _ in known_migrations}
    names = {f"{app}.{name}" for app, name in known_migrations}
    return sorted(name for name in set(applied) - names if name.partition(".")[0] in apps)
