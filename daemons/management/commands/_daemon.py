"""Defines the base class of the commands that run a daemon."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, ArgumentTypeError
from time import monotonic
from typing import Any, ClassVar

from django.core.management.base import CommandError, CommandParser
from django.db import Error as DatabaseError

from daemons import registry
from daemons.clock import clock_of
from daemons.loop import Drive, StopSign, drain, run, stopping_on_signals
from daemons.science.kernel import die_with_parent
from daemons.tally import WHOLE, BadShard, Shard
from scheduler.health import daemon_activity, installation
from scheduler.management.base import PlainCommand, require


class DaemonCommand(PlainCommand):
    """Runs a daemon until SIGINT or SIGTERM arrives, or with --once until no work is due."""

    daemon_name: ClassVar[str]
    parser_options = {
        "epilog": "Exit status: 0 done or stopped by a signal, 1 a pass failed, 2 wrong options."
    }

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        """Set the help to the daemon's summary."""
        self.daemon = registry.find(self.daemon_name)
        self.help = self.daemon.summary
        return super().create_parser(prog_name, subcommand, **kwargs)

    def add_arguments(self, parser: CommandParser) -> None:
        add = parser.add_argument
        add(
            "--once",
            action="store_true",
            help="process all due work, print the counts, and exit",
        )
        add(
            "--limit",
            type=whole_number,
            default=self.daemon.batch,
            metavar="N",
            help=f"rows per pass (default {self.daemon.batch})",
        )
        add(
            "--pause",
            type=seconds,
            default=self.daemon.pause,
            metavar="SECONDS",
            help=f"longest pause while no work is due (default {self.daemon.pause:g})",
        )
        add(
            "--sleep-interval",
            type=seconds,
            metavar="SECONDS",
            help="work in rounds of this duration: after a shorter round, wait the remainder",
        )
        text = "process only the I-th of N equal shares of the work"
        add("--shard", type=shard, default=WHOLE, metavar="I/N", help=text)
        add("--json", action="store_true", help="with --once: print JSON")
        add("--with-parent", action="store_true", help="end when the parent ends")

    def handle(self, *_args: Any, **options: Any) -> None:
        require(options["once"] or not options["json"], "--json requires --once. Hint: add --once.")
        installation.refuse_incomplete_restore()
        stop = StopSign()
        if options["with_parent"]:
            die_with_parent()
        drive = Drive(
            clock=clock_of(self.daemon_name),
            stop=stop,
            limit=options["limit"],
            pause=options["pause"],
            shard=options["shard"],
            sleep_interval=options["sleep_interval"],
            record=daemon_activity.add_passes,
        )
        with stopping_on_signals(stop, self._write):
            if options["once"]:
                self._once(drive, as_json=options["json"])
            else:
                run(self.daemon, drive)

    def _once(self, drive: Drive, *, as_json: bool) -> None:
        began = monotonic()
        try:
            tally = drain(self.daemon, drive)
        except DatabaseError as error:
            reason = " ".join(str(error).split())
            raise CommandError(f"{self.daemon.name}: the database failed: {reason}") from error
        took = monotonic() - began
        if as_json:
            did = {"daemon": self.daemon.name, "seen": tally.seen, "did": tally.done}
            self.stdout.write(json.dumps({**did, "seconds": round(took, 3)}))
        else:
            timing = f" ({took:.2f} s)" if tally.seen or tally.changed else ""
            self.stdout.write(f"{self.daemon.name}: {tally.sentence()}{timing or '.'}")

    def _write(self, text: str) -> None:
        sys.stderr.write(f"{self.daemon.name}: {text}\n")
        sys.stderr.flush()


def whole_number(text: str) -> int:
    """Parse a number of rows, which is at least 1; raises `ArgumentTypeError`."""
    if not text.isdecimal() or int(text) < 1:
        msg = f"{text!r} is not a number of rows. Hint: use a whole number from 1."
        raise ArgumentTypeError(msg)
    return int(text)


def seconds(text: str) -> float:
    """Parse a duration in seconds, which is at most one day; raises `ArgumentTypeError`."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 < number <= 86_400:  # noqa: PLR2004  a day
        msg = f"{text!r} is not a duration. Hint: use seconds, more than 0 and at most 86400."
        raise ArgumentTypeError(msg)
    return number


def add_sleep_intervals(parser: ArgumentParser) -> None:
    """Add the option `--sleep-interval` of the commands that start all daemons."""
    parser.add_argument(
        "--sleep-interval",
        type=sleep_interval,
        action="append",
        default=[],
        metavar="[DAEMON=]SECONDS",
        help="let a daemon work in rounds of this duration: after a shorter round, it waits the "
        "remainder; without a name, all daemons (repeatable)",
    )


def sleep_interval(text: str) -> tuple[str, float]:
    """Parse `[DAEMON=]SECONDS`; the name is empty for all daemons; raises `ArgumentTypeError`.

    >>> sleep_interval("assimilator=30"), sleep_interval("30")
    (('assimilator', 30.0), ('', 30.0))
    """
    name, equals_sign, number = text.rpartition("=")
    try:
        if equals_sign:
            registry.find(name)
    except registry.UnknownDaemon as error:
        raise ArgumentTypeError(str(error)) from error
    return name, seconds(number)


def shard(text: str) -> Shard:
    try:
        return Shard.parse(text)
    except BadShard as error:
        raise ArgumentTypeError(str(error)) from error
