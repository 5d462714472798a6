"""Stops the embedded PostgreSQL, says how it is, or opens psql on it."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from project.embedded_postgres import EmbeddedPostgres, binaries

NOT_RUNNING = 3


class Command(BaseCommand):
    """`manage.py embedded_postgres start|stop|status|psql`."""

    help = "Start or stop the embedded PostgreSQL, say how it is, or open psql on it."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        actions.add_parser("start", help="start it, as every command does that needs it")
        actions.add_parser("stop", help="stop it, breaking off its connections")
        actions.add_parser("status", help="say how it is; exit code 3 if it is not running")
        psql = actions.add_parser("psql", help="open psql on it, with the words that follow")
        psql.add_argument("words", nargs="*", metavar="-- WORDS", help="options of psql, after --")

    def handle(self, *, action: str, **options: Any) -> None:
        if not settings.DATABASES["default"].get("EMBEDDED"):
            raise CommandError(
                "DATABASE_URL is set, so the embedded PostgreSQL is not in use.\n"
                "Hint: unset DATABASE_URL to reach the embedded one."
            )
        server = EmbeddedPostgres(settings.VAR_DIR)
        if action == "psql":
            self.psql(server, options["words"])
            return
        self.stdout.write({"start": start, "stop": stop, "status": status}[action](server))

    def psql(self, server: EmbeddedPostgres, words: list[str]) -> None:
        """Run psql in the terminal; its exit code becomes ours."""
        server.ensure_running()
        program = binaries() / "psql"
        found = str(program) if program.exists() else shutil.which("psql")
        if found is None:
            raise CommandError("There is no psql.\nHint: apt install postgresql-client.")
        where = {f"PG{name.upper()}": value for name, value in server.conninfo().items()}
        where["PGDATABASE"] = where.pop("PGDBNAME")
        done = subprocess.run([found, *words], env=os.environ | where, check=False)  # noqa: S603
        if done.returncode:
            raise SystemExit(done.returncode)


def start(server: EmbeddedPostgres) -> str:
    """Start the server and say where it listens."""
    found = server.ensure_running()
    return f"PostgreSQL runs as process {found.pid}, socket {server.socket}."


def stop(server: EmbeddedPostgres) -> str:
    """Stop the server and say so."""
    return "PostgreSQL is stopped." if server.stop() else "PostgreSQL was not running."


def status(server: EmbeddedPostgres) -> str:
    """Say how the server is; exit code 3 if it does not run."""
    if found := server.running():
        return f"PostgreSQL runs as process {found.pid}, socket {server.socket}, log {server.log}."
    raise CommandError("PostgreSQL is not running.", returncode=NOT_RUNNING)
