"""The file in VAR_DIR that names the project whose files these are."""

from __future__ import annotations

from typing import Final

from django.conf import settings

FILE: Final = "project-id"


def record_owner(identifier: str) -> str:
    """Record the project of VAR_DIR unless one is recorded; return the recorded identifier."""
    path = settings.VAR_DIR / FILE
    recorded: str = path.read_text().strip() if path.exists() else ""
    if recorded:
        return recorded
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(f"{identifier}\n")
    new.replace(path)
    return identifier
