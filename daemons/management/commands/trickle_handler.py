"""Drives the trickle_handler."""

from __future__ import annotations

from daemons.management.commands._daemon import DaemonCommand


class Command(DaemonCommand):
    """See `manage.py trickle_handler --help`."""

    daemon_name = "trickle_handler"
