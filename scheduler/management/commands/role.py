"""Lists roles of accounts, gives and takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from scheduler.management.conversation import Answer, Conversation
from scheduler.management.people import account_of
from scheduler.models import Account
from scheduler.people import roles

_ACTIONS = ("list", "give", "take")


class Command(Conversation):
    """``role list [EMAIL] | give EMAIL ROLE | take EMAIL ROLE``."""

    help = (
        "Give roles to accounts: submitter, publisher, operator, moderator, read-only, or a group "
        "of your own. list [EMAIL]; give EMAIL ROLE; take EMAIL ROLE."
    )
    refusals: ClassVar[tuple[type[Exception], ...]] = (roles.UnknownRole,)

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("action", metavar="ACTION", choices=_ACTIONS, help=", ".join(_ACTIONS))
        parser.add_argument(
            "email",
            metavar="EMAIL",
            nargs="?",
            help="an account; without it, list shows all accounts with roles",
        )
        parser.add_argument("role", metavar="ROLE", nargs="?", help="give and take: the role")

    def answer(self, options: Mapping[str, Any]) -> Answer:
        action, email, role = options["action"], options["email"], options["role"]
        if action == "list":
            return _of_one(account_of(email)) if email else _of_all()
        if not (email and role):
            msg = f"No account or role is named. Hint: write `role {action} EMAIL ROLE`."
            raise CommandError(msg, returncode=2)
        account = account_of(email)
        act = roles.give if action == "give" else roles.take
        changed = act(account, role, now=timezone.now())
        had = "already had" if action == "give" else "did not have"
        did = "now has" if action == "give" else "no longer has"
        return Answer(
            f"{account.email} {did if changed else had} the role {role}.",
            {"email": account.email, "changed": changed, "roles": roles.of_account(account)},
        )


def _of_one(account: Account) -> Answer:
    names = roles.of_account(account)
    rights = sorted(str(right) for right in account.rights)
    return Answer(
        f"{account.email}: {', '.join(names) or 'no role'}. Rights: {', '.join(rights) or 'none'}.",
        {"email": account.email, "roles": names, "rights": rights},
    )


def _of_all() -> Answer:
    members = roles.members()
    width = max(map(len, members))
    lines = [f"{name:<{width}}  {', '.join(emails) or '–'}" for name, emails in members.items()]
    return Answer("\n".join(lines), {"roles": members})
