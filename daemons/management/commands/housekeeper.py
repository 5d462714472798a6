"""Drives the housekeeper."""

from __future__ import annotations

from daemons.management.commands._daemon import DaemonCommand


class Command(DaemonCommand):
    """See `manage.py housekeeper --help`."""

    daemon_name = "housekeeper"
