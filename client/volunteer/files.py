"""Downloads: resumed where they broke off, checked before anybody may use them."""

from __future__ import annotations

import gzip
import hashlib
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from volunteer.signature import verifies
from volunteer.transport import (
    OK,
    PARTIAL,
    RANGE_REFUSED,
    SERVER_ERROR,
    Stream,
    Transport,
    UnreachableError,
)

if TYPE_CHECKING:
    from pathlib import Path

    from volunteer.wire.messages import FileInfo

# The end of a broken transfer may be the error page of a proxy (PROTOCOL 3.1).
_DOUBTFUL_BYTES = 5000

MD5_MISMATCH = "-119 (md5 checksum failed for file)"
BAD_SIGNATURE = "-120 (RSA key check failed for file)"
NO_SIGNATURE = "-123 (no signature)"
WRONG_SIZE = "-200 (wrong size)"
TRANSIENT = "-184 (transient HTTP error)"
PERMANENT = "-224 (permanent HTTP error)"


class DownloadError(Exception):
    """A file did not come, or is not what was promised; `code` is BOINC's number and words."""

    def __init__(self, code: str, reason: str, *, permanent: bool) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.permanent = permanent


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file to fetch; `code_sign_key` None if it needs no signature."""

    info: FileInfo
    path: Path
    code_sign_key: str | None


def fetch(transport: Transport, wanted: Wanted) -> None:
    """Fetch a file from the first address that gives it, check it, put it in place.

    Raises DownloadError, permanent if every address refuses for good or the content is wrong.
    """
    info = wanted.info
    wanted.path.parent.mkdir(parents=True, exist_ok=True)
    part = wanted.path.with_name(wanted.path.name + ".part")
    zipped = bool(info.gzipped_urls and not info.urls)
    size = 0 if zipped else info.nbytes
    _fetch_from_any(transport, info.gzipped_urls if zipped else info.urls, part, size)
    if zipped:
        part = _unzip(part, wanted.path, info.nbytes)
    try:
        check(part, info, wanted.code_sign_key)
    except DownloadError:
        part.unlink(missing_ok=True)
        raise
    if info.executable:
        part.chmod(0o755)
    part.replace(wanted.path)


def _fetch_from_any(transport: Transport, urls: tuple[str, ...], part: Path, nbytes: int) -> None:
    failure = DownloadError(PERMANENT, "the project gave no address", permanent=True)
    for url in urls:
        try:
            _fetch_one(transport, url, part, nbytes)
        except DownloadError as error:
            # One address that may heal keeps the whole file from being given up.
            if failure.permanent:
                failure = error
        else:
            return
    raise failure


def _fetch_one(transport: Transport, url: str, part: Path, nbytes: int) -> None:
    offset = part.stat().st_size if part.exists() else 0
    if nbytes and offset == nbytes:
        return
    if not nbytes or offset > nbytes:
        # Without a promised size nobody can tell whether the rest belongs to the same file.
        offset = 0
    try:
        with transport.stream(url, offset) as stream:
            _refuse(stream.status, part)
            _write(stream, part, offset)
    except UnreachableError as error:
        _cut(part)
        raise DownloadError(TRANSIENT, str(error), permanent=False) from error
    if nbytes and part.stat().st_size < nbytes:
        size = part.stat().st_size
        _cut(part)
        reason = f"only {size} of {nbytes} bytes came"
        raise DownloadError(TRANSIENT, reason, permanent=False)


def _refuse(status: int, part: Path) -> None:
    if status in {OK, PARTIAL}:
        return
    if status == RANGE_REFUSED:
        part.unlink(missing_ok=True)
        raise DownloadError(TRANSIENT, "the server has less than we have", permanent=False)
    if status >= SERVER_ERROR:
        raise DownloadError(TRANSIENT, f"HTTP {status}", permanent=False)
    raise DownloadError(PERMANENT, f"permanent HTTP error {status}", permanent=True)


def _write(stream: Stream, part: Path, offset: int) -> None:
    """Append what the server sends; one that knows no Range begins anew, and so do we."""
    if stream.start not in {0, offset}:
        raise DownloadError(TRANSIENT, "the server sent another part", permanent=False)
    with part.open("r+b" if part.exists() else "w+b") as file:
        file.truncate(stream.start)
        file.seek(stream.start)
        for chunk in stream.chunks:
            file.write(chunk)


def _cut(part: Path) -> None:
    """Cut the doubtful end of a broken transfer."""
    if part.exists():
        with part.open("r+b") as file:
            file.truncate(max(0, part.stat().st_size - _DOUBTFUL_BYTES))


def _unzip(part: Path, path: Path, nbytes: int) -> Path:
    """Unpack; hash and size promised are those of the unpacked file."""
    unzipped = path.with_name(path.name + ".unzipped")
    try:
        with gzip.open(part, "rb") as source, unzipped.open("wb") as target:
            if nbytes:
                # One byte more than promised is enough to see that the size is wrong.
                target.write(source.read(nbytes + 1))
            else:
                shutil.copyfileobj(source, target)
    except (OSError, EOFError) as error:
        raise DownloadError(WRONG_SIZE, f"cannot be unpacked: {error}", permanent=True) from error
    finally:
        part.unlink(missing_ok=True)
    return unzipped


def check(path: Path, info: FileInfo, code_sign_key: str | None) -> None:
    """Compare a file with what was promised of it; raises DownloadError, always permanent.

    A file of an app version is trusted by its signature alone, as in BOINC: a project whose
    server was broken into cannot make volunteers run a program that its owner did not sign.
    """
    size = path.stat().st_size
    if info.nbytes and size != info.nbytes:
        reason = f"{size} bytes instead of {info.nbytes}"
        raise DownloadError(WRONG_SIZE, reason, permanent=True)
    digest = md5_of(path)
    if code_sign_key is not None:
        if not info.signature:
            raise DownloadError(NO_SIGNATURE, "missing signature", permanent=True)
        if not verifies(digest, info.signature, code_sign_key):
            raise DownloadError(BAD_SIGNATURE, "signature verification error", permanent=True)
    elif info.md5 and digest != info.md5:
        raise DownloadError(MD5_MISMATCH, "MD5 check failed", permanent=True)


def md5_of(path: Path) -> str:
    """Hash a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
