"""Creates, lists and revokes API tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from scheduler.management.base import Answer, JsonCommand, account_of, require
from scheduler.management.parsing import duration
from scheduler.models import Account, ApiToken
from scheduler.people import api_tokens
from scheduler.rights import SCOPES


class Command(JsonCommand):
    """``token create EMAIL [--name NAME] [--scope SCOPE]... | list EMAIL | revoke EMAIL ID``."""

    help = (
        "Manage API tokens. create EMAIL [--scope read --scope submit] [--expires-in 90d]; "
        "list EMAIL; revoke EMAIL ID."
    )
    refusals = (api_tokens.TokenRefused,)

    def add_options(self, parser: CommandParser) -> None:
        self.add_action(parser, _ACTIONS)
        parser.add_argument("email", metavar="EMAIL", help="account that the token belongs to")
        parser.add_argument("token_id", metavar="ID", type=int, nargs="?", help="revoke: token id")
        parser.add_argument("--name", default="", help="create: purpose of the token")
        parser.add_argument(
            "--scope",
            action="append",
            metavar="SCOPE",
            help=f"create: {', '.join(SCOPES)}; repeatable (default: read and submit)",
        )
        parser.add_argument(
            "--expires-in", type=duration, metavar="TIME", help="create: validity, such as 90d"
        )

    def answer(self, options: Mapping[str, Any]) -> Answer:
        return _ACTIONS[options["action"]](account_of(options["email"]), options)


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


def _list(account: Account, _options: Mapping[str, Any]) -> Answer:
    tokens = list(api_tokens.of_account(account).order_by("pk"))
    lines = [
        f"{token.pk:>7}  {token.name:<24}  {' '.join(api_tokens.scopes_of(token)):<22}  "
        f"last used {token.last_used_on or 'never'}"
        f"{f'  expires {token.expire_at:%Y-%m-%d %H:%M}' if token.expire_at else ''}"
        for token in tokens
    ]
    text = "\n".join(lines) or f"{account.email} has no token."
    return Answer(text, {"tokens": [_facts(token) for token in tokens]})


def _revoke(account: Account, options: Mapping[str, Any]) -> Answer:
    token_id = options["token_id"]
    missing = "The token's id is missing. Hint: `manage.py token list EMAIL` shows it."
    require(token_id is not None, missing)
    if not api_tokens.revoke(account=account, token_id=token_id, now=timezone.now()):
        raise CommandError(
            f"{account.email} has no valid token {token_id}. "
            "Hint: `manage.py token list EMAIL` shows the ids."
        )
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


_ACTIONS = {"create": _create, "list": _list, "revoke": _revoke}
