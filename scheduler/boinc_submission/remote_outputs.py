"""Reads where BOINC's submitters find outputs, and whether it is they who ask.

A link to an output carries a hash of the submitter's key and of what it leads to, so that it may
be handed on without the key.  Whoever asks for what is another's is told what he would be told if
it did not exist.
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

#: So many batches of one name are looked through: each costs its submitter's keys.
_NAMESAKES = 10


Row = TypeVar("Row", Batch, Result, Workunit)


class Owned(NamedTuple, Generic[Row]):
    """A row that a submitter requests, and the key that proves its owner."""

    row: Row
    submitter: Account
    key: AccountKey


def batch(*, batch_id: int, name: str, said: str) -> Owned[Batch] | None:
    """Return the batch if the hash is by a key of its submitter over its number, else None."""
    if batch_id:
        found = Batch.objects.select_related("submitter").filter(pk=batch_id)
    else:
        found = Batch.objects.select_related("submitter").filter(name=name)
    # Names are each submitter's own: the hash says which of them is meant.
    for one in found[:_NAMESAKES]:
        if key := _key_of(one.submitter, said, of=str(one.pk)):
            return Owned(one, one.submitter, key)
    return None


def result(name: str, *, said: str) -> Owned[Result] | None:
    """Return the result if the hash is by a key of its submitter over its name, else None."""
    found = (
        Result.objects.select_related("workunit__batch__submitter")
        .filter(name=name, workunit__batch__isnull=False)
        .first()
    )
    if found is None or found.workunit.batch is None:
        return None
    submitter = found.workunit.batch.submitter
    key = _key_of(submitter, said, of=found.name)
    return Owned(found, submitter, key) if key else None


def workunit_by_name(name: str, *, key: str) -> Owned[Workunit] | None:
    """Return the workunit of this name if the key is its submitter's, else None."""
    found = _in_batches().filter(name=name).first()
    if found is None or found.batch is None:
        return None
    submitter = found.batch.submitter
    for row, text in _keys(submitter):
        if _is_same(text, key):
            return Owned(found, submitter, row)
    return None


def workunit(workunit_id: int, *, said: str) -> Owned[Workunit] | None:
    """Return the workunit if the hash is by a key of its submitter over its number, else None."""
    found = _in_batches().filter(pk=workunit_id).first()
    if found is None or found.batch is None:
        return None
    submitter = found.batch.submitter
    key = _key_of(submitter, said, of=str(workunit_id))
    return Owned(found, submitter, key) if key else None


def output(result_id: int, position: int) -> ResultFile | None:
    """One output of a result; None if it did not bring one there."""
    return ResultFile.objects.filter(result_id=result_id, position=position).first()


def outputs_of(batch_id: int, *, workunit_id: int | None = None) -> Iterator[tuple[str, int]]:
    """(physical name, bytes) of each output of a batch's canonical results, or of one workunit's.

    Read page by page, as `answers_of`.
    """
    for answer in answers_of(batch_id, workunit_id=workunit_id):
        for one in answer.outputs:
            yield one.name, one.nbytes


def _in_batches() -> QuerySet[Workunit]:
    return Workunit.objects.select_related("batch__submitter").filter(batch__isnull=False)


def _key_of(account: Account, said: str, *, of: str) -> AccountKey | None:
    """Return the account's key that the hash was made with, or None."""
    for row, text in _keys(account):
        if _is_same(hashlib.md5((text + of).encode(), usedforsecurity=False).hexdigest(), said):
            return row
    return None


def _is_same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode("utf-8", "replace"))


def _keys(account: Account) -> Iterator[tuple[AccountKey, str]]:
    """Yield the submission keys of an account with their texts."""
    if not account.is_active:
        return
    submission_keys = account.keys.filter(kind=AccountKey.Kind.SUBMISSION, revoked_at__isnull=True)
    for key in submission_keys:
        yield key, signing.unseal(bytes(key.sealed))
