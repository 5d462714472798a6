"""Sweep out what nobody misses: zombie hosts, dead keys, empty accounts.

Theory of operation.  A row is swept only when it is old, when nothing that counts refers to it, and
a few at a time: what refers to hosts and accounts has no index for it, so that every one of them
costs a look through the results.  `preview` and `sweep` choose by the same questions.
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
    AccountKey,
    AppVersionFile,
    Batch,
    CreditEntry,
    Host,
    Result,
    Team,
    Workunit,
)

#: How many hosts and accounts one call sweeps at the most.
AT_A_TIME = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How old what must be; days are counted from the last contact, use or birth."""

    zombie_after: timedelta = timedelta(days=180)
    key_after: timedelta = timedelta(days=180)
    account_after: timedelta = timedelta(days=365)


@dataclass(frozen=True, slots=True)
class Swept:
    """How many of each were swept, or would be."""

    hosts: int
    accounts: int
    keys: int
    sessions: int

    @property
    def total(self) -> int:
        """All of them together."""
        return self.hosts + self.accounts + self.keys + self.sessions


@dataclass(frozen=True, slots=True)
class Findings:
    """Problems of published versions and files, each a sentence with a hint."""

    old_launchers: tuple[str, ...] = ()
    key_shaped: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()

    @property
    def warnings(self) -> list[str]:
        """Return all problems, each with a list of names."""
        sentences = []
        if self.old_launchers:
            sentences.append(
                "These versions have an older launcher than this server writes: "
                f"{', '.join(self.old_launchers)}. Hint: `manage.py republish_apps`."
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
    """Check every signed file: launchers of current versions, and the beginning of the others."""
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
    """Count what `sweep` would take away now."""
    return Swept(
        hosts=zombies(rules, now=now)[:AT_A_TIME].count(),
        accounts=empty_accounts(rules, now=now)[:AT_A_TIME].count(),
        keys=_dead_keys(rules, now=now).count(),
        sessions=_dead_sessions(now=now).count(),
    )


def sweep(rules: Rules, *, now: datetime) -> Swept:
    """Take it away; each kind is a transaction of its own."""
    return Swept(
        hosts=_sweep(Host, zombies(rules, now=now)),
        accounts=_sweep(Account, empty_accounts(rules, now=now)),
        keys=_dead_keys(rules, now=now).delete()[0],
        sessions=_dead_sessions(now=now).delete()[0],
    )


def zombies(rules: Rules, *, now: datetime) -> QuerySet[Host]:
    """Hosts silent for long, without credit, that no result, credit or workunit names.

    A row that was merged into another stays as long: its client may still call by the old id.
    """
    own = {"host": OuterRef("pk")}
    return Host.objects.filter(
        ~Exists(CreditEntry.objects.filter(**own)),
        ~Exists(Result.objects.filter(**own)),
        ~Exists(Workunit.objects.filter(target_host=OuterRef("pk"))),
        ~Exists(Host.objects.filter(merged_into=OuterRef("pk"))),
        rpc_at__lt=now - rules.zombie_after,
        total_credit=0,
        denied=False,
    ).order_by("pk")


def empty_accounts(rules: Rules, *, now: datetime) -> QuerySet[Account]:
    """Accounts that never did anything: no host, credit, batch, team, log-in or right."""
    own = {"account": OuterRef("pk")}
    return Account.objects.filter(
        ~Exists(Host.objects.filter(**own)),
        ~Exists(CreditEntry.objects.filter(**own)),
        ~Exists(Result.objects.filter(**own)),
        ~Exists(Batch.objects.filter(submitter=OuterRef("pk"))),
        ~Exists(Team.objects.filter(founder=OuterRef("pk"))),
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


def _sweep(model: type[Host | Account], chosen: QuerySet[Any]) -> int:
    with transaction.atomic():
        # Locked by id first and asked again: who came back meanwhile stays.
        ids = list(chosen.values_list("pk", flat=True)[:AT_A_TIME])
        if not ids:
            return 0
        rows = model._default_manager.filter(pk__in=ids).order_by("pk").select_for_update()
        locked = list(rows.values_list("pk", flat=True))
        still = list(chosen.filter(pk__in=locked).values_list("pk", flat=True))
        model._default_manager.filter(pk__in=still).delete()
        return len(still)
