"""Looks up outputs for BOINC's submitters, and checks that the link is theirs.

A link to an output contains a hash of the submitter's key and the name or number of the output's
result, workunit or batch, so that it can be passed on without the key.  Other people's outputs are
treated as nonexistent.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar

from django.db.models import QuerySet

from scheduler import signing
from scheduler.models import Account, AccountKey, Batch, Result, ResultFile, Workunit
from scheduler.work.answers import answers_of

#: How many batches of one name are checked: for each, the submitter's keys are read.
_MAX_NAMESAKES = 10


Row = TypeVar("Row", Batch, Result, Workunit)


class Owned(NamedTuple, Generic[Row]):
    """A row that a submitter requests, and the key that proves its owner."""

    row: Row
    submitter: Account
    key: AccountKey


def batch(*, batch_id: int, name: str, key_hash: str) -> Owned[Batch] | None:
    """Return the batch if the hash is by a key of its submitter over its number, else None."""
    if batch_id:
        batches = Batch.objects.select_related("submitter").filter(pk=batch_id)
    else:
        batches = Batch.objects.select_related("submitter").filter(name=name)
    # Several submitters may use the same name; the hash identifies the batch.
    for candidate in batches[:_MAX_NAMESAKES]:
        if key := _key_of(candidate.submitter, key_hash, of=str(candidate.pk)):
            return Owned(candidate, candidate.submitter, key)
    return None


def result(name: str, *, key_hash: str) -> Owned[Result] | None:
    """Return the result if the hash is by a key of its submitter over its name, else None."""
    row = (
        Result.objects.select_related("workunit__batch__submitter")
        .filter(name=name, workunit__batch__isnull=False)
        .first()
    )
    if row is None or row.workunit.batch is None:
        return None
    submitter = row.workunit.batch.submitter
    key = _key_of(submitter, key_hash, of=row.name)
    return Owned(row, submitter, key) if key else None


def workunit_by_name(name: str, *, key: str) -> Owned[Workunit] | None:
    """Return the workunit of this name if the key is its submitter's, else None."""
    workunit = _in_batches().filter(name=name).first()
    if workunit is None or workunit.batch is None:
        return None
    submitter = workunit.batch.submitter
    for row, text in _keys(submitter):
        if _is_same(text, key):
            return Owned(workunit, submitter, row)
    return None


def workunit(workunit_id: int, *, key_hash: str) -> Owned[Workunit] | None:
    """Return the workunit if the hash is by a key of its submitter over its number, else None."""
    workunit = _in_batches().filter(pk=workunit_id).first()
    if workunit is None or workunit.batch is None:
        return None
    submitter = workunit.batch.submitter
    key = _key_of(submitter, key_hash, of=str(workunit_id))
    return Owned(workunit, submitter, key) if key else None


def output(result_id: int, position: int) -> ResultFile | None:
    """Return the output of a result at this position, or None."""
    return ResultFile.objects.filter(result_id=result_id, position=position).first()


def outputs_of(batch_id: int, *, workunit_id: int | None = None) -> Iterator[tuple[str, int]]:
    """Yield (physical name, bytes) of each output of the canonical results of a batch or workunit.

    They are read page by page, as by `answers_of`.
    """
    for answer in answers_of(batch_id, workunit_id=workunit_id):
        for answer_output in answer.outputs:
            yield answer_output.name, answer_output.nbytes


def _in_batches() -> QuerySet[Workunit]:
    return Workunit.objects.select_related("batch__submitter").filter(batch__isnull=False)


def _key_of(account: Account, key_hash: str, *, of: str) -> AccountKey | None:
    """Return the account's key that the hash was made with, or None."""
    for row, text in _keys(account):
        if _is_same(hashlib.md5((text + of).encode(), usedforsecurity=False).hexdigest(), key_hash):
            return row
    return None


def _is_same(expected: str, received: str) -> bool:
    return hmac.compare_digest(expected.encode(), received.encode("utf-8", "replace"))


def _keys(account: Account) -> Iterator[tuple[AccountKey, str]]:
    """Yield the submission keys of an account with their texts."""
    if not account.is_active:
        return
    submission_keys = account.keys.filter(kind=AccountKey.Kind.SUBMISSION, revoked_at__isnull=True)
    for key in submission_keys:
        yield key, signing.unseal(bytes(key.sealed))
