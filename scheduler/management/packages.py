"""Read a folder, an archive or a single file as the package of an app version."""

from __future__ import annotations

import stat
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

#: More than this in a package is taken for a mistake, or for an archive made to burst.
MAX_BYTES = 2 * 1024**3


class UnreadablePackage(ValueError):
    """The source cannot be read as a package. Hint: the message says what to change."""


@dataclass(frozen=True, slots=True)
class Source:
    """The files by relative name, and which of them are executable."""

    files: dict[str, bytes]
    executables: frozenset[str]


def read_package(path: Path) -> Source:
    """Read a folder, a .zip, a .tar (.gz, .bz2, .xz), or any other single file.

    Raises `UnreadablePackage` for what does not exist, for links and devices, for names twice, and
    for more than `MAX_BYTES`.  Names are judged by `policy.packaging`.
    """
    if path.is_dir():
        members = _folder(path)
    elif not path.is_file():
        msg = f"There is no file or folder {path}. Hint: check the path."
        raise UnreadablePackage(msg)
    elif zipfile.is_zipfile(path):
        members = _zip(path)
    elif tarfile.is_tarfile(path):
        members = _tar(path)
    else:
        members = iter([(path.name, path.read_bytes(), path.stat().st_mode)])
    return _gather(members, path)


def _gather(members: Iterator[tuple[str, bytes, int]], path: Path) -> Source:
    files: dict[str, bytes] = {}
    executables = set()
    total = 0
    try:
        for name, content, mode in members:
            if name in files:
                msg = f"{path} has {name} twice. Hint: make the archive anew."
                raise UnreadablePackage(msg)
            total += len(content)
            _check_size(total, path)
            files[name] = content
            if mode & stat.S_IXUSR:
                executables.add(name)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError) as error:
        msg = f"{path} is damaged: {error}. Hint: make the archive anew."
        raise UnreadablePackage(msg) from error
    return Source(files, frozenset(executables))


def _folder(path: Path) -> Iterator[tuple[str, bytes, int]]:
    for member in sorted(path.rglob("*")):
        name = member.relative_to(path).as_posix()
        mode = member.lstat().st_mode
        if stat.S_ISDIR(mode):
            continue
        if not stat.S_ISREG(mode):
            raise _link(path, name)
        yield name, member.read_bytes(), mode


def _zip(path: Path) -> Iterator[tuple[str, bytes, int]]:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            mode = member.external_attr >> 16
            if member.is_dir():
                continue
            if stat.S_IFMT(mode) not in {0, stat.S_IFREG}:
                raise _link(path, member.filename)
            _check_size(member.file_size, path)
            # orig_filename: zipfile hides what follows a NUL, and turns backslashes on Windows.
            yield member.orig_filename, archive.read(member), mode


def _tar(path: Path) -> Iterator[tuple[str, bytes, int]]:
    with tarfile.open(path) as archive:
        for member in archive:
            if member.isdir():
                continue
            content = archive.extractfile(member) if member.isreg() else None
            if content is None:
                raise _link(path, member.name)
            _check_size(member.size, path)
            yield member.name.removeprefix("./"), content.read(), member.mode


def _check_size(nbytes: int, path: Path) -> None:
    if nbytes > MAX_BYTES:
        msg = f"{path} has more than {MAX_BYTES} bytes. Hint: leave out what the app does not need."
        raise UnreadablePackage(msg)


def _link(path: Path, name: str) -> UnreadablePackage:
    return UnreadablePackage(
        f"{name} in {path} is a link or a device. Hint: put the file itself there."
    )
