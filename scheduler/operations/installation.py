"""Which project's files a VAR_DIR holds: it and the database carry the same identifier."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from uuid import uuid4

from django.core.management.base import CommandError
from django.db import ProgrammingError

from scheduler.models import Installation

#: The file in VAR_DIR with the identifier of its project.
FILE: Final = "project-id"


def claim_folder(folder: Path) -> None:
    """Record whose files a VAR_DIR holds.

    Raises `CommandError` if they are another project's, or the database has not been migrated.

    Machines that share a database may have a VAR_DIR each, or share one.
    """
    path = folder / FILE
    try:
        ours, _ = Installation.objects.get_or_create(id=1, defaults={"identifier": uuid4()})
    except ProgrammingError as error:
        msg = "The database lacks tables of this version.\nHint: manage.py migrate."
        raise CommandError(msg) from error
    found = path.read_text().strip() if path.exists() else ""
    if not found:
        folder.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(".new")
        new.write_text(f"{ours}\n")
        new.replace(path)
    elif found != str(ours):
        msg = (
            f"{folder} holds the files of another project ({found}), not of the project in the "
            f"database ({ours}).\nHint: set VAR_DIR or DATABASE_URL so that they belong together; "
            f"if these files are meant for this database, remove {path}."
        )
        raise CommandError(msg)
