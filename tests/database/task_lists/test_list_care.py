"""Task lists in fsck, explain, the purge, retries, merged hosts and the admin."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from daemons import housekeeper, purger
from scheduler.health.invariants import invariants
from scheduler.hosts.merge_hosts import merge
from scheduler.models import Batch, Bundle, BundleMember, Result, Workunit
from scheduler.work import explain, retry
from scheduler.work.rules import grouping
from scheduler.work.submission.submission_checks import SubmissionRefused
from tests.lists import an_app_with_lists, passes, state, submitted
from tests.scripted_client import a_client

pytestmark = pytest.mark.django_db(transaction=True)


def broken() -> dict[str, list[str]]:
    violations = {each.name: each.find(timezone.now()) for each in invariants()}
    return {name: [v.name for v in rows] for name, rows in violations.items() if rows}


def damaged(statement: str) -> dict[str, list[str]]:
    """Run a statement without guard triggers; return the violations of task lists."""
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(statement)
        cursor.execute("SET session_replication_role = DEFAULT")
    return {name: rows for name, rows in broken().items() if "bundle" in name}


def running() -> tuple[Bundle, object]:
    submitted(an_app_with_lists(), "a", "a")
    client = a_client()
    client.ask()
    client.ask_for_work()
    passes()
    return Bundle.objects.get(), client


def test_fsck_finds_no_violation_in_the_life_of_a_list():
    bundle, client = running()
    assert damaged("SELECT 1") == {}
    client.report("wu0_0", "wu1_0")
    passes()
    assert state(bundle) == "closed"
    assert damaged("SELECT 1") == {}


def test_fsck_finds_a_list_whose_state_differs_from_its_members():
    bundle, _client = running()
    violations = damaged(
        "UPDATE bundle SET state = 1, host_id = NULL, started_at = NULL, is_ready = TRUE"
    )
    assert violations["bundles_follow_their_members"] == [f"task list {bundle.pk}"]


def test_fsck_finds_a_closed_list_with_unfinished_members():
    submitted(an_app_with_lists(), "a")
    violations = damaged("UPDATE bundle SET state = 3, is_ready = FALSE, finished_at = now()")
    assert list(violations) == ["bundles_follow_their_members"]


def test_fsck_finds_a_member_on_another_host():
    _bundle, _client = running()
    other = a_client(email="bob@example.org", name="other")
    other.ask()
    violations = damaged(f"UPDATE result SET host_id = {other.hostid} WHERE name = 'wu1_0'")
    assert violations["running_bundles_have_one_host"] == ["wu1_0"]


def test_fsck_finds_a_workunit_that_is_no_member_of_its_list():
    running()
    violations = damaged(
        "DELETE FROM bundle_member WHERE workunit_id = (SELECT id FROM workunit WHERE name = 'wu1')"
    )
    assert violations["bundle_members_exist"] == ["wu1"]


def explained(name: str) -> str:
    workunit = Workunit.objects.get(name=name)
    return "\n".join(explain.reasons_of(workunit.pk, now=timezone.now()))


def test_explain_describes_the_list_of_an_unsent_member():
    submitted(an_app_with_lists(), "a", "a")
    bundle = Bundle.objects.get()
    sentence = f"is sent with task list {bundle.pk} of 2 workunits, which can be claimed by a host"
    assert sentence in explained("wu0")
    Result.objects.filter(name="wu1_0").update(server_state=1)
    assert "waits, because these members have no unsent result: wu1" in explained("wu0")


def test_explain_describes_a_workunit_that_waits_for_a_list():
    from scheduler.work.submission.facts import NewBatch

    submitted(an_app_with_lists(), None, batch=NewBatch(name="sized", bundle_size=5))
    assert "waits for a task list, which the server makes" in explained("wu0")


def test_purge_leaves_no_reference_to_a_purged_workunit():
    bundle, client = running()
    client.report("wu0_0", "wu1_0")
    passes()
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        Workunit.objects.filter(name="wu0").update(
            assimilate_state=2,
            file_delete_state=2,
            finished_at=timezone.now(),
            transition_at=None,
            error_mask=16,
            need_validate=False,
        )
        Result.objects.filter(name="wu0_0").update(file_delete_state=2)
        cursor.execute("DELETE FROM workunit_wakeup")
        cursor.execute("SET session_replication_role = DEFAULT")
    later = timezone.now() + timedelta(days=40)
    assert purger.run_pass(now=later, limit=100).counts["purged"] == 1
    assert not Workunit.objects.filter(name="wu0").exists()
    [member] = BundleMember.objects.all()
    assert member.bundle_id == bundle.pk
    assert "bundle_members_exist" not in broken()


def test_housekeeper_drops_closed_lists_without_members():
    bundle, client = running()
    client.report("wu0_0", "wu1_0")
    passes()
    later = timezone.now() + timedelta(days=2)
    housekeeper.run_pass(now=later, limit=100)
    assert Bundle.objects.filter(pk=bundle.pk).exists()
    BundleMember.objects.all().delete()
    housekeeper.run_pass(now=later + timedelta(days=2), limit=100)
    assert not Bundle.objects.exists()


def test_retry_of_a_failed_member_waits_for_another_list():
    submitted(an_app_with_lists(), "a", max_error_results=0)
    client = a_client()
    client.ask()
    client.ask_for_work()
    client.report("wu0_0", state=3, exit_status=1, upload=None)
    passes()
    batch = Batch.objects.get()
    retry.retry(batch.pk, names=None, now=timezone.now())
    again = Workunit.objects.get(name="wu0.2")
    assert again.bundle_id == 0
    assert again.expected_duration == Workunit.objects.get(name="wu0").expected_duration


def test_lists_follow_a_merged_host():
    bundle, client = running()
    other = a_client(name="other")
    other.ask()
    merge(kept_id=other.hostid, merged_id=client.hostid)
    bundle.refresh_from_db()
    assert bundle.host_id == other.hostid


def test_member_that_continues_another_workunit_is_refused():
    app = an_app_with_lists()
    with pytest.raises(SubmissionRefused, match="wu1 is a member of task list 'a'"):
        submitted(app, None, "a", continuations=("wu1",))
    assert not Workunit.objects.exists()


def test_app_with_adaptive_replication_has_no_lists():
    app = an_app_with_lists(target_nresults=2)
    with pytest.raises(SubmissionRefused, match="adaptive replication"):
        submitted(app, "a")


def test_wait_of_an_incomplete_list_is_short():
    assert timedelta(seconds=1) <= grouping.MAX_WAIT <= timedelta(minutes=1)
