"""Deletes rows that are no longer needed: zombie hosts, dead keys, empty accounts.

Theory of operation.  A host or account is deleted only if it is old and no result, credit or other
row that must be kept refers to it.  One call deletes at most `MAX_PER_CALL` hosts and accounts,
because the tables that refer to them have no index for this, and each deletion scans the results.
`preview` and `sweep` select rows by the same conditions.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from scheduler import storage
from scheduler.apps import republishing
from scheduler.key_text import START_NBYTES, looks_like_key
from scheduler.models import (
    Account,
    AccountBadge,
    AccountKey,
    AppVersionFile,
    Batch,
    CreditEntry,
    Host,
    Result,
    Team,
    Workunit,
)

#: The maximum number of hosts, and of accounts, that one call deletes.
MAX_PER_CALL = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The minimum ages of the rows to delete."""

    zombie_after: timedelta = timedelta(days=180)
    key_after: timedelta = timedelta(days=180)
    account_after: timedelta = timedelta(days=365)


@dataclass(frozen=True, slots=True)
class Swept:
    """The numbers of rows of each kind that were or would be deleted."""

    hosts: int
    accounts: int
    keys: int
    sessions: int

    @property
    def total(self) -> int:
        return self.hosts + self.accounts + self.keys + self.sessions


@dataclass(frozen=True, slots=True)
class Findings:
    """The names of published versions and files with problems."""

    old_launchers: tuple[str, ...] = ()
    key_shaped: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()

    @property
    def warnings(self) -> list[str]:
        """A list of messages with a hint, one for each kind of problem."""
        sentences = []
        if self.old_launchers:
            sentences.append(
                "These versions have an older launcher than this server writes: "
                f"{', '.join(self.old_launchers)}. Hint: run `manage.py republish_apps`."
            )
        if self.key_shaped:
            sentences.append(
                "The content of these signed files could be taken for a key by clients: "
                f"{', '.join(self.key_shaped)}. Hint: publish versions without them, deprecate "
                "those that have them, and run `manage.py rotate_key code-sign --revoke`."
            )
        if self.unreadable:
            sentences.append(
                f"These signed files cannot be read: {', '.join(self.unreadable)}. "
                "Hint: run `manage.py fsck`."
            )
        return sentences


def look_at_published() -> Findings:
    """Find current versions with an old launcher, and signed files that look like a key."""
    old = republishing.with_old_launchers(republishing.current_versions())
    names = AppVersionFile.objects.order_by("file__name").values_list("file__name", flat=True)
    key_shaped, unreadable = [], []
    for name in names.distinct():
        try:
            if looks_like_key(storage.download_start(name, START_NBYTES)):
                key_shaped.append(name)
        except (OSError, storage.StoreError, storage.StoreAway):
            unreadable.append(name)
    return Findings(tuple(map(str, old)), tuple(key_shaped), tuple(unreadable))


def preview(rules: Rules, *, now: datetime) -> Swept:
    """Count the rows that `sweep` would delete now."""
    return Swept(
        hosts=zombies(rules, now=now)[:MAX_PER_CALL].count(),
        accounts=empty_accounts(rules, now=now)[:MAX_PER_CALL].count(),
        keys=_dead_keys(rules, now=now).count(),
        sessions=_dead_sessions(now=now).count(),
    )


def sweep(rules: Rules, *, now: datetime) -> Swept:
    """Delete unneeded rows, each kind in a separate transaction; return their numbers."""
    return Swept(
        hosts=_sweep(Host, zombies(rules, now=now)),
        accounts=_sweep(Account, empty_accounts(rules, now=now)),
        keys=_dead_keys(rules, now=now).delete()[0],
        sessions=_dead_sessions(now=now).delete()[0],
    )


def zombies(rules: Rules, *, now: datetime) -> QuerySet[Host]:
    """Return hosts without recent contact, credit, or references.

    Rows of merged hosts are kept for the same time, because their clients may still use the old id.
    """
    own = {"host": OuterRef("pk")}
    return Host.objects.filter(
        ~Exists(CreditEntry.objects.filter(**own)),
        ~Exists(Result.objects.filter(**own)),
        ~Exists(Workunit.objects.filter(target_host=OuterRef("pk"))),
        ~Exists(Host.objects.filter(merged_into=OuterRef("pk")).exclude(pk=OuterRef("pk"))),
        rpc_at__lt=now - rules.zombie_after,
        total_credit=0,
        denied=False,
    ).order_by("pk")


def empty_accounts(rules: Rules, *, now: datetime) -> QuerySet[Account]:
    """Return old accounts without any host, credit, badge, batch, team, log-in or right."""
    own = {"account": OuterRef("pk")}
    return Account.objects.filter(
        ~Exists(Host.objects.filter(**own)),
        ~Exists(CreditEntry.objects.filter(**own)),
        ~Exists(Result.objects.filter(**own)),
        ~Exists(Batch.objects.filter(submitter=OuterRef("pk"))),
        ~Exists(Team.objects.filter(founder=OuterRef("pk"))),
        ~Exists(AccountBadge.objects.filter(**own)),
        ~Exists(Workunit.objects.filter(target_account=OuterRef("pk"))),
        created_at__lt=now - rules.account_after,
        total_credit=0,
        team=None,
        last_login=None,
        submitter=None,
        api_tokens=None,
        is_staff=False,
        is_superuser=False,
        groups=None,
        user_permissions=None,
    ).order_by("pk")


def _dead_keys(rules: Rules, *, now: datetime) -> QuerySet[AccountKey]:
    return AccountKey.objects.filter(revoked_at__lt=now - rules.key_after)


def _dead_sessions(*, now: datetime) -> QuerySet[Session]:
    return Session.objects.filter(expire_date__lt=now)


def _sweep(model: type[Host | Account], candidates: QuerySet[Any]) -> int:
    with transaction.atomic():
        # Lock by id, then select again, so that rows that were used in the meantime are kept.
        ids = list(candidates.values_list("pk", flat=True)[:MAX_PER_CALL])
        if not ids:
            return 0
        rows = model._default_manager.filter(pk__in=ids).order_by("pk").select_for_update()
        locked = list(rows.values_list("pk", flat=True))
        unused_ids = list(candidates.filter(pk__in=locked).values_list("pk", flat=True))
        model._default_manager.filter(pk__in=unused_ids).delete()
        return len(unused_ids)
