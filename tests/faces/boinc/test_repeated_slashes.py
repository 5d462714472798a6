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


def test_submitters_files_are_asked_for_behind_two_slashes() -> None:
    xml = asked("query_files", "<batch_id>0</batch_id><phys_name>jf_0</phys_name>")
    assert post(xml, "/job_file.php") == post(xml, "job_file.php")


def test_outputs_are_fetched_behind_two_slashes() -> None:
    query = {"cmd": "result_file", "result_name": "wu_done_0", "file_num": 0}
    query["auth_str"] = md5(f"{KEY}wu_done_0")
    single, double = get("get_output.php", **query), get("/get_output.php", **query)
    assert single[0] == "200 OK"
    assert double == single


@pytest.mark.parametrize("case", sorted(path.stem for path in GOLDEN.glob("*.req"))[:3])
def test_a_recorded_submission_is_answered_without_a_redirect(case: str) -> None:
    request = (GOLDEN / f"{case}.req").read_bytes()
    status, _headers, reply = send(request.replace(b" /", b" //", 1))
    assert status == "200 OK"
    assert reply == (GOLDEN / f"{case}.resp").read_bytes()


def test_the_scheduler_answers_behind_repeated_slashes() -> None:
    status, _headers, reply = send(
        b"POST //cgi//scheduler HTTP/1.1\r\nContent-Length: 0\r\nHost: 127.0.0.1:8000\r\n\r\n"
    )
    assert status == "200 OK"
    assert b"<scheduler_reply>" in reply


def test_a_download_is_found_behind_a_second_slash() -> None:
    storage.publish(storage.stage_bytes(b"content"), "in_1")
    status, _headers, content = get(f"/{storage.download_url_path('in_1')}")
    assert (status, content) == ("200 OK", b"content")


def test_nginx_is_told_of_the_same_address_whatever_its_slashes(world: World) -> None:
    program = a_program(world.ada, "submit")
    asked_for = {"HTTP_X_ORIGINAL_METHOD": "POST", "HTTP_X_ORIGINAL_URI": "//api//v1/batches"}
    assert program.get("/api/admission", **asked_for).status_code == 204
