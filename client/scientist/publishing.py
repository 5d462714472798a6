"""Publishes app versions from files, an archive, a folder, a URL or an image."""

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
    """An app version to publish.

    The program is in `files`, in a container `image`, or at `source_url`, from which the project
    fetches the program.  `signatures` is a `.sig` file or a folder of `.sig` files, for a project
    whose server does not sign files.  `platforms` defaults to the platforms of the app's kind.
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


def publication(
    source: Path | str | Sequence[Path | str], options: Mapping[str, Any]
) -> Publication:
    """Return the Publication of a source, with `options` as its other fields.

    A single source that is a URL becomes the `source_url`.  Options with the value None are left
    out.  Raises UsageError for an option that Publication does not have.
    """
    names = {field.name for field in fields_of(Publication)} - {"files"}
    if unknown := sorted(set(options) - names):
        hint = f"the options are {', '.join(sorted(names))}."
        raise UsageError(f"publish has no option {', '.join(unknown)}.", hint)
    values = {name: value for name, value in options.items() if value is not None}
    if "platforms" in values:
        platforms = values["platforms"]
        values["platforms"] = (platforms,) if isinstance(platforms, str) else tuple(platforms)
    result = Publication(**values)
    sources = [source] if isinstance(source, str | Path) else list(source)
    if len(sources) == 1 and str(sources[0]).startswith(("http://", "https://", "rsync:")):
        return replace(result, source_url=str(sources[0]))
    return replace(result, files=tuple(map(Path, sources)))


def publish(transport: Transport, app: str, spec: Publication) -> list[models.AppVersionInfo]:
    """Publish a program; return its versions, one for each platform.

    A folder is packed before its upload.  Raises UsageError if the program has several sources or
    a file cannot be read.
    """
    sources = [bool(spec.files), spec.source_url is not None, spec.image is not None]
    # An app of kind `command` needs no source; the project checks that.
    if sum(sources) > 1:
        hint = "give files or a folder, --source-url URL or --image IMAGE, but not several of them."
        raise UsageError("A program has more than one source.", hint)
    fields = [("version", spec.version), *(("platforms", name) for name in spec.platforms)]
    for name in ("plan_class", "main_program", "cmdline", "source_url", "image"):
        value = getattr(spec, name)
        fields += [(name, value)] if value else []
    if spec.signatures is not None:
        fields += [("signatures", text) for text in _signatures(Path(spec.signatures))]
    with ExitStack() as stack:
        files = [_opened(path, stack) for path in spec.files]
        answer = transport.send_form(f"apps/{app}/versions", fields, files)
    rows = answer.get("results", answer) if isinstance(answer, dict) else answer
    rows = [rows] if isinstance(rows, dict) else rows
    return [models.read(models.AppVersionInfo, row) for row in rows or ()]


def _signatures(path: Path) -> list[str]:
    paths = sorted(path.rglob("*.sig")) if path.is_dir() else [path]
    try:
        texts = [file.read_text(encoding="ascii", errors="replace") for file in paths]
    except OSError as error:
        reason = f"{error.filename} cannot be read: {error.strerror}."
        raise UsageError(reason, "check the path.") from None
    if not texts:
        hint = "`python3 sign.py sign FOLDER` creates them from the files of --prepare."
        raise UsageError(f"There are no .sig files in {path}.", hint)
    return texts


def _opened(path: Path, stack: ExitStack) -> tuple[str, IO[bytes]]:
    if path.is_dir():
        return f"{path.resolve().name}.tar.gz", stack.enter_context(packed(path))
    checked(path)
    return path.name, stack.enter_context(path.open("rb"))


def packed(folder: Path) -> IO[bytes]:
    """Pack the files of a folder; return an open tar.gz file.

    The same files always result in the same bytes.  Symbolic links are left out.

    Raises UsageError if the folder has no files.
    """
    file: IO[bytes] = tempfile.TemporaryFile(prefix="scientist-")  # noqa: SIM115  the caller closes it

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        member.mtime = 0
        member.mode = 0o755 if member.mode & 0o100 or member.isdir() else 0o644
        return member

    paths = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    if not paths:
        file.close()
        raise UsageError(f"There are no files in {folder}.", "put the program and run.sh into it.")

    with (
        gzip.GzipFile("", "wb", 6, file, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in paths:
            archive.add(path, path.relative_to(folder).as_posix(), filter=plain)
    file.seek(0)
    return file
