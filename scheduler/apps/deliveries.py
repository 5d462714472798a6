"""Publishes versions from uploaded files, or from a URL.

Theory of operation.  Receiving, fetching, packing and storing files are slow.  They are finished
before any row of the version is written, so that no transaction or idempotency key is held during
this time.  The function that `sent` and `imported` yield writes only rows of the catalog.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from django.conf import settings

from scheduler import storage
from scheduler.apps import programs
from scheduler.apps.app_versions import Published
from scheduler.apps.programs import Order, Outcome, Write
from scheduler.apps.rules.packaging import BadPackage
from scheduler.files import fetching
from scheduler.files.fetching import SourceBusy, SourceFailed
from scheduler.files.rules.sources import BadSource
from scheduler.models import Account, App, AppVersion
from scheduler.models.science import AppKind
from scheduler.sql import release

__all__ = ["BadSource", "SourceBusy", "SourceFailed", "import_from", "imported", "sent"]


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
