"""Grants or revokes credit by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from django.core.management.base import CommandParser
from django.utils import timezone

from scheduler.credit import manual_grants
from scheduler.credit.manual_grants import GrantRequest
from scheduler.credit.recompute_credit import Scope, UnknownApp
from scheduler.credit.rules.grant_amounts import GrantRefused, plain, read_amount
from scheduler.management.base import Answer, JsonCommand, account_of


class Command(JsonCommand):
    """``grant_credit EMAIL AMOUNT --reason TEXT [--host ID] [--app NAME] [--without-team]``."""

    help = (
        "Grant credit to an account by hand, or revoke it with a negative amount. Its owner reads "
        "the reason. No total becomes negative, and recent averages do not change."
    )
    refusals = (GrantRefused, UnknownApp)

    def add_options(self, parser: CommandParser) -> None:
        add = parser.add_argument
        add("email", metavar="EMAIL", help="the account's e-mail address")
        add("amount", metavar="AMOUNT", help="credit; negative to revoke it")
        add("--reason", required=True, metavar="TEXT", help="why; the account's owner reads it")
        add("--host", type=int, metavar="ID", help="count it for this computer of the account, too")
        add("--app", metavar="NAME", help="count it for this app, too")
        add("--without-team", action="store_true", help="do not count it for the account's team")
        add("--dry-run", action="store_true", help="only print what would be changed")

    def answer(self, options: Mapping[str, Any]) -> Answer:
        account, is_dry = account_of(options["email"]), bool(options["dry_run"])
        request = GrantRequest(
            request_id=uuid4(),
            account_id=account.pk,
            amount=read_amount(options["amount"]),
            reason=options["reason"],
            host_id=options["host"],
            app_id=Scope.of_app(options["app"]).app_id if options["app"] else None,
            with_team=not options["without_team"],
        )
        if is_dry:
            changed = manual_grants.preview(request)
        else:
            changed = manual_grants.grant(request, granted_by=None, now=timezone.now())
        verb = "granted" if request.amount > 0 else "revoked"
        amount = plain(abs(request.amount))
        lines = [f"{'Would have ' if is_dry else ''}{verb} {amount} credit by hand.".capitalize()]
        lines += [f"  {c.name}: {plain(c.before)} to {plain(c.after)}" for c in changed]
        facts = {
            "email": account.email,
            "amount": request.amount,
            "reason": options["reason"],
            "totals": [{"name": c.name, "before": c.before, "after": c.after} for c in changed],
            "dry_run": is_dry,
        }
        return Answer("\n".join(lines), facts)
