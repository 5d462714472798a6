"""Uploads through the WSGI function: formats of clients, interruptions and faults."""

from __future__ import annotations

import errno
import hashlib
import io
import logging
import os
import re
import secrets
import threading
from collections import namedtuple
from dataclasses import replace
from pathlib import Path
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from scheduler import signing, storage
from scheduler.boinc.uploads import upload_app
from scheduler.boinc.wire import uploads
from scheduler.boinc.wire.uploads import SizeQuery, UploadReply, UploadRequest

CAPTURED = Path(__file__).parents[2] / "golden" / "captured"
REPLAYED = [
    "01_attach/0011", "03_dl_errors/0042", "02_exits/0028", "06c_perm/0090", "06d_trans/0094",
    "06e_500/0111", "06f_404/0129", "06i_nosig/0149", "06j_multiurl/0153", "08a_resume/0073",
    "12_minimal/0159", "8_01_attach/0012", "8_02_mix/0042", "8_02_mix/0038", "8_06f_404/0055",
    "8_3_programs/0023", "8_3_programs/0045",
]  # fmt: skip
DATA = b"2 is prime, and odd.\n" * 3000

Answer = namedtuple("Answer", "status headers body reply")  # noqa: PYI024 - tests need no types


@pytest.fixture(autouse=True)
def keys(own_folders) -> None:
    signing.ensure_keys()


def call(body=b"", *, stream=None, length=None, **environ) -> Answer:
    """Call the application through wsgiref's validator; return the response."""
    stream = stream or io.BytesIO(body)
    environ = {
        "REQUEST_METHOD": "POST",
        "SCRIPT_NAME": "",
        "QUERY_STRING": "",
        "PATH_INFO": "/upload/file_upload_handler",
        "CONTENT_TYPE": "application/x-www-form-urlencoded",
        "CONTENT_LENGTH": str(len(body) if length is None else length),
        "wsgi.input": stream,
    } | environ
    setup_testing_defaults(environ)
    started = []
    answer = validator(upload_app)(environ, lambda *given: started.append(given))
    content = b"".join(answer)
    answer.close()
    ((status, headers),) = started
    headers = dict(headers)
    assert int(headers["Content-Length"]) == len(content)
    return Answer(status, headers, content, uploads.decode_reply(content))


def request_for(name="out_0", data=DATA, *, max_nbytes=100_000, **changes) -> UploadRequest:
    made = UploadRequest(
        name=name,
        max_nbytes=max_nbytes,
        grant=signing.upload_grant(name, max_nbytes).strip(),
        nbytes=len(data),
        md5=hashlib.md5(data).hexdigest(),
        client_version=(7, 20, 5),
    )
    return replace(made, **changes)


def send(name="out_0", data=DATA, *, body=None, **changes) -> UploadReply:
    """Upload a file; `body` replaces the data after the header."""
    request = request_for(name, data, **changes)
    body = data[max(0, request.offset) :] if body is None else body
    return call(uploads.encode_request(request, body)).reply


def ask_size(name="out_0") -> UploadReply:
    return call(uploads.encode_request(SizeQuery(name))).reply


def cut_off(name="out_0", data=DATA, *, after: int, offset=0) -> UploadReply:
    """Upload a file, with the connection lost after `after` bytes."""
    whole = uploads.encode_request(request_for(name, data, offset=offset), data[offset:])
    kept = len(whole) - len(data[offset:]) + after
    return call(whole[:kept], length=len(whole)).reply


def arrived(name="out_0") -> bytes | None:
    path = storage.upload_path(name)
    return path.read_bytes() if path.exists() else None


class Counting(io.BytesIO):
    """A body that counts the bytes read from it."""

    taken = 0

    def read(self, *args):
        chunk = super().read(*args)
        self.taken += len(chunk)
        return chunk


# Uploads of real clients


def captured_body(name: str) -> bytes:
    (path,) = CAPTURED.glob(f"{name}_*.req")
    content = path.read_bytes()
    return content[content.index(b"<data_server_request>") :]


@pytest.mark.parametrize("name", REPLAYED)
def test_recorded_upload_of_a_boinc_client_is_stored(name) -> None:
    body = captured_body(name)
    request, start = uploads.decode_request(body)
    grant = signing.upload_grant(request.name, request.max_nbytes).strip()
    ours = re.sub(rb"(<xml_signature>\n)[^<]*", rb"\g<1>" + grant.encode(), body, count=1)
    answer = call(ours)
    assert answer.status == "200 OK"
    assert answer.body == b"<data_server_reply>\n    <status>0</status>\n</data_server_reply>\n"
    assert arrived(request.name) == body[start:]
    digest = storage.finished_uploads([request.name])[request.name]
    assert (digest.nbytes, digest.md5) == (request.nbytes, request.md5)
    assert digest.sha256 == hashlib.sha256(body[start:]).hexdigest()


def test_received_part_of_a_truncated_recorded_upload_is_kept() -> None:
    body = captured_body("8_01_attach/0017")  # 307200 bytes were announced, the capture was cut
    request, start = uploads.decode_request(body)
    grant = signing.upload_grant(request.name, request.max_nbytes).strip().encode()
    ours = re.sub(rb"(<xml_signature>\n)[^<]*", rb"\g<1>" + grant, body, count=1)
    reply = call(ours, length=len(ours) + 307_200 - (len(body) - start)).reply
    assert reply.status == 1
    assert ask_size(request.name).file_size == len(body) - start - 1


@pytest.mark.parametrize("name", ["01_attach/0012", "8_01_attach/0013"])
def test_recorded_upload_with_altered_content_is_discarded(name) -> None:
    body = captured_body(
        name
    )  # host names in the file were replaced after the capture, its MD5 was not
    request, _ = uploads.decode_request(body)
    grant = signing.upload_grant(request.name, request.max_nbytes).strip().encode()
    reply = call(re.sub(rb"(<xml_signature>\n)[^<]*", rb"\g<1>" + grant, body, count=1)).reply
    assert reply.status == 1
    assert f"not {request.md5} as announced" in reply.message
    assert ask_size(request.name) == UploadReply.size(0)


def test_recorded_size_query_of_a_boinc_client_is_answered() -> None:
    reply = call(captured_body("08a_resume/0072"))
    assert b"<status>0</status>\n    <file_size>0</file_size>" in reply.body


@pytest.mark.parametrize("name", ["01_attach/0011", "06i_nosig/0149"])
def test_recorded_upload_with_a_foreign_or_missing_signature_is_refused(name) -> None:
    assert call(captured_body(name)).reply.status == -1


# Sizes


def test_size_query_for_a_missing_file_returns_zero() -> None:
    assert ask_size() == UploadReply.size(0)


def test_size_query_for_a_finished_file_returns_its_size() -> None:
    send()
    assert ask_size() == UploadReply.size(len(DATA))


def test_size_query_for_a_partial_file_returns_one_byte_less() -> None:
    cut_off(after=20_000)
    assert ask_size() == UploadReply.size(19_999)


def test_complete_but_unfinished_upload_is_not_reported_as_complete(monkeypatch) -> None:
    """A crash between the last byte and the final name must not lose the result."""

    def crash(*_args, **_kwargs):
        raise RuntimeError("power cut")

    monkeypatch.setattr(storage.Upload, "finish", crash)
    assert send().status == 1
    monkeypatch.undo()
    reply = ask_size()
    assert reply.file_size < len(DATA)
    assert send(offset=reply.file_size) == UploadReply.done()
    assert arrived() == DATA


def test_an_empty_file_is_created() -> None:
    assert send(data=b"") == UploadReply.done()
    assert arrived() == b""
    assert storage.finished_uploads(["out_0"])["out_0"].nbytes == 0


def test_file_larger_than_its_limit_is_refused() -> None:
    assert send(max_nbytes=len(DATA)) == UploadReply.done()
    reply = send("out_1", max_nbytes=len(DATA) - 1)
    assert reply.status == -1
    assert reply.message == "file size (61.5 KB) exceeds limit (61.5 KB)"
    assert arrived("out_1") is None


def test_sizes_and_offsets_above_two_gibibytes_are_supported() -> None:
    nbytes = 5 * 2**30
    reply = send(data=b"start", nbytes=nbytes, max_nbytes=2**40)
    assert reply == UploadReply.later(f"Upload is incomplete: 5 of {nbytes} bytes")
    path = storage.upload_path("out_0")
    partial = path.with_name(".out_0.part")
    os.truncate(partial, 3 * 2**30)  # a sparse file in place of a long partial upload
    assert ask_size().file_size == 3 * 2**30 - 1
    reply = send(data=b"", nbytes=nbytes, max_nbytes=2**40, offset=4 * 2**30)
    assert reply.message == f"length of file {3 * 2**30} bytes < offset {4 * 2**30} bytes"


# Resuming


def test_truncated_upload_is_kept_and_can_be_resumed() -> None:
    reply = cut_off(after=20_000)
    assert reply == UploadReply.later(f"Upload is incomplete: 20000 of {len(DATA)} bytes")
    assert arrived() is None
    assert send(offset=20_000) == UploadReply.done()
    assert arrived() == DATA


def test_received_bytes_are_kept_after_a_connection_error() -> None:
    class Breaking(io.BytesIO):
        def read(self, *args):
            return super().read(*args) or self.broken()

        def broken(self):
            raise ConnectionResetError(errno.ECONNRESET, "gone")

    whole = uploads.encode_request(request_for(), DATA)
    reply = call(stream=Breaking(whole[:30_000]), length=len(whole)).reply
    assert reply.status == 1
    assert 20_000 < ask_size().file_size < 30_000


def test_upload_can_restart_before_the_received_size() -> None:
    cut_off(data=b"x" * len(DATA), after=30_000)
    assert send(offset=0) == UploadReply.done()
    assert arrived() == DATA


def test_upload_cannot_start_after_the_received_size() -> None:
    cut_off(after=20_000)
    reply = send(offset=20_001)
    assert reply.status == 1
    assert reply.message == "length of file 20000 bytes < offset 20001 bytes"
    assert ask_size().file_size == 19_999


def test_upload_of_zero_remaining_bytes_finishes_the_file() -> None:
    cut_off(after=len(DATA) - 1)
    path = storage.upload_path("out_0").with_name(".out_0.part")
    path.write_bytes(DATA)
    assert send(offset=len(DATA)) == UploadReply.done()
    assert arrived() == DATA


def test_upload_offset_beyond_the_end_of_the_file_does_not_succeed() -> None:
    reply = send(offset=len(DATA) + 1)
    assert reply.status == 1
    assert arrived() is None


many = hypothesis_settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@many
@given(
    data=st.binary(min_size=1, max_size=4000),
    attempts=st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 4000)), max_size=8),
)
def test_any_sequence_of_partial_uploads_ends_with_the_identical_file(data, attempts) -> None:
    """Each attempt starts at or before the received size, and is cut at any point."""
    name = f"out_{secrets.token_hex(8)}"
    for back, sent in attempts:
        size = ask_size(name).file_size
        if size >= len(data):
            break
        offset = max(0, size - back)
        cut_off(name, data, after=min(sent, len(data) - offset), offset=offset)
    size = ask_size(name).file_size
    if size < len(data):
        assert send(name, data, offset=size) == UploadReply.done()
    assert arrived(name) == data
    assert storage.finished_uploads([name])[name].md5 == hashlib.md5(data).hexdigest()


@pytest.mark.parametrize("piece", [1, 7, 501, 16_384])
@pytest.mark.parametrize("header_alone", [True, False])
def test_upload_body_can_be_read_in_pieces_of_any_size(piece, header_alone) -> None:
    class Pieces(io.BytesIO):
        def read(self, size):
            alone = header_alone and self.tell() < start
            return super().read(min(size, start - self.tell() if alone else piece))

    data = DATA[:3000]
    body = uploads.encode_request(request_for(data=data), data)
    start = len(body) - len(data)
    assert call(stream=Pieces(body), length=len(body)).reply == UploadReply.done()
    assert arrived() == data


# Permanent and temporary refusals


@pytest.mark.parametrize(
    "name", ["..", "../../etc/passwd", "/etc/passwd", "a%2e", ".out_0.part", "a" * 256]
)
def test_bad_file_name_is_permanently_refused(name) -> None:
    assert send(name).status == -1
    assert ask_size(name).status == -1


def test_invalid_upload_request_is_permanently_refused() -> None:
    other = signing.upload_grant("out_1", 100_000)
    assert send(grant=None) == UploadReply.never("missing signature")
    assert send(grant="00\n.") == UploadReply.never("invalid signature")
    assert send(grant=other) == UploadReply.never("invalid signature")
    assert send(nbytes=-1) == UploadReply.never("nbytes or offset is negative")
    assert send(offset=-1).status == -1
    assert call(b"<file_upload><nbytes>1</nbytes><data>\n").reply.message == "Missing name"
    no_limit = b"<name>a</name><xml_signature>00</xml_signature><nbytes>1</nbytes><data>\n1"
    assert call(no_limit).reply == UploadReply.never("missing max_nbytes")
    assert call(b"x" * 20_000).reply.status == -1
    assert not any(Path(storage.upload_path("out_0")).parent.parent.glob("*/*"))


def test_upload_with_another_limit_than_its_grant_is_refused() -> None:
    grant = signing.upload_grant("out_0", 10)
    reply = send(max_nbytes=100_000, grant=grant)
    assert reply == UploadReply.never("invalid signature")


def test_trap_07_transient_fault_returns_a_retryable_status(monkeypatch, caplog) -> None:
    """With status -1 clients discard finished work, so faults of the server return 1."""
    assert call(b"").reply.status == 1
    assert call(b"<data_server_request>\n<file_up", length=900).reply.status == 1
    assert send(md5="0" * 32).status == 1

    for fault in (OSError(errno.EIO, "disk"), MemoryError(), RuntimeError("a bug of ours")):

        def broken(*_args, fault=fault, **_kwargs):
            raise fault

        with monkeypatch.context() as patch:
            patch.setattr(storage, "begin_upload", broken)
            assert send().status == 1
        with monkeypatch.context() as patch:
            patch.setattr(signing, "check_upload_grant", broken)
            assert send().status == 1
    assert "a bug of ours" in caplog.text
    assert send() == UploadReply.done()


def test_trap_07_upload_signed_with_a_lost_grant_key_is_retryable_and_logs_an_error(
    settings, tmp_path, caplog
) -> None:
    request = uploads.encode_request(request_for(), DATA)
    settings.KEYS_DIR = tmp_path / "new keys"
    signing.ensure_keys()
    assert call(request).reply.status == 1
    (alert,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert alert.getMessage() == "upload_grant_key_unknown"
    assert alert.upload == "out_0"


def test_trap_07_upload_without_server_keys_is_retryable(settings, tmp_path) -> None:
    request = uploads.encode_request(request_for(), DATA)
    settings.KEYS_DIR = tmp_path / "no keys"
    assert call(request).reply.status == 1


def test_upload_to_a_full_disk_is_deferred_before_anything_is_written(monkeypatch) -> None:
    monkeypatch.setattr("django.conf.settings.MIN_FREE_BYTES", 2**62)
    assert send() == UploadReply.later("Server is out of disk space")
    assert ask_size() == UploadReply.later("Server is out of disk space")
    monkeypatch.undo()
    assert send() == UploadReply.done()


def test_written_bytes_are_kept_when_the_disk_fills_up_during_an_upload(monkeypatch) -> None:
    write, written = os.write, []

    def fills_up(descriptor, data):
        if written:
            raise OSError(errno.ENOSPC, "full")
        written.append(descriptor)
        return write(descriptor, data[:5000])

    monkeypatch.setattr(os, "write", fills_up)
    assert send() == UploadReply.later("No space left on server")
    monkeypatch.undo()
    assert ask_size().file_size == 4999
    assert send(offset=4999) == UploadReply.done()
    assert arrived() == DATA


def test_upload_with_a_wrong_md5_is_discarded() -> None:
    reply = send(md5="0" * 32)
    assert reply.status == 1
    assert "not 00000000000000000000000000000000 as announced" in reply.message
    assert ask_size() == UploadReply.size(0)
    assert send(md5=None) == UploadReply.done()


def test_stop_upload_file_disables_uploads(settings) -> None:
    settings.VAR_DIR.mkdir(parents=True, exist_ok=True)
    (settings.VAR_DIR / "stop_upload").touch()
    assert send() == UploadReply.later("File uploads are temporarily disabled")
    assert ask_size().status == 1
    (settings.VAR_DIR / "stop_upload").unlink()
    assert send() == UploadReply.done()


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_upload_with_a_method_other_than_post_returns_405(method) -> None:
    answer = call(REQUEST_METHOD=method)
    assert answer.status == "405 Method Not Allowed"
    assert answer.headers["Allow"] == "POST"


def test_grant_is_checked_before_the_whole_body_is_read() -> None:
    data = b"x" * 5_000_000
    bad = request_for(data=data, max_nbytes=10_000_000, grant="00\n.")
    body = Counting(uploads.encode_request(bad, data))
    reply = call(stream=body, length=len(body.getvalue())).reply
    assert reply == UploadReply.never("invalid signature")
    assert body.taken < 1_100_000


def test_a_refused_small_body_is_read_to_its_end() -> None:
    body = Counting(uploads.encode_request(request_for(grant="00\n."), DATA))
    call(stream=body, length=len(body.getvalue()))
    assert body.taken == len(body.getvalue())


# The traps


def test_trap_02_content_type_of_an_upload_is_ignored() -> None:
    for number, kind in enumerate(["application/x-www-form-urlencoded", "text/xml", ""]):
        body = uploads.encode_request(request_for(f"out_{number}"), DATA)
        assert call(body, CONTENT_TYPE=kind).reply == UploadReply.done()


def test_trap_28_upload_with_expect_100_continue_is_accepted() -> None:
    data = (
        b"x" * 3_000_000
    )  # clients send this above a megabyte; the web server sends 100 when the body is read
    body = uploads.encode_request(request_for(data=data, max_nbytes=2**30), data)
    answer = call(body, HTTP_EXPECT="100-continue")
    assert answer.status == "200 OK"
    assert answer.reply == UploadReply.done()
    assert arrived() == data


def test_trap_29_content_length_decides_where_the_data_ends() -> None:
    data = b"ends like XML</data>\n</file_upload>\n"
    body = uploads.encode_request(request_for(data=data), data)
    stream = Counting(body + b"POST /the/next/request HTTP/1.1")
    assert call(stream=stream, length=len(body)).reply == UploadReply.done()
    assert stream.taken == len(body)
    assert arrived() == data


def test_trap_29_bytes_beyond_the_announced_size_are_not_written() -> None:
    assert send(body=DATA + b"and more") == UploadReply.done()
    assert arrived() == DATA


def test_trap_29_repeated_upload_of_a_finished_file_succeeds_and_changes_nothing() -> None:
    assert send() == UploadReply.done()
    before = storage.upload_path("out_0").stat()
    data = b"another content, by anyone who has the grant"
    body = Counting(uploads.encode_request(request_for(data=data), data))
    assert call(stream=body, length=len(body.getvalue())).reply == UploadReply.done()
    assert body.taken == len(body.getvalue())
    assert send(offset=5) == UploadReply.done()
    after = storage.upload_path("out_0").stat()
    assert arrived() == DATA
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_trap_30_copied_grant_is_valid_only_for_its_own_file() -> None:
    grant = signing.upload_grant("out_0", 100_000)
    assert send("out_1", grant=grant).status == -1
    assert send("out_0", grant=grant) == UploadReply.done()
    assert send("out_0", b"forged afterwards", grant=grant) == UploadReply.done()
    assert arrived("out_0") == DATA


# Concurrent uploads


class Pausing(io.BytesIO):
    """A body that stops in the middle until the test releases it."""

    def __init__(self, body):
        super().__init__(body)
        self.halfway, self.go_on = threading.Event(), threading.Event()

    def read(self, size):
        if self.tell() >= 16_384:
            self.halfway.set()
            self.go_on.wait(10)
        return super().read(size)


def test_second_concurrent_upload_of_a_file_is_deferred_as_locked() -> None:
    body = uploads.encode_request(request_for(), DATA)
    slow, replies = Pausing(body), []
    thread = threading.Thread(
        target=lambda: replies.append(call(stream=slow, length=len(body)).reply)
    )
    thread.start()
    assert slow.halfway.wait(10)
    locked = UploadReply.later("File is locked by another upload")
    assert send() == locked
    assert ask_size() == locked
    assert send("out_1") == UploadReply.done()
    slow.go_on.set()
    thread.join()
    assert replies == [UploadReply.done()]
    assert send() == UploadReply.done()
    assert arrived() == DATA


@pytest.mark.parametrize("attempt", range(10))
def test_concurrent_uploads_of_a_file_end_with_one_complete_file(attempt) -> None:
    start, replies = threading.Barrier(4), []

    def client(offset):
        start.wait(10)
        replies.append(send(offset=offset))

    cut_off(after=attempt * 1000)
    threads = [threading.Thread(target=client, args=(attempt * o,)) for o in (0, 0, 100, 1000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {reply.status for reply in replies} <= {0, 1}
    if arrived() is None:
        assert send(offset=0) == UploadReply.done()
    assert arrived() == DATA
    digest = storage.finished_uploads(["out_0"])["out_0"]
    assert digest.sha256 == hashlib.sha256(DATA).hexdigest()
