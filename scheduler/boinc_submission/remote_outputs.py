"""Looks up outputs for BOINC's submitters, and checks the hash in the link.

A link to an output contains the name or number of the output's result, workunit or batch, and a
hash of this name or number and the submitter's key.  So links can be shared without the key.  Other
submitters' outputs are treated as nonexistent.
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

#: The maximum number of batches with the same name that are checked, because each check reads keys.
_MAX_NAMESAKES = 10


Row = TypeVar("Row", Batch, Result, Workunit)


class Owned(NamedTuple, Generic[Row]):
    """A requested row, its submitter, and the submitter's key that matched the request."""

    row: Row
    submitter: Account
    key: AccountKey


def batch(*, batch_id: int, name: str, key_hash: str) -> Owned[Batch] | None:
    """Return the batch if `key_hash` matches a key of its submitter, else None."""
    batches = Batch.objects.select_related("submitter")
    batches = batches.filter(pk=batch_id) if batch_id else batches.filter(name=name)
    # Several submitters may use the same name; the hash identifies the batch.
    owned = (_owned(row, row, key_hash, of=str(row.pk)) for row in batches[:_MAX_NAMESAKES])
    return next(filter(None, owned), None)


def result(name: str, *, key_hash: str) -> Owned[Result] | None:
    """Return the result if `key_hash` matches a key of its submitter, else None."""
    results = Result.objects.select_related("workunit__batch__submitter")
    row = results.filter(name=name, workunit__batch__isnull=False).first()
    return _owned(row, row.workunit.batch, key_hash, of=row.name) if row else None


def workunit_by_name(name: str, *, key: str) -> Owned[Workunit] | None:
    """Return the workunit of this name if `key` is a key of its submitter, else None."""
    row = _in_batches().filter(name=name).first()
    return _owned(row, row.batch, key, of=None) if row else None


def workunit(workunit_id: int, *, key_hash: str) -> Owned[Workunit] | None:
    """Return the workunit if `key_hash` matches a key of its submitter, else None."""
    row = _in_batches().filter(pk=workunit_id).first()
    return _owned(row, row.batch, key_hash, of=str(row.pk)) if row else None


def output(result_id: int, position: int) -> ResultFile | None:
    """Return the output of a result at this position, or None if there is no such output."""
    return ResultFile.objects.filter(result_id=result_id, position=position).first()


def outputs_of(batch_id: int, *, workunit_id: int | None = None) -> Iterator[tuple[str, int]]:
    """Yield (physical name, bytes) of each output of the canonical results of a batch or workunit.

    The outputs are read page by page (`answers_of`).
    """
    for answer in answers_of(batch_id, workunit_id=workunit_id):
        for answer_output in answer.outputs:
            yield answer_output.name, answer_output.nbytes


def _in_batches() -> QuerySet[Workunit]:
    return Workunit.objects.select_related("batch__submitter").filter(batch__isnull=False)


def _owned(row: Row, batch: Batch | None, received: str, *, of: str | None) -> Owned[Row] | None:
    """Return the row if `received` matches a key of the batch's submitter, else None.

    `received` must be a key, or, if `of` is given, the MD5 of a key followed by `of`.
    """
    if batch is None:
        return None
    for key, text in _keys(batch.submitter):
        md5 = hashlib.md5((text + (of or "")).encode(), usedforsecurity=False).hexdigest()
        if _is_same(text if of is None else md5, received):
            return Owned(row, batch.submitter, key)
    return None


def _is_same(expected: str, received: str) -> bool:
    return hmac.compare_digest(expected.encode(), received.encode("utf-8", "replace"))


def _keys(account: Account) -> Iterator[tuple[AccountKey, str]]:
    """Yield (key, plain text) for each valid submission key of an account."""
    if not account.is_active:
        return
    submission_keys = account.keys.filter(kind=AccountKey.Kind.SUBMISSION, revoked_at__isnull=True)
    for key in submission_keys:
        yield key, signing.unseal(bytes(key.sealed))
