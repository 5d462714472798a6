"""Downloads files, resumes interrupted downloads, and verifies the files."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import shutil
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from volunteer import safe_files
from volunteer.signature import verifies
from volunteer.transport import (
    OK,
    PARTIAL,
    RANGE_REFUSED,
    SERVER_ERROR,
    HttpTransport,
    Stream,
    TransferError,
    UnreachableError,
    try_each,
)

if TYPE_CHECKING:
    from pathlib import Path

    from volunteer.wire.messages import FileInfo

# The end of a broken transfer may be the error page of a proxy (PROTOCOL 3.1).
_DOUBTFUL_BYTES = 5000
# The limit of a download whose size the server does not declare.
MAX_UNDECLARED_BYTES = 1 << 30
_CHUNK_BYTES = 1 << 20

MD5_MISMATCH = "-119 (md5 checksum failed for file)"
BAD_SIGNATURE = "-120 (RSA key check failed for file)"
NO_SIGNATURE = "-123 (no signature)"
WRONG_SIZE = "-200 (wrong size)"
DISK_FULL = "-177 (not enough disk space)"
TRANSIENT = "-184 (transient HTTP error)"
PERMANENT = "-224 (permanent HTTP error)"


class DownloadError(TransferError):
    """A download failed, or the file differs from its description.

    `code` is BOINC's error number and text.
    """

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason, permanent=code not in {TRANSIENT, DISK_FULL})
        self.code = code


@dataclass(frozen=True, slots=True)
class FileDownload:
    """A file to download. `code_sign_key` is None if the file needs no signature."""

    info: FileInfo
    path: Path
    code_sign_key: str | None


def fetch(transport: HttpTransport, download: FileDownload) -> str:
    """Download a file, verify it and move it to its path.

    The addresses are tried in order. A signed file that is already on the disk is not downloaded.
    Returns the SHA-256 of a signed file, or an empty string for other files. Raises DownloadError,
    which is permanent if every address fails permanently or the file is not valid.
    """
    info = download.info
    if download.code_sign_key is not None and not info.signature:
        raise DownloadError(NO_SIGNATURE, "missing signature")
    download.path.parent.mkdir(parents=True, exist_ok=True)
    if download.code_sign_key is not None and (sha256 := _verified_here(download)):
        return sha256
    part = download.path.with_name(download.path.name + ".part")
    zipped = bool(info.gzipped_urls and not info.urls)
    size = 0 if zipped else info.nbytes
    limit = _byte_limit(info, part)
    try_each(
        info.gzipped_urls if zipped else info.urls,
        lambda url: _fetch_one(transport, url, part, size, limit),
        DownloadError(PERMANENT, "the project sent no address"),
    )
    if zipped:
        part = _unzip(part, download.path, info.nbytes or limit)
    try:
        sha256 = check(part, info, download.code_sign_key)
    except DownloadError:
        part.unlink(missing_ok=True)
        raise
    # An input is never started, even if its description marks it as executable.
    is_program = info.executable and download.code_sign_key is not None
    safe_files.set_mode(part, 0o755 if is_program else 0o644)
    part.replace(download.path)
    return sha256


def _verified_here(download: FileDownload) -> str:
    """Return the SHA-256 of a valid signed file on the disk, or an empty string."""
    try:
        sha256 = check(download.path, download.info, download.code_sign_key)
    except (DownloadError, OSError):
        return ""
    safe_files.set_mode(download.path, 0o755 if download.info.executable else 0o644)
    return sha256


def _byte_limit(info: FileInfo, part: Path) -> int:
    """Return the maximum number of bytes of a download.

    It is the declared size, with a margin for compressed files, or 1 GiB if no size is declared.
    Raises DownloadError if the declared size does not fit on the disk.
    """
    if not info.nbytes:
        return MAX_UNDECLARED_BYTES
    here = part.lstat().st_size if part.exists() else 0
    free = shutil.disk_usage(part.parent).free
    if info.nbytes - here > free:
        raise DownloadError(
            DISK_FULL, f"{info.nbytes} bytes do not fit on the disk, which has {free} free"
        )
    # A compressed file may be slightly longer than its content.
    return info.nbytes + (info.nbytes // 100 + 4096 if info.gzipped_urls else 0)


def _fetch_one(transport: HttpTransport, url: str, part: Path, nbytes: int, limit: int) -> None:
    if part.is_symlink() or (part.exists() and not part.is_file()):
        part.unlink()
    offset = part.stat().st_size if part.exists() else 0
    if nbytes and offset == nbytes:
        return
    if not nbytes or offset > nbytes:
        # Without a declared size, the remaining bytes may belong to a newer version of the file.
        offset = 0
    try:
        with transport.stream(url, offset) as stream:
            _refuse(stream.status, part)
            _write(stream, part, offset, limit)
    except UnreachableError as error:
        _cut(part)
        raise DownloadError(TRANSIENT, str(error)) from error
    if nbytes and part.stat().st_size < nbytes:
        size = part.stat().st_size
        _cut(part)
        raise DownloadError(TRANSIENT, f"received only {size} of {nbytes} bytes")


def _refuse(status: int, part: Path) -> None:
    if status == RANGE_REFUSED:
        part.unlink(missing_ok=True)
        raise DownloadError(TRANSIENT, "the server's file is shorter than the part received before")
    if status >= SERVER_ERROR:
        raise DownloadError(TRANSIENT, f"HTTP {status}")
    if status not in {OK, PARTIAL}:
        raise DownloadError(PERMANENT, f"permanent HTTP error {status}")


def _write(stream: Stream, part: Path, offset: int, limit: int) -> None:
    """Append the received bytes to the partial file, up to a size of `limit` bytes.

    If the server does not support Range, the file is written from the beginning. Raises
    DownloadError for a wrong range, for an unsafe file and for more than `limit` bytes.
    """
    if stream.start not in {0, offset}:
        raise DownloadError(TRANSIENT, "the server sent a different range")
    try:
        # A program may have left a link here since the request was sent.
        opened = safe_files.open_to_change(part.parent, part.name)
    except safe_files.UnsafeFileError as error:
        raise DownloadError(TRANSIENT, str(error)) from error
    with opened as file:
        file.truncate(stream.start)
        file.seek(stream.start)
        size = stream.start
        for chunk in stream.chunks:
            size += len(chunk)
            if size > limit:
                part.unlink()
                raise DownloadError(
                    WRONG_SIZE, f"more than {limit} bytes instead of the declared size"
                )
            file.write(chunk)


def _cut(part: Path) -> None:
    """Remove the last 5000 bytes of an interrupted transfer, which may be an error page."""
    if part.exists():
        with (
            contextlib.suppress(safe_files.UnsafeFileError),
            safe_files.open_to_change(part.parent, part.name) as file,
        ):
            file.truncate(max(0, file.seek(0, 2) - _DOUBTFUL_BYTES))


def _unzip(part: Path, path: Path, max_bytes: int) -> Path:
    """Decompress the partial file, delete it, and return the path of the decompressed file.

    The declared size and MD5 are those of the decompressed file. Raises DownloadError if the file
    is malformed, or has more than `max_bytes` bytes after decompression.
    """
    unzipped = path.with_name(path.name + ".unzipped")
    unzipped.unlink(missing_ok=True)
    try:
        with gzip.open(part, "rb") as source, unzipped.open("xb") as target:
            # One byte more than allowed is enough to detect a wrong size.
            left = max_bytes + 1
            while left and (chunk := source.read(min(left, _CHUNK_BYTES))):
                target.write(chunk)
                left -= len(chunk)
    except (OSError, EOFError, zlib.error) as error:
        unzipped.unlink(missing_ok=True)
        raise DownloadError(WRONG_SIZE, f"cannot be unpacked: {error}") from error
    finally:
        part.unlink(missing_ok=True)
    if not left:
        size = unzipped.stat().st_size
        unzipped.unlink()
        raise DownloadError(WRONG_SIZE, f"{size} or more bytes instead of {max_bytes}")
    return unzipped


def check(path: Path, info: FileInfo, code_sign_key: str | None) -> str:
    """Compare a file with its description, and return the SHA-256 of a signed file.

    Returns an empty string if `code_sign_key` is None. Otherwise the file is verified by its size
    and signature, and its MD5 is not compared, as in BOINC. A compromised server cannot make
    volunteers run a program that the project's owner did not sign.

    Raises a permanent DownloadError if the file differs, OSError if it cannot be read, and the
    subclass UnsafeFileError if the path is not a plain file.
    """
    digests = digests_of(path.parent, path.name)
    if info.nbytes and digests.nbytes != info.nbytes:
        raise DownloadError(WRONG_SIZE, f"{digests.nbytes} bytes instead of {info.nbytes}")
    if code_sign_key is not None:
        if not info.signature:
            raise DownloadError(NO_SIGNATURE, "missing signature")
        if not verifies(digests.md5, info.signature, code_sign_key):
            raise DownloadError(BAD_SIGNATURE, "signature verification error")
        return digests.sha256
    if info.md5 and digests.md5 != info.md5:
        raise DownloadError(MD5_MISMATCH, "MD5 check failed")
    return ""


@dataclass(frozen=True, slots=True)
class Digests:
    """The size of a file in bytes and its digests in hexadecimal."""

    nbytes: int
    md5: str
    sha256: str


def digests_of(root: Path, name: str) -> Digests:
    """Return the size and the digests of a plain file below a folder.

    Raises OSError if the file cannot be read, and the subclass UnsafeFileError if the path is not a
    plain file.
    """
    md5, sha256 = hashlib.md5(usedforsecurity=False), hashlib.sha256()
    nbytes = 0
    with safe_files.opened(root, name) as file:
        while chunk := file.read(_CHUNK_BYTES):
            nbytes += len(chunk)
            md5.update(chunk)
            sha256.update(chunk)
    return Digests(nbytes, md5.hexdigest(), sha256.hexdigest())
