"""Creates, lists and revokes API tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from scheduler.management.conversation import Answer, Conversation, duration
from scheduler.management.people import account_of
from scheduler.models import Account, ApiToken
from scheduler.people import api_tokens
from scheduler.rights import SCOPES

_ACTIONS = ("create", "list", "revoke")


class Command(Conversation):
    """``token create EMAIL [--name NAME] [--scope SCOPE]... | list EMAIL | revoke EMAIL ID``."""

    help = (
        "Manage API tokens. create EMAIL [--scope read --scope submit] [--expires-in 90d]; "
        "list EMAIL; revoke EMAIL ID."
    )
    refusals: ClassVar[tuple[type[Exception], ...]] = (api_tokens.TokenRefused,)

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("action", metavar="ACTION", choices=_ACTIONS, help=", ".join(_ACTIONS))
        parser.add_argument("email", metavar="EMAIL", help="account that the token belongs to")
        parser.add_argument("token_id", metavar="ID", type=int, nargs="?", help="revoke: its id")
        parser.add_argument("--name", default="", help="create: purpose of the token")
        parser.add_argument(
            "--scope",
            action="append",
            metavar="SCOPE",
            help=f"create: {', '.join(SCOPES)}; repeatable (default: read and submit)",
        )
        parser.add_argument(
            "--expires-in", type=duration, metavar="TIME", help="create: from now, such as 90d"
        )

    def answer(self, options: Mapping[str, Any]) -> Answer:
        account = account_of(options["email"])
        if options["action"] == "create":
            return _create(account, options)
        if options["action"] == "list":
            return _list(account)
        return _revoke(account, options["token_id"])


def _create(account: Account, options: Mapping[str, Any]) -> Answer:
    now, lasts = timezone.now(), options["expires_in"]
    token, text = api_tokens.create(
        account=account,
        name=options["name"] or "made on the server",
        scopes=options["scope"] or ("read", "submit"),
        expire_at=None if lasts is None else now + lasts,
        now=now,
    )
    scopes = api_tokens.scopes_of(token)
    return Answer(
        f"Token {token.pk} of {account.email} with scope {' and '.join(scopes)}, "
        f"shown only now: {text}",
        _facts(token) | {"token": text},
    )


def _list(account: Account) -> Answer:
    tokens = list(api_tokens.of_account(account).order_by("pk"))
    if not tokens:
        return Answer(f"{account.email} has no token.", {"tokens": []})
    lines = [
        f"{token.pk:>7}  {token.name:<24}  {' '.join(api_tokens.scopes_of(token)):<22}  "
        f"last used {token.last_used_on or 'never'}"
        f"{f'  expires {token.expire_at:%Y-%m-%d %H:%M}' if token.expire_at else ''}"
        for token in tokens
    ]
    return Answer("\n".join(lines), {"tokens": [_facts(token) for token in tokens]})


def _revoke(account: Account, token_id: int | None) -> Answer:
    if token_id is None:
        msg = "The token's id is missing. Hint: `manage.py token list EMAIL` shows it."
        raise CommandError(msg, returncode=2)
    if not api_tokens.revoke(account=account, token_id=token_id, now=timezone.now()):
        msg = (
            f"{account.email} has no valid token {token_id}. "
            "Hint: `manage.py token list EMAIL` shows the ids."
        )
        raise CommandError(msg)
    return Answer(f"Token {token_id} is revoked.", {"id": token_id, "revoked": True})


def _facts(token: ApiToken) -> dict[str, Any]:
    return {
        "id": token.pk,
        "name": token.name,
        "scopes": api_tokens.scopes_of(token),
        "created_at": token.created_at.isoformat(),
        "expire_at": token.expire_at and token.expire_at.isoformat(),
        "last_used_on": token.last_used_on and token.last_used_on.isoformat(),
    }
