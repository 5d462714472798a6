"""Drives the validator."""

from __future__ import annotations

from daemons.management.commands._daemon import DaemonCommand


class Command(DaemonCommand):
    """See `manage.py validator --help`."""

    daemon_name = "validator"
