"""Upgrades the database of a project to the installed version."""

from __future__ import annotations

from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING

from django.core.management import call_command

from project.upkeep import dumps, processes, versions
from scheduler.health import installation
from scheduler.health.rules.alert_texts import SILENT_AFTER
from scheduler.health.rules.checkups import MIN_POSTGRESQL

if TYPE_CHECKING:
    from datetime import datetime


class UpgradeRefused(Exception):
    """The upgrade cannot be done now; the text contains a hint."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of an upgrade: migrations to apply, and processes that must stop first."""

    version: str
    postgresql: int
    migrations: list[str]
    running: list[str]


def plan(*, now: datetime) -> Plan:
    """Return what an upgrade would do.

    Raises UpgradeRefused if the database is of a newer version of Manyhands, or the server of an
    older version of PostgreSQL than this one supports.  Raises CommandError after an incomplete
    restore.
    """
    installation.refuse_incomplete_restore()
    if unknown := versions.unknown_migrations(versions.applied_migrations()):
        raise UpgradeRefused(
            f"The database is of a newer version: this version ({versions.version()}) lacks the "
            f"migration {unknown[0]}.\nHint: install that version; to go back to this one, restore "
            "a backup that was made with it."
        )
    major = dumps.server_major()
    if major < MIN_POSTGRESQL:
        raise UpgradeRefused(
            f"The server is PostgreSQL {major}, and this version needs {MIN_POSTGRESQL} or later.\n"
            "Hint: upgrade PostgreSQL first, or back up, set DATABASE_URL to a newer server, and "
            "restore."
        )
    return Plan(
        version=versions.version(),
        postgresql=major,
        migrations=versions.missing_migrations(),
        running=processes.running(now=now),
    )


def check_stopped(upgrade: Plan) -> None:
    """Raise UpgradeRefused if a daemon or `serve` is running."""
    if upgrade.running:
        raise UpgradeRefused(
            f"These processes are running: {', '.join(upgrade.running)}.\n"
            "Hint: stop `serve`, the daemons (`systemctl stop manyhands.target`) or the Celery "
            "workers. A daemon whose process is not known counts as running until "
            f"{SILENT_AFTER.total_seconds():.0f} s after its last heartbeat."
        )


def migrate() -> None:
    """Apply the migrations."""
    call_command("migrate", interactive=False, verbosity=0, stdout=StringIO())
