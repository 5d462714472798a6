"""Drives the timeout_checker."""

from __future__ import annotations

from daemons.management.commands._daemon import DaemonCommand


class Command(DaemonCommand):
    """See `manage.py timeout_checker --help`."""

    daemon_name = "timeout_checker"
