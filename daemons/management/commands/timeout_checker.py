"""Runs the timeout_checker daemon."""

from __future__ import annotations

from daemons.management.commands._daemon import DaemonCommand


class Command(DaemonCommand):
    daemon_name = "timeout_checker"
