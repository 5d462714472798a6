"""Reads the templates that staff put into ``VAR_DIR/templates``."""

from __future__ import annotations

import os
from typing import Final

from django.conf import settings

from scheduler.storage.names import check_name

_MAX_BYTES: Final = 1 << 20


def read_template(name: str) -> str | None:
    """Return the text of a template file, or None if it does not exist; raises BadFileName."""
    check_name(name)
    try:
        with open(f"{settings.VAR_DIR}/templates/{name}", "rb") as file:
            return file.read(_MAX_BYTES).decode("utf-8", "replace")
    except (FileNotFoundError, IsADirectoryError):
        return None


def template_names() -> list[str]:
    """Return the names of all template files, sorted."""
    try:
        return sorted(os.listdir(f"{settings.VAR_DIR}/templates"))
    except FileNotFoundError:
        return []
