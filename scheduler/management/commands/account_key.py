"""Lists, creates and revokes the keys of an account."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from scheduler.management.conversation import Answer, Conversation
from scheduler.management.people import account_of
from scheduler.models import Account, AccountKey
from scheduler.people import account_keys

_ACTIONS = ("list", "make", "weak", "revoke")
_KINDS = {"host": AccountKey.Kind.STRONG, "submission": AccountKey.Kind.SUBMISSION}
_NAMES = {AccountKey.Kind.WEAK: "weak"} | {kind: name for name, kind in _KINDS.items()}


class Command(Conversation):
    """``account_key list EMAIL | make EMAIL --kind KIND | weak EMAIL | revoke EMAIL ID``."""

    help = (
        "Manage the keys of an account. list EMAIL; make EMAIL --kind host (attaches computers)"
        " or submission (submits work) [--name NAME]; weak EMAIL (prints it); revoke EMAIL ID."
    )
    refusals: ClassVar[tuple[type[Exception], ...]] = (account_keys.AccountRefused,)

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("action", metavar="ACTION", choices=_ACTIONS, help=", ".join(_ACTIONS))
        parser.add_argument("email", metavar="EMAIL", help="the account's e-mail address")
        parser.add_argument("key_id", metavar="ID", type=int, nargs="?", help="revoke: which key")
        parser.add_argument(
            "--kind", choices=sorted(_KINDS), help="make: host or submission; required"
        )
        parser.add_argument("--name", default="", help="make: the purpose of the key")

    def answer(self, options: Mapping[str, Any]) -> Answer:
        account = account_of(options["email"])
        if options["action"] == "list":
            return _list(account)
        if options["action"] == "make":
            return _make(account, options["kind"], options["name"])
        if options["action"] == "weak":
            return _weak(account)
        return _revoke(account, options["key_id"])


def _list(account: Account) -> Answer:
    keys = list(account_keys.live_keys(account))
    if not keys:
        return Answer(f"{account.email} has no key.", {"keys": []})
    lines = [
        f"{key.pk:>7}  {_NAMES[AccountKey.Kind(key.kind)]:<10}  {key.name:<24}  "
        f"made {key.created_at:%Y-%m-%d}{'  returned by log-in' if _is_returned(key) else ''}"
        for key in keys
    ]
    facts = [
        {
            "id": key.pk,
            "kind": _NAMES[AccountKey.Kind(key.kind)],
            "name": key.name,
            "returned_by_log_in": _is_returned(key),
            "created_at": key.created_at.isoformat(),
        }
        for key in keys
    ]
    return Answer("\n".join(lines), {"keys": facts})


def _is_returned(key: AccountKey) -> bool:
    return key.is_current and key.kind == AccountKey.Kind.STRONG


def _make(account: Account, kind: str | None, name: str) -> Answer:
    if kind is None:
        msg = "The key's kind is missing. Hint: give --kind host or --kind submission."
        raise CommandError(msg, returncode=2)
    name = name or f"{kind} key"
    key = account_keys.new_key(account=account, name=name, kind=_KINDS[kind], now=timezone.now())
    return Answer(
        f"The new {kind} key of {account.email}, shown only now: {key}",
        {"email": account.email, "kind": kind, "name": name, "key": key},
    )


def _weak(account: Account) -> Answer:
    key = account_keys.weak_key(account)
    return Answer(
        f"The weak key of {account.email} is {key}; it attaches computers, and changes with the "
        "password.",
        {"email": account.email, "kind": "weak", "key": key},
    )


def _revoke(account: Account, key_id: int | None) -> Answer:
    if key_id is None:
        msg = "The key's id is missing. Hint: `manage.py account_key list EMAIL` shows it."
        raise CommandError(msg, returncode=2)
    renewed = account_keys.revoke_key(account=account, key_id=key_id, now=timezone.now())
    more = " Log-in returns a new one." if renewed else ""
    return Answer(
        f"Key {key_id} of {account.email} is revoked.{more} Computers attached with a revoked key "
        "must be attached again, and a stock BOINC client then drops its work.",
        {"id": key_id, "revoked": True},
    )
