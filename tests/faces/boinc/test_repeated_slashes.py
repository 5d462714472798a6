"""Addresses with repeated slashes, as BOINC's `submit_api.py` builds them."""

from __future__ import annotations

import pytest
from django.utils import timezone

from scheduler import storage
from tests.conftest import NOON
from tests.faces.apis import a_program
from tests.faces.submitters import GOLDEN, KEY, World, asked, get, md5, post, send

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(timezone, "now", lambda: NOON)
    return World()


def test_job_file_request_with_two_slashes_gets_the_same_reply() -> None:
    xml = asked("query_files", "<batch_id>0</batch_id><phys_name>jf_0</phys_name>")
    assert post(xml, "/job_file.php") == post(xml, "job_file.php")


def test_get_output_with_two_slashes_returns_the_same_reply() -> None:
    query = {"cmd": "result_file", "result_name": "wu_done_0", "file_num": 0}
    query["auth_str"] = md5(f"{KEY}wu_done_0")
    single, double = get("get_output.php", **query), get("/get_output.php", **query)
    assert single[0] == "200 OK"
    assert double == single


@pytest.mark.parametrize("case", sorted(path.stem for path in GOLDEN.glob("*.req"))[:3])
def test_recorded_submission_with_two_slashes_is_not_redirected(case: str) -> None:
    request = (GOLDEN / f"{case}.req").read_bytes()
    status, _headers, reply = send(request.replace(b" /", b" //", 1))
    assert status == "200 OK"
    assert reply == (GOLDEN / f"{case}.resp").read_bytes()


def test_scheduler_request_with_repeated_slashes_is_answered() -> None:
    status, _headers, reply = send(
        b"POST //cgi//scheduler HTTP/1.1\r\nContent-Length: 0\r\nHost: 127.0.0.1:8000\r\n\r\n"
    )
    assert status == "200 OK"
    assert b"<scheduler_reply>" in reply


def test_download_with_two_slashes_is_found() -> None:
    storage.publish(storage.stage_bytes(b"content"), "in_1")
    status, _headers, content = get(f"/{storage.download_url_path('in_1')}")
    assert (status, content) == ("200 OK", b"content")


def test_admission_check_for_nginx_ignores_repeated_slashes(world: World) -> None:
    program = a_program(world.ada, "submit")
    asked_for = {"HTTP_X_ORIGINAL_METHOD": "POST", "HTTP_X_ORIGINAL_URI": "//api//v1/batches"}
    assert program.get("/api/admission", **asked_for).status_code == 204
