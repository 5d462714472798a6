"""Lists and removes second factors, for owners who lost theirs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandParser

from scheduler.management.base import Answer, JsonCommand, account_of, require
from scheduler.people import second_factors


class Command(JsonCommand):
    """``second_factor list | remove EMAIL``."""

    help = (
        "Manage second factors. list; remove EMAIL, for an owner who lost the phone and the "
        "recovery codes, and whom you have identified: the password alone is then enough again."
    )

    def add_options(self, parser: CommandParser) -> None:
        self.add_action(parser, ("list", "remove"))
        parser.add_argument(
            "email", metavar="EMAIL", nargs="?", help="remove: the account's e-mail address"
        )

    def answer(self, options: Mapping[str, Any]) -> Answer:
        email = options["email"]
        if options["action"] == "list":
            emails = second_factors.emails_with_one()
            return Answer(
                "\n".join(emails) or "No account has a second factor.", {"emails": emails}
            )
        require(email, "No account is named. Hint: write `second_factor remove EMAIL`.")
        account = account_of(email)
        removed = second_factors.remove(account)
        verb = "no longer has" if removed else "did not have"
        facts = {"email": account.email, "removed": removed}
        return Answer(f"{account.email} {verb} a second factor.", facts)
