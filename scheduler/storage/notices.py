"""Notices and signs of life: what processes tell each other without the database."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.conf import settings

from scheduler.storage.disk import replacing, unlink

_notices: dict[str, tuple[tuple[int, int, int], dict[str, Any]]] = {}


def notice(name: str) -> dict[str, Any] | None:
    """Return what ``<name>.json`` of the var folder says, None without one; one `stat` if known.

    A file that is no JSON object, written by hand, counts as an empty notice.
    """
    path = f"{settings.VAR_DIR}/{name}.json"
    if not os.access(path, os.F_OK):  # a third of what an exception takes
        return None
    try:
        found = os.stat(path)
        stamp = (found.st_mtime_ns, found.st_ino, found.st_size)
        known = _notices.get(path)
        if known is None or known[0] != stamp:
            with open(path, "rb") as file:
                known = _notices[path] = (stamp, _json_object(file.read()))
    except FileNotFoundError:
        return None
    return known[1]


def put_notice(name: str, said: Mapping[str, Any] | None) -> None:
    """Write a notice for all processes that share the var folder, or take it away."""
    path = Path(settings.VAR_DIR) / f"{name}.json"
    if said is None:
        unlink(os.fspath(path))
        return
    with replacing(path) as file:
        file.write(json.dumps(said, indent=2, default=str).encode())
        file.flush()
        os.fsync(file.fileno())


def signs_of_life() -> dict[str, datetime]:
    """When each daemon last finished a pass, by the files that they touch."""
    found: dict[str, datetime] = {}
    with contextlib.suppress(FileNotFoundError):
        for entry in os.scandir(f"{settings.VAR_DIR}/run"):
            name, dot, kind = entry.name.rpartition(".")
            if dot and kind == "alive":
                with contextlib.suppress(FileNotFoundError):
                    found[name] = datetime.fromtimestamp(entry.stat().st_mtime, UTC)
    return found


def _json_object(data: bytes) -> dict[str, Any]:
    try:
        said = json.loads(data)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}
