"""Runs the transitioner daemon."""

from __future__ import annotations

from daemons.management.commands._daemon import DaemonCommand


class Command(DaemonCommand):
    daemon_name = "transitioner"
