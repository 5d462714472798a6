"""Downloads of files in an S3 store, by redirect or through the server."""

from __future__ import annotations

from dataclasses import replace
from threading import Thread
from urllib.parse import parse_qs, urlsplit
from wsgiref.simple_server import WSGIRequestHandler, make_server

import httpx
import pytest
from django.core.management import CommandError, call_command

from scheduler import storage
from scheduler.boinc.downloads import download_app
from scheduler.boinc_submission.handler import safe_reply
from scheduler.models import File, FileHold, Submitter
from tests import store
from tests.conftest import NOON
from tests.faces.api.test_api_files import Caller
from tests.faces.boinc.test_download import get
from tests.rows import an_account, an_app
from volunteer.transport import HttpTransport

pytestmark = pytest.mark.lengthy

DATA = bytes(range(256)) * 3000


@pytest.fixture(scope="module")
def endpoint():
    with store.a_server() as address:
        yield address


@pytest.fixture
def bucket(endpoint, settings, monkeypatch):
    for name, value in store.KEYS.items():
        monkeypatch.setenv(name, value)
    settings.STORAGE = store.a_bucket(endpoint)
    return settings.STORAGE


@pytest.fixture
def streamed(bucket, settings):
    settings.STORAGE = replace(bucket, redirects=False)
    return settings.STORAGE


def publish(name="in_1", data=DATA):
    storage.publish_all({name: storage.stage_bytes(data)})
    return "/" + storage.download_url_path(name)


def test_download_redirects_to_a_signed_url_that_expires(bucket):
    answer = get(publish())
    assert answer.status == "302 Found"
    assert answer.headers["Cache-Control"] == "no-store"
    where = answer.headers["Location"]
    assert where.startswith(f"{bucket.endpoint}/{bucket.bucket}/ours/download/")
    assert parse_qs(urlsplit(where).query)["X-Amz-Expires"] == ["3600"]
    given = httpx.get(where)
    assert given.content == DATA
    assert "immutable" in given.headers["Cache-Control"]
    assert httpx.get(where, headers={"Range": "bytes=256-511"}).content == DATA[256:512]


def test_head_request_redirects_to_a_url_signed_for_head(bucket):
    answer = get(publish(), "HEAD")
    assert httpx.head(answer.headers["Location"]).headers["Content-Length"] == str(len(DATA))


def test_redirect_uses_the_public_address_of_the_store(bucket, settings):
    settings.STORAGE = replace(bucket, public="https://files.example.org/")
    where = get("/" + storage.download_url_path("in_1")).headers["Location"]
    assert where.startswith(f"https://files.example.org/{bucket.bucket}/ours/download/")


def test_file_on_the_local_disk_is_served_without_a_redirect(bucket):
    storage.publish(storage.stage_bytes(b"here"), "in_1")
    assert get("/" + storage.download_url_path("in_1")).body == b"here"


def test_unsafe_download_path_returns_404_instead_of_a_signed_url(bucket):
    for path in ("/download/0/../secret", "/download/0/in_1", "/download/2b/.in_1"):
        assert get(path).status == "404 Not Found"


def test_streamed_file_has_the_same_headers_as_a_local_file(streamed):
    url = publish()
    answer = get(url)
    digest = storage.stage_bytes(DATA).digest
    assert (answer.status, answer.body) == ("200 OK", DATA)
    assert answer.headers["ETag"] == f'"{digest.sha256}"'
    assert "immutable" in answer.headers["Cache-Control"]
    assert answer.headers["Last-Modified"].endswith("GMT")
    head = get(url, "HEAD")
    assert (head.body, head.headers["Content-Length"]) == (b"", str(len(DATA)))
    assert get(url, HTTP_IF_NONE_MATCH=answer.headers["ETag"]).status == "304 Not Modified"


@pytest.mark.parametrize(
    ("asked", "start", "stop"), [("bytes=5-9", 5, 10), ("bytes=767990-", 767990, 768000)]
)
def test_range_request_is_streamed_from_the_store(streamed, asked, start, stop):
    answer = get(publish(), HTTP_RANGE=asked)
    assert answer.status == "206 Partial Content"
    assert answer.body == DATA[start:stop]
    assert answer.headers["Content-Range"] == f"bytes {start}-{stop - 1}/{len(DATA)}"


def test_streamed_range_with_a_different_if_range_returns_the_whole_file(streamed):
    url = publish()
    tag = get(url).headers["ETag"]
    assert get(url, HTTP_RANGE="bytes=5-9", HTTP_IF_RANGE=tag).body == DATA[5:10]
    assert get(url, HTTP_RANGE="bytes=5-9", HTTP_IF_RANGE='"other"').body == DATA


def test_streamed_range_beyond_the_end_returns_416_with_the_size(streamed):
    answer = get(publish(), HTTP_RANGE="bytes=768000-")
    assert answer.status == "416 Range Not Satisfiable"
    assert answer.headers["Content-Range"] == "bytes */768000"


def test_file_missing_from_the_store_returns_404(streamed):
    assert get("/" + storage.download_url_path("nowhere")).status == "404 Not Found"


def test_download_returns_503_with_retry_after_if_the_store_is_unreachable(
    streamed, settings, caplog
):
    settings.STORAGE = replace(streamed, endpoint="http://127.0.0.1:9")
    answer = get("/" + storage.download_url_path("in_1"))
    assert answer.status == "503 Service Unavailable"
    assert answer.headers["Retry-After"] == "60"
    assert "does not answer" in caplog.records[-1].reason


def test_download_returns_503_if_the_store_keys_are_missing(bucket, monkeypatch, settings, caplog):
    for name in store.KEYS:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    settings.STORAGE = replace(bucket, prefix="without")
    answer = get("/" + storage.download_url_path("in_1"))
    assert answer.status == "503 Service Unavailable"
    assert "set AWS_ACCESS_KEY_ID" in caplog.records[-1].reason


class Quiet(WSGIRequestHandler):
    def log_message(self, *words):
        """Drop the log line."""


def test_volunteer_client_follows_the_redirect_and_resumes_at_an_offset(bucket):
    url = publish()
    with make_server("127.0.0.1", 0, download_app, handler_class=Quiet) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        transport = HttpTransport("x86_64-pc-linux-gnu")
        try:
            for offset in (0, 700_000):
                with transport.stream(f"http://127.0.0.1:{server.server_port}{url}", offset) as got:
                    assert got.start == offset
                    assert b"".join(got.chunks) == DATA[offset:]
        finally:
            transport.close()
            server.shutdown()
            thread.join(10)


# Other faces, while the store is away


@pytest.fixture
def caller(client):
    account = an_account("ada")
    Submitter.objects.create(account=account, all_apps=True, created_at=NOON)
    return Caller(client, account)


@pytest.fixture
def away(bucket, settings):
    settings.STORAGE = replace(bucket, endpoint="http://127.0.0.1:9")


@pytest.mark.django_db
def test_file_uploaded_over_the_api_is_stored_in_the_store(bucket, caller):
    assert caller.put(b"content").status_code == 201
    [key] = store.keys_in(bucket)
    assert key.rpartition("/")[2] == File.objects.get().name


@pytest.mark.django_db
def test_api_upload_returns_503_and_stores_nothing_if_the_store_is_unreachable(
    away, caller, caplog
):
    answer = caller.put(b"content")
    assert (answer.status_code, answer.json()["code"]) == (503, "store_away")
    assert answer["Retry-After"] == "5"
    assert "Hint" not in answer.json()["detail"]
    assert not File.objects.exists()
    assert not FileHold.objects.exists()
    [said] = [one.error for one in caplog.records if one.message == "api_request_deferred"]
    assert "does not answer" in said


def test_boinc_submission_returns_an_error_if_the_store_is_unreachable(caplog):
    def answer():
        msg = "The store does not answer."
        raise storage.StoreAway(msg)

    said = safe_reply("submit_batch", answer).content
    assert b"The project's file store is unavailable; try again." in said
    assert caplog.records[-1].message == "submission_refused"


@pytest.mark.django_db
@pytest.mark.parametrize(
    "words", [("publish_app", "sieve", "1.00", "x86_64-pc-linux-gnu"), ("submit_work", "app")]
)
def test_commands_fail_with_a_hint_if_the_store_is_unreachable(away, tmp_path, words):
    an_app("app")
    path = tmp_path / "file"
    path.write_bytes(b"content")
    options = ("--create-app",) if words[0] == "publish_app" else ()
    with pytest.raises(CommandError, match=r"does not answer.* Hint: nothing was lost"):
        call_command(*words, str(path), *options)
    assert not File.objects.exists()
