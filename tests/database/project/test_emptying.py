"""The database of a test is empty for the next test."""

from __future__ import annotations

import pytest

from scheduler.lifecycle import Actor, Axis, Because
from scheduler.models import App, LedgerEntry, Workunit
from tests import emptying
from tests.conftest import NOON
from tests.rows import a_workunit


@pytest.mark.parametrize("max_bytes", [0, emptying.MAX_BYTES])
@pytest.mark.django_db(transaction=True)
def test_all_rows_are_deleted_whether_tables_are_truncated_or_not(monkeypatch, max_bytes):
    monkeypatch.setattr(emptying, "MAX_BYTES", max_bytes)
    LedgerEntry.objects.create(
        at=NOON,
        workunit_id=a_workunit().pk,
        axis=Axis.WORKUNIT,
        source=0,
        target=1,
        because=Because.SUBMITTED,
        by=Actor.SUBMITTER,
    )
    emptying.empty()
    assert not LedgerEntry.objects.exists()
    assert not Workunit.objects.exists()
    assert not App.objects.exists()
