"""Publish what is sent, or what an address names.

Theory of operation.  Receiving, fetching, packing and keeping take long, and are done before
anything is written of the version: no transaction, and no idempotency key, waits for them.  What
`sent` and `imported` yield then writes rows of the catalogue alone.
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
    """Prepare what somebody sends, each file a name and its bytes in pieces; yields its writer.

    One file is a program or an archive, several are those of a native app; `holder` holds what is
    kept.  Without files, `imported` if there is an address.  Raises as `programs.publish` does.
    """
    if order.source_url:
        if files:
            msg = "A file and a source_url are given. Hint: a program comes from one place."
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
    """Publish what an address names; raises as `imported` does."""
    with imported(app, order, seconds=seconds, holder=None, now=now) as write:
        return write()


@contextmanager
def imported(
    app: App, order: Order, *, seconds: float | None, holder: Account | None, now: datetime
) -> Iterator[Write]:
    """Prepare what an address names, fetched once: a version that came from it is not fetched anew.

    It may take `seconds` (None: what a web request may).  Raises as `programs.publish` does, and
    `BadSource`, `SourceFailed` and `SourceBusy`.
    """
    programs.check(app, order, storage.Source({}, frozenset()))
    known = _imported(app, order)
    platforms = list(dict.fromkeys(order.platforms)) or programs.usual_platforms(app)
    if known and known.keys() >= set(platforms):
        done = _known([known[platform] for platform in platforms])
        yield lambda: done
        return
    with (
        _fetched(app, order, known, seconds) as source,
        programs.prepared(app, order, source, holder=holder, now=now) as write,
    ):
        yield write


@contextmanager
def _fetched(
    app: App, order: Order, known: dict[str, AppVersion], seconds: float | None
) -> Iterator[storage.Source]:
    if known and app.kind == AppKind.SCRIPT:
        # What was fetched for other platforms is here, as it was packed.
        [row] = next(iter(known.values())).files.filter(main_program=False).select_related("file")
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


def _known(versions: list[AppVersion]) -> Outcome:
    return Outcome(
        tuple(
            Published(version, tuple(f.file.name for f in version.files.all()), created=False)
            for version in programs.with_files(versions)
        )
    )


def _imported(app: App, order: Order) -> dict[str, AppVersion]:
    """The versions of this number that came from the same address, by platform."""
    found = AppVersion.objects.select_related("app", "platform").filter(
        app=app,
        version_num=order.version_num,
        plan_class=order.plan_class,
        source_url=order.source_url,
    )
    return {version.platform.name: version for version in found}
