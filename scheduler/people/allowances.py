"""Reads: what an account may submit, and how much of its quota is used."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from django.db.models import Q, Sum

from scheduler.lifecycle import AssimilateState
from scheduler.models import Account, File, Submitter, SubmitterApp, Workunit
from scheduler.rights import Right
from scheduler.sql import fetch_one


@dataclass(frozen=True, slots=True)
class Rights:
    """The apps and limits of an account that submits; None means no limit."""

    all_apps: bool
    apps: tuple[SubmitterApp, ...]
    max_unfinished_workunits: int | None
    max_kept_bytes: int | None


def rights(account: Account) -> Rights:
    """Return what an account may submit."""
    every_app = account.has_right(Right.SUBMIT_FOR_EVERY_APP)
    submitter = Submitter.objects.filter(account=account).first()
    if submitter is None:
        return Rights(every_app, (), None, None)
    apps = SubmitterApp.objects.filter(submitter=submitter).select_related("app")
    unlimited = account.has_right(Right.EXCEED_SUBMISSION_LIMITS)
    return Rights(
        all_apps=submitter.all_apps or every_app,
        apps=tuple(apps.order_by("app__name")),
        max_unfinished_workunits=None if unlimited else submitter.max_unfinished_workunits,
        max_kept_bytes=None if unlimited else submitter.max_kept_bytes,
    )


def unfinished_workunits(account: Account) -> int:
    """Count the workunits of an account's batches that are not over."""
    unfinished = Q(canonical_result__isnull=True, error_mask=0)
    return (
        Workunit.objects.filter(unfinished, batch__submitter=account)
        .filter(assimilate_state=AssimilateState.INIT)
        .count()
    )


def kept_bytes(account: Account) -> int:
    """Return the bytes of an account's held files and its workunits' inputs, each file once."""
    row = fetch_one("people/read_kept_bytes", {"account_id": account.pk}) or {}
    return int(row["nbytes"])


def kept_output_bytes(account: Account) -> int:
    """Return the bytes of outputs that are kept for an account until it retires their batches."""
    row = fetch_one("people/read_kept_outputs", {"account_id": account.pk}) or {}
    return int(row["nbytes"])


def bytes_of(file_ids: Collection[int]) -> int:
    """Return the total bytes of files, without those that hosts fetch from other servers."""
    total = File.objects.filter(pk__in=file_ids, urls="").aggregate(nbytes=Sum("nbytes"))
    return int(total["nbytes"] or 0)
