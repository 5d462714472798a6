"""Submitters cannot end a hold by staff; staff can take over a submitter's hold."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from daemons import transitioner
from scheduler.lifecycle import ReleaseState
from scheduler.models import Dependency, Workunit
from scheduler.people import submitters
from scheduler.work import control
from tests.conftest import NOON
from tests.database.passes import a_pass
from tests.rows import an_account
from tests.scientists import Scientist, a_batch, in_batch

pytestmark = pytest.mark.django_db

BY_STAFF = (ReleaseState.HELD, None)


@pytest.fixture
def ada() -> Scientist:
    account = an_account("ada")
    submitters.allow(account, apps=None, now=NOON)
    return Scientist(account)


@pytest.fixture
def held(ada: Scientist) -> Workunit:
    """A workunit of the submitter that staff hold."""
    workunit = in_batch(a_batch(submitter=ada.account))
    control.hold(ids=[workunit.pk], now=NOON)
    return workunit


def hold_of(workunit: Workunit) -> tuple[int, int | None]:
    workunit.refresh_from_db()
    return workunit.release_state, workunit.hold_code


@pytest.mark.parametrize(
    "named",
    [
        lambda workunit: {"ids": [workunit.pk]},
        lambda workunit: {"names": [workunit.name], "hold_code": -7},
        lambda workunit: {"batch": workunit.batch_id},
    ],
    ids=["by id", "by name", "by batch"],
)
def test_a_submitter_cannot_take_over_a_hold_by_staff(
    ada: Scientist, held: Workunit, named: Callable[[Workunit], dict[str, object]]
) -> None:
    answer = ada.post("workunits/hold", named(held))
    assert answer.json() == {"held": 0, "already": 0, "finished": 0, "impossible": 1}
    assert hold_of(held) == BY_STAFF
    assert ada.post("workunits/release", {"ids": [held.pk]}).json()["released"] == 0
    assert hold_of(held) == BY_STAFF


def test_a_submitter_holds_the_other_workunits_of_the_batch(ada: Scientist, held: Workunit) -> None:
    free = in_batch(held.batch)
    assert ada.post("workunits/hold", {"batch": held.batch_id}).json()["held"] == 1
    assert (hold_of(free), hold_of(held)) == ((ReleaseState.HELD, -4), BY_STAFF)


def test_a_dependency_does_not_end_a_hold_by_staff(ada: Scientist, held: Workunit) -> None:
    parent = in_batch(held.batch)
    answer = ada.post(f"workunits/{parent.pk}/add_continuations", {"ids": [held.pk]})
    assert answer.status_code == 409, answer.content
    assert "is held by staff" in answer.json()["detail"]
    assert not Dependency.objects.exists()
    a_pass(transitioner)
    assert hold_of(held) == BY_STAFF


def test_a_hold_by_staff_replaces_the_hold_of_a_submitter(ada: Scientist) -> None:
    workunit = in_batch(a_batch(submitter=ada.account))
    ada.post("workunits/hold", {"ids": [workunit.pk], "hold_code": -7})
    assert control.hold(ids=[workunit.pk], now=NOON).changed == 1
    assert hold_of(workunit) == BY_STAFF
    assert ada.post("workunits/release", {"ids": [workunit.pk]}).json()["impossible"] == 1
    assert hold_of(workunit) == BY_STAFF


def test_staff_hold_without_a_code_over_the_api(ada: Scientist) -> None:
    workunit = in_batch(a_batch(submitter=ada.account))
    staff = Scientist(name="eve", is_superuser=True)
    assert staff.post("workunits/hold", {"ids": [workunit.pk]}).json()["held"] == 1
    assert hold_of(workunit) == BY_STAFF
    assert ada.post("workunits/release", {"ids": [workunit.pk]}).json()["impossible"] == 1
    staff.post("workunits/hold", {"ids": [workunit.pk], "hold_code": -7})
    assert hold_of(workunit) == (ReleaseState.HELD, -7)
