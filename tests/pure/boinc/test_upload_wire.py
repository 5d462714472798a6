"""Upload requests are decoded from pieces of any size, and round trips are exact."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scheduler.boinc.wire import uploads
from scheduler.boinc.wire.uploads import BadUpload, CutShort, SizeQuery, UploadReply, UploadRequest

CAPTURED = sorted(
    (Path(__file__).parents[2] / "golden" / "captured").glob("*/*_file_upload_handler.req")
)

texts = st.from_regex(r"[^\s<\0-\x1f][^<\0-\x1f]{0,40}[^\s<\0-\x1f]", fullmatch=True).filter(
    lambda text: text == text.strip()
)
versions = st.tuples(*[st.integers(0, 99_999)] * 3)
requests = st.builds(
    UploadRequest,
    name=texts,
    max_nbytes=st.none() | st.integers(0, 2**53),
    grant=st.none() | st.from_regex(r"([0-9a-f]{64}\n){1,4}\.", fullmatch=True),
    nbytes=st.integers(-(2**40), 2**53),
    md5=st.none() | st.from_regex(r"[0-9a-f]{32}", fullmatch=True),
    offset=st.integers(-1, 2**53),
    client_version=versions,
)
queries = st.builds(SizeQuery, name=texts, client_version=versions)


def captured(path: Path) -> bytes:
    content = path.read_bytes()
    return content[content.index(b"<data_server_request>") :]


def test_captures_of_both_client_versions_exist() -> None:
    assert len(CAPTURED) > 50
    assert {path.parent.name[:2] == "8_" for path in CAPTURED} == {True, False}


@pytest.mark.parametrize("path", CAPTURED, ids=lambda path: f"{path.parent.name}-{path.name[:4]}")
def test_captured_header_is_unchanged_by_decoding_and_encoding(path) -> None:
    body = captured(path)
    found = uploads.decode_request(body)
    assert found is not None
    request, start = found
    assert uploads.encode_request(request, body[start:]) == body
    assert request.client_version in {(7, 20, 5), (8, 2, 15), (8, 3, 0)}
    if isinstance(request, UploadRequest):
        assert len(body) - start == request.nbytes or path.name.startswith("0017")
        assert (request.grant is None) == (path.parent.name in {"06i_nosig", "12_minimal"})


@given(requests, st.binary())
def test_upload_request_is_unchanged_by_a_round_trip(request_sent, data) -> None:
    body = uploads.encode_request(request_sent, data)
    assert uploads.decode_request(body) == (request_sent, len(body) - len(data))


@given(queries)
def test_size_query_is_unchanged_by_a_round_trip(query) -> None:
    body = uploads.encode_request(query)
    assert uploads.decode_request(body) == (query, len(body))


@given(requests | queries, st.data())
def test_partial_header_is_incomplete_until_its_end_arrives(request_sent, data) -> None:
    body = uploads.encode_request(request_sent, b"\n12")
    cut = data.draw(st.integers(0, len(body)))
    found = uploads.decode_request(body[:cut])
    if found is not None:
        assert found[0] == request_sent
        assert found[1] == (len(body) - 3 if isinstance(request_sent, UploadRequest) else cut)
    elif body[:cut].endswith(b"<data>"):
        # Only the newline is missing: the header is complete if no bytes follow.
        assert uploads.decode_request(body[:cut], ended=True) == (request_sent, cut)
    else:
        with pytest.raises(CutShort):
            uploads.decode_request(body[:cut], ended=True)


def test_header_without_its_last_newline_is_complete_at_the_end_of_input() -> None:
    sent = UploadRequest(
        name="\x800\x80\x80\x80\U00010000\x80",
        max_nbytes=None,
        grant="0" * 64 + "\n.",
        nbytes=-10,
        offset=14100644422,
        client_version=(0, 0, 1000),
    )
    body = uploads.encode_request(sent)
    assert body.endswith(b"<data>\n")
    assert uploads.decode_request(body[:419]) is None, "the newline may still come"
    assert uploads.decode_request(body[:419], ended=True) == (sent, 419)
    with pytest.raises(CutShort):
        uploads.decode_request(body[:418], ended=True)


@given(st.binary(max_size=200), st.booleans())
@example(b"<data>", True)
@example(b"<get_file_size></get_file_size>", True)
@example(b"<name>a</name><nbytes>nan</nbytes><data>", True)
def test_any_bytes_are_decoded_or_refused(body, ended) -> None:
    try:
        found = uploads.decode_request(body, ended=ended)
    except BadUpload:
        return
    assert found is not None or not ended


def test_elements_are_accepted_in_any_order_and_with_whitespace() -> None:
    body = (
        b"<offset> 5 </offset><nbytes>\n1e3</nbytes><xml_signature>\r\n  ab\ncd\n. \r\n"
        b"</xml_signature>\n<max_nbytes>100000.000000</max_nbytes><unknown/><name> a b </name>\n"
        b"<data>\r\nrest"
    )
    found = uploads.decode_request(body)
    assert found is not None
    request, start = found
    assert request == UploadRequest("a b", 100_000, "ab\ncd\n.", 1000, offset=5)
    assert body[start:] == b"rest"


def test_size_query_inside_the_data_is_treated_as_data() -> None:
    upload = UploadRequest("a", 100, "00", 60)
    data = b"<get_file_size>b</get_file_size><name>b</name>\n<data>\n"
    body = uploads.encode_request(upload, data)
    assert uploads.decode_request(body) == (upload, len(body) - len(data))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<file_upload><nbytes>1</nbytes><data>\n", "Missing name"),
        (b"<file_upload><name>a</name><data>\n", "Missing nbytes"),
        (b"<name>a</name><nbytes>many</nbytes><data>\n", "Bad number in nbytes"),
        (b"<name>a</name><nbytes>inf</nbytes><data>\n", "Bad number in nbytes"),
        (b"<name>a</name><nbytes>1</nbytes><offset>x</offset><data>\n", "Bad number in offset"),
        (b"<get_file_size> </get_file_size>", "Missing name"),
        (b"x" * (uploads.MAX_HEADER_BYTES + 1), "longer than 16384 bytes"),
        (b"<name>" + b"x" * uploads.MAX_HEADER_BYTES + b"</name><data>\n", "longer than 16384"),
    ],
)
def test_invalid_header_is_refused_permanently(body, message) -> None:
    with pytest.raises(BadUpload, match=message) as refusal:
        uploads.decode_request(body)
    assert not isinstance(refusal.value, CutShort)


def test_file_name_with_invalid_utf_8_stays_distinct() -> None:
    found = uploads.decode_request(b"<name>a\xff</name><nbytes>0</nbytes><data>\n")
    assert found is not None
    assert found[0].name == "a\udcff"


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (UploadReply.done(), "<status>0</status>"),
        (UploadReply.size(20_000), "<status>0</status>\n    <file_size>20000</file_size>"),
        (
            UploadReply.never("a < b & c"),
            "<status>-1</status>\n    <message>a &lt; b &amp; c</message>",
        ),
        (UploadReply.later("locked"), "<status>1</status>\n    <message>locked</message>"),
    ],
)
def test_upload_replies_are_encoded_like_those_of_the_boinc_server(reply, text) -> None:
    expected = f"<data_server_reply>\n    {text}\n</data_server_reply>\n"
    assert uploads.encode_reply(reply) == expected.encode()


@given(
    st.builds(
        UploadReply, st.integers(-9, 9), st.none() | texts, st.none() | st.integers(0, 2**63 - 1)
    )
)
def test_upload_reply_is_unchanged_by_a_round_trip(reply) -> None:
    assert uploads.decode_reply(uploads.encode_reply(reply)) == reply


@given(st.text(alphabet="&<é\udcff", min_size=1))
def test_long_upload_reply_is_limited_to_the_size_that_clients_read(text) -> None:
    reply = uploads.encode_reply(UploadReply.later(text * 9000))
    assert len(reply) <= uploads.MAX_REPLY_BYTES


@pytest.mark.parametrize("reply", [b"", b"<html>502</html>", b"<status>soon</status>"])
def test_upload_reply_without_a_status_is_a_transient_error(reply) -> None:
    assert uploads.decode_reply(reply).status == 1


def test_captured_headers_are_shorter_than_a_tenth_of_the_limit() -> None:
    longest = max(len(re.split(rb"<data>", captured(path))[0]) for path in CAPTURED)
    assert longest * 10 < uploads.MAX_HEADER_BYTES
