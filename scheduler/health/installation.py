"""Checks that VAR_DIR and the database belong to the same project."""

from __future__ import annotations

from uuid import uuid4

from django.conf import settings
from django.core.management.base import CommandError
from django.db import ProgrammingError

from scheduler import storage
from scheduler.models import Installation


def refuse_incomplete_restore() -> None:
    """Raise `CommandError` if a restore into VAR_DIR was not completed."""
    if (settings.VAR_DIR / storage.INCOMPLETE_RESTORE).exists():
        msg = f"A restore into {settings.VAR_DIR} failed after the database was loaded."
        raise CommandError(
            f"{msg}\nHint: restore again into a new VAR_DIR and, with DATABASE_URL, another empty "
            "database."
        )


def claim_folder() -> None:
    """Store the project's identifier in VAR_DIR, or compare it with the stored identifier.

    Raises `CommandError` if VAR_DIR belongs to another project, if the database is not migrated, or
    if a restore was not completed.
    Machines that share a database may share a VAR_DIR or use separate ones.
    """
    refuse_incomplete_restore()
    try:
        row, _ = Installation.objects.get_or_create(id=1, defaults={"identifier": uuid4()})
    except ProgrammingError as error:
        msg = "The database lacks tables of this version.\nHint: manage.py migrate."
        raise CommandError(msg) from error
    identifier = str(row)
    if (owner := storage.record_owner(identifier)) != identifier:
        raise CommandError(
            f"{settings.VAR_DIR} holds the files of another project ({owner}), not of the project "
            f"in the database ({identifier}).\nHint: set VAR_DIR or DATABASE_URL so that they "
            "belong together; if these files are meant for this database, remove the file "
            "project-id."
        )
