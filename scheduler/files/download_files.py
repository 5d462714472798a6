"""Keep downloadable files: a row and a name for each content, once.

Theory of operation.  A physical name is an identity that clients remember for ever (PROTOCOL trap
4), so it is made of the content's hash and of the row's id, and never given again.  Content that is
known and not doomed is found again and locked FOR SHARE until the transaction ends: the deleter,
which dooms a file by an UPDATE after locking it, waits for us and then sees the reference that we
made, or has doomed it before, and then we make a new row with a new name.  (KEY SHARE would not do:
it lets an UPDATE of ``doomed_at`` pass.)  Content is on disk under its name before the commit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from scheduler import storage
from scheduler.files.rules.refused_names import usable
from scheduler.sql import execute, fetch, fetch_into, fetch_one

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
_MAX_STEM, _MAX_SUFFIX = 80, 12
#: As many missing files are named in an error.
_NAMED = 10

#: A content that a concurrent transaction makes and dooms again and again is given up on.
_ATTEMPTS = 3


class UnknownFiles(LookupError):
    """Files are named that the server does not know, or no longer.

    Hint: give their content; a file that nobody refers to any more is deleted.
    """

    def __init__(self, names: Iterable[str]) -> None:
        """Keep the names, sorted."""
        self.names = sorted(names)
        more = ", ..." if len(self.names) > _NAMED else ""
        super().__init__(
            f"No such file: {', '.join(self.names[:_NAMED])}{more}. "
            "Hint: give its content; a file that nobody refers to any more is deleted."
        )


class FileInMotion(RuntimeError):
    """A content was deleted and submitted by others all the while. Hint: submit again."""


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A row of ``file`` that cannot be doomed before this transaction ends."""

    id: int
    name: str
    sha256: str
    nbytes: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """A content that shall be downloadable, and what its name should remind of."""

    staged: storage.Staged
    hint: str


def keep(
    wanted: Mapping[str, Wanted],
    *,
    names: Iterable[str] = (),
    digests: Iterable[str] = (),
    now: datetime,
) -> tuple[dict[str, KnownFile], dict[str, KnownFile]]:
    """Find or make the files of some contents (by SHA-256), and find others by name or digest.

    Returns them by SHA-256 and by name.  Runs in the caller's transaction, in two statements, or
    four if there is something new.  Raises `UnknownFiles`, `FileInMotion` and what
    `storage.publish_all` raises.
    """
    asked, sought = set(names), set(digests) - wanted.keys()
    known = _lock(wanted.keys() | sought, asked)
    by_name = {file.name: file for file in known if file.name in asked}
    by_sha = {file.sha256: file for file in known if file.sha256 in wanted or file.sha256 in sought}
    if missing := (asked - by_name.keys()) | (sought - by_sha.keys()):
        raise UnknownFiles(missing)
    for _ in range(_ATTEMPTS):
        new = sorted(wanted.keys() - by_sha.keys())
        if not new:
            return by_sha, by_name
        by_sha |= _make({sha256: wanted[sha256] for sha256 in new}, now)
        if others := wanted.keys() - by_sha.keys():
            by_sha |= {file.sha256: file for file in _lock(others, ())}
    msg = f"{len(wanted.keys() - by_sha.keys())} files could not be kept. Hint: submit again."
    raise FileInMotion(msg)


def doom_unused(ids: Iterable[int], *, now: datetime) -> int:
    """Doom those of these files that nobody refers to any more; how many.

    Two statements in the caller's transaction, which has let go of the files before: locks first,
    then a look that sees whatever was committed until we had them.
    """
    params = {"ids": sorted(set(ids))}
    fetch("files/lock_files", params)
    return execute("files/doom_unused_files", {**params, "now": now})


def _lock(contents: Iterable[str], names: Iterable[str]) -> list[KnownFile]:
    return fetch_into(
        KnownFile, "files/lock_known_files", {"contents": sorted(contents), "names": sorted(names)}
    )


def _make(wanted: Mapping[str, Wanted], now: datetime) -> dict[str, KnownFile]:
    """Insert rows for contents that have none, and put the contents in their places."""
    ids = (fetch_one("files/draw_file_ids", {"count": len(wanted)}) or {})["ids"]
    rows = [
        (id_, physical_name(item.hint, sha256, id_), item.staged)
        for id_, (sha256, item) in zip(ids, wanted.items(), strict=True)
    ]
    made = fetch_into(
        KnownFile,
        "files/insert_files",
        {
            "ids": [row[0] for row in rows],
            "names": [row[1] for row in rows],
            "sha256": [staged.digest.sha256 for _, _, staged in rows],
            "md5": [staged.digest.md5 for _, _, staged in rows],
            "nbytes": [staged.digest.nbytes for _, _, staged in rows],
            "now": now,
        },
    )
    storage.publish_all({file.name: wanted[file.sha256].staged for file in made})
    return {file.sha256: file for file in made}


def physical_name(hint: str, sha256: str, file_id: int) -> str:
    """The name by which clients know a content: what it is, its hash, its row, its suffix.

    >>> physical_name("my data/in put.txt", "0123456789abcdef" * 4, 1295)
    'in_put_0123456789abcdef_zz.txt'
    """
    plain = re.sub(r"[^A-Za-z0-9_.+-]+", "_", hint.replace("\\", "/").rpartition("/")[2])
    stem, _, suffix = re.sub(r"\.\.+", ".", plain).strip(".").rpartition(".")
    if not stem or len(suffix) > _MAX_SUFFIX:
        stem, suffix = f"{stem}_{suffix}".strip("_"), ""
    ending = f".{suffix}" if suffix else ""
    return usable(f"{stem[:_MAX_STEM] or 'file'}_{sha256[:16]}_{base36(file_id)}{ending}")


def base36(number: int) -> str:
    """Write a number of zero or more in 36 digits.

    >>> base36(0), base36(35), base36(36)
    ('0', 'z', '10')
    """
    digits = ""
    while True:
        number, digit = divmod(number, 36)
        digits = _ALPHABET[digit] + digits
        if not number:
            return digits
