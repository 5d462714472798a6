"""Deletes zombie hosts, revoked keys, expired sessions and empty accounts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from scheduler.apps import hygiene
from scheduler.management.base import Answer, JsonCommand, plural
from scheduler.management.parsing import duration


class Command(JsonCommand):
    """``hygiene [--dry-run] [--hosts-after 180d] [--keys-after 180d] [--accounts-after 365d]``."""

    help = (
        "Delete hosts without work or credit that have not contacted the server for a long time, "
        "keys revoked long ago, expired sessions, and accounts that were never used. Also list app "
        "versions with an old launcher, and signed files that clients could mistake for a key."
    )

    def add_options(self, parser: CommandParser) -> None:
        rules = hygiene.Rules()
        for name, default, what in (
            ("--hosts-after", rules.zombie_after, "time since a host's last contact"),
            ("--keys-after", rules.key_after, "time since a key was revoked"),
            ("--accounts-after", rules.account_after, "age of an account"),
        ):
            text = f"{what} (default: {default.days}d)"
            parser.add_argument(name, type=duration, default=default, metavar="TIME", help=text)
        parser.add_argument("--dry-run", action="store_true", help="only print the counts")

    def answer(self, options: Mapping[str, Any]) -> Answer:
        rules = hygiene.Rules(
            zombie_after=options["hosts_after"],
            key_after=options["keys_after"],
            account_after=options["accounts_after"],
        )
        act = hygiene.preview if options["dry_run"] else hygiene.sweep
        done = act(rules, now=timezone.now())
        counts = ", ".join(
            plural(count, noun)
            for count, noun in (
                (done.hosts, "zombie host"),
                (done.accounts, "empty account"),
                (done.keys, "revoked key"),
                (done.sessions, "expired session"),
            )
        )
        verb = "Would delete" if options["dry_run"] else "Deleted"
        more = hygiene.MAX_PER_CALL in (done.hosts, done.accounts)
        warnings = ["There may be more. Hint: run the command again."] if more else []
        published = hygiene.look_at_published()
        warnings += published.warnings
        facts = asdict(done) | asdict(published) | {"dry_run": options["dry_run"]}
        return Answer(f"{verb} {counts}.", facts, warnings)
