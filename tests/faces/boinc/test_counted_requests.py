"""RPCs, uploads and HTTP requests are counted, with labels from fixed sets."""

from __future__ import annotations

import errno
import io
from dataclasses import replace

import pytest
from django.db import OperationalError

from project.monitoring.counting import counted
from scheduler import metrics, signing, storage
from scheduler.boinc import conversation, scheduler_rpc
from scheduler.boinc.rpc_counts import CALLER_OUTCOMES
from scheduler.boinc.uploads import upload_app
from scheduler.boinc.wire.uploads import UploadRequest, encode_request
from scheduler.dispatch.rules.fit import RefusalReason
from scheduler.health import maintenance
from scheduler.metrics import REGISTRY
from tests.conftest import NOON
from tests.scripted_client import a_client
from tests.work import an_app, workunits


def samples():
    """Return the value of each sample, by its name and labels."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for metric in REGISTRY.collect()
        for sample in metric.samples
        if not sample.name.endswith("_created")
    }


@pytest.fixture
def changes():
    """Return a function that returns the counters that have changed since the last call."""
    before = samples()

    def changed():
        nonlocal before
        now, old = samples(), before
        before = now
        return {
            key[0].removeprefix("manyhands_").removesuffix("_total")
            + "".join(f" {k}" for k in key[1:]): (value - old.get(key, 0))
            for key, value in now.items()
            if value != old.get(key, 0) and "duration" not in key[0]
        }

    return changed


@pytest.mark.django_db
def test_an_answered_rpc_is_counted_with_the_results_it_sent_and_acknowledged(changes):
    workunits(an_app(), 2)
    client = a_client()
    (name,) = client.ask_for_work()
    assert changes() == {"scheduler_rpcs answered": 1, "work_requests work": 1, "results_sent": 1}
    client.report(name)
    assert changes() == {"scheduler_rpcs answered": 1, "results_reported": 1}


@pytest.mark.django_db
def test_the_duration_of_an_rpc_is_observed():
    client = a_client()
    name = "manyhands_scheduler_rpc_duration_seconds_count"
    before = REGISTRY.get_sample_value(name)
    client.ask()
    assert REGISTRY.get_sample_value(name) == before + 1


@pytest.mark.django_db
def test_a_request_for_work_without_an_answer_is_counted_with_the_reasons(changes):
    workunits(an_app(), 2, rsc_memory_bound=1e15)
    assert a_client().ask_for_work() == []
    counted_changes = changes()
    assert counted_changes.pop("scheduler_rpcs answered") == 1
    assert counted_changes.pop("work_requests none") == 1
    assert counted_changes == {"work_refusals memory": pytest.approx(1, abs=1)}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ({"authenticator": "0" * 32}, "unknown_key"),
        ({"core_client_major_version": 6}, "client_too_old"),
        ({"code_sign_key": "the key of another project"}, "unknown_code_sign_key"),
    ],
)
def test_a_refused_rpc_is_counted_by_the_reason(fields, outcome, changes, settings):
    settings.PROJECT = replace(settings.PROJECT, min_client_version=70000)
    client = a_client()
    client.ask(**fields)
    assert changes() == {f"scheduler_rpcs {outcome}": 1}


def test_rpcs_that_are_refused_before_the_database_are_counted(changes, monkeypatch):
    def reply(body):
        return scheduler_rpc.reply(str(len(body)), io.BytesIO(body).read, "")

    reply(b"no XML")
    assert changes() == {"scheduler_rpcs unreadable": 1}
    scheduler_rpc.reply(str(10**12), io.BytesIO().read, "")
    assert changes() == {"scheduler_rpcs too_long": 1}
    maintenance.begin(now=NOON)
    request = b"<scheduler_request></scheduler_request>"
    reply(request)
    assert changes() == {"scheduler_rpcs maintenance": 1}
    maintenance.end()

    def fail(*_, **__):
        raise OperationalError("away")

    monkeypatch.setattr(scheduler_rpc._batches, "answer", fail)
    reply(request)
    assert changes() == {"scheduler_rpcs database": 1}
    monkeypatch.setattr(
        scheduler_rpc._batches,
        "answer",
        lambda *_, **__: (_ for _ in ()).throw(scheduler_rpc.QueueFull),
    )
    reply(request)
    assert changes() == {"scheduler_rpcs server_busy": 1}


def test_every_refusal_of_a_caller_has_an_outcome():
    assert CALLER_OUTCOMES.keys() == conversation.REFUSALS.keys()


def test_every_reason_to_send_no_work_has_a_counter():
    reasons = {key[1] for key in samples() if key[0] == "manyhands_work_refusals_total"}
    assert reasons == {reason.value for reason in RefusalReason}


def upload(body, changes, **environ):
    request = {
        "REQUEST_METHOD": "POST",
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.input": io.BytesIO(body),
    }
    upload_app(request | environ, lambda *_: None)
    return changes()


def test_uploads_are_counted_by_outcome_and_by_the_bytes_that_arrived(changes):
    query = b"<data_server_request><get_file_size>a_0_r1_0</get_file_size></data_server_request>"
    assert upload(query, changes) == {"uploads size_query": 1, "upload_bytes": len(query)}
    changed = upload(b"<file_upload><nbytes>1</nbytes><data>\n1", changes)
    assert changed["uploads rejected"] == 1


def test_an_announced_length_is_not_counted_as_received(changes):
    changed = upload(b"<data_", changes, CONTENT_LENGTH=str(10**17))
    assert changed["upload_bytes"] == 6


def a_granted_upload():
    signing.ensure_keys()
    name, nbytes = "a_0_r1_0", 1
    grant = signing.upload_grant(name, nbytes).strip()
    request = UploadRequest(name=name, max_nbytes=nbytes, grant=grant, nbytes=nbytes)
    return encode_request(request, b"1")


def test_upload_that_cannot_be_written_is_counted_as_an_error(changes, monkeypatch):
    def fail(*_, **__):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(storage, "put_upload", fail)
    changed = upload(a_granted_upload(), changes)
    assert changed.pop("upload_bytes") > 0
    assert changed == {"uploads error": 1}


def test_upload_whose_key_the_server_has_lost_is_counted_as_an_error(changes, monkeypatch):
    monkeypatch.setattr(signing, "check_upload_grant", lambda *_: signing.Grant.UNKNOWN_KEY)
    changed = upload(a_granted_upload(), changes)
    assert changed.pop("upload_bytes") > 0
    assert changed == {"uploads error": 1}


def test_upload_with_a_revoked_key_is_counted_as_postponed(changes, monkeypatch):
    """An operator has revoked the key, so this is no error of the server."""
    monkeypatch.setattr(signing, "check_upload_grant", lambda *_: signing.Grant.REVOKED)
    changed = upload(a_granted_upload(), changes)
    assert changed["uploads retry"] == 1


def test_stopped_uploads_are_counted(changes, settings):
    settings.VAR_DIR.mkdir(parents=True, exist_ok=True)
    (settings.VAR_DIR / "stop_upload").touch()
    assert upload(b"x", changes) == {"uploads stopped": 1, "upload_bytes": 1}


@pytest.mark.parametrize(
    ("path", "status", "expected"),
    [
        ("/cgi/scheduler", "200 OK", {"http_requests scheduler 2xx": 1}),
        ("/api/v1/batches", "404 Not Found", {"http_requests api 4xx": 1}),
        ("/admin/login/", "302 Found", {"http_requests admin 3xx": 1}),
        ("/wherever/%s", "500 Error", {"http_requests web 5xx": 1}),
        ("/download/1/x", "200 OK", {"http_requests download 2xx": 1, "download_bytes": 7}),
        ("/download/1/x", "404 Not Found", {"http_requests download 4xx": 1}),
    ],
)
def test_http_requests_are_counted_by_part_and_class_of_the_status(path, status, expected, changes):
    def app(_environ, start_response):
        start_response(status, [("Content-Length", "7")])
        return [b"content"]

    assert counted(app, {"PATH_INFO": path}, lambda *_: None) == [b"content"]
    assert changes() == expected


def test_download_that_asks_for_the_headers_only_counts_no_bytes(changes):
    def app(_environ, start_response):
        start_response("200 OK", [("Content-Length", "7")])
        return []

    counted(app, {"PATH_INFO": "/download/1/x", "REQUEST_METHOD": "HEAD"}, lambda *_: None)
    assert changes() == {"http_requests download 2xx": 1}


def test_an_exception_counts_as_a_server_error(changes):
    def app(_environ, _start_response):
        raise ValueError("odd")

    with pytest.raises(ValueError, match="odd"):
        counted(app, {"PATH_INFO": "/"}, lambda *_: None)
    assert changes() == {"http_requests web 5xx": 1}


def test_an_unknown_status_makes_no_new_series(changes):
    def app(_environ, start_response):
        start_response("799 Odd", [])
        return []

    series = set(samples())
    counted(app, {"PATH_INFO": "/"}, lambda *_: None)
    assert changes() == {}
    assert set(samples()) == series


def test_durations_are_those_of_parts_whose_clients_do_not_matter():
    kinds = {
        key[1] for key in samples() if key[0] == "manyhands_http_request_duration_seconds_count"
    }
    assert kinds == {"api", "admin", "web"} == {kind.value for kind in metrics.TIMED_KINDS}
