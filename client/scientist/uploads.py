"""Uploads long input files by digest; short files are sent within the submission."""

from __future__ import annotations

import base64
import hashlib
import os
import stat
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from scientist.errors import Invalid, ScientistError, UsageError
from scientist.inputs import InputFile
from scientist.transport import Transport

#: Files up to this size are sent within the submission.
INLINE_BYTES = 4096
#: The pending files are uploaded when one of these limits is reached: the number of digests in a
#: query, or the bytes of content in memory.
_MAX_DIGESTS, _MAX_PENDING_BYTES = 1000, 64_000_000
_MAX_CONCURRENT = 4
_CHUNK_BYTES = 1 << 18
#: The maximum number of cached digests of paths, for inputs that many workunits share.
_MAX_CACHED_DIGESTS = 20_000
_CHANGED_HINT = "make sure that no program writes to it, then submit again."

#: A callback with the activity (reading, hashing, uploading or sending), the amount done and the
#: total, which may be None.
OnProgress = Callable[[str, int, int | None], None]


def ignore_progress(activity: str, done: int, total: int | None) -> None:
    """Default progress callback, which does nothing."""


class UnreadableInput(UsageError):
    """An input file is missing, is not a regular file or cannot be read."""


class FileChanged(ScientistError):
    """A file changed after it was hashed, or was damaged in transit."""


@dataclass(frozen=True, slots=True)
class _Pending:
    source: bytes | Path
    nbytes: int
    name: str


class FileUploader:
    """Creates the entries of input files in a submission, and uploads long files.

    Contents without a path are kept in memory until their upload, which begins at the latest when
    they reach 64 MB.
    """

    def __init__(self, transport: Transport, on_progress: OnProgress) -> None:
        self._transport, self._on_progress = transport, on_progress
        self._pending: dict[str, _Pending] = {}
        self._pending_bytes = 0
        self._sent: set[bytes] = set()
        self._digests: OrderedDict[tuple[str, int, int, int], str] = OrderedDict()
        self._hashed = self._uploaded = self._to_upload = 0

    def entry(self, file: InputFile, inline_bytes: int = INLINE_BYTES) -> dict[str, Any]:
        """Return the entry of a file in the API's `input_files`.

        The entry has the content of the file if the content has at most `inline_bytes` bytes, else
        its SHA-256; then the content is uploaded at the next `flush`.  If `file.source` is None,
        the entry has only the fields of the file.  Raises UnreadableInput, FileChanged, Unreachable
        or ProblemError.
        """
        entry: dict[str, Any] = {"open_name": file.open_name, **file.reference}
        if file.source is None:
            return entry
        if isinstance(file.source, bytes):
            if len(file.source) <= inline_bytes:
                return entry | inline(file.source)
            digest = hashlib.sha256(file.source).hexdigest()
            self._enqueue(digest, _Pending(file.source, len(file.source), file.open_name))
            return entry | {"sha256": digest}
        return entry | self._path_entry(file.source, inline_bytes)

    def _path_entry(self, path: Path, inline_bytes: int) -> dict[str, Any]:
        status = checked(path)
        if status.st_size <= inline_bytes:
            content = b"".join(_chunks(path))
            self._count(len(content))
            if len(content) <= inline_bytes:
                return inline(content)
        digest = self._digest(path, status)
        self._enqueue(digest, _Pending(path, status.st_size, path.name))
        return {"sha256": digest}

    def _digest(self, path: Path, status: os.stat_result) -> str:
        version = (str(path), status.st_size, status.st_mtime_ns, status.st_ino)
        if (cached := self._digests.get(version)) is not None:
            self._digests.move_to_end(version)
            return cached
        digest = hashlib.sha256()
        for chunk in _chunks(path):
            digest.update(chunk)
            self._count(len(chunk))
        self._digests[version] = digest.hexdigest()
        if len(self._digests) > _MAX_CACHED_DIGESTS:
            self._digests.popitem(last=False)
        return digest.hexdigest()

    def _count(self, nbytes: int) -> None:
        self._hashed += nbytes
        self._on_progress("hashing", self._hashed, None)

    def _enqueue(self, digest: str, file: _Pending) -> None:
        if digest in self._pending or bytes.fromhex(digest) in self._sent:
            return
        self._pending[digest] = file
        if isinstance(file.source, bytes):
            self._pending_bytes += file.nbytes
        if len(self._pending) >= _MAX_DIGESTS or self._pending_bytes >= _MAX_PENDING_BYTES:
            self.flush()

    def flush(self) -> None:
        """Upload the pending files, except files that the project already has."""
        if not self._pending:
            return
        digests = list(self._pending)
        answer = self._transport.post("files/query", {"sha256": digests})
        present = set(answer["known"]) if isinstance(answer, dict) else set()
        missing = {digest: self._pending[digest] for digest in digests if digest not in present}
        self._to_upload += sum(file.nbytes for file in missing.values())
        if missing:
            self._on_progress("uploading", self._uploaded, self._to_upload)
            self._upload(missing)
        self._sent.update(map(bytes.fromhex, digests))
        self._pending.clear()
        self._pending_bytes = 0

    def _upload(self, missing: dict[str, _Pending]) -> None:
        """Upload files, up to `_MAX_CONCURRENT` at the same time."""
        with ExitStack() as stack:
            each = map
            if _MAX_CONCURRENT > 1 and len(missing) > 1:
                each = stack.enter_context(ThreadPoolExecutor(_MAX_CONCURRENT)).map  # type: ignore[assignment]
            for nbytes in each(self._put, missing, missing.values()):
                self._uploaded += nbytes
                self._on_progress("uploading", self._uploaded, self._to_upload)

    def _put(self, digest: str, file: _Pending) -> int:
        def body() -> Iterator[bytes]:
            if isinstance(file.source, bytes):
                yield file.source
            else:
                yield from _chunks(file.source, file.nbytes)

        headers = {"Content-Type": "application/octet-stream"}
        try:
            self._transport.send(
                "PUT", f"files/{digest}", body, file.nbytes, headers, {"name": quote(file.name)}
            )
        except Invalid as refused:
            if "digest" not in refused.code and "sha256" not in refused.code:
                raise
            reason = f"{file.name} differs from its digest: it changed after it was hashed."
            raise FileChanged(reason, _CHANGED_HINT) from refused
        return file.nbytes


def inline(content: bytes) -> dict[str, str]:
    r"""Return the JSON field for a content, which is text (UTF-8 without NUL) or base64.

    >>> inline(b"1 30"), inline(b"\xff")
    ({'content': '1 30'}, {'content_base64': '/w=='})
    """
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        return {"content_base64": base64.b64encode(content).decode("ascii")}
    return {"content": text}


def checked(path: Path) -> os.stat_result:
    """Return the `os.stat_result` of a regular, readable file; else raise UnreadableInput."""
    try:
        status = path.stat()
    except OSError as error:
        hint = "check the path; quote names with spaces."
        reason = f"There is no file {path}."
        if not isinstance(error, FileNotFoundError):
            reason = f"Cannot read {path}: {error.strerror}."
        raise UnreadableInput(reason, hint) from None
    if stat.S_ISDIR(status.st_mode):
        hint = f"give the files in it: {path}/*"
        raise UnreadableInput(f"{path} is a folder; an input must be a file.", hint)
    if not stat.S_ISREG(status.st_mode):
        raise UnreadableInput(f"{path} is not a regular file.", "copy its content to a file.")
    if not os.access(path, os.R_OK):
        raise UnreadableInput(f"{path} cannot be read: permission denied.", "check its mode.")
    return status


def _chunks(path: Path, expected_bytes: int | None = None) -> Iterator[bytes]:
    """Yield the bytes of a file in chunks.

    Raises UnreadableInput if the file cannot be read, and FileChanged if the file does not have
    `expected_bytes` bytes.
    """
    nbytes = 0
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                nbytes += len(chunk)
                if expected_bytes is not None and nbytes > expected_bytes:
                    break
                yield chunk
    except OSError as error:
        raise UnreadableInput(f"{path} cannot be read: {error.strerror}.") from None
    if expected_bytes is not None and nbytes != expected_bytes:
        raise FileChanged(f"{path} changed while it was being sent.", _CHANGED_HINT)
