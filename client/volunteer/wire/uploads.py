"""Encodes the requests and decodes the replies of file uploads.

Servers parse the request line by line, so the order and the newlines of its head are fixed
(PROTOCOL 3.2). The request ends with the line `<data>` and the bytes of the file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from textwrap import indent

from volunteer.wire.requests import version_lines
from volunteer.wire.xml import decode, encode

MAX_REPLY_BYTES = 8191
_STATUS = re.compile(r"<status>\s*(-?\d+)")
_SIZE = re.compile(r"<file_size>\s*(\d+)")
_MESSAGE = re.compile(r"<message>(.*?)</message>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class UploadReply:
    """The reply of an upload handler. `status` is None if the reply contains no status."""

    status: int | None
    file_size: int = 0
    message: str = ""


def size_query(name: str) -> bytes:
    """Return the request for the size of a file on the server."""
    return encode(
        f"<data_server_request>\n{indent(version_lines(), '    ')}"
        f"    <get_file_size>{name}</get_file_size>\n"
        f"</data_server_request>\n"
    )


def upload_head(
    *, name: str, grant: str, max_nbytes: int, nbytes: int, md5: str, offset: int
) -> bytes:
    """Return the part of an upload request that precedes the bytes of the file.

    The caller appends the bytes of the file from `offset` on.
    """
    # The end tag follows the full stop of the signature on the same line.
    return encode(
        f"<data_server_request>\n{indent(version_lines(), '    ')}"
        f"<file_upload>\n<file_info>\n<name>{name}</name>\n"
        f"<xml_signature>\n{grant.strip()}</xml_signature>\n"
        f"<max_nbytes>{max_nbytes}</max_nbytes>\n</file_info>\n"
        f"<nbytes>{nbytes}</nbytes>\n<md5_cksum>{md5}</md5_cksum>\n"
        f"<offset>{offset}</offset>\n<data>\n"
    )


def decode_upload_reply(body: bytes) -> UploadReply:
    """Parse a reply by text search, as in BOINC's client. Only the first 8191 bytes are read."""
    text = decode(body[:MAX_REPLY_BYTES])
    status, size, message = _STATUS.search(text), _SIZE.search(text), _MESSAGE.search(text)
    return UploadReply(
        status=int(status.group(1)) if status else None,
        file_size=int(size.group(1)) if size else 0,
        message=message.group(1).strip() if message else "",
    )
