"""Enrolls hosts in the trusted pool, lists them, and withdraws them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from scheduler.hosts.denials import UnknownHost
from scheduler.management.base import Answer, JsonCommand, require
from scheduler.management.parsing import duration
from scheduler.models import Queue
from scheduler.pool import host_tokens


class Command(JsonCommand):
    """``pool enroll HOST [--expires-in TIME] | withdraw HOST | list``."""

    help = (
        "Manage the trusted pool. `enroll HOST [--expires-in 90d]` prints a token for the host's "
        "client, `withdraw HOST` revokes the host's tokens, and `list` shows the enrolled hosts."
    )
    refusals = (host_tokens.NotEnrolled, UnknownHost)

    def add_options(self, parser: CommandParser) -> None:
        self.add_action(parser, _ACTIONS)
        parser.add_argument("host_id", metavar="HOST", type=int, nargs="?", help="id of a host")
        parser.add_argument(
            "--expires-in", type=duration, metavar="TIME", help="enroll: validity, such as 90d"
        )

    def answer(self, options: Mapping[str, Any]) -> Answer:
        action = options["action"]
        missing = f"No host is named. Hint: `manage.py pool {action} HOST`."
        require(options["host_id"] is not None or action == "list", missing)
        return _ACTIONS[action](options)


def _enroll(options: Mapping[str, Any]) -> Answer:
    now, lasts = timezone.now(), options["expires_in"]
    expire_at = None if lasts is None else now + lasts
    token, text = host_tokens.enroll(options["host_id"], expire_at=expire_at, now=now)
    hint = ""
    if not Queue.objects.filter(trusted=True).exists():
        hint = "\nHint: no queue is trusted yet; `scientist queue create NAME --trusted`."
    return Answer(
        f"Token of host {token.host_id}, shown only now: {text}\n"
        "Write it to a file, and start the client with `volunteer run --pool-token-file FILE`."
        f"{hint}",
        {"host": token.host_id, "id": token.pk, "token": text},
    )


def _withdraw(options: Mapping[str, Any]) -> Answer:
    count = host_tokens.withdraw(options["host_id"], now=timezone.now())
    host = options["host_id"]
    text = f"Host {host} is withdrawn." if count else f"Host {host} was not enrolled."
    return Answer(text, {"host": host, "revoked": count})


def _list(_options: Mapping[str, Any]) -> Answer:
    tokens = list(
        host_tokens.live(now=timezone.now()).select_related("host__account").order_by("host_id")
    )
    lines = [
        f"{token.host_id:>7}  {token.host.domain_name or '-':<24}  {token.host.account.email:<24}  "
        f"last used {token.last_used_on or 'never'}"
        f"{f'  expires {token.expire_at:%Y-%m-%d %H:%M}' if token.expire_at else ''}"
        for token in tokens
    ]
    facts = [
        {
            "host": token.host_id,
            "name": token.host.domain_name,
            "account": token.host.account.email,
            "expire_at": token.expire_at and token.expire_at.isoformat(),
            "last_used_on": token.last_used_on and token.last_used_on.isoformat(),
        }
        for token in tokens
    ]
    return Answer("\n".join(lines) or "No host is enrolled.", {"hosts": facts})


_ACTIONS = {"enroll": _enroll, "withdraw": _withdraw, "list": _list}
