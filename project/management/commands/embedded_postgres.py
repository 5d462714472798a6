"""Starts, stops and inspects the embedded PostgreSQL; runs psql on it."""

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
    """Implements `manage.py embedded_postgres start|stop|status|psql`."""

    help = "Start or stop the embedded PostgreSQL, show its state, or run psql on it."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        actions.add_parser("start", help="start the server; commands that need it start it, too")
        actions.add_parser("stop", help="stop the server and end its connections")
        actions.add_parser("status", help="show its state; exit code 3 if it is not running")
        psql = actions.add_parser("psql", help="run psql on the database")
        psql.add_argument(
            "--superuser",
            action="store_true",
            help="connect as the role postgres, which may change settings and roles",
        )
        psql.add_argument("words", nargs="*", metavar="-- WORDS", help="options of psql, after --")

    def handle(self, *, action: str, **options: Any) -> None:
        if not settings.DATABASES["default"].get("EMBEDDED"):
            raise CommandError(
                "DATABASE_URL is set, so the embedded PostgreSQL is not in use.\n"
                "Hint: unset DATABASE_URL to use the embedded PostgreSQL."
            )
        server = EmbeddedPostgres(settings.VAR_DIR)
        if action == "psql":
            run_psql(server, options["words"], as_superuser=options["superuser"])
            return
        self.stdout.write({"start": start, "stop": stop, "status": status}[action](server))


def run_psql(server: EmbeddedPostgres, words: list[str], *, as_superuser: bool) -> None:
    """Run psql with the arguments `words`; start the server if necessary.

    If psql fails, raises SystemExit with its exit code.
    """
    server.ensure_running()
    program = binaries() / "psql"
    executable = str(program) if program.exists() else shutil.which("psql")
    if executable is None:
        raise CommandError("There is no psql.\nHint: apt install postgresql-client.")
    where = server.libpq_environment(as_superuser=as_superuser)
    done = subprocess.run([executable, *words], env=os.environ | where, check=False)  # noqa: S603
    if done.returncode:
        raise SystemExit(done.returncode)


def start(server: EmbeddedPostgres) -> str:
    postmaster = server.ensure_running()
    return f"PostgreSQL runs as process {postmaster.pid}, socket {server.socket}."


def stop(server: EmbeddedPostgres) -> str:
    return "PostgreSQL is stopped." if server.stop() else "PostgreSQL was not running."


def status(server: EmbeddedPostgres) -> str:
    """Return a sentence about the running server.

    Raises CommandError (exit code 3) if the server does not accept connections.
    """
    if postmaster := server.running():
        where = f"socket {server.socket}, log {server.log}"
        return f"PostgreSQL runs as process {postmaster.pid}, {where}."
    raise CommandError("PostgreSQL is not running.", returncode=NOT_RUNNING)
