"""A migrated, empty database that test databases are copied from.

Only the embedded server has templates.  A template is named after the digest of its sources: a
session with changed sources creates another template, and old templates are dropped after a day.
"""

from __future__ import annotations

import hashlib
import logging
import re
import time
from contextlib import ExitStack
from pathlib import Path

import django
from django.db import connection
from django.db.utils import Error

ROOT = Path(__file__).parent.parent
#: The sources of migrations, and the modules that they import.
SOURCES = ("scheduler/migrations", "scheduler/lifecycle.py", "project/settings.py")
NAME = re.compile(r"template_manyhands_([0-9a-f]{12})_(\d+)")
KEPT_SECONDS = 86_400

#: The session that makes a template holds this lock; the others wait, and copy the template.
_LOCK = "hashtext('template_manyhands')"
_making = ExitStack()


def find_or_make() -> str | None:
    """Return the name of the template of these sources, or None if this session must make it.

    If another session is making it, wait for that session.
    """
    template = find()
    if template is None and connection.settings_dict.get("EMBEDDED"):
        cursor = _making.enter_context(connection._nodb_cursor())
        cursor.execute(f"SELECT pg_advisory_lock({_LOCK})")
        template = find()
        if template is not None:
            _making.close()
    return template


def find() -> str | None:
    """Return the name of the template of these sources, or None; drop outdated templates."""
    if not connection.settings_dict.get("EMBEDDED"):
        return None
    ours = digest()
    template = None
    with connection._nodb_cursor() as cursor:
        cursor.execute("SELECT datname FROM pg_database")
        for (name,) in cursor.fetchall():
            if not (parts := NAME.fullmatch(name)):
                continue
            if parts[1] == ours:
                template = name
            elif int(parts[2]) < time.time() - KEPT_SECONDS:
                cursor.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    return template


def keep() -> None:
    """Copy the newly migrated test database as the template of these sources.

    If the copy fails, the next session tries again.
    """
    if not connection.settings_dict.get("EMBEDDED"):
        return
    if find():
        _making.close()
        return
    source = connection.settings_dict["NAME"]
    connection.close()
    with _making, connection._nodb_cursor() as cursor:
        name = f"template_manyhands_{digest()}_{int(time.time())}"
        try:
            cursor.execute(f"CREATE DATABASE {name} TEMPLATE {source}")
        except Error as error:
            logging.getLogger(__name__).warning("no template was made: %s", error)


def digest() -> str:
    """Return the digest of the names and sources of migrations; Django stores their names."""
    total = hashlib.sha256(django.__version__.encode())
    for place in SOURCES:
        path = ROOT / place
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            total.update(file.name.encode())
            total.update(file.read_bytes())
    return total.hexdigest()[:12]
