"""The command that runs the work_generator."""

from __future__ import annotations

from daemons.management.commands._daemon import DaemonCommand


class Command(DaemonCommand):
    daemon_name = "work_generator"
