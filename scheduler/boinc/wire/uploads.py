"""Parses and encodes file uploads: a short header, then the file (PROTOCOL 3.2).

The header is not well-formed XML: clients print it line by line, and the bytes of the file follow
``<data>`` without an end tag.  So it is parsed by substrings, as in BOINC's server.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from scheduler.boinc.wire import ranges

#: Clients write shorter headers; the longest part of a header, the grant, is under 4096 bytes.
MAX_HEADER_BYTES: Final = 16_384
#: The maximum number of bytes that clients read of a reply.
MAX_REPLY_BYTES: Final = 8191

_LONG_NUMBER: Final = 20
_ELEMENT: Final = re.compile(
    rb"<(name|get_file_size|xml_signature|max_nbytes|nbytes|md5_cksum|offset"
    rb"|status|file_size|message)>([^<]*)</\1>"
)
_VERSION: Final = re.compile(
    rb"<core_client_major_version>\s*(\d{1,5})\s*</core_client_major_version>\s*"
    rb"<core_client_minor_version>\s*(\d{1,5})\s*</core_client_minor_version>\s*"
    rb"<core_client_release>\s*(\d{1,5})\s*</core_client_release>"
)

_STATUS_DONE: Final = 0
_STATUS_LATER: Final = 1
_STATUS_NEVER: Final = -1


class BadUpload(ValueError):
    """The header is invalid, and a retry would fail in the same way.

    The text of the exception is sent to the client.
    """


class CutShort(BadUpload):
    """The header ends too early; a retry may succeed."""


@dataclass(frozen=True, slots=True)
class SizeQuery:
    """A query for the size of a partial upload; the client resumes the upload at this size."""

    name: str
    client_version: tuple[int, int, int] = (0, 0, 0)


@dataclass(frozen=True, slots=True)
class UploadRequest:
    """The upload of a file from ``offset`` to its end: ``nbytes - offset`` bytes follow.

    ``grant`` is the text of ``<xml_signature>`` without surrounding white space, or None if the
    element is missing or empty.  ``nbytes`` and ``md5`` describe the whole file.
    """

    name: str
    max_nbytes: int | None
    grant: str | None
    nbytes: int
    md5: str | None = None
    offset: int = 0
    client_version: tuple[int, int, int] = (0, 0, 0)


@dataclass(frozen=True, slots=True)
class UploadReply:
    """The server's reply to an upload or size query.

    `status` is 0 for success, 1 for a temporary error, after which the client retries, and -1 for a
    permanent error (trap 7).
    """

    status: int
    message: str | None = None
    file_size: int | None = None

    @classmethod
    def done(cls) -> UploadReply:
        """Return the reply for a complete upload."""
        return cls(_STATUS_DONE)

    @classmethod
    def size(cls, nbytes: int) -> UploadReply:
        """Return the reply to a size query."""
        return cls(_STATUS_DONE, file_size=nbytes)

    @classmethod
    def later(cls, message: str) -> UploadReply:
        """Return the reply for a temporary error, after which the client retries."""
        return cls(_STATUS_LATER, message)

    @classmethod
    def never(cls, message: str) -> UploadReply:
        """Return the reply for a permanent error, after which the client discards its results."""
        return cls(_STATUS_NEVER, message)


def decode_request(
    head: bytes, *, ended: bool = False
) -> tuple[UploadRequest | SizeQuery, int] | None:
    """Parse the header in the first bytes of a request.

    Returns the request and the position of the file's first byte, or None while the header is
    incomplete.  Then call this function again with more bytes, or with ``ended`` if the body has
    ended.  Elements may be in any order before ``<data>``.  Raises BadUpload, or its subclass
    CutShort if the header ended too early.
    """
    end = head.find(b"<data>")
    if end >= 0:
        start = end + len(b"<data>")
        newline = head.find(b"\n", start, start + 2)
        if newline < 0 and len(head) < start + 2 and not ended:
            return None
        return _decode_upload(head[:end]), newline + 1 if newline >= 0 else start
    if b"</get_file_size>" in head:
        elements = dict(_ELEMENT.findall(head))
        name = _decoded(elements.get(b"get_file_size", b"").strip())
        if not name:
            raise BadUpload("Missing name")
        return SizeQuery(name, _client_version(head)), len(head)
    if len(head) > MAX_HEADER_BYTES:
        raise BadUpload(f"Request header is longer than {MAX_HEADER_BYTES} bytes")
    if not ended:
        return None
    raise CutShort("Missing <data>" if b"<file_upload>" in head else "Missing command")


def _decode_upload(head: bytes) -> UploadRequest:
    if len(head) > MAX_HEADER_BYTES:
        raise BadUpload(f"Request header is longer than {MAX_HEADER_BYTES} bytes")
    # All elements are found in one pass, because this takes half of the time of decoding.
    elements = {tag: text.strip() for tag, text in _ELEMENT.findall(head)}
    if not elements.get(b"name"):
        raise BadUpload("Missing name")
    nbytes = _number(elements, b"nbytes")
    if nbytes is None:
        raise BadUpload("Missing nbytes")
    return UploadRequest(
        name=_decoded(elements[b"name"]),
        max_nbytes=_number(elements, b"max_nbytes"),
        grant=_decoded(elements.get(b"xml_signature", b"")) or None,
        nbytes=nbytes,
        md5=_decoded(elements.get(b"md5_cksum", b"")) or None,
        offset=_number(elements, b"offset") or 0,
        client_version=_client_version(head),
    )


def _decoded(text: bytes) -> str:
    """Decode UTF-8; invalid bytes become surrogates, which are refused later in names."""
    return text.decode("utf-8", "surrogateescape")


def _number(elements: dict[bytes, bytes], tag: bytes) -> int | None:
    """Return the number in an element, or None if the element is missing.

    Clients send whole numbers, but real numbers are accepted, because BOINC stores doubles.  Raises
    BadUpload if the element is not a number.
    """
    text = elements.get(tag)
    if text is None:
        return None
    try:
        value = int(text) if text.isdigit() and len(text) < _LONG_NUMBER else int(float(text))
        return int(ranges.INT64.clamp(value))
    except (ValueError, OverflowError):
        raise BadUpload(f"Bad number in {tag.decode()}") from None


def _client_version(head: bytes) -> tuple[int, int, int]:
    """Return major, minor and release, or zeros if they are missing or malformed."""
    match = _VERSION.search(head)
    return (int(match[1]), int(match[2]), int(match[3])) if match else (0, 0, 0)


def encode_request(request: UploadRequest | SizeQuery, data: bytes = b"") -> bytes:
    """Encode a request exactly as clients do; ``data`` is the file from the offset on."""
    major, minor, release = request.client_version
    head = (
        "<data_server_request>\n"
        f"    <core_client_major_version>{major}</core_client_major_version>\n"
        f"    <core_client_minor_version>{minor}</core_client_minor_version>\n"
        f"    <core_client_release>{release}</core_client_release>\n"
    )
    if isinstance(request, SizeQuery):
        head += f"    <get_file_size>{request.name}</get_file_size>\n</data_server_request>\n"
    else:
        head += f"<file_upload>\n<file_info>\n<name>{request.name}</name>\n"
        head += f"<xml_signature>\n{request.grant or ''}</xml_signature>\n"
        if request.max_nbytes is not None:
            head += f"<max_nbytes>{request.max_nbytes}</max_nbytes>\n"
        head += f"</file_info>\n<nbytes>{request.nbytes}</nbytes>\n"
        if request.md5 is not None:
            head += f"<md5_cksum>{request.md5}</md5_cksum>\n"
        head += f"<offset>{request.offset}</offset>\n<data>\n"
    return head.encode("utf-8", "surrogateescape") + data


_DONE: Final = b"<data_server_reply>\n    <status>0</status>\n</data_server_reply>\n"


def encode_reply(reply: UploadReply) -> bytes:
    """Encode a reply; the message is truncated so that clients can read the whole reply."""
    if reply == _DONE_REPLY:
        return _DONE
    lines = [f"    <status>{reply.status}</status>\n"]
    if reply.file_size is not None:
        lines.append(f"    <file_size>{reply.file_size}</file_size>\n")
    if reply.message is not None:
        text = reply.message[: MAX_REPLY_BYTES // 16].encode("utf-8", "replace").decode()
        text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        lines.append(f"    <message>{text}</message>\n")
    return f"<data_server_reply>\n{''.join(lines)}</data_server_reply>\n".encode()


_DONE_REPLY: Final = UploadReply.done()


def decode_reply(data: bytes) -> UploadReply:
    """Parse a reply by substrings as clients do; a missing status means "retry later"."""
    elements = dict(_ELEMENT.findall(data))
    message = elements.get(b"message")
    text = None
    if message is not None:
        text = _decoded(message)
        text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    try:
        status = _number(elements, b"status")
        size = _number(elements, b"file_size")
    except BadUpload:
        return UploadReply(_STATUS_LATER, text)
    return UploadReply(_STATUS_LATER if status is None else status, text, size)
