"""Drives the purger."""

from __future__ import annotations

from daemons.management.commands._daemon import DaemonCommand


class Command(DaemonCommand):
    """See `manage.py purger --help`."""

    daemon_name = "purger"
