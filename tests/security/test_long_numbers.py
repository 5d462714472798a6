"""Numbers of thousands of digits, which Python does not read, are refused."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from scheduler.admin.base import is_bigint
from scheduler.files import fetching
from tests.security.test_client_transport import reply, serving
from volunteer.signature import BadKeyError, read_public_key, verifies
from volunteer.transport import HttpTransport

LONG = "9" * 5000
#: A digit for `str.isdigit`, but not for `int`.
SUPERSCRIPT = "\u00b2"


@pytest.mark.django_db
@pytest.mark.parametrize(
    "query", [f"cmd=workunit_files&wu_id={LONG}", f"cmd=batch_files&batch_id={LONG}"]
)
def test_output_request_with_a_long_number_returns_404(client, query):
    answer = client.get(f"/get_output.php?{query}")
    assert answer.status_code == 404
    assert b"is not a number" in answer.content


def test_long_search_term_is_not_treated_as_a_number():
    assert not is_bigint("0" * 30 + LONG)


@pytest.mark.parametrize("bits", [LONG, SUPERSCRIPT])
def test_client_refuses_a_public_key_with_an_invalid_size(bits):
    key = f"{bits}\n00ff\n.\n"
    with pytest.raises(BadKeyError, match="begins with its size"):
        read_public_key(key)
    assert not verifies("0" * 32, "00ff", key)


@contextmanager
def partial_answer(content_range: str):
    transport = HttpTransport("x86_64-pc-linux-gnu")
    with serving(lambda handler: reply(handler, 206, Content_Range=content_range)) as server:
        try:
            with transport.stream(server.url, 1) as stream:
                yield stream
        finally:
            transport.close()


@pytest.mark.parametrize("first", [LONG, SUPERSCRIPT])
def test_client_ignores_an_invalid_start_in_content_range(first):
    with partial_answer(f"bytes {first}-3/4") as stream:
        assert stream.start == -1


def test_client_reads_the_start_from_content_range():
    with partial_answer("bytes 1-3/4") as stream:
        assert stream.start == 1


@pytest.mark.parametrize("length", [LONG, SUPERSCRIPT])
def test_invalid_content_length_of_a_fetched_program_is_ignored(tmp_path, length):
    def answer(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", length)
        handler.send_header("Connection", "close")
        handler.end_headers()
        handler.wfile.write(b"fine")

    with serving(answer) as server:
        rules = fetching.Rules(any_private=True)
        path = fetching.fetch(f"{server.url}program", tmp_path, rules)
    assert path.read_bytes() == b"fine"
