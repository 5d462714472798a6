"""Assimilators that count their calls."""

from __future__ import annotations

import os
from pathlib import Path

from django.db import connection

#: Created by the test, without a unique key, so that repeated calls are counted.
TABLE = "CREATE TABLE sink (key text NOT NULL)"


def count(assimilation):
    """Insert a row in the transaction that settles the workunit: called exactly once."""
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO sink (key) VALUES (%s)", [assimilation.key])


def append(assimilation):
    """Append the key to a file, without a transaction: called at least once."""
    line = f"{assimilation.key}\n".encode()
    descriptor = os.open(
        Path(assimilation.options["folder"]) / "sink.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND
    )
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)
