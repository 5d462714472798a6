"""Publishes versions from uploaded files, or from a URL.

Theory of operation.  Receiving, fetching, packing and storing files are slow.  They are finished
before any row of the version is written, so that no transaction or idempotency key is held during
this time.  The function that `sent` and `imported` yield writes only rows of the catalog.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import IO, BinaryIO

from django.conf import settings

from scheduler import storage
from scheduler.apps import app_versions, programs
from scheduler.apps.app_versions import Published
from scheduler.apps.programs import Order, Outcome, Plan, Write
from scheduler.apps.rules.packaging import BadPackage
from scheduler.files import fetching, file_holds
from scheduler.files.fetching import SourceBusy, SourceFailed
from scheduler.files.rules.sources import BadSource
from scheduler.models import Account, App, AppVersion
from scheduler.models.science import AppKind
from scheduler.sql import release

__all__ = [
    "BadSource",
    "KeptUpload",
    "SourceBusy",
    "SourceFailed",
    "UploadsGone",
    "import_from",
    "imported",
    "keep_uploads",
    "kept_files",
    "planned",
    "sent",
    "to_sign",
]


class UploadsGone(LookupError):
    """Uploaded files are not kept any more. Hint: upload them again."""


@dataclass(frozen=True, slots=True)
class KeptUpload:
    """An uploaded file that the server keeps until the version is published."""

    name: str
    sha256: str


@contextmanager
def sent(
    app: App,
    order: Order,
    files: Sequence[tuple[str, Iterable[bytes]]],
    *,
    holder: Account,
    now: datetime,
) -> Iterator[Write]:
    """Prepare a version from uploaded files; yield a `Write` function.

    `files` are pairs of a name and the content in chunks.  A single file is a program or an
    archive; several files are the files of a native app.  The stored files are held for `holder`.
    If the order has a `source_url`, the version is imported from it, and `files` must be empty.
    Raises `BadPackage` if both are given, and the exceptions of `programs.publish`, and of
    `imported` for a `source_url`.
    """
    if order.source_url:
        if files:
            msg = "Both a file and a source_url are given. Hint: give only one of them."
            raise BadPackage(msg)
        with imported(app, order, seconds=None, holder=holder, now=now) as write:
            yield write
    elif not files:
        with programs.prepared(app, order, None, holder=holder, now=now) as write:
            yield write
    else:
        release()
        with (
            storage.received(files) as source,
            programs.prepared(app, order, source, holder=holder, now=now) as write,
        ):
            yield write


def import_from(app: App, order: Order, *, seconds: float | None, now: datetime) -> Outcome:
    """Publish the content of the order's `source_url`; raises the exceptions of `imported`."""
    with imported(app, order, seconds=seconds, holder=None, now=now) as write:
        return write()


@contextmanager
def imported(
    app: App, order: Order, *, seconds: float | None, holder: Account | None, now: datetime
) -> Iterator[Write]:
    """Fetch the order's URL and prepare its content; yield a `Write` function.

    Nothing is fetched if the version was already imported from this URL; the function then returns
    the existing versions.  Fetching may take `seconds` (None: the project's `import_limit`).
    Raises the exceptions of `programs.publish`, and `BadSource`, `SourceFailed` and `SourceBusy`.
    """
    programs.check(app, order, storage.Source({}, frozenset()))
    existing = _imported(app, order)
    platforms = programs.platforms_of(app, order)
    if existing and existing.keys() >= set(platforms):
        outcome = _unchanged([existing[platform] for platform in platforms])
        yield lambda: outcome
        return
    with (
        _fetched(app, order, existing, seconds) as source,
        programs.prepared(app, order, source, holder=holder, now=now) as write,
    ):
        yield write


@contextmanager
def _fetched(
    app: App, order: Order, existing: dict[str, AppVersion], seconds: float | None
) -> Iterator[storage.Source]:
    if existing and app.kind == AppKind.SCRIPT:
        # The archive that was packed for other platforms is reused.
        [row] = (
            next(iter(existing.values())).files.filter(main_program=False).select_related("file")
        )
        with storage.published(row.file.name) as path, storage.open_package(path) as source:
            yield source
        return
    project = settings.PROJECT
    rules = fetching.Rules(
        any_private=project.import_private,
        any_rsync=project.rsync_sources,
        private_hosts=frozenset(project.import_hosts),
        max_bytes=storage.MAX_PACKAGE_BYTES,
        seconds=project.import_limit.total_seconds() if seconds is None else seconds,
    )
    release()
    with storage.workshop() as folder:
        path = fetching.fetch(order.source_url, folder, rules)
        with storage.open_package(path) as source:
            yield source


def _unchanged(versions: list[AppVersion]) -> Outcome:
    return Outcome(
        tuple(
            Published(version, tuple(f.file.name for f in version.files.all()), created=False)
            for version in programs.with_files(versions)
        )
    )


def _imported(app: App, order: Order) -> dict[str, AppVersion]:
    """Return the versions with the number, plan class and URL of the order, by platform."""
    versions = AppVersion.objects.select_related("app", "platform").filter(
        app=app,
        version_num=order.version_num,
        plan_class=order.plan_class,
        source_url=order.source_url,
    )
    return {version.platform.name: version for version in versions}


def to_sign(app: App, order: Order, files: Sequence[tuple[str, Iterable[bytes]]]) -> IO[bytes]:
    """Return an open .zip with the files that must be signed for a version; nothing is stored.

    `files` are those of `sent`.  Raises the exceptions of `programs.prepare_zip`.
    """
    release()
    if not files:
        return programs.prepare_zip(app, order, None)
    with storage.received(files) as source:
        return programs.prepare_zip(app, order, source)


def planned(app: App, order: Order, files: Sequence[tuple[str, Iterable[bytes]]]) -> Plan:
    """Return what would be published from uploaded files; nothing is stored.

    `files` are those of `sent`.  Raises the exceptions of `programs.plan`.
    """
    release()
    if not files:
        return programs.plan(app, order, None)
    with storage.received(files) as source:
        return programs.plan(app, order, source)


def keep_uploads(
    files: Sequence[tuple[str, BinaryIO]], *, version_num: int, holder: Account, now: datetime
) -> list[KeptUpload]:
    """Keep uploaded files for the project's `file_hold`, until they are published.

    They are stored like the input files that an account uploads over the API, and counted in its
    quota.  Raises `quotas.QuotaExceeded` and `FileInMotion`, and `BadPackage` if the disk is full.
    """
    kept = []
    for name, content in files:
        content.seek(0)
        staged = storage.stage_file(content)
        try:
            if not storage.has_room_for(staged.digest.nbytes):
                msg = "The disk of the server has too little free space. Hint: ask an operator."
                raise BadPackage(msg)
            hint = app_versions.versioned_name(name, version_num)
            file_holds.keep(staged, hint, holder, now=now)
        finally:
            storage.discard(staged)
        kept.append(KeptUpload(name, staged.digest.sha256))
    return kept


def kept_files(
    uploads: Sequence[KeptUpload], *, holder: Account, now: datetime
) -> list[tuple[str, Iterable[bytes]]]:
    """Return files that `keep_uploads` keeps for this account, in the form that `sent` takes.

    Raises `UploadsGone` if one of them is not kept for the account, or not any more; also while a
    file is read whose content is not the one that was uploaded.
    """
    holds = file_holds.holds_of(holder, now=now)
    holds = holds.filter(file__sha256__in={upload.sha256 for upload in uploads})
    names = {hold.file.sha256: hold.file.name for hold in holds}
    gone = [upload for upload in uploads if upload.sha256 not in names]
    if gone:
        raise _gone(gone[0], "does not keep it any more")
    return [(upload.name, _unchanged_chunks(upload, names[upload.sha256])) for upload in uploads]


def _unchanged_chunks(upload: KeptUpload, name: str) -> Iterator[bytes]:
    """Yield the content of a kept file; raise `UploadsGone` at its end if it was changed.

    The publisher saw the hash in the preview, and the server may sign the file.
    """
    digest = hashlib.sha256()
    try:
        for chunk in storage.published_chunks(name):
            digest.update(chunk)
            yield chunk
    except FileNotFoundError as error:
        raise _gone(upload, "does not have it any more") from error
    if digest.hexdigest() != upload.sha256:
        raise _gone(upload, "has another content than was uploaded")


def _gone(upload: KeptUpload, fault: str) -> UploadsGone:
    return UploadsGone(
        f"{upload.name[:80]!r} cannot be published: the server {fault}. "
        "Hint: choose the files again."
    )
