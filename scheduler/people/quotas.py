"""Reads and checks the quotas of submitters.

Accounts with the right `exceed_submission_limits` have no quota.

A submission locks the account's row of ``submitter`` before the check and holds the lock until it
commits, so that two concurrent submissions cannot use the same remaining quota.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from django.db.models import Q, Sum

from scheduler.lifecycle import AssimilateState
from scheduler.models import Account, File, Submitter, SubmitterApp, Workunit
from scheduler.rights import Right
from scheduler.sql import fetch_one


class QuotaExceeded(Exception):
    """A submitter's quota would be exceeded. Hint: see the message."""


@dataclass(frozen=True, slots=True)
class Rights:
    """The apps and limits of a submitter; a limit of None means no limit."""

    all_apps: bool
    apps: tuple[SubmitterApp, ...]
    max_unfinished_workunits: int | None
    max_kept_bytes: int | None


def rights(account: Account) -> Rights:
    """Return the apps for which an account may submit, and its limits."""
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
    """Return the number of unfinished workunits in an account's batches."""
    unfinished = Q(canonical_result__isnull=True, error_mask=0)
    return (
        Workunit.objects.filter(unfinished, batch__submitter=account)
        .filter(assimilate_state=AssimilateState.INIT)
        .count()
    )


def kept_bytes(account: Account) -> int:
    """Return the total bytes of an account's `FileHold` files and of its workunits' inputs.

    A file with several references counts once.  Files on other servers are excluded.
    """
    row = fetch_one("people/read_kept_bytes", {"account_id": account.pk}) or {}
    return int(row["nbytes"])


def kept_output_bytes(account: Account) -> int:
    """Return the total bytes of the outputs that are kept until their batches are retired."""
    row = fetch_one("people/read_kept_outputs", {"account_id": account.pk}) or {}
    return int(row["nbytes"])


def bytes_of(file_ids: Collection[int]) -> int:
    """Return the total bytes of files, excluding files on other servers."""
    total = File.objects.filter(pk__in=file_ids, urls="").aggregate(nbytes=Sum("nbytes"))
    return int(total["nbytes"] or 0)


def lock(account: Account | None) -> None:
    """Lock the submitter's row until the transaction ends, if the account has a limit."""
    if _is_limited(account):
        list(Submitter.objects.select_for_update(no_key=True).filter(account=account))


def require_workunits(account: Account | None, more: int) -> None:
    """Raise `QuotaExceeded` if `more` new workunits would exceed the limit.  Call `lock` first."""
    limits = _limits(account)
    if account is None or limits is None or limits.max_unfinished_workunits is None:
        return
    limit, count = limits.max_unfinished_workunits, unfinished_workunits(account)
    if count + more > limit:
        raise QuotaExceeded(
            f"{account} has {count} unfinished workunits; {more} more would exceed the limit of "
            f"{limit}. "
            "Hint: submit fewer, wait, or ask the project's staff for a higher limit."
        )


def require_bytes(account: Account | None, more: int = 0) -> int:
    """Return the bytes of files and outputs kept for the account; 0 without a limit.

    Raises `QuotaExceeded` if the kept bytes plus `more` bytes would exceed the limit.
    """
    max_bytes = _max_bytes(account)
    if account is None or max_bytes is None:
        return 0
    kept = kept_bytes(account) + kept_output_bytes(account)
    if kept + more > max_bytes:
        raise QuotaExceeded(
            f"{account} would keep {kept + more} bytes of files, and the limit is {max_bytes}. "
            "Hint: give up files, retire batches, or ask the project's staff for a higher limit."
        )
    return kept


class Headroom:
    """Checks the quota of bytes for the chunks of one submission.

    The sum of the account's bytes reads the rows of all its files.  Therefore, the sum is computed
    for the first chunk, and again only when this sum plus the later chunks exceeds the quota.  The
    bytes of concurrent submissions are not counted, so call `require_bytes` at the end.
    """

    def __init__(self) -> None:
        self._used: int | None = None

    def take(self, account: Account | None, file_ids: Collection[int]) -> None:
        """Add the bytes of the stored files `file_ids`; raise `QuotaExceeded` above the quota."""
        max_bytes = _max_bytes(account)
        if max_bytes is None:
            return
        if self._used is not None:
            self._used += bytes_of(file_ids)
            if self._used <= max_bytes:
                return
        self._used = require_bytes(account)


def _max_bytes(account: Account | None) -> int | None:
    limits = _limits(account)
    return None if limits is None else limits.max_kept_bytes


def _is_limited(account: Account | None) -> bool:
    limits = _limits(account)
    return limits is not None and not (
        limits.max_unfinished_workunits is None and limits.max_kept_bytes is None
    )


def _limits(account: Account | None) -> Submitter | None:
    if account is None:
        return None
    # The row is read first, because an account without a limit needs no check of its rights.
    row = Submitter.objects.filter(account=account).first()
    if row is None or (row.max_unfinished_workunits is None and row.max_kept_bytes is None):
        return row
    return None if account.has_right(Right.EXCEED_SUBMISSION_LIMITS) else row
