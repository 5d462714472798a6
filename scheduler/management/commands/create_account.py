"""Creates an account for a volunteer, a submitter or staff."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from scheduler.management.base import Answer, JsonCommand
from scheduler.management.passwords import add_password_options, read_password
from scheduler.people import accounts
from scheduler.people.account_keys import AccountRefused


class Command(JsonCommand):
    """``create_account EMAIL [--name NAME] [--password-file FILE] [--staff]``."""

    help = (
        "Create an account and print its key. Without --staff, the command prints the key of an "
        "existing account with the same password."
    )
    refusals = (AccountRefused,)

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("email")
        parser.add_argument("--name", help="public name (default: the address up to its @)")
        add_password_options(parser)
        parser.add_argument("--staff", action="store_true", help="a superuser with all rights")

    def answer(self, options: Mapping[str, Any]) -> Answer:
        email = options["email"]
        name = options["name"] or email.partition("@")[0]
        password = read_password(options, prompt=f"Password for {email}: ")
        now = timezone.now()
        if options["staff"]:
            accounts.create_staff(email=email, password=password, name=name, now=now)
        digest = accounts.password_digest(email=email.strip(), password=password)
        made = accounts.create_account(
            email=email, passwd_hash=digest, name=name, by_staff=True, now=now
        )
        created = made.created or options["staff"]
        verb = "Created" if created else "Found"
        account = made.account
        return Answer(
            f"{verb} account {account.pk} of {account.email}; its key is {made.key}.",
            {"account_id": account.pk, "email": account.email, "key": made.key, "created": created},
        )
