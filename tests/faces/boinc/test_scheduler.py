"""Replies to clients that report and request work, over HTTP."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.db import connection
from django.utils import timezone

from scheduler.boinc import scheduler_rpc
from scheduler.boinc.wire import messages, replies, requests
from scheduler.dispatch import candidates, search
from scheduler.lifecycle import Outcome, ServerState, ValidateState
from scheduler.models import Account, Host, LedgerEntry, Refusal, Result, ResultFile, Workunit
from tests import rows
from tests.scripted_client import (
    RpcClient,
    ScriptedClient,
    a_client,
    put_upload,
    rpc_statements,
    weak_key_of,
)
from tests.work import an_app, workunits

pytestmark = pytest.mark.django_db


def texts(reply: messages.SchedulerReply) -> list[str]:
    return [message.text for message in reply.messages]


# Requests for work


def test_first_request_gets_a_host_id_a_code_sign_key_and_work() -> None:
    workunits(an_app(), 1)
    reply = a_client().ask(cpu_req_secs=1, cpu_req_instances=1)
    assert reply.hostid == Host.objects.get().pk
    assert reply.code_sign_key is not None
    assert [result.name for result in reply.results] == ["upper_0_0"]
    assert reply.app_versions[0].file_refs[0].main_program
    assert reply.files[0].file_signature is not None


def test_each_request_stores_the_name_and_the_time_of_the_host() -> None:
    client = a_client(name="mig01")
    client.ask()
    yesterday = timezone.now() - timedelta(days=1)
    Host.objects.update(rpc_at=yesterday)
    client.ask()
    host = Host.objects.get()
    assert host.domain_name == "mig01"
    assert host.rpc_at > yesterday


def test_two_workers_of_one_name_are_two_hosts() -> None:
    workunits(an_app(one_result_per="host"), 2)
    first = a_client(name="worker-A")
    second = replace(first)
    # Equal machines behind one address: a worker has a random id, and allows other clients.
    facts = [replace(first.request().host_info, host_cpid=cpid) for cpid in ("one", "two")]
    for client, host_info in zip((first, second), facts, strict=True):
        client.ask_for_work(host_info=host_info, allow_multiple_clients=True)
    assert first.hostid != second.hostid
    assert [host.domain_name for host in Host.objects.all()] == ["worker-A", "worker-A"]
    owners = set(Result.objects.values_list("host_id", flat=True))
    assert owners == {first.hostid, second.hostid}


def test_a_sent_result_is_in_progress_with_two_deadlines_and_a_ledger_entry() -> None:
    workunits(an_app(), 1, delay_bound=timedelta(days=2))
    a_client().ask_for_work()
    result = Result.objects.get()
    assert result.server_state == ServerState.IN_PROGRESS
    assert result.sent_at is not None
    assert result.report_deadline == result.sent_at + timedelta(days=2)
    assert result.credit_deadline == result.sent_at + timedelta(days=4)
    assert LedgerEntry.objects.filter(result_id=result.pk, target=40, because=3).count() == 1


@pytest.mark.parametrize(
    ("app_seconds", "own_seconds", "sent"),
    [(30, 3, 3.0), (30, None, 30.0), (30, 0, 0.0), (10, 3, 3.0), (10, None, None), (30, 10, None)],
)
def test_reply_has_the_termination_time_of_the_workunit_or_else_of_the_app(
    app_seconds: int, own_seconds: int | None, sent: float | None
) -> None:
    app = an_app(max_termination_time=timedelta(seconds=app_seconds))
    own = None if own_seconds is None else timedelta(seconds=own_seconds)
    workunits(app, 1, max_termination_time=own)
    client = a_client()
    reply = client.ask(cpu_req_secs=1, cpu_req_instances=1)
    # Without the field, the client waits ten seconds.
    assert [workunit.max_termination_time for workunit in reply.workunits] == [sent]
    # A result that the client has lost is sent again with the same time.
    client.held.clear()
    again = client.ask(cpu_req_secs=1, cpu_req_instances=1)
    assert [workunit.max_termination_time for workunit in again.workunits] == [sent]


def test_host_gets_only_as_many_results_as_fill_the_requested_seconds() -> None:
    workunits(an_app(), 20, rsc_fpops_est=3600e9)
    assert len(a_client().ask_for_work(seconds=3 * 3600)) == 3


def test_account_never_gets_two_results_of_a_workunit() -> None:
    workunits(an_app(), 1, results=2)
    first, second = a_client(name="first"), a_client(name="second")
    assert first.ask_for_work() == ["upper_0_0"]
    assert second.ask_for_work() == []
    assert a_client(email="bob@example.org").ask_for_work() == ["upper_0_1"]


def test_host_never_gets_two_live_results_of_a_workunit_even_if_the_app_allows_it() -> None:
    workunits(an_app(one_result_per="nothing"), 1, results=2)
    client = a_client(name="first")
    assert client.ask_for_work(seconds=1e6) == ["upper_0_0"]
    assert client.ask_for_work(seconds=1e6) == []
    assert a_client(name="second").ask_for_work() == ["upper_0_1"]


def test_retry_is_sent_to_the_same_account_only_after_retry_same_account_after() -> None:
    app = an_app(retry_same_account_after=timedelta(hours=1))
    (workunit,) = workunits(app, 1)
    client = a_client()
    client.report(*client.ask_for_work(), upload=None, state=3, exit_status=1)
    Result.objects.create(
        workunit=workunit, app=app, name="upper_0_1", attempt=1, created_at=timezone.now()
    )
    assert client.ask_for_work() == []
    Result.objects.filter(attempt=0).update(received_at=timezone.now() - timedelta(hours=2))
    assert client.ask_for_work() == ["upper_0_1"]


@pytest.mark.parametrize(
    ("fields", "given"),
    [
        ({}, True),
        ({"start_after": timedelta(hours=1)}, False),
        ({"start_after": -timedelta(hours=1)}, True),
        ({"start_before": -timedelta(hours=1)}, False),
        ({"start_before": timedelta(hours=1)}, True),
        ({"end_before": -timedelta(hours=1)}, False),
        ({"cancel_requested_at": timedelta(0)}, False),
        ({"release_state": 2}, False),
        ({"release_state": 1, "pending_dependency_count": 1}, False),
    ],
)
def test_only_released_uncancelled_workunits_within_their_time_window_are_sent(
    fields: dict[str, Any], *, given: bool
) -> None:
    now = timezone.now()
    values: dict[str, Any] = {
        k: now + v if isinstance(v, timedelta) else v for k, v in fields.items()
    }
    workunits(an_app(), 1, **values)
    assert bool(a_client().ask_for_work()) is given


def test_request_for_one_result_gets_the_one_of_highest_priority() -> None:
    app = an_app()
    workunits(app, 2)
    workunits(app, 1, priority=5)
    assert a_client().ask_for_work() == ["upper_2_0"]


@pytest.mark.parametrize(
    ("bounds", "host", "sentence"),
    [
        ({"rsc_memory_bound": 16e9}, {}, "needs 15258.79 MB RAM but only 7629.39 MB is available"),
        ({"rsc_disk_bound": 1e12}, {}, "more disk space"),
    ],
)
def test_work_that_needs_too_much_memory_or_disk_is_refused_with_a_message(
    bounds: dict[str, Any], host: dict[str, Any], sentence: str
) -> None:
    workunits(an_app(), 1, **bounds)
    client = a_client(**host)
    reply = client.ask(cpu_req_secs=1)
    assert reply.results == ()
    assert any(sentence in text for text in texts(reply)), texts(reply)
    (decision,) = Host.objects.get().last_decisions
    assert sum(decision["refused"].values()) == 1
    (refusal,) = Refusal.objects.all()
    assert sentence in refusal.sentence


def test_host_with_a_full_queue_gets_no_work_that_would_be_late() -> None:
    workunits(an_app(), 1, delay_bound=timedelta(hours=1), rsc_fpops_est=3000e9)
    client = a_client()
    reply = client.ask(cpu_req_secs=1, estimated_delay=3000)
    assert reply.results == ()
    assert any("won't finish in time" in text for text in texts(reply))
    assert client.ask_for_work() == ["upper_0_0"]


def test_host_of_an_unknown_platform_gets_a_message() -> None:
    workunits(an_app(), 1)
    reply = a_client(platform="riscv-amiga").ask(cpu_req_secs=1)
    assert texts(reply) == ["Manyhands doesn't support computers of type riscv-amiga"]


def test_project_without_work_sends_the_message_no_tasks_available() -> None:
    an_app()
    assert "Project has no tasks available" in texts(a_client().ask(cpu_req_secs=1))


def test_client_that_requests_no_work_gets_no_work_and_no_message() -> None:
    workunits(an_app(), 1)
    reply = a_client().ask(cpu_req_secs=1, dont_send_work=True)
    assert (reply.results, reply.messages) == ((), ())


def test_unsuitable_results_at_the_head_do_not_hide_suitable_ones(settings: Any) -> None:
    settings.PROJECT = replace(settings.PROJECT, candidates_per_page=5)
    app = an_app()
    workunits(app, 12, rsc_memory_bound=1e15)
    workunits(app, 1)
    assert a_client().ask_for_work() == ["upper_12_0"]


def test_unsuitable_results_on_all_read_pages_are_not_reported_as_no_work(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.PROJECT = replace(settings.PROJECT, candidates_per_page=1)
    monkeypatch.setattr(search, "MAX_PAGES", 3)
    workunits(an_app(), 30, rsc_memory_bound=1e15)
    reply = a_client().ask(cpu_req_secs=1)
    assert any("too recent" in text for text in texts(reply))


def test_search_stops_at_the_first_page_without_a_fit_once_the_queue_is_full(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.PROJECT = replace(settings.PROJECT, candidates_per_page=3)
    workunits(an_app(), 60, delay_bound=timedelta(hours=1), rsc_fpops_est=3600e9)
    read, sizes = candidates.candidates, []

    def read_and_note(lanes: Any, **facts: Any) -> Any:
        sizes.append(max(lane.page for lane in lanes))
        return read(lanes, **facts)

    client = a_client()
    monkeypatch.setattr(candidates, "candidates", read_and_note)
    assert len(client.ask_for_work(seconds=3600.0)) == 1
    assert sizes == [3, 12]


def test_sibling_results_of_an_account_do_not_block_work_for_its_hosts(settings: Any) -> None:
    settings.PROJECT = replace(settings.PROJECT, candidates_per_page=3)
    app = an_app()
    workunits(app, 10, results=2)
    first, second = a_client(name="first"), a_client(name="second")
    while first.ask_for_work(seconds=1e9):
        pass
    assert second.ask_for_work() == []
    workunits(app, 2)
    assert second.ask_for_work() == ["upper_10_0"]
    assert second.ask_for_work() == ["upper_11_0"]
    assert a_client(email="bob@example.org").ask_for_work() == ["upper_0_1"]


def test_a_failed_workunit_is_not_sent() -> None:
    workunits(an_app(), 1)
    Workunit.objects.update(error_mask=16)
    assert a_client().ask_for_work() == []


def test_max_in_progress_per_cpu_limits_results_of_that_app_only() -> None:
    workunits(an_app(max_in_progress_per_cpu=1), 10)
    workunits(an_app("free"), 1)
    client = a_client(ncpus=3)
    assert client.ask_for_work(seconds=1e9) == ["upper_0_0", "upper_1_0", "upper_2_0", "free_10_0"]
    reply = client.ask(cpu_req_secs=1)
    assert "This computer has reached a limit on tasks in progress for upper" in texts(reply)
    client.report("upper_0_0")
    assert client.ask_for_work() == ["upper_3_0"]


# Reports


def test_reported_success_is_over_and_schedules_a_workunit_transition() -> None:
    workunits(an_app(), 1)
    client = a_client()
    reply = client.report(*client.ask_for_work())
    assert reply.result_acks == ("upper_0_0",)
    result = Result.objects.get()
    assert (result.server_state, result.outcome) == (ServerState.OVER, Outcome.SUCCESS)
    assert ResultFile.objects.get().nbytes == len(b"the answer")
    assert rows.due_at(Workunit.objects.get()) == result.received_at


def test_reported_error_is_stored_as_invalid_with_its_stderr() -> None:
    workunits(an_app(), 1)
    client = a_client()
    names = client.ask_for_work()
    client.report(*names, upload=None, state=3, exit_status=197, stderr_out="too\x01 long")
    result = Result.objects.get()
    assert (result.outcome, result.validate_state) == (Outcome.CLIENT_ERROR, ValidateState.INVALID)
    assert (result.exit_status, result.client_state) == (197, 3)
    assert "long" in result.stderr


def test_late_report_of_a_no_reply_result_is_accepted() -> None:
    workunits(an_app(), 1)
    client = a_client()
    names = client.ask_for_work()
    Result.objects.update(server_state=ServerState.OVER, outcome=Outcome.NO_REPLY)
    client.report(*names)
    assert Result.objects.get().outcome == Outcome.SUCCESS
    assert LedgerEntry.objects.filter(source=54, target=51, because=7).count() == 1


def test_report_of_a_detached_result_is_acknowledged_and_ignored() -> None:
    workunits(an_app(), 1)
    client = a_client()
    names = client.ask_for_work()
    Result.objects.update(server_state=ServerState.OVER, outcome=Outcome.CLIENT_DETACHED)
    assert client.report(*names).result_acks == tuple(names)
    assert Result.objects.get().outcome == Outcome.CLIENT_DETACHED


def test_report_by_another_account_is_acknowledged_and_ignored() -> None:
    workunits(an_app(), 1)
    names = a_client().ask_for_work()
    assert a_client(email="mallory@example.org").report(*names).result_acks == tuple(names)
    assert Result.objects.get().server_state == ServerState.IN_PROGRESS


def test_another_host_of_the_same_account_can_report_a_result() -> None:
    workunits(an_app(), 1)
    names = a_client(name="first").ask_for_work()
    a_client(name="second").report(*names)
    assert Result.objects.get().outcome == Outcome.SUCCESS


def test_first_of_two_reports_of_a_result_in_one_request_is_used() -> None:
    workunits(an_app(), 1)
    client = a_client()
    (name,) = client.ask_for_work()
    put_upload(name, b"x")
    client.held = []
    client.ask(
        results=(
            messages.ReportedResult(name=name, state=5, exit_status=0),
            messages.ReportedResult(name=name, state=3, exit_status=1),
        )
    )
    assert Result.objects.get().outcome == Outcome.SUCCESS


def test_reports_beyond_the_limit_are_not_acknowledged(settings: Any) -> None:
    settings.PROJECT = replace(settings.PROJECT, max_results_accepted=2)
    workunits(an_app(), 3)
    client = a_client()
    names = client.ask_for_work(seconds=1e9)
    reply = client.report(*names)
    assert len(reply.result_acks) == 2
    assert Result.objects.filter(outcome=Outcome.SUCCESS).count() == 2


def test_impossible_reported_times_are_clamped() -> None:
    workunits(an_app(), 1)
    client = a_client()
    names = client.ask_for_work()
    client.report(*names, final_elapsed_time=1e9, final_cpu_time=-3.0)
    result = Result.objects.get()
    assert result.elapsed_time < 60
    assert result.cpu_time == 0


@pytest.mark.parametrize("asked", [1.0, 0.0])
def test_rpc_takes_the_same_number_of_statements_for_1_and_for_50_results(
    asked: float,
) -> None:
    workunits(an_app(), 200)
    one, fifty = a_client(), a_client(email="bob@example.org")
    one_name = one.ask_for_work()
    fifty_names = fifty.ask_for_work(seconds=50 * 3600)
    fifty_names = fifty_names[:50]
    for name in (*one_name, *fifty_names):
        put_upload(name, name.encode())

    def report_and_ask(client: ScriptedClient, names: list[str], seconds: float) -> int:
        client.held = [name for name in client.held if name not in names]
        reported = tuple(messages.ReportedResult(name=n, state=5) for n in names)
        return len(
            rpc_statements(lambda: client.ask(results=reported, cpu_req_secs=asked * seconds))
        )

    assert len(fifty_names) > 10
    assert report_and_ask(one, one_name, 1) == report_and_ask(fifty, fifty_names, 50 * 3600)


# Hosts


def test_weak_key_authenticates_the_same_account() -> None:
    workunits(an_app(), 1)
    client = a_client()
    weak = replace(client, key=weak_key_of(client), held=[])
    assert weak.ask_for_work() == ["upper_0_0"]
    assert Host.objects.get().account == Account.objects.get()


def test_weak_key_cannot_change_the_cross_project_id() -> None:
    client = a_client()
    before = Account.objects.get().cross_project_id
    replace(client, key=weak_key_of(client)).ask(cross_project_id="f" * 32)
    assert Account.objects.get().cross_project_id == before
    client.ask(cross_project_id="f" * 32)
    assert Account.objects.get().cross_project_id == "f" * 32


def test_bad_key_gets_an_error_message_and_a_delay_of_an_hour() -> None:
    reply = ScriptedClient(key="0" * 32).ask(cpu_req_secs=1)
    assert texts(reply) == ["Invalid or missing account key.  To fix, remove and add this project."]
    assert reply.request_delay == 3600
    assert reply.hostid is None


def test_denied_host_gets_a_request_delay_of_a_day() -> None:
    client = a_client()
    client.ask()
    Host.objects.update(denied=True)
    assert client.ask(cpu_req_secs=1).request_delay == 86400


def test_copied_client_gets_its_own_host_id() -> None:
    client = a_client()
    client.ask()
    copy = replace(client, name="the copy")
    for _ in range(3):
        client.ask()
    copy.ask()
    assert Host.objects.count() == 2
    assert copy.hostid != client.hostid


def test_client_of_a_merged_host_gets_the_new_host_id() -> None:
    client, other = a_client(name="old"), a_client(name="new")
    client.ask()
    other.ask()
    old_id = client.hostid
    Host.objects.filter(pk=old_id).update(merged_into_id=other.hostid)
    client.rpc_seqno = 99
    reply = client.ask()
    assert reply.hostid == other.hostid
    assert old_id != other.hostid


def test_second_concurrent_request_of_a_host_gets_a_delay_of_a_minute(
    transactional_db: None,
) -> None:
    client = a_client()
    client.ask()
    with another_connection() as other:
        other.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended('host ' || %s::text, 0))",
            [str(client.hostid)],
        )
        reply = client.ask(cpu_req_secs=1)
        other.rollback()
    assert texts(reply) == ["Another scheduler instance is running for this host"]
    assert reply.request_delay == 60


def another_connection() -> psycopg.Connection:
    database = connection.settings_dict
    return psycopg.connect(
        dbname=database["NAME"],
        user=database["USER"],
        host=database["HOST"],
        port=database["PORT"] or None,
        password=database["PASSWORD"] or None,
    )


def test_reply_lists_the_results_that_the_client_should_abort() -> None:
    app = an_app()
    workunits(app, 4)
    client = a_client()
    names = client.ask_for_work(seconds=1e9)
    Workunit.objects.filter(name="upper_0").update(cancel_requested_at=timezone.now())
    Result.objects.filter(name="upper_1_0").update(server_state=5, outcome=Outcome.NO_REPLY)
    Result.objects.filter(name="upper_2_0").update(server_state=5, outcome=Outcome.CLIENT_DETACHED)
    client.held = [*names, "never_heard_of"]
    reply = client.ask()
    assert set(reply.result_aborts) == {"upper_0_0", "upper_2_0", "never_heard_of"}
    assert reply.result_aborts_if_not_started == ("upper_1_0",)


# Bad input


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"<scheduler_request>\n<hostid>1</hostid>", b"\xff\xfe\x00", b"<a/>"]
)
def test_malformed_scheduler_request_gets_a_reply_with_a_message(body: bytes) -> None:
    response = RpcClient().post("/cgi/scheduler", data=body, content_type="text/xml")
    assert response.status_code == 200
    assert replies.decode_reply(response.content).messages


def test_scheduler_request_with_an_xml_entity_is_refused() -> None:
    bomb = b'<!DOCTYPE x [<!ENTITY a "aaaa">]><scheduler_request>&a;</scheduler_request>'
    response = RpcClient().post("/cgi/scheduler", data=bomb, content_type="text/xml")
    assert "cannot be read" in replies.decode_reply(response.content).messages[0].text


def test_too_long_request_gets_a_message_and_a_delay_of_an_hour(settings: Any) -> None:
    settings.PROJECT = replace(settings.PROJECT, max_request_bytes=1000)
    body = requests.encode_request(a_client().request(time_stats_log="x" * 2000))
    reply = replies.decode_reply(
        RpcClient().post("/cgi/scheduler", data=body, content_type="text/xml").content
    )
    assert "longer than" in reply.messages[0].text
    assert reply.request_delay == 3600


def test_too_old_client_gets_a_message_with_the_required_version(settings: Any) -> None:
    settings.PROJECT = replace(settings.PROJECT, min_client_version=80000)
    reply = a_client().ask(cpu_req_secs=1)
    assert texts(reply) == [
        "This project needs BOINC 8.0 or later. Please update your BOINC client."
    ]


def test_only_one_long_request_at_a_time_is_read_into_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scheduler_rpc, "_LONG_TIMEOUT_SECONDS", 0.0)
    monkeypatch.setattr(scheduler_rpc, "_LONG_BYTES", 10)
    with scheduler_rpc._long_lock:
        reply = replies.decode_reply(scheduler_rpc.reply("11", b"x".__mul__, "127.0.0.1"))
    assert reply.messages[0].text == scheduler_rpc.BUSY
    reply = replies.decode_reply(scheduler_rpc.reply("11", b"x".__mul__, "127.0.0.1"))
    assert "cannot be read" in reply.messages[0].text


def test_app_version_flags_are_sent_to_the_client() -> None:
    app = an_app()
    app.versions.update(dont_throttle=True, needs_network=True, is_wrapper=True, file_prefix="bin")
    workunits(app, 1)
    (version,) = a_client().ask(cpu_req_secs=1).app_versions
    assert (version.dont_throttle, version.needs_network, version.is_wrapper) == (True, True, True)
    assert version.file_prefix == "bin"
