"""Records the identifier of the project that owns VAR_DIR."""

from __future__ import annotations

from typing import Final

from django.conf import settings

FILE: Final = "project-id"


def record_owner(identifier: str) -> str:
    """Return the recorded identifier of VAR_DIR.

    If no identifier is recorded, this records and returns `identifier`.
    """
    path = settings.VAR_DIR / FILE
    recorded: str = path.read_text().strip() if path.exists() else ""
    if recorded:
        return recorded
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(f"{identifier}\n")
    new.replace(path)
    return identifier
