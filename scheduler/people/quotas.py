"""What a submitter may have at once, under the lock of his row.

Accounts with the right `exceed_submission_limits` have no quota.

Two submissions at once cannot both take the last of one: each locks the row of
``submitter`` before it looks, and keeps it until what it adds is committed.
"""

from __future__ import annotations

from collections.abc import Collection

from scheduler.models import Account, Submitter
from scheduler.people.allowances import (
    bytes_of,
    kept_bytes,
    kept_output_bytes,
    unfinished_workunits,
)
from scheduler.rights import Right


class QuotaExceeded(Exception):
    """More than the submitter may have at once. Hint: the message says how to have less."""


def lock(account: Account | None) -> None:
    """Keep others of the same person from adding to what he has, until the transaction ends."""
    if _is_limited(account):
        list(Submitter.objects.select_for_update(no_key=True).filter(account=account))


def require_workunits(account: Account | None, more: int) -> None:
    """Refuse (`QuotaExceeded`) so many more workunits, if that is too much; under `lock`."""
    limits = _limits(account)
    if account is None or limits is None or limits.max_unfinished_workunits is None:
        return
    most, now = limits.max_unfinished_workunits, unfinished_workunits(account)
    if now + more > most:
        msg = (
            f"{account} has {now} unfinished workunits and may have {most}; {more} are too many. "
            "Hint: submit fewer, wait, or ask the project's staff for more."
        )
        raise QuotaExceeded(msg)


def require_bytes(account: Account | None, more: int = 0) -> int:
    """Refuse (`QuotaExceeded`) what is kept, with so many bytes more, if that is too much.

    Files and kept outputs are counted; returns how many bytes they are, 0 if that is not limited.
    """
    most = _most_bytes(account)
    if account is None or most is None:
        return 0
    now = kept_bytes(account) + kept_output_bytes(account)
    if now + more > most:
        msg = (
            f"{account} would have {now + more} bytes of files kept, and may have {most}. "
            "Hint: give up files, retire batches, or ask the project's staff for more."
        )
        raise QuotaExceeded(msg)
    return now


class Room:
    """What one submission may keep, asked chunk by chunk.

    What somebody keeps is added up at first, and anew only if what was held since might not fit: a
    sum for each chunk would cost all that he has, each time.  So others of his are not counted, and
    `require_bytes` has the last word.
    """

    def __init__(self) -> None:
        """Of a submission that has brought nothing yet."""
        self._used: int | None = None

    def take(self, account: Account | None, file_ids: Collection[int]) -> None:
        """Refuse (`QuotaExceeded`) files that are held from now on, if they are too much."""
        most = _most_bytes(account)
        if most is None:
            return
        if self._used is not None:
            self._used += bytes_of(file_ids)
            if self._used <= most:
                return
        self._used = require_bytes(account)


def _most_bytes(account: Account | None) -> int | None:
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
    # The row is read first: without a row or a limit the rights are not needed.
    row = Submitter.objects.filter(account=account).first()
    if row is None or (row.max_unfinished_workunits is None and row.max_kept_bytes is None):
        return row
    return None if account.has_right(Right.EXCEED_SUBMISSION_LIMITS) else row
