"""Which project VAR_DIR belongs to: the database carries the same identifier."""

from __future__ import annotations

from uuid import uuid4

from django.conf import settings
from django.core.management.base import CommandError
from django.db import ProgrammingError

from scheduler import storage
from scheduler.models import Installation


def claim_folder() -> None:
    """Record that VAR_DIR holds this project's files.

    Raises `CommandError` if they are another project's, or the database has not been migrated.
    Machines that share a database may have a VAR_DIR each, or share one.
    """
    try:
        row, _ = Installation.objects.get_or_create(id=1, defaults={"identifier": uuid4()})
    except ProgrammingError as error:
        msg = "The database lacks tables of this version.\nHint: manage.py migrate."
        raise CommandError(msg) from error
    ours = str(row)
    if (found := storage.record_owner(ours)) != ours:
        msg = (
            f"{settings.VAR_DIR} holds the files of another project ({found}), not of the project "
            f"in the database ({ours}).\nHint: set VAR_DIR or DATABASE_URL so that they belong "
            "together; if these files are meant for this database, remove the file project-id."
        )
        raise CommandError(msg)
