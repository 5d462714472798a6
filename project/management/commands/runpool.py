"""Serves the long poll of the trusted pool."""

from __future__ import annotations

import os
import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser
from django.db import connections

#: The port of the long poll, unless `--port` names another one.
DEFAULT_PORT = 8001


class Command(BaseCommand):
    """Implements ``manage.py runpool [--address 127.0.0.1] [--port 8001]``."""

    help = "Serve the long poll of the trusted pool: hosts wait for cancellations."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        add = parser.add_argument
        add("--address", default="127.0.0.1", help="address to listen on (127.0.0.1)")
        add("--port", type=int, default=DEFAULT_PORT, help=f"port to listen on ({DEFAULT_PORT})")

    def handle(self, **options: Any) -> None:
        """Replace this process by the server, so that it gets the signals."""
        connections.close_all()
        os.chdir(settings.BASE_DIR)
        words = server_command(options["address"], options["port"])
        os.execv(words[0], words)  # noqa: S606 - a fixed command


def server_command(address: str, port: int) -> list[str]:
    """Return the command line of the server: one process, because it only waits."""
    words = ["--interface", "asgi", "--host", address, "--port", str(port), "--workers", "1"]
    words += ["--http", "1", "--no-ws", "--respawn-failed-workers", "--log-level", "error"]
    words += ["--http1-header-read-timeout", "30000", "--workers-kill-timeout", "5"]
    return [sys.executable, "-m", "granian", *words, "project.pool_asgi:application"]
