"""Uploads: resumed from what the project has, repeated until it has the whole."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from volunteer import safe_files
from volunteer.transport import Body, Transport, UnreachableError
from volunteer.wire.uploads import (
    UploadReply,
    decode_upload_reply,
    size_query,
    upload_head,
)

if TYPE_CHECKING:
    from pathlib import Path

    from volunteer.wire.messages import FileInfo

# Smaller files are sent without asking first what the server has (PROTOCOL 3.2).
_WORTH_ASKING = 8192
_REFUSED = -1


class UploadError(Exception):
    """A file did not go up; permanent if every address refused it for good."""

    def __init__(self, reason: str, *, permanent: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.permanent = permanent


@dataclass(frozen=True, slots=True)
class Finished:
    """An output to send: its size in bytes and MD5 as they are reported.

    The file is opened without following a link below `root` (default: its own folder).
    """

    info: FileInfo
    path: Path
    nbytes: int
    md5: str
    resume: bool
    root: Path | None = None


def send(transport: Transport, output: Finished) -> None:
    """Send a file to the first address that takes it; raises UploadError."""
    failure = UploadError("the project gave no address", permanent=True)
    for url in output.info.upload_urls:
        try:
            _send_to(transport, url, output)
        except UploadError as error:
            if failure.permanent:
                failure = error
        else:
            return
    raise failure


def _send_to(transport: Transport, url: str, output: Finished) -> None:
    if not _is_unchanged(output):
        reason = f"{output.path.name} was changed or deleted on this computer"
        raise UploadError(reason, permanent=True)
    offset = 0
    if output.resume or output.nbytes >= _WORTH_ASKING:
        offset = _exchange(transport, url, Body(size_query(output.info.name))).file_size
        if offset >= output.nbytes > 0:
            return
    head = upload_head(
        name=output.info.name,
        grant=output.info.grant,
        max_nbytes=output.info.max_nbytes,
        nbytes=output.nbytes,
        md5=output.md5,
        offset=offset,
    )
    _exchange(transport, url, Body(head, output.path, offset, output.root))


def _is_unchanged(output: Finished) -> bool:
    """Return whether the output is still a plain file of the measured size."""
    root = output.root or output.path.parent
    try:
        with safe_files.opened(root, str(output.path.relative_to(root))) as file:
            return os.fstat(file.fileno()).st_size == output.nbytes
    except OSError:
        return False


def _exchange(transport: Transport, url: str, body: Body) -> UploadReply:
    """Send one request; only status -1 is for good, everything else may heal."""
    try:
        answer = transport.post(url, body)
    except UnreachableError as error:
        raise UploadError(str(error), permanent=False) from error
    if not answer.is_good:
        reason = f"HTTP {answer.status}"
        raise UploadError(reason, permanent=False)
    reply = decode_upload_reply(answer.content)
    if reply.status == 0:
        return reply
    told = reply.message or f"status {reply.status}"
    raise UploadError(told, permanent=reply.status == _REFUSED)
