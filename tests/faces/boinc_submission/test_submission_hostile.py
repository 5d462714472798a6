"""Hostile and invalid requests to BOINC's submission interface."""

from __future__ import annotations

import time

import pytest
from django.db import OperationalError
from django.utils import timezone

from scheduler.boinc_submission import submission_reads as queries
from scheduler.boinc_submission.wire import replies
from scheduler.health import maintenance
from scheduler.models import (
    Batch,
    Workunit,
)
from tests.conftest import NOON
from tests.faces.submitters import (
    INLINE,
    World,
    asked,
    plain_post,
    post,
    refusal,
    send,
    submitted,
)

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(timezone, "now", lambda: NOON)
    return World()


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("", "The request does not begin with an element."),
        ("ping", "The request does not begin with an element."),
        ("<ping>", "The request ends before &lt;/ping&gt;"),
        ("<ping></pong>", "is not closed"),
        ('<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><ping>&a;</ping>', "document type"),
        ("<ping><!DOCTYPE x></ping>", "A document type declaration is not accepted."),
        ("<ping>\0</ping>", "The request has a control character."),
        (b"<ping>\xff\xfe</ping>", "Byte 6 is not valid UTF-8."),
        ('<?xml version="1.0" encoding="utf-16"?><ping/>', "The encoding utf-16 is not supported."),
        ("<a>" * 100 + "</a>" * 100, "nested deeper than"),
        ("<!-- never closed", "The request does not begin with an element."),
    ],
)
def test_unparsable_request_is_refused_with_an_error_message(body: str | bytes, why: str) -> None:
    reply = post(body)
    assert reply.startswith("<error>\n    <error_num>-1</error_num>\n    <error_msg>can't parse")
    assert why in reply


def test_xml_entities_are_not_expanded() -> None:
    bomb = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 30))
    began = time.perf_counter()
    assert "document type" in post(f"<!DOCTYPE x [{bomb}]><ping>&e29;</ping>")
    assert "<success>1</success>" in post("<ping>&e29;&e29;</ping>")
    assert time.perf_counter() - began < 5


def test_latin_1_is_decoded_if_declared() -> None:
    body = '<?xml version="1.0" encoding="ISO-8859-1"?>' + asked(
        "create_batch", "<app_name>remote_test</app_name><batch_name>Zoë</batch_name>"
    )
    post(body.encode("latin-1"))
    assert Batch.objects.get(pk=1000).name == "Zoë"
    assert "<name>Zo&#235;</name>" in post(asked("query_batches"))


@pytest.mark.parametrize("name", ["x' OR '1'='1", "'; DROP TABLE batch; --", "%s", '"', "\\"])
def test_sql_and_markup_in_a_batch_name_are_stored_literally(name: str) -> None:
    safe = name.replace("&", "&amp;").replace("<", "&lt;")
    xml = f"<app_name>remote_test</app_name><batch_name>{safe}</batch_name>"
    assert "<batch_id>1000</batch_id>" in post(asked("create_batch", xml))
    assert Batch.objects.get(pk=1000).name == name
    assert "<njobs>0</njobs>" in post(asked("query_batch", f"<batch_name>{safe}</batch_name>"))
    assert "no such batch" in post(asked("query_batch", f"<batch_name>{safe}x</batch_name>"))


@pytest.mark.lengthy
def test_ten_megabytes_of_jobs_are_read_in_seconds(world: World) -> None:
    content = "0123456789abcdef" * 60
    jobs = "".join(f"<job><name>m{n}</name>{INLINE.format(content)}</job>" for n in range(10_000))
    began = time.perf_counter()
    assert "<batch_id>55" in submitted(jobs)
    assert time.perf_counter() - began < 60
    assert Workunit.objects.filter(batch_id=55).count() == 10_000


def test_request_over_the_size_limit_is_refused(settings) -> None:
    import dataclasses

    settings.PROJECT = dataclasses.replace(settings.PROJECT, max_request_bytes=1 << 20)
    for reply in (
        post("<ping>" + "x" * (2 << 20) + "</ping>"),
        plain_post(
            b'--b\r\nContent-Disposition: form-data; name="request"\r\n\r\n'
            + b"x" * (2 << 20)
            + b"\r\n--b--\r\n",
            "multipart/form-data; boundary=b",
        ),
    ):
        assert "The request is longer than 1 MB. Hint: submit it in several batches." in reply


FILE_FIRST = (
    b'--b\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\nx\r\n'
    b'--b\r\nContent-Disposition: form-data; name="request"\r\n\r\n<ping/>\r\n--b--\r\n'
)


@pytest.mark.parametrize(
    ("body", "content_type", "why"),
    [
        (b"a=b", "application/x-www-form-urlencoded", "The form has no field `request`. Hint"),
        (b"x", "multipart/form-data", "The Content-Type has no valid boundary"),
        (b"x", "multipart/form-data; boundary=" + "b" * 300, "no valid boundary"),
        (b"x", "multipart/form-data; boundary=b", "has no field `request` before the files."),
        (FILE_FIRST, "multipart/form-data; boundary=b", "has no field `request` before the"),
    ],
)
def test_unparsable_form_is_refused_with_an_error_message(body, content_type, why) -> None:
    assert why in plain_post(body, content_type)


def test_request_without_multipart_form_is_accepted() -> None:
    for content_type in ("text/xml", "application/x-www-form-urlencoded", ""):
        assert plain_post(b"<ping/>", content_type) == "<ping>\n<success>1</success>\n</ping>\n"
    body = b"first=1&request=%3Cping%3E+%3C%2Fping%3E&last=2"
    assert "<success>" in plain_post(body, "application/x-www-form-urlencoded")


def test_get_request_returns_405() -> None:
    assert send(b"GET /submit_rpc_handler.php HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")[0][:3] == "405"
    assert send(b"GET /job_file.php HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")[0][:3] == "405"


def test_database_outage_returns_the_project_down_error(monkeypatch) -> None:
    def away(*_: object, **_of: object) -> None:
        raise OperationalError("away")

    monkeypatch.setattr(queries, "batches_of", away)
    monkeypatch.setattr("scheduler.boinc_submission.submission_reads.batches_of", away)
    reply = post(asked("query_batches"))
    assert reply.startswith(refusal("query_batches", "The project's database is unavailable", -183))


def test_maintenance_returns_the_project_down_error() -> None:
    maintenance.begin(message="moving house", now=NOON)
    assert post("<ping/>").startswith(refusal("ping", "The project is down for maintenance", -183))


def test_error_message_is_truncated_to_255_characters() -> None:
    reply = replies.error("x", -1, "Zoë & <b> " * 100).decode()
    text = reply.split("<error_msg>")[1].split("</error_msg>")[0]
    assert len(text) <= 255
    assert text.endswith("...")
