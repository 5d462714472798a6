"""`explain` shows the state of a workunit and what it waits for."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from daemons import transitioner
from scheduler.models import Heartbeat, ScienceFailure
from scheduler.work.explain import explanation_of
from tests import rows
from tests.conftest import NOON
from tests.database.passes import a_pass

pytestmark = pytest.mark.django_db


def explained(row):
    return explanation_of(row.name, now=NOON)


def test_explain_shows_the_results_of_a_workunit_and_what_it_waits_for():
    workunit = rows.a_workunit(transition_at=None)
    rows.a_result(workunit, "success", output=b"a")
    sent = rows.a_result(workunit, "sent")
    explanation = explained(workunit)
    assert explanation.reasons == (
        "has 1 success of 2 needed to validate",
        "has had 2 results of at most 10",
        f"{sent.name} is in progress until 2026-01-02 12:00:00 UTC",
        "the transitioner has nothing to decide",
    )


def test_explain_shows_what_the_transitioner_will_do_with_a_due_workunit():
    assert explained(rows.a_workunit()).reasons[-1] == "the transitioner will: 2 new results"


def test_explain_reports_a_workunit_whose_transitioner_was_not_woken():
    workunit = rows.a_workunit(transition_at=None)
    assert explained(workunit).reasons[-1] == "but the transitioner was not woken: run fsck"


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"release_state": 2}, "is held by staff until it is released"),
        (
            {"release_state": 1, "pending_dependency_count": 3},
            "waits for 3 workunits on which it depends",
        ),
        (
            {"start_after": NOON + timedelta(hours=1)},
            "must not start before 2026-01-01 13:00:00 UTC",
        ),
        ({"need_validate": True}, "waits for the validator"),
        (
            {"end_before": NOON + timedelta(hours=1)},
            "expires if it does not end before 2026-01-01 13:00:00 UTC",
        ),
    ],
)
def test_explain_shows_every_wait_reason(fields, sentence):
    assert sentence in explained(rows.a_workunit(**fields)).reasons


def test_explain_names_no_expiry_that_has_passed():
    workunit = rows.a_workunit(end_before=NOON, need_validate=True, min_quorum=1)
    rows.a_result(workunit, "success", output=b"a")
    reasons = explained(workunit).reasons
    assert "waits for the validator" in reasons
    assert not [reason for reason in reasons if "expires" in reason]


@pytest.mark.parametrize(
    ("states", "sentence"),
    [
        ({"assimilate_state": 1}, "waits for the assimilator"),
        ({"assimilate_state": 2, "file_delete_state": 1}, "waits for the file deleter"),
        ({"assimilate_state": 2, "file_delete_state": 2}, "waits for the purger"),
    ],
)
def test_explain_shows_which_daemon_a_finished_workunit_waits_for(states, sentence):
    workunit = rows.settled(rows.a_workunit(transition_at=None), **states)
    found = explained(workunit).reasons
    assert found[0] == "failed: cancelled"
    assert sentence in found


def test_the_timeline_is_read_from_the_ledger():
    workunit = rows.a_workunit()
    a_pass(transitioner)
    explanation = explained(workunit)
    assert [
        (s.subject, s.axis, s.source, s.target, s.because, s.by) for s in explanation.timeline
    ] == [
        (f"{workunit.name}_{n}", "result", "nothing", "UNSENT", "replica needed", "transitioner")
        for n in range(2)
    ]


def test_explain_shows_which_accounts_cannot_yet_receive_a_replacement():
    app = rows.an_app(retry_same_account_after=timedelta(days=1))
    workunit = rows.a_workunit(app)
    had = rows.a_result(workunit, "error")
    has = rows.a_result(workunit, "sent")
    replacement = rows.a_result(workunit)
    assert explained(replacement).reasons == (
        "waits for a host that qualifies",
        (
            "every account with a computer that requested work in the last 30 days (2) has had a "
            "result: waits for another account, or until 2026-01-02 11:00:00 UTC, when it may be "
            "sent again to one of these"
        ),
        (
            f"does not go back to account {had.account}, which had {had.name}, "
            "before 2026-01-02 11:00:00 UTC"
        ),
        f"does not go to account {has.account}, which has {has.name}",
    )


def test_explain_shows_the_possible_next_moves_of_a_result():
    result = rows.a_result(rows.a_workunit(), "sent")
    explanation = explained(result)
    assert explanation.reasons == ("is being computed until 2026-01-02 12:00:00 UTC",)
    assert any(
        "OVER/NO_REPLY" in move and "timeout_checker" in move for move in explanation.may_happen
    )


# Hosts that requested work, and why none got the result


def test_explain_shows_refusals_of_an_unsent_result_and_its_refusal_limit():
    workunit = rows.a_workunit(rows.an_app(max_infeasible=2), transition_at=None)
    unsent = rows.a_result(workunit)
    one, other, _third = (rows.a_host(domain_name=name) for name in ("box", "laptop", "idle"))
    rows.refuse(workunit, one, first_at=NOON - timedelta(days=1))
    rows.refuse(workunit, other, sentence="needs a GPU", at=NOON - timedelta(minutes=5))
    expected = (
        f"box #{one.pk} requested work at 2026-01-01 12:00:00 UTC and was refused: too little memory",
        f"laptop #{other.pk} requested work at 2026-01-01 11:55:00 UTC and was refused: needs a GPU",
        "is given up once it was refused to 2 hosts: so far 2 (1 confirmed)",
    )
    assert explained(unsent).reasons == ("waits for a host that qualifies", *expected)
    assert set(expected) <= set(explained(workunit).reasons)


def test_explain_shows_but_does_not_count_denied_hosts_and_outdated_refusals():
    workunit = rows.a_workunit(transition_at=None)
    unsent = rows.a_result(workunit)
    rows.refuse(workunit, rows.a_host(denied=True), at=NOON + timedelta(minutes=1))
    rows.refuse(workunit, rows.a_host(), at=NOON - timedelta(days=1))
    rows.a_host()
    rows.an_app_version(workunit.app)
    reasons = explained(unsent).reasons
    assert sum("and was refused" in line for line in reasons) == 2
    assert reasons[-1] == "is given up once it was refused to 2 hosts: so far 0 (0 confirmed)"


def test_explain_lists_the_latest_20_refused_hosts_and_counts_the_others():
    workunit = rows.a_workunit(transition_at=None)
    unsent = rows.a_result(workunit)
    account = rows.an_account()
    for _ in range(23):
        rows.refuse(workunit, rows.a_host(account))
    reasons = explained(unsent).reasons
    assert sum("was refused:" in line for line in reasons) == 20
    assert "3 other hosts were refused" in reasons


def test_explain_of_a_sent_result_shows_no_refusals():
    workunit = rows.a_workunit(transition_at=None)
    sent = rows.a_result(workunit, "sent")
    rows.refuse(workunit, rows.a_host())
    assert not any("refused" in line for line in explained(sent).reasons)


def test_explain_shows_the_target_of_a_targeted_result():
    host = rows.a_host(domain_name="box")
    to_host = rows.a_workunit(target_host=host, transition_at=None)
    to_account = rows.a_workunit(target_account=host.account, transition_at=None)
    assert f"is sent only to host box #{host.pk}" in explained(rows.a_result(to_host)).reasons
    assert (
        f"is sent only to the hosts of {host.account}"
        in explained(rows.a_result(to_account)).reasons
    )


def test_explain_shows_that_a_workunit_is_broadcast():
    workunit = rows.a_workunit(broadcast=True, end_before=NOON + timedelta(days=1))
    assert (
        "is broadcast: every host that requests work gets its own result "
        "until 2026-01-02 12:00:00 UTC"
    ) in explained(workunit).reasons


def test_explain_shows_that_a_workunit_is_unsendable():
    workunit = rows.a_workunit(unsendable_at=NOON)
    rows.a_result(workunit)
    reasons = explained(workunit).reasons
    assert "is unsendable since 2026-01-01 12:00:00 UTC: no host qualifies" in reasons


def test_explain_shows_a_parked_validator_with_its_last_error():
    workunit = rows.a_workunit(need_validate=True, transition_at=None)
    failure = ScienceFailure.objects.create(
        stage=ScienceFailure.Stage.VALIDATE,
        subject_id=workunit.pk,
        app=workunit.app,
        failures=5,
        error="Traceback\n  ...\nValueError: no number\n",
        failed_at=NOON,
        parked_at=NOON,
    )
    assert (
        "its validator failed 5 times and is parked since 2026-01-01 12:00:00 UTC: "
        f"ValueError: no number (see `manage.py parked show {failure.pk}`)"
    ) in explained(workunit).reasons


def test_explain_shows_that_timeouts_are_suspended_without_a_web_heartbeat():
    workunit = rows.a_workunit(transition_at=None)
    rows.a_result(workunit, "sent")
    Heartbeat.objects.create(name="web", seen_at=NOON - timedelta(hours=1))
    assert (
        "the web server was last seen at 2026-01-01 11:00:00 UTC: until it is back, nothing "
        "times out"
    ) in explained(workunit).reasons


def test_the_explain_command_prints_text_and_json():
    workunit = rows.a_workunit()
    a_pass(transitioner)
    page, data = StringIO(), StringIO()
    call_command("explain", workunit.name, stdout=page)
    call_command("explain", workunit.name, "--json", stdout=data)
    assert page.getvalue().startswith(f"workunit {workunit.name}\n")
    assert "result: nothing → UNSENT  (replica needed, transitioner)" in page.getvalue()
    assert json.loads(data.getvalue())["name"] == workunit.name


def test_an_unknown_name_is_refused_with_a_hint():
    with pytest.raises(CommandError, match=r"no workunit or result named .nix..*Hint"):
        call_command("explain", "nix")


def test_explain_prints_that_the_ledger_is_off(settings):
    from dataclasses import replace

    settings.PROJECT = replace(settings.PROJECT, ledger=False)
    page = StringIO()
    call_command("explain", rows.a_workunit().name, stdout=page)
    assert "The ledger is off" in page.getvalue()


# Limits of errors, and accounts that still have a turn


def failed_on(workunit, *hosts):
    for host in hosts:
        rows.a_result(workunit, "error", host=host, exit_status=17)


def test_explain_shows_after_how_many_errors_and_timeouts_a_workunit_fails():
    workunit = rows.a_workunit(transition_at=None, max_error_results=3, max_timeouts=1)
    failed_on(workunit, rows.a_host(), rows.a_host(), rows.a_host())
    rows.a_result(workunit, "noreply")
    found = explained(workunit).reasons
    assert "had 3 errors, and gives up at error 4; 1 result given up" in found
    assert "had 1 result not reported in time, and gives up at number 2" in found


def test_explain_shows_that_every_active_account_has_had_a_result():
    app = rows.an_app(retry_same_account_after=timedelta(days=1))
    workunit = rows.a_workunit(app, transition_at=None, min_quorum=1, target_nresults=1)
    hosts = [rows.a_host(), rows.a_host()]
    failed_on(workunit, hosts[0])
    rows.a_result(workunit)
    assert not any("has had a result" in reason for reason in explained(workunit).reasons)
    update = type(hosts[1]).objects.filter(pk=hosts[1].pk).update
    for fields in ({"denied": True}, {"denied": False, "rpc_at": NOON - timedelta(days=31)}):
        update(**fields)
        assert (
            "every account with a computer that requested work in the last 30 days (1) has had a "
            "result: waits for another account, or until 2026-01-02 11:00:00 UTC, when it may be "
            "sent again to one of these"
        ) in explained(workunit).reasons


def test_explain_does_not_count_accounts_of_hosts_with_a_confirmed_refusal():
    app = rows.an_app(retry_same_account_after=timedelta(days=1))
    workunit = rows.a_workunit(app, transition_at=None, min_quorum=1, target_nresults=1)
    failed_on(workunit, rows.a_host())
    rows.a_result(workunit)
    refusal = rows.refuse(workunit, rows.a_host())
    assert not any("has had a result" in reason for reason in explained(workunit).reasons)
    rows.update(refusal, first_at=NOON - timedelta(days=1))
    assert any("30 days (1) has had a result" in reason for reason in explained(workunit).reasons)


# Errors and parked science


STDERR = (
    "<message>code 17</message>\n<stderr_txt>\nTraceback\nValueError: \x1b[1mbad\n</stderr_txt>"
)


def test_explain_shows_the_last_error_with_its_exit_status_and_the_end_of_stderr():
    workunit = rows.a_workunit(transition_at=None)
    rows.a_result(workunit, "error", exit_status=1, received_at=rows.hours(-2))
    last = rows.a_result(workunit, "error", exit_status=17, stderr=STDERR)
    rows.a_result(workunit, "aborted", received_at=rows.hours(-0.5))
    sentence = (
        f"{last.name} failed with exit status 17 on host {last.host_id}; "
        "its stderr ends: Traceback | ValueError:  [1mbad"
    )
    assert f"its last error: {sentence}" in explained(workunit).reasons
    assert sentence in explained(last).reasons


@pytest.mark.parametrize(
    ("stage", "states", "waits"),
    [
        (ScienceFailure.Stage.VALIDATE, {"need_validate": True}, "waits for the validator"),
        (ScienceFailure.Stage.ASSIMILATE, {}, "waits for the assimilator"),
    ],
)
def test_explain_shows_a_parked_workunit_as_parked_instead_of_waiting_for_a_daemon(
    stage, states, waits
):
    workunit = rows.a_workunit(transition_at=None, **states)
    if not states:
        rows.settled(workunit, assimilate_state=1)
    assert waits in explained(workunit).reasons
    ScienceFailure.objects.create(
        stage=stage,
        subject_id=workunit.pk,
        app=workunit.app,
        failures=5,
        error="ValueError: no number",
        failed_at=NOON,
        parked_at=NOON,
    )
    reasons = explained(workunit).reasons
    assert waits not in reasons
    assert any("is parked since" in reason for reason in reasons)
