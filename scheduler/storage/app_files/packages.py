"""Reads packages of app versions: folders, archives and single files."""

from __future__ import annotations

import gzip
import json
import shutil
import stat
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from django.conf import settings

from scheduler.storage.app_files import archives
from scheduler.storage.app_files.archives import UnreadablePackage, check_size, is_link
from scheduler.storage.downloads import Staged, stage_file
from scheduler.storage.names import download_path
from scheduler.storage.remote import store

_CHUNK: Final = 1 << 20
#: The maximum size of a description or a signature, in bytes.
_MAX_TEXT: Final = 1 << 20
#: The maximum number of bytes read of a signature; a 1024-bit key gives 264 characters.
_MAX_SIGNATURE: Final = 4096
#: The manifest that the signing tool reads beside the files to be signed.
MANIFEST: Final = "to-sign.json"
#: The age at which temporary folders of killed processes are deleted.
_MAX_AGE_SECONDS: Final = 86_400
#: Files that begin with these bytes are executable; archives from Windows lack the mode bits.
_PROGRAMS: Final = (b"#!", b"\x7fELF")


@dataclass(frozen=True, slots=True)
class Source:
    """The paths of files by relative name, and the names of executable files."""

    files: dict[str, str]
    executables: frozenset[str]
    #: Whether the source is an archive or a folder, not a single file.
    several: bool = True


@contextmanager
def workshop() -> Iterator[Path]:
    """Yield a temporary folder in VAR_DIR, for files that are not published yet.

    This also deletes folders that killed processes left there more than a day ago.
    """
    top = Path(settings.VAR_DIR) / "workshop"
    top.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=top) as folder:
        # The current time by the clock of the file system.
        now = Path(folder).stat().st_mtime
        for left in top.iterdir():
            with suppress(OSError):
                if now - left.stat().st_mtime > _MAX_AGE_SECONDS:
                    shutil.rmtree(left)
        yield Path(folder)


@contextmanager
def published(name: str) -> Iterator[Path]:
    """Yield the path of a published file, or of a temporary copy if the file is in the store.

    Raises FileNotFoundError, `StoreAway`, `StoreError`.
    """
    path, away = download_path(name), store()
    if away is None or path.exists():
        yield path
        return
    stream, _, _ = away.open(name)
    with workshop() as folder, stream:
        copy_of = folder / name
        with copy_of.open("wb") as target:
            shutil.copyfileobj(stream, target, _CHUNK)
        yield copy_of


def published_chunks(name: str) -> Iterator[bytes]:
    """Yield the content of a published file in chunks; raises the exceptions of `published`."""
    with published(name) as path, path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk


@contextmanager
def open_package(path: str | Path, *, name: str = "") -> Iterator[Source]:
    """Yield the files of a folder, a .zip, a .tar (.gz, .bz2, .xz), or a single other file.

    `name` is the name of an archive in messages, and of a single file also in the package.  A link
    to another member of an archive becomes a copy of the member.  Raises `UnreadablePackage` for a
    missing path, other links, devices, repeated names, damaged archives and more than
    `MAX_PACKAGE_BYTES`.  Names are not checked here, but in `apps.rules.packaging`.
    """
    path = Path(path)
    name = name or path.name
    with workshop() as folder:
        if path.is_dir():
            yield _folder(path)
        elif not path.is_file():
            raise UnreadablePackage(f"There is no file or folder {path}. Hint: check the path.")
        elif archives.is_archive(path):
            with archives.reading(name):
                source = _unpack(path, name, folder)
            yield source
        else:
            check_size(path.stat().st_size, name)
            executable = {name} if path.stat().st_mode & stat.S_IXUSR else set()
            yield Source({name: str(path)}, frozenset(executable), several=False)


@contextmanager
def received(files: Sequence[tuple[str, Iterable[bytes]]]) -> Iterator[Source]:
    """Write uploaded files to a temporary folder, and yield the files as a package.

    `files` has the name and the chunks of each file.  A single file is read by `open_package`.
    If there are several files, archives are not unpacked.  Raises `UnreadablePackage`.
    """
    with workshop() as folder:
        total = 0
        source = Source({}, frozenset())
        executables = set()
        for number, (name, chunks) in enumerate(files):
            if name in source.files:
                raise UnreadablePackage(f"Two files are called {name}. Hint: send each file once.")
            path = folder / str(number)
            with path.open("xb") as file:
                for chunk in chunks:
                    total += len(chunk)
                    check_size(total, name)
                    file.write(chunk)
            source.files[name] = str(path)
            if any(begins_with(str(path), start) for start in _PROGRAMS):
                executables.add(name)
        if len(files) == 1:
            [(name, path_of_file)] = source.files.items()
            with open_package(path_of_file, name=name) as package:
                yield package
        else:
            yield Source(source.files, frozenset(executables))


def stage_program(source: Source) -> Staged:
    """Pack the files as one .tar.gz, whose bytes depend only on the files.

    The archive contains only regular files, sorted by name.  Each file has the mode 755 or 644, and
    neither a time nor an owner.
    """
    with tempfile.TemporaryFile(dir=settings.VAR_DIR) as packed:
        with (
            gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as zipped,
            tarfile.open(mode="w", fileobj=zipped, format=tarfile.GNU_FORMAT) as archive,
        ):
            for name in sorted(source.files):
                path = Path(source.files[name])
                info = tarfile.TarInfo(name)
                info.size = path.stat().st_size
                info.mode = 0o755 if name in source.executables else 0o644
                with path.open("rb") as content:
                    archive.addfile(info, content)
        packed.seek(0)
        return stage_file(packed)


def _folder(path: Path) -> Source:
    files: dict[str, str] = {}
    executables = set()
    total = 0
    for member in sorted(path.rglob("*")):
        name = member.relative_to(path).as_posix()
        status = member.lstat()
        if stat.S_ISDIR(status.st_mode):
            continue
        if not stat.S_ISREG(status.st_mode):
            raise is_link(str(path), name)
        total += status.st_size
        check_size(total, str(path))
        files[name] = str(member)
        if status.st_mode & stat.S_IXUSR:
            executables.add(name)
    return Source(files, frozenset(executables))


def _unpack(path: Path, archive: str, folder: Path) -> Source:
    files: dict[str, str] = {}
    executables = set()
    links: dict[str, str] = {}
    total = 0
    members = archives.members(path, archive)
    for number, (name, content, executable, link) in enumerate(members):
        if name in files or name in links:
            raise UnreadablePackage(f"{archive} has {name} twice. Hint: create the archive again.")
        if content is None:
            links[name] = link
            continue
        target = folder / str(number)
        start = b""
        with target.open("xb") as file:
            while chunk := content.read(_CHUNK):
                start = start or chunk[:4]
                total += len(chunk)
                check_size(total, archive)
                file.write(chunk)
        files[name] = str(target)
        if executable or start.startswith(_PROGRAMS):
            executables.add(name)
    for name in links:
        end = _followed(name, links)
        if end not in files:
            raise is_link(archive, name)
        total += Path(files[end]).stat().st_size
        check_size(total, archive)
        files[name] = files[end]
        if end in executables:
            executables.add(name)
    return Source(files, frozenset(executables))


def _followed(name: str, links: dict[str, str]) -> str:
    """Return the name at the end of a chain of links; in a loop, the name of a link."""
    seen = {name}
    while name in links and links[name] not in seen:
        name = links[name]
        seen.add(name)
    return name


def with_texts(source: Source, wanted: Callable[[str], bool]) -> dict[str, bytes | str]:
    """Return the files of a package by name, as bytes if `wanted` returns True, else as paths.

    At most `_MAX_TEXT` bytes of a file are read.
    """
    contents: dict[str, bytes | str] = {}
    for name, path in source.files.items():
        if wanted(name):
            with Path(path).open("rb") as file:
                contents[name] = file.read(_MAX_TEXT)
        else:
            contents[name] = path
    return contents


def write_prepared(
    folder: str | Path, contents: Mapping[str, Staged], facts: Mapping[str, object]
) -> None:
    """Write contents by relative name into a new folder, with a manifest for the signing tool.

    Raises `UnreadablePackage` if the folder is not empty, or if a content has the manifest's name.
    """
    folder = Path(folder)
    if folder.exists() and any(folder.iterdir()):
        msg = f"{folder} is not empty. Hint: name a folder that does not exist yet."
        raise UnreadablePackage(msg)
    manifest = _manifest(contents, facts)
    for name, staged in sorted(contents.items()):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with staged.open() as source, path.open("xb") as target:
            shutil.copyfileobj(source, target, _CHUNK)
    (folder / MANIFEST).write_text(manifest)


def zip_prepared(
    top: str, contents: Mapping[str, Staged], facts: Mapping[str, object]
) -> IO[bytes]:
    """Return an open .zip, deleted when it is closed, with what `write_prepared` writes.

    The files are in a folder `top` of the archive.  Raises `UnreadablePackage` if a content has the
    manifest's name.
    """
    manifest = _manifest(contents, facts)
    packed = tempfile.TemporaryFile(dir=settings.VAR_DIR)  # noqa: SIM115  the caller closes it
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, staged in sorted(contents.items()):
            member = zipfile.ZipInfo(f"{top}/{name}")
            member.compress_type = zipfile.ZIP_DEFLATED
            with staged.open() as source, archive.open(member, "w", force_zip64=True) as target:
                shutil.copyfileobj(source, target, _CHUNK)
        archive.writestr(zipfile.ZipInfo(f"{top}/{MANIFEST}"), manifest)
    packed.seek(0)
    return packed


def _manifest(contents: Mapping[str, Staged], facts: Mapping[str, object]) -> str:
    if MANIFEST in contents:
        msg = f"The package has a file {MANIFEST}, the name of the signing tool's manifest."
        raise UnreadablePackage(f"{msg} Hint: give it another name.")
    listed = [
        {
            "name": name,
            "nbytes": staged.digest.nbytes,
            "sha256": staged.digest.sha256,
            "md5": staged.digest.md5,
        }
        for name, staged in sorted(contents.items())
    ]
    return json.dumps({**facts, "files": listed}, indent=2) + "\n"


def read_signatures(path: str | Path) -> dict[str, str]:
    """Return the texts of the `.sig` files below a folder, or of one file, by relative name.

    Raises `UnreadablePackage` if there is no `.sig` file or a file cannot be read.
    """
    top = Path(path)
    paths = sorted(top.rglob("*.sig")) if top.is_dir() else [top]
    try:
        texts = {
            (file.relative_to(top).as_posix() if file != top else file.name): _signature_text(file)
            for file in paths
        }
    except OSError as error:
        msg = f"{error.filename} cannot be read: {error.strerror}. Hint: check the path."
        raise UnreadablePackage(msg) from error
    if not texts:
        raise UnreadablePackage(
            f"There are no .sig files in {top}. Hint: create them by `python3 sign.py sign {top}`."
        )
    return texts


def read_key_text(path: str | Path) -> str:
    """Return the text of a public key or a signature; raises `UnreadablePackage`."""
    try:
        return _signature_text(Path(path))
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror}. Hint: check the path."
        raise UnreadablePackage(msg) from error


def _signature_text(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_MAX_SIGNATURE).decode("ascii", "replace").strip() + "\n"


def begins_with(path: str, start: bytes) -> bool:
    """Return whether a file begins with these bytes."""
    with Path(path).open("rb") as file:
        return file.read(len(start)) == start


def first_line_ends_with(path: str, end: bytes) -> bool:
    """Return whether the first line of a file, without its newline, ends with these bytes."""
    with Path(path).open("rb") as file:
        return file.readline(_CHUNK).removesuffix(b"\n").endswith(end)
