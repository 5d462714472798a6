"""Lists, gives and takes the roles of accounts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from scheduler.management.base import Answer, JsonCommand, account_of, require
from scheduler.models import Account
from scheduler.people import roles

#: By action: the operation, and the verbs of the output for a change and for no change.
_CHANGES = {
    "give": (roles.give, "now has", "already had"),
    "take": (roles.take, "no longer has", "did not have"),
}


class Command(JsonCommand):
    """``role list [EMAIL] | give EMAIL ROLE | take EMAIL ROLE``."""

    help = (
        "Manage roles of accounts: submitter, publisher, operator, moderator, read-only, or a "
        "group created in the admin. list [EMAIL]; give EMAIL ROLE; take EMAIL ROLE."
    )
    refusals = (roles.UnknownRole,)

    def add_options(self, parser: CommandParser) -> None:
        self.add_action(parser, ("list", *_CHANGES))
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
        hint = f"Hint: write `role {action} EMAIL ROLE`."
        require(email and role, f"No account or role is named. {hint}")
        account = account_of(email)
        act, did, had = _CHANGES[action]
        changed = act(account, role, now=timezone.now())
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
