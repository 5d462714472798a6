"""Input files on their way: small ones inline, others once each, by their digest."""

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

#: What is not longer travels within the submission.
INLINE_BYTES = 4096
#: How many digests are asked for at once, and how many bytes wait for the answer.
_MOST_ASKED, _MOST_WAITING_BYTES = 1000, 64_000_000
_AT_ONCE = 4
_CHUNK = 1 << 18
#: How many paths are remembered with their digests: inputs that many workunits share.
_REMEMBERED = 20_000

#: Hears of progress: what is being done (hashing, uploading, sending), how much of it, of how much.
Tell = Callable[[str, int, int | None], None]


def nobody(what: str, done: int, total: int | None) -> None:
    """Hear of progress and say nothing."""


class UnreadableInput(UsageError):
    """An input file is not there, is a folder or cannot be read; nothing was submitted."""


class FileChanged(ScientistError):
    """A file is not what it was when it was hashed, or was damaged on its way."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    source: bytes | Path
    nbytes: int
    name: str


class Shipper:
    """Makes an entry of a submission of each input file; sends what is too long for it.

    Nothing is held but digests and what waits for the next question, at most 64 MB.
    """

    def __init__(self, transport: Transport, tell: Tell = nobody) -> None:
        self._transport, self._tell = transport, tell
        self._waiting: dict[str, _Waiting] = {}
        self._waiting_bytes = 0
        self._sent: set[bytes] = set()
        self._digests: OrderedDict[tuple[str, int, int, int], str] = OrderedDict()
        self._hashed = self._uploaded = self._to_upload = 0

    def entry(self, file: InputFile, inline_bytes: int = INLINE_BYTES) -> dict[str, Any]:
        """The entry of `input_files` in the API; up to `inline_bytes` the content is in it.

        Raises UnreadableInput, and what sending does.
        """
        said: dict[str, Any] = {"open_name": file.open_name, **file.known}
        if file.source is None:
            return said
        if isinstance(file.source, bytes):
            if len(file.source) <= inline_bytes:
                return said | inline(file.source)
            digest = hashlib.sha256(file.source).hexdigest()
            self._await(digest, _Waiting(file.source, len(file.source), file.open_name))
            return said | {"sha256": digest}
        return said | self._of_path(file.source, inline_bytes)

    def _of_path(self, path: Path, inline_bytes: int) -> dict[str, Any]:
        status = checked(path)
        if status.st_size <= inline_bytes:
            content = _read(path)
            self._count(len(content))
            if len(content) <= inline_bytes:
                return inline(content)
        digest = self._digest(path, status)
        self._await(digest, _Waiting(path, status.st_size, path.name))
        return {"sha256": digest}

    def _digest(self, path: Path, status: os.stat_result) -> str:
        place = (str(path), status.st_size, status.st_mtime_ns, status.st_ino)
        if (known := self._digests.get(place)) is not None:
            self._digests.move_to_end(place)
            return known
        digest = hashlib.sha256()
        for chunk in _chunks(path):
            digest.update(chunk)
            self._count(len(chunk))
        self._digests[place] = digest.hexdigest()
        if len(self._digests) > _REMEMBERED:
            self._digests.popitem(last=False)
        return digest.hexdigest()

    def _count(self, nbytes: int) -> None:
        self._hashed += nbytes
        self._tell("hashing", self._hashed, None)

    def _await(self, digest: str, one: _Waiting) -> None:
        if digest in self._waiting or bytes.fromhex(digest) in self._sent:
            return
        self._waiting[digest] = one
        if isinstance(one.source, bytes):
            self._waiting_bytes += one.nbytes
        if len(self._waiting) >= _MOST_ASKED or self._waiting_bytes >= _MOST_WAITING_BYTES:
            self.flush()

    def flush(self) -> None:
        """Ask which files the project has, and send the others."""
        if not self._waiting:
            return
        asked = list(self._waiting)
        answer = self._transport.post("files/query", {"sha256": asked})
        known = set(answer["known"]) if isinstance(answer, dict) else set()
        missing = {digest: self._waiting[digest] for digest in asked if digest not in known}
        self._to_upload += sum(one.nbytes for one in missing.values())
        if missing:
            self._tell("uploading", self._uploaded, self._to_upload)
            self._upload(missing)
        self._sent.update(map(bytes.fromhex, asked))
        self._waiting.clear()
        self._waiting_bytes = 0

    def _upload(self, missing: dict[str, _Waiting]) -> None:
        """Send files, some at a time."""
        with ExitStack() as stack:
            each = map
            if _AT_ONCE > 1 and len(missing) > 1:
                each = stack.enter_context(ThreadPoolExecutor(_AT_ONCE)).map  # type: ignore[assignment]
            for nbytes in each(self._put, missing, missing.values()):
                self._uploaded += nbytes
                self._tell("uploading", self._uploaded, self._to_upload)

    def _put(self, digest: str, one: _Waiting) -> int:
        def body() -> Iterator[bytes]:
            if isinstance(one.source, bytes):
                yield one.source
            else:
                yield from _chunks(one.source, one.nbytes)

        headers = {"Content-Type": "application/octet-stream"}
        try:
            self._transport.send(
                "PUT", f"files/{digest}", body, one.nbytes, headers, {"name": quote(one.name)}
            )
        except Invalid as refused:
            if "digest" not in refused.code and "sha256" not in refused.code:
                raise
            hint = "see to it that nothing writes to it, then submit again."
            said = f"{one.name} did not arrive as it was hashed: it was changed meanwhile."
            raise FileChanged(said, hint) from refused
        return one.nbytes


def inline(content: bytes) -> dict[str, str]:
    r"""A content within JSON: as text where it is text.

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
    """What the disk says of a file that is to be read.  Raises UnreadableInput."""
    try:
        status = path.stat()
    except OSError as error:
        hint = "check the path; quote names with spaces."
        said = f"There is no file {path}."
        if not isinstance(error, FileNotFoundError):
            said = f"Cannot read {path}: {error.strerror}."
        raise UnreadableInput(said, hint) from None
    if stat.S_ISDIR(status.st_mode):
        hint = f"give the files in it: {path}/*"
        raise UnreadableInput(f"{path} is a folder, and a workunit reads files.", hint)
    if not stat.S_ISREG(status.st_mode):
        raise UnreadableInput(f"{path} is no plain file.", "save it to one first.")
    if not os.access(path, os.R_OK):
        raise UnreadableInput(f"{path} cannot be read: permission denied.", "check its mode.")
    return status


def _read(path: Path) -> bytes:
    return b"".join(_chunks(path))


def _chunks(path: Path, promised: int | None = None) -> Iterator[bytes]:
    """The bytes of a file; of one that has shrunk or grown, not what was `promised`."""
    seen = 0
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                seen += len(chunk)
                if promised is not None and seen > promised:
                    break
                yield chunk
    except OSError as error:
        raise UnreadableInput(f"{path} cannot be read: {error.strerror}.") from None
    if promised is not None and seen != promised:
        hint = "see to it that nothing writes to it, then submit again."
        raise FileChanged(f"{path} changed while it was being sent.", hint)
