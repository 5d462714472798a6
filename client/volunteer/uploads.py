"""Uploads output files, and resumes interrupted uploads."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from volunteer import safe_files
from volunteer.transport import Body, HttpTransport, TransferError, UnreachableError, try_each
from volunteer.wire.uploads import UploadReply, decode_upload_reply, size_query, upload_head

if TYPE_CHECKING:
    from pathlib import Path

    from volunteer.wire.messages import FileInfo

# Smaller files are sent without a query for the size on the server (PROTOCOL 3.2).
_MIN_QUERY_BYTES = 8192
_REFUSED = -1


class UploadError(TransferError):
    """An upload failed. `permanent` is True if a retry cannot succeed."""


@dataclass(frozen=True, slots=True)
class FileUpload:
    """An output to upload, with the size and the MD5 that the client will report.

    If `resume` is set, the size on the server is queried first. Links below `root` (default: the
    folder of the file) are not followed.
    """

    info: FileInfo
    path: Path
    nbytes: int
    md5: str
    resume: bool
    root: Path | None = None


def send(transport: HttpTransport, upload: FileUpload) -> None:
    """Upload a file to the first address that accepts it.

    Raises UploadError if no address accepts the file, or if the file has changed.
    """
    try_each(
        upload.info.upload_urls,
        lambda url: _send_to(transport, url, upload),
        UploadError("the project sent no address", permanent=True),
    )


def _send_to(transport: HttpTransport, url: str, upload: FileUpload) -> None:
    if not _is_unchanged(upload):
        raise UploadError(
            f"{upload.path.name} was changed or deleted on this computer", permanent=True
        )
    offset = 0
    if upload.resume or upload.nbytes >= _MIN_QUERY_BYTES:
        offset = _exchange(transport, url, Body(size_query(upload.info.name))).file_size
        if offset >= upload.nbytes > 0:
            return
    head = upload_head(
        name=upload.info.name,
        grant=upload.info.grant,
        max_nbytes=upload.info.max_nbytes,
        nbytes=upload.nbytes,
        md5=upload.md5,
        offset=offset,
    )
    _exchange(transport, url, Body(head, upload.path, offset, upload.root))


def _is_unchanged(upload: FileUpload) -> bool:
    """Return whether the output is still a plain file of the measured size."""
    root = upload.root or upload.path.parent
    try:
        with safe_files.opened(root, str(upload.path.relative_to(root))) as file:
            return os.fstat(file.fileno()).st_size == upload.nbytes
    except OSError:
        return False


def _exchange(transport: HttpTransport, url: str, body: Body) -> UploadReply:
    """Send one request and return the reply.

    Raises UploadError, which is permanent only for status -1.
    """
    try:
        response = transport.post(url, body)
    except UnreachableError as error:
        raise UploadError(str(error), permanent=False) from error
    if not response.is_good:
        raise UploadError(f"HTTP {response.status}", permanent=False)
    reply = decode_upload_reply(response.content)
    if reply.status == 0:
        return reply
    raise UploadError(reply.message or f"status {reply.status}", permanent=reply.status == _REFUSED)
