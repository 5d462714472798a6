"""Make, list and revoke tokens by which programs speak for people."""

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
        "Look after API tokens. create EMAIL [--scope read --scope submit] [--expires-in 90d]; "
        "list EMAIL; revoke EMAIL ID."
    )
    refusals: ClassVar[tuple[type[Exception], ...]] = (api_tokens.TokenRefused,)

    def ask(self, parser: CommandParser) -> None:
        """Ask what to do, and whose token it is."""
        parser.add_argument("action", metavar="ACTION", choices=_ACTIONS, help=", ".join(_ACTIONS))
        parser.add_argument("email", metavar="EMAIL", help="whose token it is")
        parser.add_argument("token_id", metavar="ID", type=int, nargs="?", help="revoke: which")
        parser.add_argument("--name", default="", help="create: what it is for")
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
        """Do the one thing that is asked for."""
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
        f"Token {token.pk} of {account.email}, good for {' and '.join(scopes)}, "
        f"is told this once: {text}",
        _facts(token) | {"token": text},
    )


def _list(account: Account) -> Answer:
    tokens = list(api_tokens.of_account(account).order_by("pk"))
    if not tokens:
        return Answer(f"{account.email} has no token.", {"tokens": []})
    said = [
        f"{token.pk:>7}  {token.name:<24}  {' '.join(api_tokens.scopes_of(token)):<22}  "
        f"last used {token.last_used_on or 'never'}"
        f"{f'  expires {token.expire_at:%Y-%m-%d %H:%M}' if token.expire_at else ''}"
        for token in tokens
    ]
    return Answer("\n".join(said), {"tokens": [_facts(token) for token in tokens]})


def _revoke(account: Account, token_id: int | None) -> Answer:
    if token_id is None:
        msg = "No token is named. Hint: `manage.py token list EMAIL` numbers them."
        raise CommandError(msg, returncode=2)
    if not api_tokens.revoke(account=account, token_id=token_id, now=timezone.now()):
        msg = (
            f"{account.email} has no token {token_id} that is good. "
            "Hint: `manage.py token list EMAIL` numbers them."
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
