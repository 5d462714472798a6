"""Templates by name: files that staff puts into ``VAR_DIR/templates``."""

from __future__ import annotations

import os
from typing import Final

from django.conf import settings

from scheduler.storage.names import check_name

_LONGEST: Final = 1 << 20


def read_template(name: str) -> str | None:
    """Return the text of a template file, None if there is none; raises BadFileName."""
    check_name(name)
    try:
        with open(f"{settings.VAR_DIR}/templates/{name}", "rb") as file:
            return file.read(_LONGEST).decode("utf-8", "replace")
    except (FileNotFoundError, IsADirectoryError):
        return None


def template_names() -> list[str]:
    """Return the names of all template files, sorted."""
    try:
        return sorted(os.listdir(f"{settings.VAR_DIR}/templates"))
    except FileNotFoundError:
        return []
