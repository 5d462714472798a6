"""Staff set and clear the target of workunits that were not sent."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler.lifecycle import Target
from scheduler.models import AuditEntry, Queue, Refusal, Result, Team, Workunit, WorkunitWakeup
from scheduler.people import audit
from scheduler.work.control import WorkunitsNotFound
from scheduler.work.targets import retarget
from scheduler.work.targets.retarget import BadTarget, WorkTarget
from tests.conftest import NOON
from tests.database.waiting import change_during_claim
from tests.rows import a_host, a_result, a_workunit, an_account, an_app, refuse, settled, update

pytestmark = pytest.mark.django_db

EVERYBODY = WorkTarget()


def one(**fields) -> Workunit:
    """Create a workunit that needs one result."""
    return a_workunit(**({"min_quorum": 1, "target_nresults": 1, "transition_at": None} | fields))


def host_target(host=None) -> WorkTarget:
    return WorkTarget(Target.HOST, (host or a_host()).pk)


def apply(target: WorkTarget, *workunits: Workunit) -> retarget.Retargeting:
    done = retarget.retarget([workunit.pk for workunit in workunits], target, now=NOON)
    for workunit in workunits:
        workunit.refresh_from_db()
    return done


def targets_of(workunit: Workunit) -> list[tuple[int, int]]:
    rows = Result.objects.filter(workunit=workunit).order_by("attempt")
    return list(rows.values_list("target_kind", "target_id"))


def test_workunit_and_its_unsent_results_get_each_kind_of_target():
    workunit = one()
    a_result(workunit)
    a_result(workunit, "inactive")
    team = Team.objects.create(name="t", founder=an_account(), created_at=NOON)
    for kind, row in (
        (Target.HOST, a_host()),
        (Target.ACCOUNT, an_account()),
        (Target.TEAM, team),
    ):
        assert apply(WorkTarget(kind, row.pk), workunit).changed == 1
        ids = (workunit.target_host_id, workunit.target_account_id, workunit.target_team_id)
        assert ids[kind - 1] == row.pk
        assert ids.count(None) == 2
        assert targets_of(workunit) == [(kind, row.pk)] * 2
    assert apply(EVERYBODY, workunit).changed == 1
    assert workunit.target_team_id is None
    assert targets_of(workunit) == [(Target.EVERYBODY, 0)] * 2


def test_workunits_are_counted_by_the_reason_why_they_do_not_change():
    host = a_host()
    target = host_target(host)
    free, late, cancelled = one(), one(), one(cancel_requested_at=NOON)
    finished = settled(one())
    sent, failed = one(), one()
    a_result(sent, "sent", host=a_host())
    a_result(failed, "error", host=a_host())
    a_result(failed)
    replicated = one(min_quorum=2, target_nresults=2)
    queue = Queue.objects.create(name="q", created_at=NOON)
    queued = one(queue=queue)
    everyone = one(broadcast=True, end_before=NOON)
    update(late, target_host=host)
    chosen = (free, late, cancelled, finished, sent, failed, replicated, queued, everyone)
    before = retarget.preview([workunit.pk for workunit in chosen], target, now=NOON)
    assert Workunit.objects.filter(target_host=host).count() == 1
    done = apply(target, *chosen)
    assert done == before
    numbers = (done.changed, done.already, done.finished, done.sent, done.replicated, done.bound)
    assert numbers == (1, 1, 2, 2, 1, 2)
    assert done.names == (free.name,)
    assert set(Workunit.objects.filter(target_host=host)) == {free, late}


def test_replicated_work_can_be_for_an_account_only_if_it_may_have_several_results():
    strict, loose = an_app(), an_app(one_result_per="host")
    workunits = [one(app=app, min_quorum=2, target_nresults=2) for app in (strict, loose)]
    done = apply(WorkTarget(Target.ACCOUNT, an_account().pk), *workunits)
    assert (done.changed, done.replicated) == (1, 1)
    assert workunits[1].target_account_id is not None
    team = Team.objects.create(name="t", founder=an_account(), created_at=NOON)
    assert apply(WorkTarget(Target.TEAM, team.pk), *workunits).changed == 2


def test_refusals_by_other_hosts_are_dropped_and_the_transitioner_is_woken():
    workunit, other = one(hard_to_send_at=NOON, unsendable_at=NOON), one()
    for each in (workunit, other):
        refuse(each, a_host())
    apply(host_target(), workunit)
    assert list(Refusal.objects.values_list("workunit_id", flat=True)) == [other.pk]
    assert (workunit.hard_to_send_at, workunit.unsendable_at) == (None, None)
    assert list(WorkunitWakeup.objects.values_list("workunit_id", flat=True)) == [workunit.pk]


def test_audit_entry_names_the_person_the_target_and_the_workunits():
    chief, workunit, sent = an_account("chief"), one(), one()
    a_result(sent, "sent", host=a_host())
    target = host_target()
    with audit.acting(account_id=chief.pk, name=chief.email):
        apply(target, workunit, sent)
    entry = AuditEntry.objects.get(event="action_taken")
    assert (entry.account_id, entry.actor) == (chief.pk, chief.email)
    assert entry.details == {
        "action": "retarget",
        "target": f"host {target.id}",
        "changed": 1,
        "ids": [workunit.pk],
        "more": False,
    }


@pytest.mark.parametrize("kind", [Target.HOST, Target.ACCOUNT, Target.TEAM])
def test_unknown_target_is_refused(kind):
    workunit = one()
    name = retarget.KINDS[kind]
    for call in (retarget.retarget, retarget.preview):
        with pytest.raises(BadTarget, match=f"There is no {name} 987654321. Hint: look up"):
            call([workunit.pk], WorkTarget(kind, 987654321), now=NOON)
    assert not AuditEntry.objects.exists()


def test_merged_and_deleted_hosts_are_refused():
    kept, merged = a_host(), a_host()
    update(merged, merged_into=kept)
    deleted = a_host()
    update(deleted, merged_into=deleted)
    with pytest.raises(BadTarget, match=f"was merged into host {kept.pk}"):
        apply(host_target(merged), one())
    with pytest.raises(BadTarget, match="was deleted by its owner"):
        apply(host_target(deleted), one())


def test_unknown_workunit_is_refused_and_nothing_changes():
    workunit = one()
    with pytest.raises(WorkunitsNotFound, match="#987654321"):
        retarget.retarget([workunit.pk, 987654321], host_target(), now=NOON)
    workunit.refresh_from_db()
    assert workunit.target_host_id is None


def test_denied_host_and_adaptive_app_cause_warnings():
    host = a_host(denied=True)
    done = apply(host_target(host), one(app=an_app("wave", target_nresults=2)))
    denied, adaptive = done.warnings
    assert denied.startswith(f"Host {host.pk} is denied work")
    assert adaptive.startswith("App wave creates several results if a host is not trusted")
    assert apply(host_target(), one()).warnings == ()


def test_number_of_statements_is_constant():
    counts = []
    for number in (1, 30):
        workunits = [one() for _ in range(number)]
        with CaptureQueriesContext(connection) as captured:
            retarget.retarget([each.pk for each in workunits], host_target(), now=NOON)
        counts.append(len(captured))
    assert counts[0] == counts[1]


@pytest.mark.django_db(transaction=True)
def test_a_workunit_that_is_claimed_meanwhile_keeps_its_target(other):
    """The change waits for the claim's lock, and then sees the sent result."""
    workunit, host = one(), a_host()
    result, target = a_result(workunit), host_target()
    outcome = change_during_claim(
        other, result, host, lambda: retarget.retarget([workunit.pk], target, now=NOON)
    )
    assert (outcome.changed, outcome.sent) == (0, 1)
    workunit.refresh_from_db()
    assert workunit.target_host_id is None
    assert targets_of(workunit) == [(Target.EVERYBODY, 0)]
