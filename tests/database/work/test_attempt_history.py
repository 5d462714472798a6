"""The history of a workunit: rounds, attempts with usage samples, and statistics."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from daemons import assimilator, transitioner, trickle_handler, validator
from scheduler.models import TrickleUp, UsageSample, Workunit
from scheduler.work import attempt_history
from tests import rows
from tests.conftest import NOON
from tests.database.passes import a_pass
from tests.scientists import a_batch
from tests.scripted_client import a_client
from tests.work import an_app, workunits

pytestmark = pytest.mark.django_db

ONE = {"min_quorum": 1, "target_nresults": 1}


def at(**duration):
    return (NOON + timedelta(**duration)).timestamp()


def a_sample(result, minute, **values):
    return UsageSample.objects.create(
        result_id=result.pk, at=NOON + timedelta(minutes=minute), **values
    )


@pytest.fixture
def retried():
    """A workunit whose first attempt failed, whose second timed out, and whose third is valid."""
    workunit = rows.a_workunit(**ONE)
    rows.a_result(
        workunit,
        "error",
        stderr="no such file\n",
        sent_at=rows.hours(-9),
        received_at=rows.hours(-8),
    )
    rows.a_result(workunit, "noreply", created_at=rows.hours(-8), sent_at=rows.hours(-7))
    rows.a_result(workunit, "valid", created_at=rows.hours(-3), output=b"42\n", uploaded=True)
    return rows.settled(workunit, workunit.results.last(), assimilate_state=2, transition_at=None)


# Rounds


def test_rounds_have_states_counters_times_outputs_and_errors(retried):
    shown = attempt_history.rounds_of(retried.pk)
    assert (shown.name, shown.state) == (retried.name, "archived")
    assert (shown.round, shown.fails, shown.timeouts) == (2, 1, 1)
    assert shown.timeline == {
        "0:open": at(days=-2),
        "0:running": at(hours=-9),
        "0:executed": at(hours=-8),
        "0:output": "",
        "0:error": "no such file",
        "1:open": at(hours=-8),
        "1:running": at(hours=-7),
        "2:open": at(hours=-3),
        "2:running": at(hours=-2),
        "2:executed": at(hours=-1),
        "2:output": "42\n",
        "2:error": "",
    }
    assert shown.other_replicas == ()


def test_times_of_rounds_are_those_of_the_daemons_moves():
    app = rows.an_app(validator="trivial")
    workunit = rows.a_workunit(app, **ONE)
    a_pass(transitioner)
    result = workunit.results.get()
    rows.walk(
        result,
        server_state=4,
        host=rows.a_host(),
        account=rows.an_account(),
        sent_at=rows.hours(1),
        report_deadline=rows.hours(9),
        credit_deadline=rows.hours(9),
    )
    rows.walk(result, server_state=5, outcome=1, received_at=rows.hours(2))
    rows.an_output(result, b"7", uploaded=True)
    rows.update(workunit, transition_at=NOON)
    for daemon, hour in ((transitioner, 2), (validator, 3), (transitioner, 4), (assimilator, 5)):
        a_pass(daemon, now=rows.hours(hour))
    shown = attempt_history.rounds_of(workunit.pk)
    times = {
        "0:open": at(days=-2),
        "0:running": at(hours=1),
        "0:executed": at(hours=2),
        "0:succeeded": at(hours=3),
        "0:archived": at(hours=5),
    }
    assert shown.timeline == times | {"0:output": "7", "0:error": ""}
    assert shown.state == "archived"


def test_log_has_a_line_for_each_move_in_order():
    workunit = rows.a_workunit(**ONE)
    a_pass(transitioner)
    [line] = attempt_history.rounds_of(workunit.pk).log.splitlines()
    assert line == (
        f"2026-01-01 12:00:00.000 {workunit.name}_0 result: nothing -> UNSENT "
        "(replica needed, transitioner)"
    )


def test_output_that_is_too_long_or_deleted_is_shown_as_empty_text(retried):
    [file] = retried.results.last().output_files.all()
    file.nbytes = attempt_history.MAX_OUTPUT_BYTES + 1
    file.save()
    assert attempt_history.rounds_of(retried.pk).timeline["2:output"] == ""
    file.nbytes, file.name = 3, "gone_r1_0"
    file.save()
    assert attempt_history.rounds_of(retried.pk).timeline["2:output"] == ""


def test_other_replicas_have_timelines_of_their_own():
    workunit = rows.a_workunit()
    rows.a_result(workunit, "success")
    rows.a_result(workunit, "sent")
    shown = attempt_history.rounds_of(workunit.pk)
    [other] = shown.other_replicas
    assert (other.replica, other.round, other.timeline["0:running"]) == (1, 0, at(hours=-2))


def test_rounds_take_a_constant_number_of_statements(retried, django_assert_num_queries):
    with django_assert_num_queries(7):
        attempt_history.rounds_of(retried.pk)
    workunit = rows.a_workunit(**ONE)
    for _ in range(9):
        rows.a_result(workunit, "error", output=b"x", uploaded=True)
    with django_assert_num_queries(7):
        attempt_history.rounds_of(workunit.pk)


# Attempts and usage


def test_history_has_the_sent_attempts_with_their_samples_in_order(retried):
    first, _, last = retried.results.order_by("id")
    a_sample(last, 2, fraction_done=0.5, cpu_time=90, elapsed_time=60, memory_bytes=7e6)
    a_sample(last, 1, fraction_done=0.1, cpu_time=15, elapsed_time=30, memory_bytes=5e6)
    a_sample(first, 1, gpu_usage=0.75)
    shown = attempt_history.history_of(retried.pk, now=NOON)
    assert shown.retry_count == 3
    assert [entry.attempt.attempt for entry in shown.history] == [0, 1, 2]
    assert [entry.round.index for entry in shown.history] == [0, 1, 2]
    assert [entry.tdf2 for entry in shown.history] == [
        *("failed_archive", "failed_archive", "completed_archive"),
    ]
    assert [entry.disbatch_status for entry in shown.history] == [2, -6, 1]
    samples = [entry.attempt.samples for entry in shown.history]
    assert [[one.gpu_usage for one in own] for own in samples[:2]] == [[0.75], []]
    assert [one.fraction_done for one in samples[2]] == [0.1, 0.5]
    assert shown.history[2].cpu_utilization == (0.5, 2.5)
    # Without samples: the mean that the host reported.
    assert shown.history[1].cpu_utilization == ()
    assert vars_of(shown.states) == ("archived", "completed_archive", "terminated", 1)


def vars_of(states):
    return (states.tdf, states.tdf2, states.eve, states.disbatch_status)


def test_attempt_counts_from_its_claim(transactional_db):
    """A claim increments `retry_count` of Eve and adds a record to its history (E-26)."""
    [workunit] = workunits(an_app(validator="trivial"), 1)

    def history():
        return attempt_history.history_of(workunit.pk, now=timezone.now())

    assert (history().retry_count, history().history) == (0, ())
    client = a_client()
    names = client.ask_for_work()
    [entry] = history().history
    assert (history().retry_count, entry.attempt.host_id) == (1, client.hostid)
    assert entry.attempt.sent_at is not None
    client.report(*names, state=3, exit_status=1, upload=None)
    transitioner.run_pass(now=timezone.now(), limit=100)
    assert [result.sent_at is None for result in workunit.results.order_by("id")] == [False, True]
    assert (history().retry_count, len(history().history)) == (1, 1)


def test_cpu_utilization_without_samples_is_the_mean_of_the_report():
    workunit = rows.a_workunit(**ONE)
    rows.a_result(workunit, "success", cpu_time=50.0, elapsed_time=100.0)
    [entry] = attempt_history.history_of(workunit.pk, now=NOON).history
    assert entry.cpu_utilization == (0.5,)


def test_only_the_newest_samples_of_each_attempt_are_returned(monkeypatch):
    monkeypatch.setattr(attempt_history, "MAX_SAMPLES", 3)
    workunit = rows.a_workunit()
    results = [rows.a_result(workunit, "sent") for _ in range(2)]
    for result in results:
        for minute in range(5):
            a_sample(result, minute, cpu_time=minute)
    shown = attempt_history.history_of(workunit.pk, now=NOON)
    for entry in shown.history:
        assert [one.cpu_time for one in entry.attempt.samples] == [2, 3, 4]


def test_only_the_newest_attempts_have_samples_and_texts(monkeypatch):
    monkeypatch.setattr(attempt_history, "MAX_DETAILED", 1)
    workunit = rows.a_workunit(**ONE)
    for created_at in (rows.hours(-3), NOON):
        values = {"cpu_time": 50.0, "elapsed_time": 100.0, "stderr": "no such file"}
        result = rows.a_result(workunit, "error", created_at=created_at, **values)
        a_sample(result, 1, cpu_time=9, elapsed_time=10)
    first, second = attempt_history.history_of(workunit.pk, now=NOON).history
    assert (first.attempt.samples, first.cpu_utilization) == ((), (0.5,))
    assert second.cpu_utilization == (0.9,)
    shown = attempt_history.rounds_of(workunit.pk).timeline
    assert (shown["0:error"], shown["1:error"]) == ("", "no such file")


def test_only_the_newest_moves_are_in_the_log(monkeypatch):
    monkeypatch.setattr(attempt_history, "MAX_MOVES", 2)
    workunit = rows.a_workunit(rows.an_app(validator="trivial"), **ONE)
    rows.a_result(workunit, "success", output=b"7", uploaded=True)
    for daemon in (transitioner, validator, transitioner, assimilator):
        a_pass(daemon)
    shown = attempt_history.rounds_of(workunit.pk)
    assert "0:archived" in shown.timeline
    [_, last] = shown.log.splitlines()
    assert "READY -> DONE" in last


def test_attempt_that_is_created_while_its_history_is_read_is_left_out(monkeypatch):
    workunit = rows.a_workunit(**ONE)
    rows.a_result(workunit, "noreply")
    read_facts = attempt_history.workunit_facts

    def read_then_send(workunit_id):
        facts = read_facts(workunit_id)
        rows.a_result(workunit, "sent")
        return facts

    monkeypatch.setattr(attempt_history, "workunit_facts", read_then_send)
    assert attempt_history.history_of(workunit.pk, now=NOON).retry_count == 1


def test_complete_group_has_succeeded_in_every_older_system():
    workunit = rows.a_workunit(is_group=True, release_state=1, has_parents=True)
    a_pass(transitioner)
    shown = attempt_history.history_of(workunit.pk, now=NOON)
    assert vars_of(shown.states) == ("archived", "completed_archive", "terminated", 1)
    timeline = attempt_history.rounds_of(workunit.pk).timeline
    assert list(timeline) == ["0:open", "0:succeeded", "0:archived"]


def test_messages_of_a_running_result_become_its_samples():
    workunit = rows.a_workunit(**ONE)
    result = rows.a_result(workunit, "sent")
    for minute, fraction in ((-2, 0.25), (-1, 0.5)):
        moment = NOON + timedelta(minutes=minute)
        TrickleUp.objects.create(
            result_id=result.pk,
            host=result.host,
            app=result.app,
            variety="progress",
            text=f"<fraction_done>{fraction}</fraction_done><memory_bytes>8e6</memory_bytes>"
            f"<cpu_time>{100 * fraction}</cpu_time><elapsed_time>{200 * fraction}</elapsed_time>"
            "<gpu_usage>0.5</gpu_usage>",
            said_at=moment,
            received_at=moment,
        )
    a_pass(trickle_handler)
    entry = attempt_history.current_execution(workunit.pk, now=NOON)
    assert [one.fraction_done for one in entry.attempt.samples] == [0.25, 0.5]
    assert [one.memory_bytes for one in entry.attempt.samples] == [8e6, 8e6]
    assert [one.gpu_usage for one in entry.attempt.samples] == [0.5, 0.5]
    assert entry.cpu_utilization == (0.5, 0.5)
    assert entry.attempt.fraction_done == 0.5


def test_current_attempt_is_the_one_that_was_sent_last():
    workunit = rows.a_workunit()
    rows.a_result(workunit, "sent", sent_at=rows.hours(-1))
    rows.a_result(workunit, "sent", sent_at=rows.hours(-2))
    assert attempt_history.current_execution(workunit.pk, now=NOON).attempt.attempt == 0


def test_workunit_that_was_never_sent_has_no_current_attempt():
    workunit = rows.a_workunit()
    rows.a_result(workunit)
    assert attempt_history.history_of(workunit.pk, now=NOON).history == ()
    with pytest.raises(attempt_history.NeverSent, match="No host has received the workunit"):
        attempt_history.current_execution(workunit.pk, now=NOON)


def test_confirmed_result_is_running_and_an_unconfirmed_one_is_claimed():
    workunit = rows.a_workunit()
    rows.a_result(workunit, "sent")
    rows.a_result(workunit, "sent", acknowledged_at=rows.hours(-1))
    shown = attempt_history.history_of(workunit.pk, now=NOON)
    assert [entry.disbatch_status for entry in shown.history] == [-1, 0]
    assert shown.states.disbatch_status == 0


def test_history_takes_a_constant_number_of_statements(retried, django_assert_num_queries):
    with django_assert_num_queries(4):
        attempt_history.history_of(retried.pk, now=NOON)
    for _ in range(5):
        a_sample(rows.a_result(retried, "sent"), 1, cpu_time=1)
    with django_assert_num_queries(4):
        attempt_history.history_of(retried.pk, now=NOON)


# Statistics


def test_statistics_of_a_workunit_count_and_measure_its_results(retried):
    rows.a_result(retried)
    figures = attempt_history.statistics_of(retried.pk, of="workunit_id")
    assert (figures.results, figures.sent, figures.in_progress) == (4, 3, 0)
    assert (figures.successes, figures.errors, figures.timeouts) == (1, 1, 1)
    # The error and the valid result each reported 2900 s and 3000 s.
    assert (figures.cpu_seconds, figures.elapsed_seconds) == (5800, 6000)
    assert (figures.mean_elapsed_seconds, figures.max_elapsed_seconds) == (3000, 3000)
    assert figures.mean_turnaround_seconds == 3600


def test_statistics_without_results_have_zeros_and_nones():
    figures = attempt_history.statistics_of(rows.a_workunit().pk, of="workunit_id")
    assert (figures.results, figures.cpu_seconds, figures.mean_wait_seconds) == (0, 0, None)
    assert (figures.mean_elapsed_seconds, figures.peak_memory_bytes) == (None, None)


def test_statistics_of_a_batch_are_those_of_all_its_workunits(retried):
    batch = a_batch()
    Workunit.objects.filter(pk=retried.pk).update(batch=batch)
    other = rows.a_workunit(batch=batch)
    rows.a_result(other, "success", peak_working_set_bytes=9e6)
    rows.a_result(rows.a_workunit(), "success")
    figures = attempt_history.statistics_of(batch.pk, of="batch_id")
    assert (figures.results, figures.successes, figures.peak_memory_bytes) == (4, 2, 9e6)
