"""Programs on their way: a file, an archive, a folder, a source or an image."""

from __future__ import annotations

import gzip
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from dataclasses import fields as fields_of
from pathlib import Path
from typing import IO, Any

from scientist import models
from scientist.errors import UsageError
from scientist.transport import Transport
from scientist.uploads import checked


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """A version to be: files, or a `source_url` that the project fetches, or a container `image`.

    `signatures` is a folder with `.sig` files, or one such file, for a project that does not sign
    by itself.  Without `platforms`, those that the app's kind runs on are taken.
    """

    files: tuple[Path, ...] = ()
    version: str = "1.00"
    platforms: tuple[str, ...] = ()
    plan_class: str | None = None
    main_program: str | None = None
    cmdline: str | None = None
    source_url: str | None = None
    image: str | None = None
    signatures: Path | str | None = None


def publication(source: Path | str | Sequence[Path | str], said: Mapping[str, Any]) -> Publication:
    """Put together what is to be published.  Raises UsageError."""
    known = {one.name for one in fields_of(Publication)} - {"files"}
    if strange := sorted(set(said) - known):
        hint = f"there are {', '.join(sorted(known))}."
        raise UsageError(f"A publication has no {', '.join(strange)}.", hint)
    given = {name: value for name, value in said.items() if value is not None}
    if "platforms" in given:
        platforms = given["platforms"]
        given["platforms"] = (platforms,) if isinstance(platforms, str) else tuple(platforms)
    found = Publication(**given)
    sources = [source] if isinstance(source, str | Path) else list(source)
    if len(sources) == 1 and str(sources[0]).startswith(("http://", "https://", "rsync:")):
        return replace(found, source_url=str(sources[0]))
    return replace(found, files=tuple(map(Path, sources)))


def publish(
    transport: Transport, app: str, one: Publication
) -> list[models.AppVersionInfo]:  # fmt: skip
    """Send a program; gives its versions, one a platform.  A folder is packed first."""
    sources = [bool(one.files), one.source_url is not None, one.image is not None]
    # None at all will do for an app of commands: the project says whether it does.
    if sum(sources) > 1:
        hint = "name files or a folder, or --source-url URL, or --image IMAGE."
        raise UsageError("A program comes from one place.", hint)
    fields = [("version", one.version), *(("platforms", name) for name in one.platforms)]
    for name in ("plan_class", "main_program", "cmdline", "source_url", "image"):
        value = getattr(one, name)
        fields += [(name, value)] if value else []
    if one.signatures is not None:
        fields += [("signatures", text) for text in _signatures(Path(one.signatures))]
    with ExitStack() as stack:
        files = [_opened(path, stack) for path in one.files]
        answer = transport.send_form(f"apps/{app}/versions", fields, files)
    rows = answer.get("results", answer) if isinstance(answer, dict) else answer
    rows = [rows] if isinstance(rows, dict) else rows
    return [models.read(models.AppVersionInfo, row) for row in rows or ()]


def _signatures(path: Path) -> list[str]:
    paths = sorted(path.rglob("*.sig")) if path.is_dir() else [path]
    try:
        texts = [file.read_text(encoding="ascii", errors="replace") for file in paths]
    except OSError as error:
        raise UsageError(
            f"{error.filename} cannot be read: {error.strerror}.", "check the path."
        ) from None
    if not texts:
        hint = "`python3 sign.py sign FOLDER` makes them from the files of --prepare."
        raise UsageError(f"There are no .sig files in {path}.", hint)
    return texts


def _opened(path: Path, stack: ExitStack) -> tuple[str, IO[bytes]]:
    if path.is_dir():
        return f"{path.resolve().name}.tar.gz", stack.enter_context(packed(path))
    checked(path)
    return path.name, stack.enter_context(path.open("rb"))


def packed(folder: Path) -> IO[bytes]:
    """A folder as an archive: the same bytes for the same files, whoever packs them and when."""
    file: IO[bytes] = tempfile.TemporaryFile(prefix="scientist-")  # noqa: SIM115  the caller's

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        member.mtime = 0
        member.mode = 0o755 if member.mode & 0o100 or member.isdir() else 0o644
        return member

    names = sorted(one for one in folder.rglob("*") if one.is_file() and not one.is_symlink())
    if not names:
        file.close()
        raise UsageError(f"There are no files in {folder}.", "put the program and run.sh into it.")

    with (
        gzip.GzipFile("", "wb", 6, file, mtime=0) as pressed,
        tarfile.open(fileobj=pressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in names:
            archive.add(path, path.relative_to(folder).as_posix(), filter=plain)
    file.seek(0)
    return file
