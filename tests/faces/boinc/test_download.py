"""Downloads through the WSGI function: whole files, ranges, and missing files."""

from __future__ import annotations

import errno
import os
from collections import namedtuple
from urllib.parse import unquote
from wsgiref.util import FileWrapper, setup_testing_defaults
from wsgiref.validate import validator

import pytest

from scheduler import storage
from scheduler.boinc.downloads import download_app

DATA = bytes(range(256)) * 100
LARGE = os.urandom(1_000_003)

Answer = namedtuple("Answer", "status headers body")  # noqa: PYI024 - tests need no types


def publish(name="in_1", data=DATA) -> str:
    storage.publish(storage.stage_bytes(data), name)
    return "/" + storage.download_url_path(name)


def get(url, method="GET", *, checked=True, **environ) -> Answer:
    environ = {
        "REQUEST_METHOD": method,
        "PATH_INFO": unquote(url).encode().decode("latin-1"),
        "SCRIPT_NAME": "",
        "QUERY_STRING": "",
    } | environ
    setup_testing_defaults(environ)
    started = []
    app = validator(download_app) if checked else download_app
    answer = app(environ, lambda *given: started.append(given))
    content = b"".join(answer)
    if hasattr(answer, "close"):
        answer.close()
    ((status, headers),) = started
    headers = dict(headers)
    assert "Content-Encoding" not in headers
    if method != "HEAD" and "304" not in status:
        assert int(headers["Content-Length"]) == len(content)
    return Answer(status, headers, content)


@pytest.mark.parametrize("data", [b"", b"x", DATA, LARGE], ids=["empty", "one", "some", "large"])
def test_published_file_is_returned_complete(data) -> None:
    answer = get(publish(data=data))
    assert answer.status == "200 OK"
    assert answer.body == data
    assert answer.headers["Accept-Ranges"] == "bytes"
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["Last-Modified"].endswith("GMT")
    assert "immutable" in answer.headers["Cache-Control"]


def test_head_returns_the_headers_of_get_without_a_body() -> None:
    url = publish()
    whole, head = get(url), get(url, "HEAD", checked=False)
    assert head.status == "200 OK"
    assert head.headers == whole.headers
    assert head.body == b""
    assert get("/download/0/absent", "HEAD", checked=False).body == b""


@pytest.mark.parametrize("name", ["a b#?.txt", "é"])
def test_file_name_with_special_characters_is_found(name) -> None:
    assert get(publish(name)).body == DATA


def test_path_before_the_fan_out_folder_is_ignored() -> None:
    url = publish()
    assert get("/project" + url).body == DATA
    assert get(url.removeprefix("/download")).body == DATA


@pytest.mark.parametrize("data", [DATA, LARGE], ids=["some", "large"])
@pytest.mark.parametrize(
    ("wanted", "start", "stop"),
    [
        ("bytes=0-", 0, None),
        ("bytes=5000-", 5000, None),
        ("bytes=0-0", 0, 1),
        ("bytes=10-19", 10, 20),
        ("bytes=10-99999999999", 10, None),
        ("bytes=-7", -7, None),
        ("bytes=-99999999999", 0, None),
    ],
)
def test_range_request_returns_206_with_the_range(data, wanted, start, stop) -> None:
    answer = get(publish(data=data), HTTP_RANGE=wanted)
    assert answer.status == "206 Partial Content"
    assert answer.body == data[start:stop]
    first = range(len(data))[start]
    assert (
        answer.headers["Content-Range"]
        == f"bytes {first}-{first + len(answer.body) - 1}/{len(data)}"
    )


@pytest.mark.parametrize("wanted", [f"bytes={len(DATA)}-", "bytes=99999999-100000000", "bytes=-0"])
def test_range_beyond_the_end_returns_416(wanted) -> None:
    answer = get(publish(), HTTP_RANGE=wanted)
    assert answer.status == "416 Range Not Satisfiable"
    assert answer.headers["Content-Range"] == f"bytes */{len(DATA)}"


@pytest.mark.parametrize(
    "wanted",
    [
        "bytes=0-1,5-6",
        "bytes=-",
        "bytes=9-5",
        "bytes=a-b",
        "lines=1-2",
        "",
        "bytes=" + "9" * 30 + "-",
    ],
)
def test_unsupported_range_returns_the_whole_file(wanted) -> None:
    answer = get(publish(), HTTP_RANGE=wanted)
    assert answer.status == "200 OK"
    assert answer.body == DATA


def test_range_with_a_different_if_range_returns_the_whole_file() -> None:
    url = publish()
    tag = get(url).headers["ETag"]
    assert get(url, HTTP_RANGE="bytes=5-", HTTP_IF_RANGE=tag).body == DATA[5:]
    assert get(url, HTTP_RANGE="bytes=5-", HTTP_IF_RANGE='"another"').body == DATA


def test_etag_differs_by_content_and_a_match_returns_304() -> None:
    one, other = publish(), publish("in_2", b"other")
    tag = get(one).headers["ETag"]
    assert tag != get(other).headers["ETag"]
    answer = get(one, HTTP_IF_NONE_MATCH=f'"x", {tag}', checked=False)
    assert (answer.status, answer.body) == ("304 Not Modified", b"")
    assert get(other, HTTP_IF_NONE_MATCH=tag).status == "200 OK"


def test_file_without_a_stored_digest_has_an_etag() -> None:
    url = publish()
    os.removexattr(storage.download_path("in_1"), storage.DIGEST_ATTRIBUTE)
    answer = get(url)
    assert answer.headers["ETag"].startswith(f'"{len(DATA):x}-')
    assert answer.body == DATA


def test_wsgi_file_wrapper_sends_files_and_ranges_from_the_right_offset() -> None:
    url = publish(data=LARGE)
    way = {"wsgi.file_wrapper": FileWrapper}
    assert get(url, **way).body == LARGE
    assert get(url, HTTP_RANGE="bytes=1000-", **way).body == LARGE[1000:]
    assert get(url, HTTP_RANGE="bytes=1000-600999", **way).body == LARGE[1000:601_000]


@pytest.mark.parametrize(
    "path",
    ["/download/0/absent", "/download/", "/download/in_1", "", "/", "/download/../keys/code_sign_private",
     "/download/.staging/x", "/download/0/..", "/download/0/%2e%2e", "/download/0/a\0b"],
)  # fmt: skip
def test_missing_or_unsafe_path_returns_404(path) -> None:
    publish()
    answer = get(path)
    assert answer.status == "404 Not Found"
    assert answer.headers["Content-Type"] == "text/plain"


def test_file_under_a_wrong_fan_out_folder_returns_404() -> None:
    url = publish()
    fan = storage.fan_out("in_1")
    assert get(url.replace(f"/{fan}/", f"/{int(fan, 16) ^ 1:x}/")).status == "404 Not Found"
    assert get(url.replace(f"/{fan}/", f"/0{fan}/")).status == "404 Not Found"


def test_path_that_is_not_utf_8_returns_404() -> None:
    assert get("", PATH_INFO="/download/0/\xff").status == "404 Not Found"


def test_method_other_than_get_and_head_returns_405() -> None:
    answer = get(publish(), "POST")
    assert answer.status == "405 Method Not Allowed"
    assert answer.headers["Allow"] == "GET, HEAD"


def test_trap_07_unreadable_file_returns_503_instead_of_404(monkeypatch) -> None:
    """With status 404 clients fail the results that need the file; with 503 they retry."""
    url = publish()

    def broken(_name):
        raise PermissionError(errno.EACCES, "not today")

    monkeypatch.setattr(storage, "open_download", broken)
    assert get(url).status == "503 Service Unavailable"


def test_trap_26_size_and_md5_are_known_and_a_download_can_be_resumed() -> None:
    staged = storage.stage_bytes(DATA)
    assert (staged.digest.nbytes, len(staged.digest.md5)) == (len(DATA), 32)
    storage.publish(staged, "in_1")
    url = "/" + storage.download_url_path("in_1")
    begun = get(url, HTTP_RANGE="bytes=0-9999").body[
        :-5000
    ]  # clients truncate partial files that they do not trust
    rest = get(url, HTTP_RANGE=f"bytes={len(begun)}-")
    assert rest.status == "206 Partial Content"
    assert begun + rest.body == DATA
