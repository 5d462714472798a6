"""Stores downloadable files, with one row and one name for each content.

Theory of operation.  Clients never fetch a physical name again (PROTOCOL trap 4), so it contains
the content's hash and the row's id, and is never reused.  A row of the same content that is not
marked for deletion is reused, and locked FOR SHARE until the transaction ends.  The deleter locks a
file before it marks the file by an UPDATE.  Either the deleter waits for this transaction and then
sees the new reference, or the file is already marked, and this transaction inserts a new row with a
new name.  (KEY SHARE is not sufficient: it permits an UPDATE of ``doomed_at``.)  Content is on disk
under its name before the commit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.utils.http import int_to_base36

from scheduler import storage
from scheduler.files.rules.refused_names import usable
from scheduler.sql import execute, fetch, fetch_into, fetch_one

_MAX_STEM, _MAX_SUFFIX = 80, 12
#: The maximum number of missing files that an error lists.
_MAX_LISTED = 10

#: The maximum number of attempts to insert a content: concurrent transactions may repeatedly insert
#: the same content and mark it for deletion.
_MAX_ATTEMPTS = 3


class UnknownFiles(LookupError):
    """The server does not have these files, or has deleted them.

    Hint: send their content; a file without references is deleted.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = sorted(names)
        more = ", ..." if len(self.names) > _MAX_LISTED else ""
        super().__init__(
            f"No such file: {', '.join(self.names[:_MAX_LISTED])}{more}. "
            "Hint: send its content; a file without references is deleted."
        )


class FileInMotion(RuntimeError):
    """A concurrent transaction deleted or re-created a needed file. Hint: submit again."""


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A row of ``file`` that cannot be marked for deletion before this transaction ends."""

    id: int
    name: str
    sha256: str
    nbytes: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """A staged content that clients will download; `hint` is the readable part of its name."""

    staged: storage.Staged
    hint: str


def keep(
    wanted: Mapping[str, Wanted],
    *,
    names: Iterable[str] = (),
    digests: Iterable[str] = (),
    now: datetime,
) -> tuple[dict[str, KnownFile], dict[str, KnownFile]]:
    """Find or create the files in `wanted`, and find other files by name or by SHA-256.

    The keys of `wanted` and the `digests` are SHA-256s.  Returns two dicts: the files in `wanted`
    and `digests` by SHA-256, and the files in `names` by name.  Runs in the caller's transaction,
    with one statement, or with three if there are new contents; conflicts with other transactions
    take more.  Raises `UnknownFiles` for missing names or digests, `FileInMotion`, and the
    exceptions of `storage.publish_all`.
    """
    asked_names, asked_digests = set(names), set(digests) - wanted.keys()
    known_files = _lock(wanted.keys() | asked_digests, asked_names)
    by_name = {file.name: file for file in known_files if file.name in asked_names}
    by_sha = {
        file.sha256: file
        for file in known_files
        if file.sha256 in wanted or file.sha256 in asked_digests
    }
    if missing := (asked_names - by_name.keys()) | (asked_digests - by_sha.keys()):
        raise UnknownFiles(missing)
    for _ in range(_MAX_ATTEMPTS):
        new = sorted(wanted.keys() - by_sha.keys())
        if not new:
            return by_sha, by_name
        by_sha |= _make({sha256: wanted[sha256] for sha256 in new}, now)
        if others := wanted.keys() - by_sha.keys():
            by_sha |= {file.sha256: file for file in _lock(others, ())}
    msg = f"{len(wanted.keys() - by_sha.keys())} files could not be stored. Hint: submit again."
    raise FileInMotion(msg)


def mark_unused_for_deletion(ids: Iterable[int], *, now: datetime) -> int:
    """Mark those files in `ids` that have no references for deletion; return their number.

    Runs in the caller's transaction, after the caller has deleted its references.  The first
    statement locks the files, so that the second statement reads all references that were
    committed until then.
    """
    params = {"ids": sorted(set(ids))}
    fetch("files/lock_files", params)
    return execute("files/mark_unused_files", {**params, "now": now})


def _lock(contents: Iterable[str], names: Iterable[str]) -> list[KnownFile]:
    return fetch_into(
        KnownFile, "files/lock_known_files", {"contents": sorted(contents), "names": sorted(names)}
    )


def _make(wanted: Mapping[str, Wanted], now: datetime) -> dict[str, KnownFile]:
    """Insert rows for new contents and publish the contents; return the rows by SHA-256.

    Contents that a concurrent transaction has inserted are left out.
    """
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
    """Return a physical name with the hint, the start of the hash, the row id and the suffix.

    >>> physical_name("my data/in put.txt", "0123456789abcdef" * 4, 1295)
    'in_put_0123456789abcdef_zz.txt'
    """
    plain = re.sub(r"[^A-Za-z0-9_.+-]+", "_", hint.replace("\\", "/").rpartition("/")[2])
    stem, _, suffix = re.sub(r"\.\.+", ".", plain).strip(".").rpartition(".")
    if not stem or len(suffix) > _MAX_SUFFIX:
        stem, suffix = f"{stem}_{suffix}".strip("_"), ""
    ending = f".{suffix}" if suffix else ""
    return usable(f"{stem[:_MAX_STEM] or 'file'}_{sha256[:16]}_{int_to_base36(file_id)}{ending}")
