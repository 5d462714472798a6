"""Drives the file_deleter."""

from __future__ import annotations

from daemons.management.commands._daemon import DaemonCommand


class Command(DaemonCommand):
    """See `manage.py file_deleter --help`."""

    daemon_name = "file_deleter"
