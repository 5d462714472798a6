"""Python code and statements derive the same status of a workunit."""

from __future__ import annotations

import pytest

from scheduler.models import Workunit
from scheduler.work.explain import workunit_facts
from scheduler.work.progress import progress_of, status
from scheduler.work.rules.statuses import Status, status_of
from tests.conftest import NOON
from tests.rows import a_result, a_workunit, hours, settled
from tests.scientists import a_batch

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("results", "fields", "expected"),
    [
        ("", {}, Status.UNSENT),
        ("unsent", {}, Status.UNSENT),
        ("error unsent", {}, Status.UNSENT),
        ("", {"release_state": 1, "pending_dependency_count": 1}, Status.WAITING),
        ("inactive", {"release_state": 2}, Status.WAITING),
        ("sent", {"release_state": 2}, Status.IN_PROGRESS),
        ("", {"start_after": hours(1)}, Status.WAITING),
        ("unsent", {"start_after": NOON}, Status.UNSENT),
        ("sent unsent", {}, Status.IN_PROGRESS),
        ("noreply sent", {}, Status.IN_PROGRESS),
        ("success sent", {}, Status.VALIDATING),
        ("inconclusive unsent", {}, Status.VALIDATING),
        ("invalid unsent", {}, Status.UNSENT),
        ("unreadable sent", {}, Status.IN_PROGRESS),
        ("valid sent", {"done": True}, Status.DONE),
        ("success", {"failed": True}, Status.FAILED),
    ],
)
def test_every_source_derives_the_same_status(results, fields, expected):
    ending = {name for name in ("done", "failed") if fields.pop(name, False)}
    batch = a_batch()
    workunit = a_workunit(batch=batch, **fields)
    made = [a_result(workunit, word) for word in results.split()]
    if ending:
        settled(workunit, made[0] if "done" in ending else None)
    assert status_of(workunit_facts(workunit.pk), now=NOON) is expected
    assert Workunit.objects.annotate(status=status(NOON)).get().status == expected
    counted = progress_of([batch], now=NOON)[batch.pk]
    assert {word: getattr(counted, word) for word in Status} == {
        word: int(word == expected) for word in Status
    }
