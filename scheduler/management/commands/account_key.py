"""Lists, creates and revokes the keys of an account."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from scheduler.management.base import Answer, JsonCommand, account_of, require
from scheduler.models import Account, AccountKey
from scheduler.people import account_keys

_KINDS = {"host": AccountKey.Kind.STRONG, "submission": AccountKey.Kind.SUBMISSION}
_NAMES = {AccountKey.Kind.WEAK: "weak"} | {kind: name for name, kind in _KINDS.items()}


class Command(JsonCommand):
    """``account_key list EMAIL | make EMAIL --kind KIND | weak EMAIL | revoke EMAIL ID``."""

    help = (
        "Manage the keys of an account. list EMAIL; make EMAIL --kind host (attaches computers)"
        " or submission (submits work) [--name NAME]; weak EMAIL (prints the weak key); revoke "
        "EMAIL ID."
    )
    refusals = (account_keys.AccountRefused,)

    def add_options(self, parser: CommandParser) -> None:
        self.add_action(parser, _ACTIONS)
        parser.add_argument("email", metavar="EMAIL", help="the account's e-mail address")
        parser.add_argument("key_id", metavar="ID", type=int, nargs="?", help="revoke: id of a key")
        parser.add_argument(
            "--kind", choices=sorted(_KINDS), help="make: host or submission; required"
        )
        parser.add_argument("--name", default="", help="make: the purpose of the key")

    def answer(self, options: Mapping[str, Any]) -> Answer:
        return _ACTIONS[options["action"]](account_of(options["email"]), options)


def _list(account: Account, _options: Mapping[str, Any]) -> Answer:
    keys = list(account_keys.live_keys(account))
    lines = [
        f"{key.pk:>7}  {_NAMES[AccountKey.Kind(key.kind)]:<10}  {key.name:<24}  "
        f"made {key.created_at:%Y-%m-%d}{_notes(key)}"
        for key in keys
    ]
    facts = [
        {
            "id": key.pk,
            "kind": _NAMES[AccountKey.Kind(key.kind)],
            "name": key.name,
            "returned_by_log_in": _is_returned(key),
            "created_at": key.created_at.isoformat(),
            "last_used_on": None if key.last_used_on is None else key.last_used_on.isoformat(),
        }
        for key in keys
    ]
    return Answer("\n".join(lines) or f"{account.email} has no key.", {"keys": facts})


def _notes(key: AccountKey) -> str:
    if _is_returned(key):
        return "  returned by log-in"
    return f"  last used {key.last_used_on}" if key.last_used_on else ""


def _is_returned(key: AccountKey) -> bool:
    return key.is_current and key.kind == AccountKey.Kind.STRONG


def _make(account: Account, options: Mapping[str, Any]) -> Answer:
    kind = options["kind"]
    require(kind, "The key's kind is missing. Hint: give --kind host or --kind submission.")
    name = options["name"] or f"{kind} key"
    key = account_keys.new_key(account=account, name=name, kind=_KINDS[kind], now=timezone.now())
    return Answer(
        f"The new {kind} key of {account.email}, shown only now: {key}",
        {"email": account.email, "kind": kind, "name": name, "key": key},
    )


def _weak(account: Account, _options: Mapping[str, Any]) -> Answer:
    key = account_keys.weak_key(account)
    return Answer(
        f"The weak key of {account.email} is {key}. Computers can be attached with the weak key; "
        "a new password replaces it.",
        {"email": account.email, "kind": "weak", "key": key},
    )


def _revoke(account: Account, options: Mapping[str, Any]) -> Answer:
    key_id = options["key_id"]
    missing = "The key's id is missing. Hint: `manage.py account_key list EMAIL` shows it."
    require(key_id is not None, missing)
    renewed = account_keys.revoke_key(account=account, key_id=key_id, now=timezone.now())
    more = " A new key replaces it." if renewed else ""
    return Answer(
        f"Key {key_id} of {account.email} is revoked.{more} Computers attached with a revoked key "
        "must be attached again, and a stock BOINC client then drops its work.",
        {"id": key_id, "revoked": True},
    )


_ACTIONS = {"list": _list, "make": _make, "weak": _weak, "revoke": _revoke}
