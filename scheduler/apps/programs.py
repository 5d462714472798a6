"""Publishes versions of all kinds of apps: programs, scripts, commands, images.

Theory of operation.  For an app that is not a BOINC program, the server adds a main program, the
launcher, which is signed like any other program, so that every BOINC client can run it.  A script's
archive is repacked in a format that clients can unpack safely.  Publishing the same version again
is not an error, and returns the existing version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import IO

from django.conf import settings
from django.db import transaction
from django.db.models import Prefetch

from scheduler import storage
from scheduler.apps import app_versions
from scheduler.apps.app_versions import Facts, Published
from scheduler.apps.published import newest_of
from scheduler.apps.rules.packaging import (
    RUN,
    UNIX_PLATFORMS,
    BadPackage,
    FileRoles,
    Package,
    PackedFile,
    check_image,
    check_script,
    is_description,
    unpack,
)
from scheduler.dispatch.rules.launching import COMMANDS_ARE_OFF
from scheduler.models import Account, App, AppVersion, AppVersionFile, PlanClass
from scheduler.models.science import AppKind

#: The plan class of container versions, unless the order names another.
CONTAINER_PLAN_CLASS = "docker"
_MAX_CMDLINE = 255
_MAX_PLAN_CLASS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Order(Facts):
    """A version to publish; if `platforms` is empty, the app's kind determines the platforms."""

    platforms: Sequence[str] = ()
    main_program: str | None = None
    #: The roles of the files of a native app, if the package has no `version.xml`.
    roles: FileRoles = field(default_factory=FileRoles)
    create_platform: bool = False
    #: Whether the version includes files that `version.xml` does not list, as in BOINC's server.
    with_unlisted: bool = False
    #: Signatures made on another machine, by file name.
    signatures: Mapping[str, str] = field(default_factory=dict)
    #: Plan classes that will be defined before the version is published.
    future_plan_classes: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Outcome:
    """The published versions, one per platform."""

    published: tuple[Published, ...]

    @property
    def created(self) -> bool:
        """Whether `publish` created at least one of the versions."""
        return any(version.created for version in self.published)

    @property
    def versions(self) -> list[AppVersion]:
        return [published.version for published in self.published]


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file that would be published; `is_signed_here` unless its signature is uploaded."""

    name: str
    nbytes: int
    sha256: str
    main_program: bool
    executable: bool
    is_signed_here: bool


@dataclass(frozen=True, slots=True)
class PlannedVersion:
    """A version that would be published for a platform.

    `exists` is true if it was published before, with the same files.  `newest` is the newest
    version of the same plan class that hosts of the platform get now, or None.
    """

    platform: str
    exists: bool
    newest: AppVersion | None


@dataclass(frozen=True, slots=True)
class Plan:
    """The files and the versions, one for each platform, that `publish` would publish."""

    files: tuple[PlannedFile, ...]
    versions: tuple[PlannedVersion, ...]
    plan_class: str


#: Writes the rows of a prepared version, in the caller's transaction if there is one.
Write = Callable[[], Outcome]


def publish(app: App, order: Order, source: storage.Source | None, *, now: datetime) -> Outcome:
    """Publish a version of an app for all platforms of the order; an error publishes none.

    `source` has the files of a native app or of a script; it is None for commands and containers,
    whose order names an image.  Raises `BadPackage` if the order does not fit the app's kind, and
    the exceptions of `app_versions.publish`.
    """
    with prepared(app, order, source, holder=None, now=now) as write:
        return write()


@contextmanager
def prepared(
    app: App,
    order: Order,
    source: storage.Source | None,
    *,
    holder: Account | None,
    now: datetime,
) -> Iterator[Write]:
    """Pack and hash the files of a version; yield a `Write` function for the rows.

    The function writes all rows or none.  If `holder` is set, the files are stored before the block
    and held for this account inside it; the function then writes only rows of the catalog, in the
    caller's transaction.
    """
    check(app, order, source)
    platforms, facts = platforms_of(app, order), _facts(app, order)

    def write() -> Outcome:
        with transaction.atomic():
            if facts.plan_class == CONTAINER_PLAN_CLASS:
                spec = {"docker": True}
                PlanClass.objects.get_or_create(
                    name=facts.plan_class, defaults={"spec": spec, "created_at": now}
                )
            done = app_versions.publish_package(
                app=app,
                platforms=platforms,
                facts=facts,
                package=package,
                signed=signed,
                create_platform=order.create_platform,
                now=now,
            )
        return Outcome(tuple(done))

    with _contents(app, order, source) as (package, contents):
        signed = app_versions.sign(package, contents, order.signatures)
        with app_versions.kept(package, contents, order.version_num, holder=holder, now=now):
            yield write


def _facts(app: App, order: Order) -> Facts:
    usual = CONTAINER_PLAN_CLASS if app.kind == AppKind.CONTAINER else ""
    return replace(order, plan_class=order.plan_class or usual)


def examine(app: App, order: Order, source: storage.Source | None) -> bool:
    """Return whether `publish` would create a version; nothing is written.

    Raises the exceptions of `publish`.
    """
    check(app, order, source)
    with _contents(app, order, source) as (package, contents):
        return app_versions.would_create(
            app=app,
            platforms=platforms_of(app, order),
            facts=_facts(app, order),
            package=package,
            signed=app_versions.sign(package, contents, order.signatures),
            create_platform=order.create_platform,
        )


def plan(app: App, order: Order, source: storage.Source | None) -> Plan:
    """Return what `publish` would publish; nothing is written.

    Raises the exceptions of `publish`.
    """
    check(app, order, source)
    platforms, facts = platforms_of(app, order), _facts(app, order)
    with _contents(app, order, source) as (package, contents):
        signed = app_versions.sign(package, contents, order.signatures)
        app_versions.would_create(
            app=app,
            platforms=platforms,
            facts=facts,
            package=package,
            signed=signed,
            create_platform=order.create_platform,
        )
        rows = zip(package.files, contents, signed.made_here, strict=True)
        planned_files = tuple(
            PlannedFile(
                file.name,
                item.digest.nbytes,
                item.digest.sha256,
                main_program=file.main_program,
                executable=file.executable,
                is_signed_here=is_made_here,
            )
            for file, item, is_made_here in rows
        )
    existing = AppVersion.objects.filter(
        app=app, version_num=facts.version_num, plan_class=facts.plan_class
    )
    names = set(existing.values_list("platform__name", flat=True))
    newest = newest_of(app, platforms, facts.plan_class)
    return Plan(
        planned_files,
        tuple(PlannedVersion(name, name in names, newest.get(name)) for name in platforms),
        facts.plan_class,
    )


def unsigned(
    app: App, order: Order, source: storage.Source | None, stack: ExitStack
) -> dict[str, storage.Staged]:
    """Return the files of a version that have no signature, by name, staged until `stack` closes.

    Raises `BadPackage`, and `BadSignature` for a signature beside a file that does not verify.
    """
    check(app, order, source)
    package, contents = stack.enter_context(_contents(app, order, source))
    signatures = app_versions.given_signatures(package.files, contents, {})
    rows = zip(package.files, contents, signatures, strict=True)
    return {file.name: item for file, item, signature in rows if signature is None}


def prepare(app: App, order: Order, source: storage.Source | None, folder: str) -> list[str]:
    """Write the files that `publish` would publish into a new folder; returns their names.

    The files have the exact bytes that clients download, including the launcher and the repacked
    archive.  A manifest for `signer/sign.py` is added.  The version is not written to the database.
    Raises `BadPackage` and `storage.UnreadablePackage`.
    """
    with _to_sign(app, order, source) as (named, facts):
        storage.write_prepared(folder, named, facts)
        return sorted(named)


def prepare_zip(app: App, order: Order, source: storage.Source | None) -> IO[bytes]:
    """Return an open .zip with the folder that `prepare` writes, with the same exceptions."""
    with _to_sign(app, order, source) as (named, facts):
        return storage.zip_prepared("to-sign", named, facts)


@contextmanager
def _to_sign(
    app: App, order: Order, source: storage.Source | None
) -> Iterator[tuple[dict[str, storage.Staged], dict[str, object]]]:
    """Yield the staged files of a version by name, and the facts for the manifest."""
    check(app, order, source)
    with _contents(app, order, source) as (package, contents):
        app_versions.given_signatures(package.files, contents, {})
        named = {file.name: item for file, item in zip(package.files, contents, strict=True)}
        yield named, {"app": app.name, "version": f"{order.version_num / 100:.2f}"}


def with_files(versions: Sequence[AppVersion]) -> list[AppVersion]:
    """Return versions in the same order, with related rows prefetched by two statements."""
    queryset = AppVersion.objects.select_related("app", "platform").prefetch_related(
        Prefetch("files", AppVersionFile.objects.select_related("file").order_by("position"))
    )
    versions_by_id = queryset.in_bulk([version.pk for version in versions])
    return [versions_by_id[version.pk] for version in versions]


def check(app: App, order: Order, source: storage.Source | None) -> None:
    """Raise `BadPackage` if the order or the files do not fit the kind of the app."""
    if app.kind == AppKind.COMMAND and not settings.PROJECT.command_apps:
        raise BadPackage(f"App {app} cannot get versions: {COMMANDS_ARE_OFF}")
    has_files = source is not None
    if has_files and app.kind in {AppKind.COMMAND, AppKind.CONTAINER}:
        expected = "its image" if app.kind == AppKind.CONTAINER else "only its number"
        msg = f"App {app} is of kind {app.kind}, whose versions have no files."
        raise BadPackage(f"{msg} Hint: give {expected}.")
    if not has_files and app.kind in {AppKind.NATIVE, AppKind.SCRIPT}:
        expected = f"a {RUN} or an archive with it" if app.kind == AppKind.SCRIPT else "its program"
        msg = f"App {app} is of kind {app.kind}, and no file is given. Hint: give {expected}."
        raise BadPackage(msg)
    if order.image and app.kind != AppKind.CONTAINER:
        msg = f"App {app} is of kind {app.kind} and runs no image. Hint: leave the image out."
        raise BadPackage(msg)
    if order.main_program and app.kind != AppKind.NATIVE:
        msg = f"App {app} is of kind {app.kind}, whose main program is the server's launcher."
        raise BadPackage(f"{msg} Hint: leave main_program out.")
    if order.roles and app.kind != AppKind.NATIVE:
        msg = f"App {app} is of kind {app.kind}, whose files keep their names and roles."
        raise BadPackage(f"{msg} Hint: leave the logical names and roles of files out.")
    for name, value, max_length in (
        ("cmdline", order.cmdline, _MAX_CMDLINE),
        ("plan_class", order.plan_class, _MAX_PLAN_CLASS),
    ):
        if len(value) > max_length or not value.isprintable():
            msg = f"{name} is {value[:80]!r}. Hint: give at most {max_length} printable characters."
            raise BadPackage(msg)
    if order.plan_class and not _is_defined(order, app):
        msg = f"Plan class {order.plan_class!r} is not defined: no host would get this version."
        raise BadPackage(
            f"{msg} Hint: define it first, by `manage.py plan_class set {order.plan_class} FILE`."
        )


def _is_defined(order: Order, app: App) -> bool:
    """Return whether the plan class exists, will be defined, or is created on demand."""
    is_usual = app.kind == AppKind.CONTAINER and order.plan_class == CONTAINER_PLAN_CLASS
    is_future = order.plan_class in order.future_plan_classes
    return is_usual or is_future or PlanClass.objects.filter(name=order.plan_class).exists()


def platforms_of(app: App, order: Order) -> list[str]:
    """Return the platforms of an order, by default the platforms of the app's kind.

    Raises `BadPackage` for a native app without platforms.
    """
    if order.platforms or app.kind != AppKind.NATIVE:
        return list(dict.fromkeys(order.platforms or UNIX_PLATFORMS))
    raise BadPackage(
        f"App {app} is native, and no platform is given. "
        f"Hint: name a platform, such as {UNIX_PLATFORMS[0]}."
    )


@contextmanager
def _contents(
    app: App, order: Order, source: storage.Source | None
) -> Iterator[tuple[Package, Sequence[storage.Staged]]]:
    """Yield the package of a version, and the staged contents of its files in order."""
    if app.kind == AppKind.NATIVE and source is not None:
        package = unpack(
            storage.with_texts(source, is_description),
            main_program=order.main_program,
            executables=source.executables,
            with_unlisted=order.with_unlisted,
            roles=order.roles,
        )
        with app_versions.staged(package) as contents:
            yield package, contents
        return
    if app.kind == AppKind.CONTAINER:
        check_image(order.image)
    launcher = app_versions.launcher(app, order.image)
    launched = Package((launcher,), launched=True)
    with app_versions.staged(launched) as [main]:
        if source is None:
            yield launched, [main]
            return
        program = storage.stage_program(_as_script(app, source))
        try:
            archive = PackedFile(
                name=f"{app.name}.tar.gz", open_name=storage.ARCHIVE_NAME, content=b""
            )
            yield Package((launcher, archive), launched=True), [main, program]
        finally:
            storage.discard(program)


def _as_script(app: App, source: storage.Source) -> storage.Source:
    """Return the files of a script; a single file of any name becomes ``run.sh``."""
    files: Mapping[str, str] = source.files
    if not source.several:
        [(name, path)] = files.items()
        if name != RUN and not storage.begins_with(path, b"#!"):
            raise BadPackage(
                f"{name[:80]!r} is neither a script nor an archive. Hint: app {app} takes a {RUN}, "
                f"or a .zip, .tar, .tar.gz, .tar.bz2 or .tar.xz with {RUN} at its top."
            )
        files = {RUN: path}
    check_script(files.keys())
    if storage.first_line_ends_with(files[RUN], b"\r"):
        raise BadPackage(
            f"{RUN} has Windows line ends, and Unix cannot start it. "
            "Hint: save it with Unix line ends, or run dos2unix on it."
        )
    return storage.Source(dict(files), source.executables | {RUN})
