"""Runs all daemons in the foreground."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from django.core.management import execute_from_command_line
from django.core.management.base import CommandParser
from django.db import connection

from daemons.loop import StopSign, stopping_on_signals
from daemons.management.commands._daemon import add_sleep_intervals, seconds
from daemons.management.processes import Child, ProcessGroup, forked_process
from daemons.registry import DAEMONS
from daemons.science.kernel import die_with_parent
from scheduler.health import installation
from scheduler.management.base import PlainCommand

_NAMES = ", ".join(daemon.name for daemon in DAEMONS)


class Command(PlainCommand):
    """Runs all daemons as child processes, and restarts a child that has ended."""

    help = f"Run all daemons in the foreground until SIGINT or SIGTERM: {_NAMES}."
    parser_options = {"epilog": "Exit status: 0 stopped by a signal, 2 wrong options."}

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--pause",
            type=seconds,
            metavar="SECONDS",
            help="longest pause of each daemon while no work is due (default: by daemon)",
        )
        add_sleep_intervals(parser)
        parser.add_argument("--with-parent", action="store_true", help="end when the parent ends")

    def handle(self, *_args: Any, **options: Any) -> None:
        stop = StopSign()
        if options["with_parent"]:
            die_with_parent()
        # The first connection starts the embedded server, so that the children find it running.
        connection.ensure_connection()
        installation.claim_folder()
        connection.close()
        with stopping_on_signals(stop, self._write):
            children = [self._child(daemon.name, options) for daemon in DAEMONS]
            ProcessGroup(children, self._write).run(stop)
        self._write("all daemons stopped")

    def _child(self, name: str, options: dict[str, Any]) -> Child:
        pause = [] if options["pause"] is None else ["--pause", str(options["pause"])]
        intervals = dict(options["sleep_interval"])
        interval = intervals.get(name, intervals.get(""))
        rounds = [] if interval is None else ["--sleep-interval", str(interval)]
        words = [sys.argv[0], name, "--with-parent", *pause, *rounds]
        return Child(name, partial(forked_process, name, partial(execute_from_command_line, words)))

    def _write(self, text: str) -> None:
        sys.stderr.write(f"daemons: {text}\n")
        sys.stderr.flush()
