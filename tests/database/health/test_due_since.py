"""The time since which the oldest work of each daemon has been due."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.conf import settings
from django.utils import timezone

from daemons import assimilator, file_deleter, purger, registry, transitioner, validator
from daemons.housekeeper import CHORES
from scheduler import storage
from scheduler.health import alerts, daemon_activity, status
from scheduler.health.counts import LATE_CHORE
from scheduler.lifecycle import Axis, FileDeleteState, next_moves
from scheduler.models import File, Heartbeat, LedgerEntry, ScienceFailure, TrickleUp, Workunit
from tests.conftest import NOON
from tests.database.passes import a_pass
from tests.rows import a_host, a_result, a_workunit, an_app, settled, update
from tests.scripted_client import a_client
from tests.work import an_app as a_served_app
from tests.work import workunits

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
LONG_AGO = NOON - 2 * HOUR
READY, DONE = FileDeleteState.READY, FileDeleteState.DONE


def since(daemon, now=NOON):
    return daemon_activity.due_since(now=now)[daemon]


def moved(workunit, axis, result=None, at=LONG_AGO):
    """Record a first move on an axis."""
    move = next_moves(axis, 0)[0]
    LedgerEntry.objects.create(
        at=at,
        workunit_id=workunit.pk,
        result_id=result and result.pk,
        axis=move.axis,
        source=move.source,
        target=move.target,
        because=move.because,
        by=move.by,
    )


def park(stage, subject, app):
    ScienceFailure.objects.create(
        stage=stage, subject_id=subject.pk, app=app, failures=5, error="x", failed_at=NOON,
        parked_at=NOON,
    )  # fmt: skip


def test_every_daemon_is_on_the_desk_in_the_order_of_the_registry():
    assert [daemon.name for daemon in registry.DAEMONS] == list(status.DAEMONS)
    queued = {daemon.name for daemon in registry.DAEMONS} - {"work_generator"}
    assert daemon_activity.due_since(now=NOON) == dict.fromkeys(queued)


def test_timeout_checker_is_behind_from_the_first_passed_deadline_or_look():
    a_result(a_workunit(transition_at=None), "sent", report_deadline=NOON + HOUR)
    assert since("timeout_checker") is None
    a_result(a_workunit(transition_at=None), "sent", report_deadline=NOON - HOUR)
    assert since("timeout_checker") == NOON - HOUR
    Workunit.objects.filter(pk=a_workunit().pk).update(transition_at=LONG_AGO)
    assert since("timeout_checker") == LONG_AGO


def test_validator_is_behind_from_the_retry_after_a_failure():
    workunit = a_workunit(transition_at=None, need_validate=True)
    a_result(workunit, "success", received_at=LONG_AGO)
    update(workunit, validate_after=NOON - HOUR)
    assert since("validator") == NOON - HOUR


def test_revalidation_of_old_results_is_due_from_the_request():
    workunit = a_workunit(transition_at=None, need_validate=True)
    result = a_result(workunit, "success", received_at=LONG_AGO)
    moved(workunit, Axis.VALIDATION, result, at=NOON - HOUR)
    assert since("validator") == NOON - HOUR


def test_assimilator_is_behind_from_the_move_and_not_for_parked_workunits():
    workunit = a_workunit(transition_at=None)
    settled(workunit, assimilate_state=1)
    moved(workunit, Axis.ASSIMILATION)
    assert since("assimilator") == LONG_AGO
    update(workunit, assimilate_after=NOON - HOUR)
    assert since("assimilator") == NOON - HOUR
    park(2, workunit, workunit.app)
    assert since("assimilator") is None


def test_trickle_handler_is_behind_from_the_message_or_its_retry():
    app, host = an_app(), a_host()
    trickle = TrickleUp.objects.create(
        result_id=1, host=host, app=app, said_at=LONG_AGO, received_at=LONG_AGO
    )
    assert since("trickle_handler") == LONG_AGO
    for handle_after, expected in ((NOON - HOUR, NOON - HOUR), (NOON + HOUR, None)):
        update(trickle, handle_after=handle_after)
        assert since("trickle_handler") == expected
    update(trickle, handle_after=None)
    park(3, trickle, app)
    assert since("trickle_handler") is None


def test_file_deleter_is_behind_from_the_first_mark_or_retry():
    workunit = a_workunit(transition_at=None)
    result = a_result(workunit, "error", file_delete_state=READY)
    moved(workunit, Axis.RESULT_FILES, result, at=NOON - HOUR / 4)
    assert since("file_deleter") == NOON - HOUR / 4
    finished = settled(a_workunit(transition_at=None), assimilate_state=2, file_delete_state=1)
    moved(finished, Axis.WORKUNIT_FILES, at=NOON - HOUR / 3)
    assert since("file_deleter") == NOON - HOUR / 3
    File.objects.create(
        name="f", sha256="1", md5="1", nbytes=1, created_at=LONG_AGO, doomed_at=NOON - HOUR / 2
    )
    assert since("file_deleter") == NOON - HOUR / 2
    update(result, file_delete_after=NOON - HOUR)
    assert since("file_deleter") == NOON - HOUR
    update(finished, file_delete_after=LONG_AGO)
    assert since("file_deleter") == LONG_AGO


def test_file_deleter_is_not_behind_while_a_backup_holds_deletions():
    File.objects.create(
        name="f", sha256="1", md5="1", nbytes=1, created_at=LONG_AGO, doomed_at=LONG_AGO
    )
    lock = settings.VAR_DIR / "run" / "backup.lock"
    assert since("file_deleter") == LONG_AGO
    assert not lock.exists()  # the daemons create it, which may run as another user
    with storage.deletions_held():
        assert since("file_deleter") is None
    assert since("file_deleter") == LONG_AGO


def a_finished_workunit(finished_at, **fields):
    workunit = settled(a_workunit(transition_at=None), assimilate_state=2, file_delete_state=2)
    update(workunit, finished_at=finished_at, **fields)
    return workunit


def test_purger_is_behind_from_the_end_of_the_time_for_which_workunits_are_kept():
    kept = settings.PROJECT.purge_after
    a_finished_workunit(NOON - kept + HOUR)
    assert since("purger") is None
    a_finished_workunit(NOON - kept - HOUR, outputs_kept=True)
    a_finished_workunit(NOON - kept - HOUR, has_children=True)
    waiting = a_finished_workunit(NOON - kept - HOUR)
    open_result = a_result(waiting, "sent")
    assert since("purger") is None
    open_result.delete()
    assert since("purger") == NOON - HOUR
    # The deletion of its files, or a late report, came after this time.
    moved(waiting, Axis.WORKUNIT_FILES, at=NOON - HOUR / 2)
    assert since("purger") == NOON - HOUR / 2


def test_without_a_ledger_work_is_due_since_the_report_or_the_end():
    waiting = a_workunit(transition_at=None)
    settled(waiting, a_result(waiting, "valid", received_at=NOON - HOUR), assimilate_state=1)
    assert since("assimilator") == NOON - HOUR
    finished = settled(a_workunit(transition_at=None), assimilate_state=2, file_delete_state=1)
    update(finished, finished_at=NOON - HOUR / 2)
    assert since("file_deleter") == NOON - HOUR / 2
    result = a_result(finished, "error", file_delete_state=READY)
    update(result, received_at=LONG_AGO)
    assert since("file_deleter") == LONG_AGO


def test_chores_of_each_pass_are_never_late():
    each_pass = next(chore for chore in CHORES if not chore.every)
    Heartbeat.objects.create(name=each_pass.heartbeat, seen_at=LONG_AGO)
    assert since("housekeeper") is None


def test_housekeeper_is_behind_from_the_first_due_chore_of_those_that_exist():
    Heartbeat.objects.create(name="chore of an old version", seen_at=LONG_AGO)
    daily = next(chore for chore in CHORES if chore.every == LATE_CHORE / 2)
    Heartbeat.objects.create(name=daily.heartbeat, seen_at=NOON - HOUR)
    assert since("housekeeper") is None
    assert since("housekeeper", NOON + 2 * LATE_CHORE) == NOON - HOUR + daily.every


def test_apps_whose_generator_is_due_wait_for_the_work_generator():
    an_app(generator="sweep", cushion=2, generator_state={})
    asked = (NOON + HOUR).isoformat()
    an_app(generator="sweep", cushion=2, generator_state={"ask_again_at": asked})
    full = an_app(generator="sweep", cushion=1, generator_state={})
    a_result(a_workunit(full))
    [line] = [one for one in status.read(now=NOON).stations if one.daemon == "work_generator"]
    assert (line.waiting.value, line.behind) == (1, None)


def test_daemons_that_are_ten_minutes_behind_raise_alerts():
    app, host = an_app(), a_host()
    TrickleUp.objects.create(
        result_id=1, host=host, app=app, said_at=LONG_AGO, received_at=LONG_AGO
    )
    a_finished_workunit(LONG_AGO - settings.PROJECT.purge_after)
    behind = [alert.subject for alert in alerts.current(now=NOON) if alert.kind == "daemon_behind"]
    assert behind == ["trickle_handler", "purger"]


def test_statement_and_daemons_agree_when_a_workunit_is_due_for_a_daemon():
    [workunit] = workunits(a_served_app(validator="trivial"), 1)
    client = a_client()
    client.report(*client.ask_for_work())
    now = timezone.now()
    later = now + settings.PROJECT.purge_after + HOUR
    seen = {}
    for daemon in (validator, assimilator, file_deleter, purger):
        a_pass(transitioner, now=now)
        moment = later if daemon is purger else now
        name = daemon.__name__.rpartition(".")[2]
        before = since(name, moment)
        a_pass(daemon, now=moment)
        seen[name] = (before, since(name, moment))
    assert not Workunit.objects.filter(pk=workunit.pk).exists()
    assert seen["purger"] == (now + settings.PROJECT.purge_after, None)
    assert [after for _, after in seen.values()] == [None] * 4
    assert all(now - HOUR < before <= now for name, (before, _) in seen.items() if name != "purger")
