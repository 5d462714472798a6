"""Describes a backup: its manifest, and the list of its files with their hashes.

A backup is a folder::

    manifest.json    what the backup contains, and the version that wrote it
    SHA256SUMS       the hash of each other file, in the format of `sha256sum`
    database.dump    the database, in pg_dump's custom format
    keys/            the keys of the project, but not the passwords of the embedded PostgreSQL
    files/           the files of VAR_DIR, under the same paths
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from scheduler.storage import OWNER_FILE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: The format of backups; a reader refuses all others.
FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
SUMS: Final = "SHA256SUMS"
DUMP: Final = "database.dump"
KEYS: Final = "keys"
FILES: Final = "files"
#: The folders of VAR_DIR that a backup contains.  The others hold temporary files, and files that
#: the daemons write again.
TREES: Final = ("archive", "download", "results", "templates", "upload")

_LINE: Final = re.compile(r"\\?([0-9a-f]{64})  ([^\n]+)\n")


class BadBackup(Exception):
    """The backup is damaged, incomplete or not usable; the text contains a hint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The content of manifest.json.

    `migrations` are the applied migrations, as ``app.name``.  `postgresql` and `pg_dump` are the
    major versions of the server and of the program that wrote the dump.  `store` is the URL of the
    object store, whose files are not in the backup, or an empty string.
    """

    format: int
    project: str
    identifier: str
    master_url: str
    version: str
    created_at: str
    postgresql: int
    pg_dump: int
    migrations: list[str]
    counts: dict[str, int]
    with_keys: bool
    with_files: bool
    store: str
    files: int
    nbytes: int
    sums_sha256: str

    def text(self) -> str:
        """Return the text of the file."""
        return json.dumps(asdict(self), indent=2) + "\n"


def read(text: str) -> Manifest:
    """Return the manifest with this text; raises BadBackup."""
    try:
        content: dict[str, Any] = json.loads(text)
        if content["format"] != FORMAT:
            raise BadBackup(
                f"The backup has the format {content['format']!r}, and this version reads format "
                f"{FORMAT}.\nHint: restore it with the version of Manyhands that wrote it."
            )
        manifest = Manifest(**content)
    except (ValueError, TypeError, KeyError) as error:
        raise _damaged(MANIFEST, str(error)) from None
    examples = {"int": 0, "str": "", "bool": False, "list[str]": [], "dict[str, int]": {}}
    for field in fields(Manifest):
        if type(getattr(manifest, field.name)) is not type(examples[str(field.type)]):
            raise _damaged(MANIFEST, f"{field.name} has another type")
    return manifest


def sum_line(sha256: str, path: str) -> str:
    r"""Return a line of SHA256SUMS; `sha256sum` marks escaped paths by a backslash.

    >>> sum_line("00", "a\\b")
    '\\00  a\\\\b\n'
    """
    escaped = path.replace("\\", "\\\\").replace("\n", "\\n")
    return f"{'' if escaped == path else chr(92)}{sha256}  {escaped}\n"


def read_sums(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the hash and the path of each line of SHA256SUMS.

    Raises BadBackup for a line in another format, and for a path that is not one of a backup.
    """
    for number, line in enumerate(lines, 1):
        matched = _LINE.fullmatch(line)
        if matched is None:
            raise _damaged(SUMS, f"line {number} is not a hash and a path")
        sha256, path = matched.groups()
        if line.startswith("\\"):
            path = re.sub(
                r"\\(.)", lambda match: "\n" if match[1] == "n" else match[1], path, flags=re.DOTALL
            )
        check_path(path)
        yield sha256, path


def check_path(path: str) -> None:
    """Raise BadBackup unless a backup may contain a file with this path.

    This prevents that a manipulated list names a file outside of the backup, or one that a restore
    must not write.
    """
    top, *rest = path.split("/")
    is_plain = "\0" not in path and not {"", ".", ".."} & set(rest)
    if is_plain and (
        path == DUMP
        or (top == KEYS and len(rest) == 1)
        or (top == FILES and (len(rest) > 1 and rest[0] in TREES))
        or (top == FILES and len(rest) == 1 and is_notice(rest[0]))
    ):
        return
    raise _damaged(SUMS, f"{path!r} is not the path of a file of a backup")


def is_notice(name: str) -> bool:
    """Return whether a backup contains the file `name` of VAR_DIR itself."""
    return name == OWNER_FILE or (name.endswith(".json") and not name.startswith("."))


def _damaged(name: str, reason: str) -> BadBackup:
    return BadBackup(f"{name} of the backup is damaged: {reason}.\nHint: use another backup.")
