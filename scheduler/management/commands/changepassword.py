"""Changes a password, in place of Django's command, which knows no digest."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from scheduler.management.conversation import as_shell
from scheduler.management.passwords import add_password_options, read_password
from scheduler.operations import accounts
from scheduler.queries.accounts import find_account_by_email


class Command(BaseCommand):
    """Give an account a new password; its weak key is made anew, its strong keys stay."""

    help = "Change the password of an account: of a volunteer, a submitter or a member of staff."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        parser.add_argument("email", help="the account's e-mail address")
        add_password_options(parser)

    @as_shell
    def handle(self, *_args: Any, email: str, **options: Any) -> None:
        """Ask, change, and say so."""
        account = find_account_by_email(email)
        if account is None:
            raise CommandError(
                f"No account has the e-mail address {email!r}.\n"
                "Hint: check its spelling, or make one with create_account."
            )
        password = read_password(options, prompt=f"New password of {account.email}: ")
        if not password:
            raise CommandError("The password is empty; nothing was changed.\nHint: give one.")
        digest = accounts.password_digest(email=account.email, password=password)
        accounts.change_password(account=account, passwd_hash=digest, now=timezone.now())
        self.stdout.write(f"The password of {account.email} is changed.")
