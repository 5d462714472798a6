"""Drives the transitioner."""

from __future__ import annotations

from daemons.management.commands._daemon import DaemonCommand


class Command(DaemonCommand):
    """See `manage.py transitioner --help`."""

    daemon_name = "transitioner"
