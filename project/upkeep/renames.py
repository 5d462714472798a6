"""Changes the public address of a project, and lists what the operator must do."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from django.conf import settings
from django.db import transaction

from project.upkeep import addresses, processes
from scheduler import signing, storage
from scheduler.lifecycle import ServerState
from scheduler.models import Host, Result
from scheduler.models.audit import AuditEntry
from scheduler.people import audit

if TYPE_CHECKING:
    from datetime import datetime

#: Hosts without a request for this time are not counted.
_ACTIVE: Final = timedelta(days=30)


class RenameRefused(Exception):
    """The address cannot be changed to this one; the text contains a hint."""


@dataclass(frozen=True, slots=True)
class Rename:
    """A change of the address; `hosts` and `results` are active hosts and results in progress.

    `tasks` are the sentences that describe what the operator must do.
    """

    old: str
    new: str
    former: tuple[str, ...]
    hosts: int
    results: int
    tasks: tuple[str, ...]


def prepare(new: str, *, now: datetime) -> Rename:
    """Return the change to the address `new`, which ends with a slash; nothing is changed.

    Raises RenameRefused.
    """
    old = settings.PROJECT.master_url
    _check(old, new)
    return Rename(
        old=old,
        new=new,
        former=tuple(url for url in (old, *settings.PROJECT.former_urls) if url != new),
        hosts=Host.objects.filter(rpc_at__gt=now - _ACTIVE).count(),
        results=Result.objects.filter(server_state=ServerState.IN_PROGRESS).count(),
        tasks=tuple(_tasks(old, new)),
    )


def record(rename: Rename, *, now: datetime) -> None:
    """Write the addresses to VAR_DIR, and an entry to the audit log.

    Processes that start later use them.  Raises `processes.WrongUser` and OSError.
    """
    processes.check_user()
    storage.put_notice(addresses.NOTICE, {"addresses": [rename.new, *rename.former]})
    with transaction.atomic():
        event = AuditEntry.Event.ADDRESS_CHANGED
        audit.record(event, subject=rename.new, details={"old": rename.old}, now=now)


def _check(old: str, new: str) -> None:
    if new == old:
        msg = f"{new} is the project's address already."
        raise RenameRefused(f"{msg}\nHint: `project rename-url` needs the new address.")
    if _origin(new) == _origin(old):
        raise RenameRefused(
            f"{old} and {new} differ only in their paths, ports or letter case: requests of "
            "clients that use the old one cannot be distinguished.\n"
            "Hint: use another host name, or keep the address."
        )
    for url in settings.PROJECT.former_urls:
        if _origin(new) == _origin(url):
            raise RenameRefused(
                f"{url} was an earlier address of the project: clients that still use it cannot be "
                f"distinguished from those that change to {new}.\nHint: use another host name."
            )
    if old.startswith("https:") and _origin(new)[0] == "http":
        raise RenameRefused(
            f"{new} has no TLS, and {old} has: clients ignore such a change.\n"
            "Hint: use an https address."
        )


def _origin(url: str) -> tuple[str, str]:
    """Return the scheme and the host name, by which requests are attributed to an address."""
    parts = urlsplit(url)
    return parts.scheme, str(parts.hostname).rstrip(".")


def _tasks(old: str, new: str) -> list[str]:
    old_host, new_host = str(urlsplit(old).hostname), str(urlsplit(new).hostname)
    tasks = ["restart the web server and the daemons: they use the new address from then on"]
    if old_host != new_host:
        tasks.append(
            f"let {new_host} and {old_host} both lead to this server (DNS, TLS, the names in the "
            "proxy's configuration), without redirects, as long as clients use the old address"
        )
    missing = {new_host, old_host} - set(settings.ALLOWED_HOSTS)
    if os.environ.get("ALLOWED_HOSTS", "").strip() and missing:
        tasks.append(f"add {' and '.join(sorted(missing))} to ALLOWED_HOSTS")
    wait_url = settings.PROJECT.pool_wait_url
    if wait_url and urlsplit(wait_url).hostname != new_host:
        tasks.append(f"change POOL_WAIT_URL ({wait_url}) to the new host")
    gets_tls = new.startswith("https:") and not old.startswith("https:")
    if gets_tls and signing.private_code_sign_key_is_here():
        tasks.append(
            "move the private code signing key to another machine (docs/signing.md), or set "
            "ONLINE_SIGNING=true: with an https address the server does not sign"
        )
    tasks.append("log in with `scientist` again at the new address, and tell the submitters to")
    return tasks
