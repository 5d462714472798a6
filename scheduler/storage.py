"""Storage: the room of files; nothing else in the server opens one.

Everything lies under ``settings.VAR_DIR``::

    download/<fan>/<name>        what clients fetch, immutable once published
    download/.staging/           written, not yet published
    upload/<fan>/<name>          a finished upload, never written again
    upload/<fan>/.<name>.part    one that is still arriving
    upload/<fan>/.<name>.digest  its digest, where the file system keeps no attributes
    results/<app>/...            what the assimilator keeps
    archive/YYYY-MM-DD.jsonl.gz  what the purger took out of the database

Two rules make it safe against crashes and against each other: a name appears only by an atomic
rename or link of a complete file, and the path of a partial upload is renamed or removed only by
the one who holds its lock.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import io
import json
import os
import re
import secrets
import shutil
import struct
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Self
from urllib.parse import quote

from django.conf import settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import date, datetime
    from types import TracebackType

# Strings are paths here: this room runs for every file of every result, and pathlib is slow.
# ruff: noqa: PTH103, PTH104, PTH108, PTH110, PTH116, PTH120, PTH123

#: BOINC's default number of folders per hierarchy (PROTOCOL 7.4).
FANOUT: Final = 1024
#: Uploads are refused while fewer bytes than this would stay free on the disk.
MIN_FREE_BYTES: Final = 100_000_000
#: The extended attribute that carries a digest: size, MD5 and SHA-256, packed. Binary, because
#: these 56 bytes still fit into the inode of an ext4 file system and then cost no block.
DIGEST_ATTRIBUTE: Final = "user.manyhands"

_DIGEST: Final = struct.Struct(">Q16s32s")
_CHUNK: Final = 1 << 20
_TRAILER: Final = 8
_ARCHIVE: Final = ".jsonl.gz"
_LONGEST_NAME: Final = 255
_BAD_CHARACTERS: Final = re.compile(r"[\x00-\x1f\x7f%/\\<>&\"\ud800-\udfff]")
_NO_ATTRIBUTES: Final = {errno.ENOTSUP, errno.EPERM, errno.ENOSPC, errno.E2BIG, errno.ENOSYS}
_NO_LINKS: Final = {errno.ENOTSUP, errno.EPERM, errno.ENOSYS, errno.EMLINK, errno.EXDEV}
_NO_CLONE: Final = {errno.ENOTSUP, errno.EXDEV, errno.EINVAL, errno.ENOSYS}


class BadFileName(ValueError):
    """A physical file name that BOINC's clients or this server cannot take."""


class FileNameTaken(Exception):
    """Another content is published under this name; names are immutable (PROTOCOL trap 4)."""


class UploadFinished(Exception):
    """The upload is complete already; it is never written again."""


class UploadLocked(Exception):
    """Another request is writing this upload at this moment."""


class UploadGap(Exception):
    """The upload continues further on than what has arrived; the length is the argument."""


class DigestMismatch(Exception):
    """What arrived is not what was announced; it has been discarded."""


@dataclass(frozen=True, slots=True)
class Digest:
    """Size in bytes and both hashes, in lower-case hexadecimal digits."""

    nbytes: int
    md5: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Staged:
    """A complete file that has no public name yet."""

    path: Path
    digest: Digest


@dataclass(frozen=True, slots=True)
class UploadSize:
    """How much of an upload is here, in bytes, and whether that is all of it."""

    nbytes: int
    finished: bool


# Names and paths


def fan_out(name: str) -> str:
    """Return the folder that BOINC's directory hash puts a file into (PROTOCOL 7.4).

    Seven hexadecimal digits of the name's MD5, from the second on, modulo the fan-out:

    >>> fan_out("wu_1_0_r0")
    '2b'
    """
    digits = hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()
    return f"{int(digits[1:8], 16) % FANOUT:x}"


def check_name(name: str) -> None:
    """Raise BadFileName unless clients, file systems and this room can all take the name.

    Clients refuse ``..`` and ``%``, hold 255 bytes and print names without escaping them.
    Slashes would leave the folder, a leading dot is ours (partial uploads), and white space at
    the ends is lost on the wire.
    """
    if not name:
        message = "File name is empty."
    elif _BAD_CHARACTERS.search(name):
        message = f'File name {name!r} has a control character or one of / \\ % < > & ".'
    elif name[0] == "." or ".." in name:
        message = f"File name {name!r} begins with a dot or contains '..'."
    elif name[0].isspace() or name[-1].isspace():
        message = f"File name {name!r} begins or ends with white space."
    elif len(name.encode()) > _LONGEST_NAME:
        message = f"File name {name[:40]!r}... is longer than {_LONGEST_NAME} bytes."
    else:
        return
    hint = (
        "Hint: use letters, digits, '_', '-' and '.', with a version or content hash in the name."
    )
    raise BadFileName(message + "\n" + hint)


def download_path(name: str) -> Path:
    """Return where a published file lies."""
    return Path(_path("download", name))


def upload_path(name: str) -> Path:
    """Return where a finished upload lies."""
    return Path(_path("upload", name))


def download_url_path(name: str) -> str:
    """Return the path of a published file below the master URL, quoted for a URL."""
    check_name(name)
    return f"download/{fan_out(name)}/{quote(name)}"


def _path(hierarchy: str, name: str) -> str:
    check_name(name)
    return f"{settings.VAR_DIR}/{hierarchy}/{fan_out(name)}/{name}"


def _beside(path: str, suffix: str) -> str:
    """Return a hidden name in the same folder, also for names with no room for a suffix."""
    folder, _, name = path.rpartition("/")
    if len(name) > _LONGEST_NAME // 4 - 8 and len(name.encode()) > _LONGEST_NAME - 8:
        name = hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()
    return f"{folder}/.{name}.{suffix}"


# Digests


def _read_digest(path: str, nbytes: int) -> Digest | None:
    """Return the kept digest, or None if there is none or it tells of another size."""
    packed = b""
    with contextlib.suppress(OSError):
        packed = os.getxattr(path, DIGEST_ATTRIBUTE)
    if not packed:
        with contextlib.suppress(OSError), open(_beside(path, "digest"), "rb") as file:
            packed = file.read(_DIGEST.size + 1)
    if len(packed) != _DIGEST.size:
        return None
    size, md5, sha256 = _DIGEST.unpack(packed)
    return Digest(size, md5.hex(), sha256.hex()) if size == nbytes else None


def _keep_digest(descriptor: int, path: str, digest: Digest) -> None:
    """Keep the digest with an open file that will be called ``path``."""
    packed = _DIGEST.pack(digest.nbytes, bytes.fromhex(digest.md5), bytes.fromhex(digest.sha256))
    try:
        os.setxattr(descriptor, DIGEST_ATTRIBUTE, packed)
    except OSError as error:
        if error.errno not in _NO_ATTRIBUTES:
            raise
        # A torn sidecar has another length, so it is ignored, and the file is hashed instead.
        with open(_beside(path, "digest"), "wb") as file:
            file.write(packed)


class _Hashes:
    """MD5 and SHA-256 of one stream."""

    __slots__ = ("md5", "nbytes", "sha256")

    def __init__(self) -> None:
        self.nbytes = 0
        self.md5 = hashlib.md5(usedforsecurity=False)
        self.sha256 = hashlib.sha256()

    def update(self, chunk: bytes) -> None:
        self.nbytes += len(chunk)
        self.md5.update(chunk)
        self.sha256.update(chunk)

    def digest(self) -> Digest:
        return Digest(self.nbytes, self.md5.hexdigest(), self.sha256.hexdigest())


def _hash_file(file: BinaryIO, limit: int | None = None) -> _Hashes:
    """Hash from the file's position to its end, or for ``limit`` bytes."""
    hashes = _Hashes()
    while limit is None or hashes.nbytes < limit:
        want = _CHUNK if limit is None else min(_CHUNK, limit - hashes.nbytes)
        chunk = file.read(want)
        if not chunk:
            break
        hashes.update(chunk)
    return hashes


def _digest_of(path: str) -> Digest:
    nbytes = os.stat(path).st_size
    kept = _read_digest(path, nbytes)
    if kept is not None:
        return kept
    with open(path, "rb") as file:
        return _hash_file(file).digest()


# Downloads: stage, then publish


def stage_bytes(data: bytes) -> Staged:
    """Write bytes where ``publish`` can find them."""
    return stage_file(io.BytesIO(data))


def stage_file(source: str | os.PathLike[str] | BinaryIO) -> Staged:
    """Copy a path or an open binary file where ``publish`` can find it; one read, both hashes."""
    if isinstance(source, str | os.PathLike):
        with open(source, "rb") as file:
            return stage_file(file)
    folder = Path(settings.VAR_DIR, "download", ".staging")
    path = folder / f"{os.getpid()}-{secrets.token_hex(8)}"
    descriptor = _create(os.fspath(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    hashes = _Hashes()
    try:
        with open(descriptor, "wb", buffering=0) as staged:
            while chunk := source.read(_CHUNK):
                hashes.update(chunk)
                _write_all(descriptor, chunk)
            digest = hashes.digest()
            with contextlib.suppress(OSError):  # the published file can be hashed again
                _keep_digest(staged.fileno(), os.fspath(path), digest)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return Staged(path, digest)


def publish(staged: Staged, name: str) -> None:
    """Give a staged file its public name, at once and for ever.

    The same content under the same name is fine; another content raises FileNameTaken, for
    clients keep the old file (PROTOCOL trap 4). The staged file is gone afterwards.
    """
    final = _path("download", name)
    try:
        _link(os.fspath(staged.path), final)
    except FileExistsError:
        existing = _digest_of(final)
        if existing != staged.digest:
            message = (
                f"File {name!r} is published with {existing.nbytes} bytes and MD5 "
                f"{existing.md5}, not {staged.digest.nbytes} bytes and {staged.digest.md5}.\n"
                "Hint: put a version or content hash in the name; names are never reused."
            )
            raise FileNameTaken(message) from None
        os.utime(final)  # young again: nobody may take it for one that a submission left behind
    discard(staged)


def discard(staged: Staged) -> None:
    """Forget a staged file; doing so twice is fine."""
    path = os.fspath(staged.path)
    _unlink(path)
    _unlink(_beside(path, "digest"))


def open_download(name: str) -> tuple[BinaryIO, Digest | None]:
    """Open a published file, with its digest if that was kept; FileNotFoundError if absent."""
    path = _path("download", name)
    file = open(path, "rb", buffering=0)  # noqa: SIM115 - the caller closes it
    return file, _read_digest(path, os.fstat(file.fileno()).st_size)


def sync_downloads(names: Iterable[str]) -> None:
    """Put published files on the disk for good: once per batch, before its commit."""
    _sync((_path("download", name) for name in names), top=f"{settings.VAR_DIR}/download")


def delete_downloads(names: Iterable[str]) -> dict[str, str]:
    """Delete published files; return name -> error for those that resist."""
    failures: dict[str, str] = {}
    for name in names:
        try:
            path = _path("download", name)
            _unlink(path)
            _unlink(_beside(path, "digest"))
        except (OSError, BadFileName) as error:
            failures[name] = str(error)
    return failures


# Uploads


class Upload:
    """An upload that arrives: a locked partial file, of which exactly one writer exists.

    ``write`` what comes, then ``finish``; leaving the ``with`` block before that keeps what
    arrived for the next attempt.
    """

    __slots__ = ("_descriptor", "_final", "_hashes", "_partial")

    def __init__(self, descriptor: int, partial: str, final: str, hashes: _Hashes) -> None:
        self._descriptor = descriptor
        self._partial = partial
        self._final = final
        self._hashes = hashes

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._descriptor)  # gives the lock back, too

    @property
    def nbytes(self) -> int:
        """How many bytes of the file are here."""
        return self._hashes.nbytes

    def write(self, chunk: bytes) -> None:
        """Append a chunk; OSError (ENOSPC, EDQUOT, EIO, ...) keeps what was written."""
        _write_all(self._descriptor, chunk)
        self._hashes.update(chunk)

    def finish(self, *, md5: str | None) -> Digest:
        """Give the file its name; DigestMismatch discards it if ``md5`` is another."""
        digest = self._hashes.digest()
        if md5 is not None and md5.lower() != digest.md5:
            os.unlink(self._partial)
            message = f"MD5 of the upload is {digest.md5}, announced was {md5}."
            raise DigestMismatch(message)
        _keep_digest(self._descriptor, self._final, digest)
        if settings.UPLOAD_FSYNC:
            os.fsync(self._descriptor)
        os.rename(self._partial, self._final)
        if settings.UPLOAD_FSYNC:
            _sync_folder(os.path.dirname(self._final))
        return digest


def begin_upload(name: str, offset: int) -> Upload:
    """Open an upload for the bytes from ``offset`` on; what lies behind it is cut off.

    The hashes of what is here already are computed again from the partial file: they would have
    to survive the process otherwise. Raises UploadFinished, UploadLocked, UploadGap, BadFileName.
    """
    final = _path("upload", name)
    partial = _beside(final, "part")
    while True:
        descriptor = _create(partial, os.O_RDWR | os.O_CREAT)
        try:
            found = _settle(descriptor, partial, final)
            if found is None:
                os.close(descriptor)
                continue
            if offset > found:
                raise UploadGap(found)  # noqa: TRY301 - the handler below closes the file
            if offset < found:
                os.ftruncate(descriptor, offset)
            hashes = _Hashes()
            if offset:
                with open(descriptor, "rb", buffering=0, closefd=False) as file:
                    hashes = _hash_file(file, offset)
        except BaseException:
            os.close(descriptor)
            raise
        return Upload(descriptor, partial, final, hashes)


def _settle(descriptor: int, partial: str, final: str) -> int | None:
    """Lock a partial file; return its length, or None if it went away before the lock.

    Between our open and our lock another writer may have renamed this very file to its final
    name, or discarded it. No path is looked at twice: the link count tells of the latter, and
    the final name, which never changes once it exists, of the former.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UploadLocked from None
    ours = os.fstat(descriptor)
    if not ours.st_nlink:
        return None
    try:
        finished = os.stat(final)
    except FileNotFoundError:
        return ours.st_size
    if finished.st_ino != ours.st_ino:
        os.unlink(partial)
    raise UploadFinished


def upload_size(name: str) -> UploadSize:
    """Say how much of an upload is here; raises UploadLocked while another request writes it."""
    final = _path("upload", name)
    for _ in range(2):
        with contextlib.suppress(FileNotFoundError):
            return UploadSize(os.stat(final).st_size, finished=True)
        try:
            descriptor = os.open(_beside(final, "part"), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # finished in between, perhaps: look once more
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            found = os.fstat(descriptor)
        except BlockingIOError:
            raise UploadLocked from None
        finally:
            os.close(descriptor)
        if found.st_nlink and not os.path.exists(final):
            return UploadSize(found.st_size, finished=False)
    return UploadSize(0, finished=False)


def has_room_for(nbytes: int) -> bool:
    """Say whether this many bytes leave the disk of the uploads its reserve."""
    try:
        disk = os.statvfs(settings.VAR_DIR)
    except FileNotFoundError:
        os.makedirs(settings.VAR_DIR, exist_ok=True)
        disk = os.statvfs(settings.VAR_DIR)
    return disk.f_bavail * disk.f_frsize - nbytes >= MIN_FREE_BYTES


def uploads_stopped() -> bool:
    """Say whether a file ``stop_upload`` is in the var folder, or maintenance stops uploads."""
    if os.path.exists(f"{settings.VAR_DIR}/stop_upload"):
        return True
    said = notice("maintenance")
    return said is not None and bool(said.get("uploads"))


def finished_uploads(names: Iterable[str]) -> dict[str, Digest]:
    """Return the digests of those uploads that are complete; other names are left out.

    Kept digests are believed if the size fits; a file without one is read and hashed.
    """
    digests: dict[str, Digest] = {}
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            digests[name] = _digest_of(_path("upload", name))
    return digests


def open_upload(name: str) -> BinaryIO:
    """Open a finished upload for reading; FileNotFoundError if there is none."""
    return open(_path("upload", name), "rb")


def delete_uploads(names: Iterable[str]) -> dict[str, str]:
    """Delete uploads, finished or not; return name -> error for those that resist."""
    failures: dict[str, str] = {}
    for name in names:
        try:
            path = _path("upload", name)
            _unlink(path)
            _unlink(_beside(path, "digest"))
            _delete_partial(_beside(path, "part"))
        except UploadLocked:
            failures[name] = f"Upload {name!r} is being written. Hint: try again later."
        except (OSError, BadFileName) as error:
            failures[name] = str(error)
    return failures


def _delete_partial(partial: str) -> None:
    try:
        descriptor = os.open(partial, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_nlink:
            _unlink(partial)
    except BlockingIOError:
        raise UploadLocked from None
    finally:
        os.close(descriptor)


# What was left behind


@dataclass(frozen=True, slots=True)
class OldFile:
    """A file that nobody has changed for long; `name` is its public one, also if it is partial."""

    name: str
    path: str
    nbytes: int
    changed_at: float


def old_uploads(*, before: datetime, at_once: int = 1000) -> Iterator[list[OldFile]]:
    """Yield uploads, finished or not, that were last changed before a moment: folder by folder.

    Never more than `at_once` in a list, so that millions of files take no memory.
    """
    yield from _old_files("upload", before.timestamp(), at_once)


def old_downloads(*, before: datetime, at_once: int = 1000) -> Iterator[list[OldFile]]:
    """Yield published files, and staged ones, that were last changed before a moment."""
    yield from _old_files("download", before.timestamp(), at_once)


def delete_old_files(files: Iterable[OldFile]) -> list[OldFile]:
    """Delete files unless somebody changed them meanwhile; return those that are gone."""
    gone = []
    for file in files:
        with contextlib.suppress(OSError, UploadLocked):
            if os.stat(file.path).st_mtime != file.changed_at:
                continue
            if file.path.endswith(".part"):
                _delete_partial(file.path)
            else:
                _unlink(file.path)
                _unlink(_beside(file.path, "digest"))
            gone.append(file)
    return gone


def _old_files(hierarchy: str, before: float, at_once: int) -> Iterator[list[OldFile]]:
    found: list[OldFile] = []
    for folder in _folders(f"{settings.VAR_DIR}/{hierarchy}"):
        with os.scandir(folder) as entries:
            for entry in entries:
                file = _old_file(entry, before)
                if file is not None:
                    found.append(file)
                if len(found) >= at_once:
                    yield found
                    found = []
    if found:
        yield found


def _folders(top: str) -> list[str]:
    try:
        with os.scandir(top) as entries:
            return sorted(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return []


def _old_file(entry: os.DirEntry[str], before: float) -> OldFile | None:
    name = entry.name
    try:
        if not entry.is_file(follow_symlinks=False):
            return None
        found = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    if found.st_mtime >= before:
        return None
    if name.startswith("."):
        name = name[1:].rpartition(".")[0]
        # A digest goes with its file; one without a file goes like a file.
        if entry.name.endswith(".digest") and os.path.exists(
            f"{os.path.dirname(entry.path)}/{name}"
        ):
            return None
    return OldFile(name, entry.path, found.st_size, found.st_mtime)


# Results that are kept


def keep_result(*, upload_name: str, app: str, relative: str) -> Path:
    """Copy an upload to ``results/<app>/<relative>``, replacing what is there; return the path.

    Shares the blocks with the upload where the file system can. Not on the disk for good before
    ``sync_results``. Raises FileNotFoundError without the upload, BadFileName for the path.
    """
    target = _result_path(app, relative)
    with open_upload(upload_name) as source, _replacing(target) as copy:
        _copy(source, copy)
    return target


def write_result(*, app: str, relative: str, data: bytes) -> Path:
    """Write bytes to ``results/<app>/<relative>``, replacing what is there; return the path."""
    target = _result_path(app, relative)
    with _replacing(target) as file:
        file.write(data)
    return target


def change_result(*, app: str, relative: str, change: Callable[[bytes], bytes]) -> Path:
    """Replace a result by what `change` makes of its bytes (none if it is new); return the path.

    One change at a time, whichever process asks; a reader sees the old file or the new one, and so
    does a power cut: the new one is on the disk before it takes the name.
    """
    target = _result_path(app, relative)
    lock = _create(f"{target.parent}/.{target.name}.lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            before = target.read_bytes()
        except FileNotFoundError:
            before = b""
        with _replacing(target) as file:
            file.write(change(before))
            file.flush()
            os.fsync(file.fileno())
    finally:
        os.close(lock)
    return target


def sync_results(paths: Iterable[Path]) -> None:
    """Put results on the disk for good, files and folders: once per batch, before its commit."""
    _sync(map(os.fspath, paths), top=f"{settings.VAR_DIR}/results")


def _result_path(app: str, relative: str) -> Path:
    for part in (app, *relative.split("/")):
        check_name(part)
    return Path(settings.VAR_DIR, "results", app, relative)


@contextlib.contextmanager
def _replacing(target: Path) -> Iterator[BinaryIO]:
    """Open a new file that takes the target's name if all goes well, and vanishes otherwise."""
    temporary = f"{target.parent}/.{secrets.token_hex(8)}.part"
    descriptor = _create(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        with open(descriptor, "wb") as file:
            yield file
        os.rename(temporary, target)
    except BaseException:
        _unlink(temporary)
        raise


def _copy(source: BinaryIO, target: BinaryIO) -> None:
    try:
        while os.copy_file_range(source.fileno(), target.fileno(), 1 << 30):
            pass
    except OSError as error:
        if error.errno not in _NO_CLONE:
            raise
    shutil.copyfileobj(source, target, _CHUNK)  # what the kernel left, most often nothing


# Notices and signs of life: what processes tell each other without the database


def notice(name: str) -> dict[str, Any] | None:
    """Return what ``<name>.json`` of the var folder says, None without one; one `stat` if known.

    A file that is no JSON object, written by hand, counts as an empty notice.
    """
    path = f"{settings.VAR_DIR}/{name}.json"
    try:
        found = os.stat(path)
        stamp = (found.st_mtime_ns, found.st_ino, found.st_size)
        known = _notices.get(path)
        if known is None or known[0] != stamp:
            with open(path, "rb") as file:
                known = _notices[path] = (stamp, _json_object(file.read()))
    except FileNotFoundError:
        return None
    return known[1]


_notices: dict[str, tuple[tuple[int, int, int], dict[str, Any]]] = {}


def _json_object(data: bytes) -> dict[str, Any]:
    try:
        said = json.loads(data)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def put_notice(name: str, said: Mapping[str, Any] | None) -> None:
    """Write a notice for all processes that share the var folder, or take it away."""
    path = Path(settings.VAR_DIR) / f"{name}.json"
    if said is None:
        _unlink(os.fspath(path))
        return
    with _replacing(path) as file:
        file.write(json.dumps(said, indent=2, default=str).encode())
        file.flush()
        os.fsync(file.fileno())


def signs_of_life() -> dict[str, datetime]:
    """When each daemon last finished a pass, by the files that they touch."""
    found: dict[str, datetime] = {}
    with contextlib.suppress(FileNotFoundError):
        for entry in os.scandir(f"{settings.VAR_DIR}/run"):
            name, dot, kind = entry.name.rpartition(".")
            if dot and kind == "alive":
                with contextlib.suppress(FileNotFoundError):
                    found[name] = datetime.fromtimestamp(entry.stat().st_mtime, UTC)
    return found


# The archive


def append_archive(day: date, lines: Iterable[bytes]) -> Path:
    """Append lines to a day's archive as one gzip member, on the disk for good on return.

    A member that a crash cut short was never promised to anyone; the next append removes it.
    """
    path = Path(settings.VAR_DIR, "archive", f"{day:%Y-%m-%d}{_ARCHIVE}")
    data = b"".join(line.rstrip(b"\n") + b"\n" for line in lines)
    if not data:
        return path
    packer = zlib.compressobj(wbits=31)
    member = packer.compress(data) + packer.flush()
    descriptor = _create(os.fspath(path), os.O_RDWR | os.O_CREAT)
    with open(descriptor, "rb", buffering=0) as file:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        end = _end_of_archive(file, path.name)
        os.ftruncate(descriptor, end)
        os.lseek(descriptor, end, os.SEEK_SET)
        _write_all(descriptor, member)
        os.fsync(descriptor)
        _archive_ends[path.name] = (end + len(member), member[-_TRAILER:])
        if not end:
            _sync_folder(os.path.dirname(path))
            _sync_folder(os.fspath(settings.VAR_DIR))
    return path


def read_archive(path: str | os.PathLike[str]) -> Iterator[bytes]:
    """Yield the lines of an archive without their newlines; a torn last member is left out."""
    with open(path, "rb") as file:
        for _, data in _members(file):
            yield from data.splitlines()


def archive_days() -> dict[str, Path]:
    """Return the archive's files by day (``YYYY-MM-DD``), the newest day first."""
    folder = Path(settings.VAR_DIR, "archive")
    found = {path.name.removesuffix(_ARCHIVE): path for path in folder.glob(f"*{_ARCHIVE}")}
    return dict(sorted(found.items(), reverse=True))


def archive_sizes(path: str | os.PathLike[str]) -> tuple[int, int]:
    """Return how many bytes an archive has, and where its last whole member ends."""
    with open(path, "rb") as file:
        end = max((position for position, _ in _members(file)), default=0)
        return os.fstat(file.fileno()).st_size, end


#: Where whole members ended when this process last appended: file name -> (position, the bytes
#: before it). Those bytes, a checksum and a length, show that it is still the same file.
_archive_ends: dict[str, tuple[int, bytes]] = {}


def _end_of_archive(file: BinaryIO, name: str) -> int:
    """Return where the last whole member ends; read only what this process did not write."""
    end, trailer = _archive_ends.get(name, (0, b""))
    _archive_ends.clear()  # of other days, mostly
    file.seek(max(0, end - _TRAILER))
    if file.read(len(trailer)) != trailer:
        end = 0
    file.seek(end)
    for position, _ in _members(file):
        end = position
    return end


def _members(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield the end position and the content of each whole gzip member from here on."""
    position, waiting = file.tell(), b""
    while True:
        unpacker, parts = zlib.decompressobj(wbits=31), []
        while not unpacker.eof:
            chunk = waiting or file.read(_CHUNK)
            if not chunk:
                return
            try:
                parts.append(unpacker.decompress(chunk))
            except zlib.error:
                return
            waiting = b""
            position += len(chunk)
        waiting = unpacker.unused_data
        position -= len(waiting)
        yield position, b"".join(parts)


# The file system


def _create(path: str, flags: int) -> int:
    """Open with these flags, making the folders if they are missing."""
    try:
        return os.open(path, flags | os.O_CLOEXEC, 0o644)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return os.open(path, flags | os.O_CLOEXEC, 0o644)


def _write_all(descriptor: int, data: bytes) -> None:
    written = os.write(descriptor, data)
    while written < len(data):
        data = data[written:]
        written = os.write(descriptor, data)


def _unlink(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _link(source: str, target: str) -> None:
    """Give a file a second name that must be new: FileExistsError otherwise."""
    os.makedirs(os.path.dirname(target), exist_ok=True)
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.exists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target) from None
        os.rename(source, target)  # a file system without links: not quite as safe


def _sync(paths: Iterable[str], *, top: str) -> None:
    """Put files on the disk for good, and each folder between them and ``top``, once each."""
    folders: set[str] = {top}
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        folder = os.path.dirname(path)
        while folder not in folders and len(folder) > len(top):
            folders.add(folder)
            folder = os.path.dirname(folder)
    for folder in folders:
        _sync_folder(folder)


def _sync_folder(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
