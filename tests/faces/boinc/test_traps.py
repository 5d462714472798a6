"""The traps of PROTOCOL section 11 that concern the scheduler, one test each."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import timedelta
from hashlib import md5

import pytest
from django.conf import settings
from django.db import transaction
from django.test import Client
from django.utils import timezone

from scheduler import signing
from scheduler.boinc import compose, scheduler_rpc
from scheduler.boinc.wire import messages, requests
from scheduler.dispatch.rules import lost_results
from scheduler.lifecycle import Outcome, ServerState
from scheduler.models import Account, AppVersion, File, Host, Result, TrickleUp
from tests.scripted_client import RpcClient, a_client
from tests.work import an_app, workunits

pytestmark = pytest.mark.django_db


def test_trap_02_content_type_is_ignored_and_the_body_is_read_raw() -> None:
    body = requests.encode_request(a_client().request())
    for content_type in ("application/x-www-form-urlencoded", "text/xml"):
        response = RpcClient().post("/cgi/scheduler", data=body, content_type=content_type)
        assert b"<hostid>" in response.content


def test_trap_02_scheduler_request_needs_no_csrf_token() -> None:
    body = requests.encode_request(a_client().request())
    strict = RpcClient(enforce_csrf_checks=True)
    response = strict.post("/cgi/scheduler", data=body, content_type="text/xml")
    assert response.status_code == 200


def test_trap_03_a_post_is_never_redirected() -> None:
    response = RpcClient().post("/cgi/scheduler", data=b"", content_type="text/xml")
    assert response.status_code == 200
    response = Client().get("/lookup_account.php", {"email_addr": "nobody@example.org"})
    assert response.status_code == 200


def test_trap_06_report_with_exit_status_0_but_not_state_5_is_an_error() -> None:
    workunits(an_app(), 1)
    client = a_client()
    client.report(*client.ask_for_work(), state=3, exit_status=0)
    assert Result.objects.get().outcome == Outcome.CLIENT_ERROR


def test_trap_06_success_without_an_uploaded_output_has_no_output_file() -> None:
    workunits(an_app(), 1)
    client = a_client()
    client.report(*client.ask_for_work(), upload=None)
    result = Result.objects.get()
    assert result.outcome == Outcome.SUCCESS
    assert result.output_files.count() == 0


def test_trap_08_upload_url_contains_file_upload_handler() -> None:
    workunits(an_app(), 1)
    reply = a_client().ask(cpu_req_secs=1)
    assert all("file_upload_handler" in url for file in reply.uploads for url in file.urls)
    assert reply.uploads


def test_trap_09_second_rpc_with_sequence_number_0_is_the_same_host() -> None:
    client = a_client()
    first = client.ask()
    assert first.hostid is not None
    assert client.rpc_seqno == 0
    second = client.ask()
    assert second.hostid is None
    assert Host.objects.count() == 1


def test_trap_09_repeated_sequence_number_creates_no_new_host() -> None:
    client = a_client()
    for _ in range(3):
        client.ask()
    client.rpc_seqno -= 1
    assert client.ask().hostid is None
    assert Host.objects.count() == 1


def test_trap_09_the_host_id_is_sent_only_when_assigned() -> None:
    client = a_client()
    replies = [client.ask() for _ in range(4)]
    assert [reply.hostid is not None for reply in replies] == [True, False, False, False]


def test_trap_10_unknown_and_repeated_results_are_acknowledged() -> None:
    workunits(an_app(), 1)
    client = a_client()
    names = client.ask_for_work()
    client.report(*names)
    again = client.report(*names, upload=None)
    assert again.result_acks == tuple(names)
    assert client.report("never_heard_of", upload=None).result_acks == ("never_heard_of",)
    assert Result.objects.get().outcome == Outcome.SUCCESS


def test_trap_11_results_of_a_lost_reply_are_sent_again() -> None:
    workunits(an_app(), 2)
    client = a_client()
    client.ask()
    names = client.ask_for_work(seconds=1e9)
    client.held = []
    reply = client.ask(cpu_req_secs=1)
    assert [result.name for result in reply.results] == names
    assert "Resent lost task upper_0_0" in [message.text for message in reply.messages]
    assert set(Result.objects.values_list("resent_count", flat=True)) == {1}


def test_trap_11_failure_to_build_the_reply_leaves_results_unsent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workunits(an_app(), 1)
    client = a_client()
    client.ask()

    def broken(*_args: object, **_more: object) -> dict[str, object]:
        msg = "no answer can be made"
        raise ZeroDivisionError(msg)

    monkeypatch.setattr(compose, "work_part", broken)
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        client.ask(cpu_req_secs=1)
    assert Result.objects.get().server_state == ServerState.UNSENT


def test_trap_12_lost_result_expires_after_the_maximum_number_of_resends() -> None:
    workunits(an_app(), 1)
    client = a_client()
    client.ask_for_work()
    for _ in range(lost_results.MAX_RESENDS):
        client.held = []
        assert client.ask_for_work() == ["upper_0_0"]
    client.held = []
    reply = client.ask(cpu_req_secs=1)
    assert reply.results == ()
    assert "Didn't resend lost task upper_0_0 (expired)" in [m.text for m in reply.messages]
    assert Result.objects.filter(report_deadline__lt=timezone.now()).count() == 1


def test_lost_results_that_would_be_late_again_expire_instead_of_being_resent() -> None:
    workunits(an_app(), 3, rsc_fpops_est=1e12, delay_bound=timedelta(hours=1))
    client = a_client()
    client.ask()
    assert len(client.ask_for_work(seconds=1e9)) == 3
    client.held = []
    # 1000 s each, on one of four CPUs: each delays the next by 250 s.
    reply = client.ask(cpu_req_secs=1, estimated_delay=2300.0)
    texts = " ".join(message.text for message in reply.messages)
    assert (texts.count("Resent lost task"), texts.count("(expired)")) == (2, 1)
    assert len(reply.results) == 2
    assert Result.objects.filter(report_deadline__lt=timezone.now()).count() == 1


def test_trap_12_every_result_names_an_app_version_that_is_sent_with_it() -> None:
    workunits(an_app(), 2)
    reply = a_client().ask(cpu_req_secs=1e9)
    sent = {(v.platform, v.version_num, v.plan_class) for v in reply.app_versions}
    assert {(r.platform, r.version_num, r.plan_class) for r in reply.results} <= sent
    assert len(reply.results) == 2


def test_trap_14_the_code_sign_key_is_sent_only_to_a_client_without_one() -> None:
    client = a_client()
    assert client.ask().code_sign_key == signing.code_sign_key_text()
    assert client.ask().code_sign_key is None


def test_trap_14_a_rotated_key_is_sent_with_the_old_keys_signature() -> None:
    client = a_client()
    client.ask()
    old = client.code_sign_key
    signing.NewCodeSignKey().install()
    reply = client.ask()
    assert reply.code_sign_key == signing.code_sign_key_text() != old
    assert reply.code_sign_key_signature is not None


def test_trap_14_client_with_an_unknown_code_sign_key_gets_a_message_and_no_work() -> None:
    client = a_client(code_sign_key="1024\nabcdef\n.")
    workunits(an_app(), 1)
    reply = client.ask(cpu_req_secs=1)
    assert "changed its security key" in reply.messages[0].text
    assert reply.results == ()


def test_trap_17_zero_cpu_time_and_elapsed_time_are_accepted() -> None:
    workunits(an_app(), 1)
    client = a_client()
    client.report(*client.ask_for_work(), final_cpu_time=0.0, final_elapsed_time=0.0)
    result = Result.objects.get()
    assert (result.cpu_time, result.elapsed_time) == (0, 0)


def test_trap_21_reattached_client_keeps_its_host_and_its_results_are_detached() -> None:
    workunits(an_app(), 1)
    client = a_client()
    client.ask_for_work()
    again = replace(client, hostid=0, rpc_seqno=0, held=[])
    again.ask()
    assert again.hostid == client.hostid
    assert Result.objects.get().outcome == Outcome.CLIENT_DETACHED


def test_trap_21_second_client_on_a_computer_does_not_detach_results() -> None:
    workunits(an_app(), 1)
    client = a_client()
    client.ask_for_work(allow_multiple_clients=True)
    other = replace(client, hostid=0, rpc_seqno=0, held=[])
    other.ask(allow_multiple_clients=True)
    assert Result.objects.get().server_state == ServerState.IN_PROGRESS


def test_trap_23_venue_of_the_host_is_sent() -> None:
    client = a_client()
    client.ask()
    Host.objects.update(venue="school")
    assert client.ask().host_venue == "school"


def test_trap_24_reply_contains_the_configured_master_url() -> None:
    assert a_client().ask().master_url == settings.PROJECT.master_url


def test_trap_25_user_name_is_escaped_and_preferences_are_sent_as_raw_xml() -> None:
    client = a_client()
    Account.objects.update(name="<b>Ada & Co", project_prefs="<resource_share>50</resource_share>")
    body = requests.encode_request(client.request())
    content = RpcClient().post("/cgi/scheduler", data=body, content_type="text/xml").content
    assert b"<user_name>&lt;b&gt;Ada &amp; Co</user_name>" in content
    assert b"<resource_share>50</resource_share>" in content


@pytest.mark.parametrize(
    ("account_hash", "stored"),
    [("", True), ("own", True), ("0123456789abcdef0123456789abcdef", False)],
)
def test_preferences_of_another_account_are_not_stored(account_hash: str, stored: bool) -> None:
    client = a_client()
    client.ask()
    account = Account.objects.get()
    if account_hash == "own":
        account_hash = md5(account.email.encode(), usedforsecurity=False).hexdigest()
    text = "<mod_time>1700000000</mod_time>\n<max_ncpus_pct>20</max_ncpus_pct>"
    client.ask(global_preferences=text, global_prefs_source_email_hash=account_hash)
    account.refresh_from_db()
    assert ("<max_ncpus_pct>20<" in account.global_prefs) is stored


def test_trap_26_every_download_has_its_size_and_md5() -> None:
    workunits(an_app(), 1)
    reply = a_client().ask(cpu_req_secs=1)
    assert len(reply.files) == File.objects.count() == 1
    assert all(file.nbytes and file.md5_cksum for file in reply.files)


def test_trap_05_newest_version_number_is_sent() -> None:
    app = an_app()
    workunits(app, 1)
    an_app(version_num=101)
    reply = a_client().ask(cpu_req_secs=1)
    assert [version.version_num for version in reply.app_versions] == [101]
    assert AppVersion.objects.count() == 2


def test_version_published_between_two_requests_is_used_without_a_restart() -> None:
    app = an_app()
    workunits(app, 2)
    client = a_client()
    first = client.ask(cpu_req_secs=1)
    an_app(version_num=101)
    second = client.ask(cpu_req_secs=1)
    versions = [[one.version_num for one in reply.app_versions] for reply in (first, second)]
    assert versions == [[100], [101]]


def test_trap_32_aborted_result_without_time_or_stderr_is_accepted() -> None:
    workunits(an_app(), 1, delay_bound=timedelta(days=1))
    client = a_client()
    client.report(
        *client.ask_for_work(), upload=None, state=6, exit_status=202, final_elapsed_time=0.0
    )
    result = Result.objects.get()
    assert (result.outcome, result.exit_status, result.stderr) == (Outcome.CLIENT_ERROR, 202, "")


def test_acknowledged_trickle_is_stored_once() -> None:
    workunits(an_app(), 1)
    client = a_client()
    client.ask()
    (name,) = client.ask_for_work()
    said = messages.TrickleUp(result_name=name, time=7, text="<variety>hum</variety>\nhello")
    assert client.ask(trickles=(said,)).message_ack
    assert client.ask(trickles=(said,)).message_ack
    (kept,) = TrickleUp.objects.all()
    assert "hello" in kept.text
    assert not client.ask().message_ack


def test_trap_16_default_fpops_bound_gives_a_time_limit_above_two_minutes() -> None:
    """A client raises a limit under two minutes to twelve hours, even on a fast host."""
    workunits(an_app(), 1)
    reply = a_client().ask(cpu_req_secs=1)
    (version,), (workunit,) = reply.app_versions, reply.workunits
    assert workunit.rsc_fpops_bound is not None
    assert version.flops is not None
    assert workunit.rsc_fpops_bound / version.flops > 120
    assert workunit.rsc_fpops_bound / 250e9 > 120


def wsgi(method: str, body: bytes, **environ: object) -> tuple[str, bytes]:
    """Call the scheduler's fast path as a web server does; return status and body."""
    said: list[str] = []
    answer = scheduler_rpc.scheduler_app(
        {
            "REQUEST_METHOD": method,
            "CONTENT_LENGTH": str(len(body)),
            "wsgi.input": io.BytesIO(body),
            "REMOTE_ADDR": "127.0.0.1",
            **environ,
        },
        lambda status, _headers: said.append(status),  # type: ignore[arg-type,func-returns-value]
    )
    return said[0], b"".join(answer)


def test_fast_path_answers_get_and_post_and_returns_405_for_put(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scheduler_rpc, "close_old_connections", lambda: None)
    body = requests.encode_request(a_client().request(rpc_seqno=1, hostid=0))
    status, answer = wsgi("POST", body)
    assert status == "200 OK"
    assert b"<hostid>" in answer
    assert wsgi("GET", b"")[0] == "200 OK"
    assert wsgi("PUT", body) == ("405 Method Not Allowed", b"")


def test_fast_path_returns_500_and_logs_an_unexpected_exception(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(scheduler_rpc, "close_old_connections", lambda: None)
    monkeypatch.setattr(scheduler_rpc, "reply", lambda *_args: 1 / 0)
    assert wsgi("POST", b"<x/>")[0] == "500 Internal Server Error"
    assert "scheduler_failed" in caplog.text
