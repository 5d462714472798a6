"""Drives the work_generator."""

from __future__ import annotations

from daemons.management.commands._daemon import DaemonCommand


class Command(DaemonCommand):
    """See `manage.py work_generator --help`."""

    daemon_name = "work_generator"
