"""Puts, fetches and deletes sticky files on hosts.

A host may not act on a request, and a reply may be lost, so an unfinished request is sent again
after `request_verdicts.ASK_AGAIN_AFTER`.  A file for a host stays downloadable until the host lists
it.  A file is fetched as the output of a result without computation, which the client regards as
finished at once and uploads (BOINC calls the app of such results a file mover).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from scheduler import storage
from scheduler.files import download_files
from scheduler.files.rules import request_verdicts
from scheduler.files.rules.request_verdicts import Fate, Kind
from scheduler.messages.facts import FileMoves, FileToGet, FileToPut
from scheduler.models import FileRequest, Host
from scheduler.sql import execute, fetch_into

#: The maximum number of open requests of a host that one RPC processes.
MAX_PER_RPC = 100
_RESULT_NAME = re.compile(r"host_file_\d+\.get")
_STATES = {
    Fate.ASK: FileRequest.State.SENT,
    Fate.DONE: FileRequest.State.DONE,
    Fate.FAILED: FileRequest.State.FAILED,
}


class FileRequestRefused(ValueError):
    """A request to a host is not valid. Hint: see the message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _RequestRow(request_verdicts.OpenRequest):
    id: int
    file_id: int | None
    nbytes: int | None
    md5: str | None


def is_file_move(result_name: str) -> bool:
    """Return whether a result with this name is a file move.

    Names of workunits' results end with the number of the attempt; names of file moves do not.
    """
    return _RESULT_NAME.fullmatch(result_name) is not None


def take_pending(host_id: int, sticky_present: Collection[str], *, now: datetime) -> FileMoves:
    """Update a host's open requests by its list of sticky files; return the requests to send now.

    One call processes at most `MAX_PER_RPC` requests.  Runs in the caller's transaction, with at
    most two statements, and two more if a request to download a file is finished.  Reads the disk
    only for files that the host is to upload.
    """
    params = {"host_id": host_id, "limit": MAX_PER_RPC}
    rows = fetch_into(_RequestRow, "files/read_open_file_requests", params)
    if not rows:
        return FileMoves()
    gets = [row.file_name for row in rows if row.kind == Kind.GET]
    arrived = storage.finished_uploads(gets) if gets else {}
    fates = {
        row.id: request_verdicts.judge(row, present=sticky_present, arrived=arrived, now=now)
        for row in rows
    }
    _settle(rows, fates, now=now)
    return _moves([row for row in rows if fates[row.id] is Fate.ASK])


def _settle(rows: Sequence[_RequestRow], fates: dict[int, Fate], *, now: datetime) -> None:
    moved = {id_: _STATES[fate] for id_, fate in fates.items() if fate in _STATES}
    if moved:
        params = {"ids": list(moved), "states": list(moved.values()), "now": now}
        execute("files/settle_file_requests", params)
    over = {Fate.DONE, Fate.FAILED}
    released = {row.file_id for row in rows if row.file_id and fates[row.id] in over}
    if released:
        download_files.mark_unused_for_deletion(released, now=now)


def _moves(rows: Sequence[_RequestRow]) -> FileMoves:
    return FileMoves(
        puts=tuple(
            FileToPut(name=r.file_name, nbytes=r.nbytes or 0, md5=r.md5 or "")
            for r in rows
            if r.kind == Kind.PUT
        ),
        gets=tuple(
            FileToGet(name=r.file_name, result_name=f"host_file_{r.id}.get")
            for r in rows
            if r.kind == Kind.GET
        ),
        deletes=tuple(r.file_name for r in rows if r.kind == Kind.DELETE),
    )


def put_file(host_id: int, path: str, *, now: datetime) -> FileRequest:
    """Request that a host download the file at `path` and keep it as a sticky file.

    Raises `FileRequestRefused`, `OSError` if the file cannot be read, and the exceptions of
    `download_files.keep`.
    """
    _check_host(host_id)
    staged = storage.stage_file(path)
    try:
        with transaction.atomic():
            wanted = {staged.digest.sha256: download_files.Wanted(staged, path)}
            by_sha, _ = download_files.keep(wanted, now=now)
            (file,) = by_sha.values()
            return _create_request(host_id, Kind.PUT, file.name, file_id=file.id, now=now)
    finally:
        storage.discard(staged)


def get_file(host_id: int, name: str, *, now: datetime) -> FileRequest:
    """Request that a host upload one of its sticky files; raises `FileRequestRefused`."""
    _check_host(host_id)
    return _create_request(host_id, Kind.GET, name, now=now)


def delete_file(host_id: int, name: str, *, now: datetime) -> FileRequest:
    """Request that a host delete one of its sticky files; raises `FileRequestRefused`."""
    _check_host(host_id)
    return _create_request(host_id, Kind.DELETE, name, now=now)


def _create_request(
    host_id: int, kind: Kind, name: str, *, file_id: int | None = None, now: datetime
) -> FileRequest:
    try:
        storage.check_name(name)
    except storage.BadFileName as error:
        raise FileRequestRefused(str(error)) from error
    open_requests = FileRequest.objects.filter(host_id=host_id, file_name=name, state__lt=2)
    if (other := open_requests.first()) is not None:
        verb = Kind(other.kind).name.lower()
        msg = f"Host {host_id} has a request to {verb} {name} already. Hint: wait until it is done."
        raise FileRequestRefused(msg)
    return FileRequest.objects.create(
        host_id=host_id, kind=kind.value, file_name=name, file_id=file_id, created_at=now
    )


def _check_host(host_id: int) -> None:
    host = Host.objects.filter(pk=host_id).first()
    if host is None:
        raise FileRequestRefused(f"There is no host {host_id}. Hint: look hosts up in the admin.")
    if host.is_deleted:
        raise FileRequestRefused(f"Host {host_id} was deleted by its owner.")
    if host.merged_into_id is not None:
        msg = f"Host {host_id} is merged into host {host.merged_into_id}. Hint: use that id."
        raise FileRequestRefused(msg)
