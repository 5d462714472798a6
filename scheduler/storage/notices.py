"""Reads and writes files shared by all processes: notices and heartbeats."""

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
    """Return the content of ``<name>.json`` in VAR_DIR, or None if there is no such file.

    The content is cached, so a call usually costs one `stat`.  A file that is not a JSON object,
    such as one written by hand, counts as an empty notice.
    """
    path = f"{settings.VAR_DIR}/{name}.json"
    if not os.access(path, os.F_OK):  # this takes a third of the time of an exception
        return None
    try:
        status = os.stat(path)
        stamp = (status.st_mtime_ns, status.st_ino, status.st_size)
        cached = _notices.get(path)
        if cached is None or cached[0] != stamp:
            with open(path, "rb") as file:
                cached = _notices[path] = (stamp, _json_object(file.read()))
    except FileNotFoundError:
        return None
    return cached[1]


def put_notice(name: str, content: Mapping[str, Any] | None) -> None:
    """Write a notice for all processes that share VAR_DIR; None deletes the notice."""
    path = Path(settings.VAR_DIR) / f"{name}.json"
    if content is None:
        unlink(os.fspath(path))
        return
    with replacing(path) as file:
        file.write(json.dumps(content, indent=2, default=str).encode())
        file.flush()
        os.fsync(file.fileno())


def signs_of_life() -> dict[str, datetime]:
    """Return the time of each daemon's last heartbeat (`show_life`), by name of the daemon."""
    times: dict[str, datetime] = {}
    with contextlib.suppress(FileNotFoundError):
        for entry in os.scandir(f"{settings.VAR_DIR}/run"):
            name, dot, kind = entry.name.rpartition(".")
            if dot and kind == "alive":
                with contextlib.suppress(FileNotFoundError):
                    times[name] = datetime.fromtimestamp(entry.stat().st_mtime, UTC)
    return times


def show_life(daemon: str) -> None:
    """Record a heartbeat of a daemon: touch ``run/<daemon>.alive``."""
    folder = f"{settings.VAR_DIR}/run"
    os.makedirs(folder, exist_ok=True)
    Path(folder, f"{daemon}.alive").touch()


def _json_object(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
