"""Files that live in an S3 store: clients are sent there, or get them through us."""

from __future__ import annotations

from dataclasses import replace
from threading import Thread
from urllib.parse import parse_qs, urlsplit
from wsgiref.simple_server import WSGIRequestHandler, make_server

import httpx
import pytest

from scheduler import storage
from scheduler.rpc.downloads import download_app
from tests import store
from tests.faces.test_download import get
from volunteer.transport import HttpTransport

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


def test_a_client_is_sent_to_an_address_that_is_signed_for_it_and_ends(bucket):
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


def test_head_is_signed_as_head(bucket):
    answer = get(publish(), "HEAD")
    assert httpx.head(answer.headers["Location"]).headers["Content-Length"] == str(len(DATA))


def test_clients_are_sent_to_the_public_address(bucket, settings):
    settings.STORAGE = replace(bucket, public="https://files.example.org/")
    where = get("/" + storage.download_url_path("in_1")).headers["Location"]
    assert where.startswith(f"https://files.example.org/{bucket.bucket}/ours/download/")


def test_what_is_on_the_disk_is_given_from_there(bucket):
    storage.publish(storage.stage_bytes(b"here"), "in_1")
    assert get("/" + storage.download_url_path("in_1")).body == b"here"


def test_no_name_that_we_would_not_give_is_signed(bucket):
    for path in ("/download/0/../secret", "/download/0/in_1", "/download/2b/.in_1"):
        assert get(path).status == "404 Not Found"


def test_a_file_is_given_through_us_with_the_headers_of_the_disk(streamed):
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
def test_a_range_is_given_through_us(streamed, asked, start, stop):
    answer = get(publish(), HTTP_RANGE=asked)
    assert answer.status == "206 Partial Content"
    assert answer.body == DATA[start:stop]
    assert answer.headers["Content-Range"] == f"bytes {start}-{stop - 1}/{len(DATA)}"


def test_a_range_of_another_file_is_answered_with_the_whole(streamed):
    url = publish()
    tag = get(url).headers["ETag"]
    assert get(url, HTTP_RANGE="bytes=5-9", HTTP_IF_RANGE=tag).body == DATA[5:10]
    assert get(url, HTTP_RANGE="bytes=5-9", HTTP_IF_RANGE='"other"').body == DATA


def test_a_range_that_is_not_there_is_refused_with_the_size(streamed):
    answer = get(publish(), HTTP_RANGE="bytes=768000-")
    assert answer.status == "416 Range Not Satisfiable"
    assert answer.headers["Content-Range"] == "bytes */768000"


def test_what_is_nowhere_is_not_found(streamed):
    assert get("/" + storage.download_url_path("nowhere")).status == "404 Not Found"


def test_while_the_store_is_away_clients_are_told_to_come_again(streamed, settings, caplog):
    settings.STORAGE = replace(streamed, endpoint="http://127.0.0.1:9")
    answer = get("/" + storage.download_url_path("in_1"))
    assert answer.status == "503 Service Unavailable"
    assert answer.headers["Retry-After"] == "60"
    assert "does not answer" in caplog.records[-1].reason


def test_without_keys_nothing_is_signed_and_clients_come_again(
    bucket, monkeypatch, settings, caplog
):
    for name in store.KEYS:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    settings.STORAGE = replace(bucket, prefix="without")
    answer = get("/" + storage.download_url_path("in_1"))
    assert answer.status == "503 Service Unavailable"
    assert "set AWS_ACCESS_KEY_ID" in caplog.records[-1].reason


class Quiet(WSGIRequestHandler):
    def log_message(self, *words):
        """Nobody reads it."""


def test_our_own_volunteer_follows_and_goes_on_where_it_was(bucket):
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
