"""Changes a password with BOINC's digest; replaces Django's command."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from scheduler.management.base import PlainCommand, ShellActor
from scheduler.management.passwords import add_password_options, read_password
from scheduler.people import accounts


class Command(ShellActor, PlainCommand):
    """``changepassword EMAIL [--password PASSWORD] [--revoke-host-keys]``."""

    help = (
        "Change the password of an account. This revokes sessions, API tokens, submission keys and "
        "the weak key; attached computers keep their keys unless --revoke-host-keys is given."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("email", help="the account's e-mail address")
        add_password_options(parser)
        parser.add_argument(
            "--revoke-host-keys",
            action="store_true",
            help="also revoke the keys of attached computers: each must be attached again, and "
            "stock BOINC clients lose their work",
        )

    def handle(self, *_args: Any, email: str, **options: Any) -> None:
        account = accounts.find_account_by_email(email)
        if account is None:
            raise CommandError(
                f"No account has the e-mail address {email!r}.\n"
                "Hint: check the spelling, or create it with create_account."
            )
        password = read_password(options, prompt=f"New password of {account.email}: ")
        if not password:
            raise CommandError("The password is empty; nothing was changed.\nHint: enter one.")
        digest = accounts.password_digest(email=account.email, password=password)
        accounts.change_password(
            account=account,
            passwd_hash=digest,
            revoke_host_keys=options["revoke_host_keys"],
            now=timezone.now(),
        )
        self.stdout.write(
            f"The password of {account.email} is changed. Its sessions, API tokens, submission "
            "keys and weak key are revoked."
        )
