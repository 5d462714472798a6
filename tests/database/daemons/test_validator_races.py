"""While a validator runs, it holds no lock, and concurrent reports are kept."""

from __future__ import annotations

from datetime import timedelta

import pytest

from daemons import transitioner, validator
from daemons.science import worker
from daemons.validator import settling, turns
from scheduler.models import Workunit
from tests import rows
from tests.conftest import NOON
from tests.database.daemons.test_interleavings import Meanwhile, report, stopped_in
from tests.database.daemons.test_validator_science import an_app, asking
from tests.database.passes import a_pass, moves

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("targets_allowed"),
]


@pytest.fixture(autouse=True)
def fresh_memory(monkeypatch):
    monkeypatch.setattr(turns, "_hangs", {})
    monkeypatch.setattr(turns, "_suspended_until", {})
    yield
    worker.stop()


def judged(workunit):
    return list(workunit.results.order_by("id").values_list("validate_state", flat=True))


def test_a_report_during_a_comparison_does_not_wait_and_is_not_lost(monkeypatch):
    workunit, _results = asking("apple", "ant", app=an_app())
    late = rows.a_result(workunit, "sent")
    with stopped_in(monkeypatch, turns, "_ask") as (arrived, go):
        comparing = Meanwhile(lambda: a_pass(validator))
        assert arrived.wait(20)
        report(late.pk, at=NOON)
        a_pass(transitioner)
        go.set()
        assert comparing.wait().done["results valid"] == 2
    workunit.refresh_from_db()
    assert workunit.need_validate
    assert rows.due_at(workunit) == NOON
    assert judged(workunit) == [1, 1, 0]


def test_two_concurrent_validators_validate_different_workunits_without_waiting(monkeypatch):
    app = an_app()
    first, second = (asking("apple", "ant", app=app)[0] for _ in range(2))
    with stopped_in(monkeypatch, turns, "_ask") as (arrived, go):
        one = Meanwhile(lambda: a_pass(validator, limit=1))
        assert arrived.wait(20)
        assert a_pass(validator).done["with a canonical result"] == 1
        assert judged(first) == [0, 0]
        assert judged(second) == [1, 1]
        go.set()
        assert one.wait().done["with a canonical result"] == 1
    assert judged(first) == [1, 1]


def test_validator_with_an_expired_lease_neither_waits_nor_settles(monkeypatch):
    workunit, (result, _other) = asking("apple", "ant", app=an_app())
    later = NOON + timedelta(hours=1)
    with stopped_in(monkeypatch, turns, "_ask") as (arrived, go):
        one = Meanwhile(lambda: a_pass(validator))
        assert arrived.wait(20)
        with stopped_in(monkeypatch, settling, "_move_results") as (is_settling, finish):
            other = Meanwhile(lambda: a_pass(validator, now=later))
            assert is_settling.wait(20)
            go.set()
            assert one.wait().done == {"settled by another": 1}
            finish.set()
            assert other.wait().done["results valid"] == 2
    assert moves(result) == ["validation: INIT→VALID"]
    assert rows.due_at(Workunit.objects.get(pk=workunit.pk)) == later
