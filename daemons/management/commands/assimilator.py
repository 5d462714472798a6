"""Drives the assimilator."""

from __future__ import annotations

from daemons.management.commands._daemon import DaemonCommand


class Command(DaemonCommand):
    """See `manage.py assimilator --help`."""

    daemon_name = "assimilator"
