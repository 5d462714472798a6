"""Lists the files of a project, and copies and hashes files."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from project import embedded_roles
from project.upkeep.manifest import FILES, KEYS, TREES, is_notice
from scheduler.storage import DIGEST_ATTRIBUTE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_CHUNK: Final = 1 << 20
_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
#: Passwords that belong to a data folder of PostgreSQL or to one start, not to the project.
NOT_COPIED: Final = frozenset(
    {
        f"{embedded_roles.USER}_password",
        f"{embedded_roles.SUPERUSER}_password",
        "first_admin_password",
    }
)


#: The folder of keys that a restore replaced in the VAR_DIR of the same project.
REPLACED_KEYS: Final = "replaced"
#: The errors of opening a symbolic link and a socket.
_NOT_FILES: Final = frozenset({errno.ELOOP, errno.ENXIO})


class NotRegular(Exception):
    """A path is a symbolic link, a folder or a special file, where a file was expected."""


class Unreadable(Exception):
    """A file or folder cannot be read; the text contains a hint."""

    def __init__(self, path: object, error: OSError) -> None:
        super().__init__(
            f"{path} cannot be read ({error.strerror}).\n"
            "Hint: run the command as the project's user, and correct the owner and the modes; "
            "nothing is left out silently."
        )


def key_files(keys: Path) -> Iterator[tuple[str, Path]]:
    """Yield the path in a backup, and the path on the disk, of each key.

    Entries that are not regular files are included, so that they are not left out silently.
    """
    for path in sorted(keys.iterdir()) if keys.is_dir() else ():
        is_replaced = path.name == REPLACED_KEYS and path.is_dir()
        if not path.name.startswith(".") and path.name not in NOT_COPIED and not is_replaced:
            yield f"{KEYS}/{path.name}", path


def project_files(var: Path) -> Iterator[tuple[str, Path]]:
    """Yield the path in a backup, and the path on the disk, of each other file.

    Files that are not complete (partial uploads, staged downloads) are left out: clients begin
    these uploads again.  Links to folders are included as such.  Raises Unreadable for a folder
    that cannot be read.
    """
    for path in sorted(var.iterdir()):
        if is_notice(path.name):
            yield f"{FILES}/{path.name}", path
    for tree in TREES:
        if os.path.lexists(var / tree):
            for path in _files_below(var / tree):
                yield f"{FILES}/{path.relative_to(var)}", path


def _files_below(tree: Path) -> Iterator[Path]:
    def fail(error: OSError) -> None:
        has_vanished = isinstance(error, FileNotFoundError) and error.filename != str(tree)
        if not has_vanished:
            raise Unreadable(error.filename, error)

    for folder, folders, names in os.walk(tree, onerror=fail):
        folders.sort()
        yield from (path for name in folders if (path := Path(folder, name)).is_symlink())
        for name in sorted(names):
            if not name.startswith(".") or name.endswith(".digest"):
                yield Path(folder, name)


def total_size(paths: Iterator[tuple[str, Path]]) -> int:
    """Return the number of bytes of files that exist."""
    total = 0
    for _, path in paths:
        with suppress(FileNotFoundError):
            total += path.lstat().st_size
    return total


def sha256_of(path: Path, advance: Callable[[int], None] = lambda _nbytes: None) -> str:
    """Return the SHA-256 of a file; raises NotRegular, Unreadable and FileNotFoundError."""
    hashed = hashlib.sha256()
    with os.fdopen(_open(path), "rb", buffering=0) as file:
        while chunk := file.read(_CHUNK):
            hashed.update(chunk)
            advance(len(chunk))
    return hashed.hexdigest()


def _open(path: Path) -> int:
    """Open a regular file without following a link, and without waiting for a named pipe."""
    try:
        descriptor = os.open(path, _FLAGS)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno not in _NOT_FILES:
            raise Unreadable(path, error) from None
        raise NotRegular(f"{path} is not a regular file.") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotRegular(f"{path} is not a regular file.")
    return descriptor


@dataclass(slots=True)
class Copier:
    """Copies files; a second name of one file becomes a second name of its copy.

    The names matter because kept outputs are links to uploads.  If root copies, the copies belong
    to `owner`, a user and a group.
    """

    owner: tuple[int, int] | None = None
    advance: Callable[[int], None] = lambda _nbytes: None
    _links: dict[tuple[int, int], tuple[Path, str]] = field(default_factory=dict)

    def copy(self, source: Path, target: Path, *, mode: int) -> str:
        """Copy a file to a new path, with this mode; return the SHA-256.

        Raises NotRegular, Unreadable and FileNotFoundError for the source, and FileExistsError for
        the target.
        """
        descriptor = _open(source)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            status = os.fstat(descriptor)
            inode = (status.st_dev, status.st_ino)
            self._make_folder(target.parent, mode)
            if inode in self._links:
                earlier, digest = self._links[inode]
                os.link(earlier, target)
                return digest
            hashed = hashlib.sha256()
            copied = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
            with os.fdopen(copied, "wb", buffering=0) as copy:
                while chunk := file.read(_CHUNK):
                    hashed.update(chunk)
                    view = memoryview(chunk)
                    while view:
                        view = view[os.write(copied, view) :]
                    self.advance(len(chunk))
                # The server stores digests in an attribute; without it the file is hashed again.
                with suppress(OSError):
                    os.setxattr(copied, DIGEST_ATTRIBUTE, os.getxattr(descriptor, DIGEST_ATTRIBUTE))
                if self.owner is not None:
                    os.fchown(copy.fileno(), *self.owner)
            digest = hashed.hexdigest()
            if status.st_nlink > 1:
                self._links[inode] = (target, digest)
            return digest

    def _make_folder(self, folder: Path, mode: int) -> None:
        """Create a folder and its parents, for users who may read a file of this mode in it."""
        if folder.is_dir():
            return
        self._make_folder(folder.parent, mode)
        folder.mkdir(mode=mode | (mode & 0o444) >> 2, exist_ok=True)
        if self.owner is not None:
            os.chown(folder, *self.owner)
