"""Creates, lists and revokes invitations to create an account."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from scheduler.config import AccountCreation
from scheduler.management.base import Answer, JsonCommand, plural, require
from scheduler.management.parsing import duration
from scheduler.models import Invitation
from scheduler.people import invitations
from scheduler.people.account_keys import AccountRefused


class Command(JsonCommand):
    """``invitation make [--uses N] [--expires-in 30d] [--name NAME] | list | revoke ID``."""

    help = (
        "Manage invitations, which account creation needs while ACCOUNT_CREATION is `invitation`. "
        "make [--uses N] [--expires-in 30d] [--name NAME]; list; revoke ID."
    )
    refusals = (AccountRefused,)

    def add_options(self, parser: CommandParser) -> None:
        self.add_action(parser, _ACTIONS)
        add = parser.add_argument
        add("invitation_id", metavar="ID", type=int, nargs="?", help="revoke: id of the invitation")
        add("--name", default="", help="make: purpose of the invitation")
        add(
            "--uses", type=int, default=1, metavar="N", help="make: number of accounts (default: 1)"
        )
        add("--expires-in", type=duration, metavar="TIME", help="make: validity, such as 30d")

    def answer(self, options: Mapping[str, Any]) -> Answer:
        return _ACTIONS[options["action"]](options)


def _make(options: Mapping[str, Any]) -> Answer:
    now, lasts = timezone.now(), options["expires_in"]
    made, code = invitations.make(
        name=options["name"],
        max_uses=options["uses"],
        expire_at=None if lasts is None else now + lasts,
        now=now,
    )
    how = settings.PROJECT.account_creation
    note = ""
    if how is not AccountCreation.INVITATION:
        note = f" ACCOUNT_CREATION is `{how}`: set it to `invitation` to require codes."
    return Answer(
        f"Invitation {made.pk}, for {plural(made.max_uses, 'account')}, shown only now: {code}"
        f"{note}",
        _facts(made) | {"code": code},
    )


def _list(_options: Mapping[str, Any]) -> Answer:
    rows = list(invitations.valid(timezone.now()).order_by("pk"))
    lines = [
        f"{row.pk:>7}  {row.name:<24}  {row.uses} of {row.max_uses} used"
        f"{f'  expires {row.expire_at:%Y-%m-%d %H:%M}' if row.expire_at else ''}"
        for row in rows
    ]
    text = "\n".join(lines) or "There is no invitation that can be used."
    return Answer(text, {"invitations": [_facts(row) for row in rows]})


def _revoke(options: Mapping[str, Any]) -> Answer:
    invitation_id = options["invitation_id"]
    missing = "The invitation's id is missing. Hint: `manage.py invitation list` shows it."
    require(invitation_id is not None, missing)
    if not invitations.revoke(invitation_id, now=timezone.now()):
        raise CommandError(
            f"There is no invitation {invitation_id} to revoke. "
            "Hint: `manage.py invitation list` shows the ids."
        )
    return Answer(
        f"Invitation {invitation_id} is revoked. Accounts that were created with it remain.",
        {"id": invitation_id, "revoked": True},
    )


def _facts(invitation: Invitation) -> dict[str, Any]:
    return {
        "id": invitation.pk,
        "name": invitation.name,
        "uses": invitation.uses,
        "max_uses": invitation.max_uses,
        "created_at": invitation.created_at.isoformat(),
        "expire_at": invitation.expire_at and invitation.expire_at.isoformat(),
    }


_ACTIONS = {"make": _make, "list": _list, "revoke": _revoke}
