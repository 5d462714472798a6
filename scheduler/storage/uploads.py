"""Stores uploads that arrive in one request or in several requests.

Several requests append to a partial file, which has one writer at a time.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import BinaryIO, Self

from django.conf import settings

from scheduler.storage.deleting import delete_each, delete_with_digest
from scheduler.storage.digests import (
    Digest,
    Hashes,
    attach_digest,
    digest_of,
    hash_file,
    keep_digest,
)
from scheduler.storage.disk import (
    Unsupported,
    create,
    create_nameless,
    link,
    name_nameless,
    unlink,
    write_all,
)
from scheduler.storage.names import beside, path_of
from scheduler.storage.notices import notice
from scheduler.storage.syncing import sync_folder


class UploadFinished(Exception):
    """The upload is already complete, and complete uploads are not changed."""


class UploadLocked(Exception):
    """Another request is writing this upload."""


class UploadGap(Exception):
    """The offset is greater than the number of bytes that have arrived.

    The argument of the exception is the number of bytes that have arrived.
    """


class DigestMismatch(Exception):
    """The MD5 of the upload differs from the announced MD5, and the upload was discarded."""


@dataclass(frozen=True, slots=True)
class UploadSize:
    """The number of bytes of an upload that have arrived, and whether the upload is complete."""

    nbytes: int
    finished: bool


class Upload:
    """An upload in progress: a locked partial file with exactly one writer.

    Call ``write`` for each chunk, then ``finish``.  If the ``with`` block ends before ``finish``,
    the bytes are kept for the next attempt.
    """

    __slots__ = ("_descriptor", "_final", "_hashes", "_partial")

    def __init__(self, descriptor: int, partial: str, final: str, hashes: Hashes) -> None:
        self._descriptor = descriptor
        self._partial = partial
        self._final = final
        self._hashes = hashes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        os.close(self._descriptor)  # also releases the lock

    @property
    def nbytes(self) -> int:
        """The number of bytes that have arrived."""
        return self._hashes.nbytes

    def write(self, chunk: bytes) -> None:
        """Append a chunk; after an OSError such as ENOSPC, earlier bytes are kept."""
        write_all(self._descriptor, chunk)
        self._hashes.update(chunk)

    def finish(self, *, md5: str | None) -> Digest:
        """Give the file its final name, and return its digest.

        If ``md5`` is not None and not the file's MD5, this deletes the file and raises
        DigestMismatch.  Raises UploadFinished if another request has stored the complete upload.
        """
        digest = self._hashes.digest()
        try:
            _compare(digest, md5)
        except DigestMismatch:
            os.unlink(self._partial)
            raise
        keep_digest(self._descriptor, self._final, digest)
        if settings.UPLOAD_FSYNC:
            os.fsync(self._descriptor)
        try:
            link(self._partial, self._final)
        except FileExistsError:  # another request has stored the complete upload
            os.unlink(self._partial)
            raise UploadFinished from None
        unlink(self._partial)
        if settings.UPLOAD_FSYNC:
            sync_folder(os.path.dirname(self._final))
        return digest


def put_upload(name: str, data: bytes, *, md5: str | None) -> Digest:
    """Store an upload that arrived in one piece, in half the time of `begin_upload`.

    The file gets its name when it is complete, so that no lock is needed and a failure leaves no
    file.  If the file system does not support this, `begin_upload` is used.  Raises UploadFinished,
    UploadLocked, DigestMismatch, BadFileName.
    """
    final = path_of("upload", name)
    hashes = Hashes()
    hashes.update(data)
    digest = hashes.digest()
    _compare(digest, md5)
    try:
        folder = os.path.dirname(final)
        descriptor = create_nameless(folder)
        try:
            write_all(descriptor, data)
            attach_digest(descriptor, digest)
            if settings.UPLOAD_FSYNC:
                os.fsync(descriptor)
            name_nameless(descriptor, final)
        finally:
            os.close(descriptor)
        if settings.UPLOAD_FSYNC:
            sync_folder(folder)
    except FileExistsError:
        raise UploadFinished from None
    except Unsupported:
        with begin_upload(name, 0) as upload:
            upload.write(data)
            return upload.finish(md5=md5)
    return digest


def _compare(digest: Digest, md5: str | None) -> None:
    if md5 is not None and md5.lower() != digest.md5:
        raise DigestMismatch(f"The MD5 of the upload is {digest.md5}, not {md5} as announced.")


def begin_upload(name: str, offset: int) -> Upload:
    """Open an upload to append bytes at ``offset``, and delete the bytes after ``offset``.

    The earlier bytes are read from the partial file and hashed again, because the state of the
    hashes is not stored.  Raises UploadFinished, UploadLocked, UploadGap, BadFileName.
    """
    final = path_of("upload", name)
    partial = beside(final, "part")
    while True:
        descriptor = create(partial, os.O_RDWR | os.O_CREAT)
        try:
            nbytes = _settle(descriptor, partial, final)
            if nbytes is None:
                os.close(descriptor)
                continue
            if offset > nbytes:
                raise UploadGap(nbytes)  # noqa: TRY301 - the handler below closes the file
            if offset < nbytes:
                os.ftruncate(descriptor, offset)
            hashes = Hashes()
            if offset:
                with open(descriptor, "rb", buffering=0, closefd=False) as file:
                    hashes = hash_file(file, offset)
        except BaseException:
            os.close(descriptor)
            raise
        return Upload(descriptor, partial, final, hashes)


def _settle(descriptor: int, partial: str, final: str) -> int | None:
    """Lock a partial file; return its length, or None if it was deleted before the lock.

    Between the open and the lock, another writer may have finished or deleted this file.  If it was
    finished, the final name exists; writers never remove a final name.  If it was deleted, the link
    count is zero.  If a process crashed between `link` and `unlink`, both names exist, and this
    function removes the partial name.  Raises UploadFinished and UploadLocked.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UploadLocked from None
    status = os.fstat(descriptor)
    if not status.st_nlink:
        return None
    if not os.access(final, os.F_OK):
        return status.st_size
    with contextlib.suppress(FileNotFoundError):
        if os.stat(partial).st_ino == status.st_ino:
            os.unlink(partial)
    raise UploadFinished


def upload_size(name: str) -> UploadSize:
    """Return the size of an upload; raises UploadLocked while a request writes it.

    An upload that has not begun has 0 bytes.
    """
    final = path_of("upload", name)
    for _ in range(2):
        with contextlib.suppress(FileNotFoundError):
            return UploadSize(os.stat(final).st_size, finished=True)
        try:
            descriptor = os.open(beside(final, "part"), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # the upload may have been finished in between: check again
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            status = os.fstat(descriptor)
        except BlockingIOError:
            raise UploadLocked from None
        finally:
            os.close(descriptor)
        if status.st_nlink and not os.path.exists(final):
            return UploadSize(status.st_size, finished=False)
    return UploadSize(0, finished=False)


def has_room_for(nbytes: int) -> bool:
    """Return whether at least `MIN_FREE_BYTES` stay free after an upload of `nbytes` bytes."""
    return free_nbytes() - nbytes >= settings.MIN_FREE_BYTES


def free_nbytes() -> int:
    """Return the free space of the disk with VAR_DIR, in bytes, without root's reserve."""
    try:
        disk = os.statvfs(settings.VAR_DIR)
    except FileNotFoundError:
        os.makedirs(settings.VAR_DIR, exist_ok=True)
        disk = os.statvfs(settings.VAR_DIR)
    return disk.f_bavail * disk.f_frsize


def uploads_stopped() -> bool:
    """Return whether the file ``stop_upload`` in VAR_DIR or a maintenance stops uploads."""
    if os.access(f"{settings.VAR_DIR}/stop_upload", os.F_OK):
        return True
    maintenance = notice("maintenance")
    return maintenance is not None and bool(maintenance.get("uploads"))


def finished_uploads(names: Iterable[str]) -> dict[str, Digest]:
    """Return the digests of complete uploads by name; names of other uploads are left out.

    A stored digest is used if its size matches; otherwise the file is read and hashed.
    """
    digests: dict[str, Digest] = {}
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            digests[name] = digest_of(path_of("upload", name))
    return digests


def open_upload(name: str) -> BinaryIO:
    """Open a finished upload for reading; raises FileNotFoundError."""
    return open(path_of("upload", name), "rb")


def upload_digest(name: str) -> Digest:
    """Read a finished upload and return its digest; raises FileNotFoundError."""
    with open_upload(name) as file:
        return hash_file(file).digest()


def delete_uploads(names: Iterable[str]) -> dict[str, str]:
    """Delete complete and partial uploads; return the error messages by name."""
    return delete_each(names, _delete_upload)


def _delete_upload(name: str) -> None:
    path = path_of("upload", name)
    delete_with_digest(path)
    partial = beside(path, "part")
    if os.access(partial, os.F_OK):
        try:
            delete_partial(partial)
        except UploadLocked:
            message = f"Upload {name!r} is being written. Hint: try again later."
            raise BlockingIOError(errno.EAGAIN, message) from None


def delete_partial(partial: str) -> None:
    """Delete a partial upload; raises UploadLocked while a request writes it."""
    try:
        descriptor = os.open(partial, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_nlink:
            unlink(partial)
    except BlockingIOError:
        raise UploadLocked from None
    finally:
        os.close(descriptor)
