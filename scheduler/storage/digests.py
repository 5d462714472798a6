"""Computes digests of files once, and stores each digest with its file."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import struct
from dataclasses import dataclass
from typing import BinaryIO, Final

from scheduler.storage.disk import Unsupported
from scheduler.storage.names import beside

#: The extended attribute with the digest of a file: size, MD5 and SHA-256.  The value is binary,
#: because 56 bytes fit into the inode of an ext4 file system, so that they need no block.
DIGEST_ATTRIBUTE: Final = "user.manyhands"

_DIGEST: Final = struct.Struct(">Q16s32s")
_CHUNK: Final = 1 << 20
_NO_ATTRIBUTES: Final = {errno.ENOTSUP, errno.EPERM, errno.ENOSPC, errno.E2BIG, errno.ENOSYS}


@dataclass(frozen=True, slots=True)
class Digest:
    """The size of a file in bytes, and its hashes in lower-case hexadecimal digits."""

    nbytes: int
    md5: str
    sha256: str


class Hashes:
    """The length, MD5 and SHA-256 of a stream of bytes."""

    __slots__ = ("md5", "nbytes", "sha256")

    def __init__(self) -> None:
        self.nbytes = 0
        self.md5 = hashlib.md5(usedforsecurity=False)
        self.sha256 = hashlib.sha256()

    def update(self, chunk: bytes) -> None:
        """Hash the next bytes."""
        self.nbytes += len(chunk)
        self.md5.update(chunk)
        self.sha256.update(chunk)

    def digest(self) -> Digest:
        """Return the digest of the bytes so far."""
        return Digest(self.nbytes, self.md5.hexdigest(), self.sha256.hexdigest())


def hash_file(file: BinaryIO, limit: int | None = None) -> Hashes:
    """Read a file from its position, at most ``limit`` bytes, and return the hashes."""
    hashes = Hashes()
    while limit is None or hashes.nbytes < limit:
        want = _CHUNK if limit is None else min(_CHUNK, limit - hashes.nbytes)
        chunk = file.read(want)
        if not chunk:
            break
        hashes.update(chunk)
    return hashes


def digest_of(path: str) -> Digest:
    """Return the stored digest of a file, or hash the file if no digest of its size is stored."""
    nbytes = os.stat(path).st_size
    stored = read_digest(path, nbytes)
    if stored is not None:
        return stored
    with open(path, "rb") as file:
        return hash_file(file).digest()


def read_digest(path: str, nbytes: int) -> Digest | None:
    """Return the stored digest of a file, or None.

    Returns None if no digest is stored, or if the size in the digest is not `nbytes`.
    """
    packed = b""
    with contextlib.suppress(OSError):
        packed = os.getxattr(path, DIGEST_ATTRIBUTE)
    if not packed:
        with contextlib.suppress(OSError), open(beside(path, "digest"), "rb") as file:
            packed = file.read(_DIGEST.size + 1)
    if len(packed) != _DIGEST.size:
        return None
    size, md5, sha256 = _DIGEST.unpack(packed)
    return Digest(size, md5.hex(), sha256.hex()) if size == nbytes else None


def attach_digest(descriptor: int, digest: Digest) -> None:
    """Store a digest in an extended attribute of an open file; raises Unsupported."""
    try:
        os.setxattr(descriptor, DIGEST_ATTRIBUTE, _packed(digest))
    except OSError as error:
        if error.errno in _NO_ATTRIBUTES:
            raise Unsupported from None
        raise


def keep_digest(descriptor: int, path: str, digest: Digest) -> None:
    """Store the digest of an open file, as an attribute or in a digest file beside ``path``."""
    try:
        attach_digest(descriptor, digest)
    except Unsupported:
        # A truncated digest file has another length, so it is ignored, and the file is hashed.
        with open(beside(path, "digest"), "wb") as file:
            file.write(_packed(digest))


def _packed(digest: Digest) -> bytes:
    return _DIGEST.pack(digest.nbytes, bytes.fromhex(digest.md5), bytes.fromhex(digest.sha256))
