"""Publishes versions again under new numbers, with a new launcher or key.

Theory of operation.  Clients never fetch a version that they already have (PROTOCOL trap 5), so a
version that they must fetch again gets the next free number.  Its contents are the published files,
whose digests are verified, and a launcher of this server.  The earlier versions are deprecated in
the same transaction; their results in progress continue.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime

from django.conf import settings
from django.db import transaction

from scheduler import storage
from scheduler.apps import app_versions
from scheduler.apps.app_versions import BadPackage, Facts, Published
from scheduler.apps.rules.packaging import VERSION_FLAGS, Package, PackedFile
from scheduler.models import App, AppVersion, AppVersionFile
from scheduler.models.science import AppKind

#: The form of a file name by `files.download_files`: stem, 16 digits of the hash, row, suffix.
_PHYSICAL = re.compile(r"(?P<stem>.+)_[0-9a-f]{16}_[0-9a-z]+(?P<suffix>\.[^.]*)?")


@dataclass(frozen=True, slots=True)
class Renewal:
    """Versions of one app with the same files, and the staged package that replaces them."""

    earlier: Sequence[AppVersion]
    version_num: int
    package: Package
    contents: Sequence[storage.Staged]

    @property
    def app(self) -> App:
        return self.earlier[0].app

    @property
    def folder(self) -> str:
        """The subfolder for this renewal in the folder of the files to be signed."""
        return f"{self.app.name}-{self.version_num / 100:.2f}-{self.earlier[0].pk}"


def current_versions(apps: Iterable[str] = ()) -> list[AppVersion]:
    """Return the current versions of the named apps, or of all apps if `apps` is empty.

    A version is current if neither the version nor its app is deprecated.  The files of the
    versions are prefetched.
    """
    versions = AppVersion.objects.filter(deprecated=False, app__deprecated=False)
    if names := list(apps):
        versions = versions.filter(app__name__in=names)
    return list(
        versions.select_related("app", "platform")
        .prefetch_related("files__file")
        .order_by("app__name", "version_num", "pk")
    )


def with_old_launchers(versions: Iterable[AppVersion]) -> list[AppVersion]:
    """Return the versions whose launcher differs from the launcher that this server writes.

    Versions of command apps are included only if commands are served.
    """
    return [
        version
        for version in versions
        if version.app.kind != AppKind.NATIVE
        and (settings.PROJECT.command_apps or version.app.kind != AppKind.COMMAND)
        and any(
            row.main_program and row.file.sha256 != _launcher_sha256(version)
            for row in version.files.all()
        )
    ]


@contextmanager
def prepared(versions: Iterable[AppVersion]) -> Iterator[list[Renewal]]:
    """Stage the replacements of versions, under the next free numbers; yield the renewals.

    Raises `BadPackage` for a published file that has changed, and the errors of
    `storage.published`.
    """
    groups: dict[tuple[object, ...], list[AppVersion]] = {}
    for version in versions:
        files = tuple(
            (f.open_name, f.main_program, f.executable, f.copy_file, f.file_id)
            for f in _files(version)
        )
        key = (version.app_id, version.version_num, version.plan_class, version.image,
               version.cmdline, version.beta, files)  # fmt: skip
        groups.setdefault(key, []).append(version)
    numbers = _new_numbers(group[0] for group in groups.values())
    with ExitStack() as stack:
        renewals = []
        for group in groups.values():
            first = group[0]
            package = _package(first)
            contents = stack.enter_context(app_versions.staged(package))
            contents = [*contents, *(stage_published(row, stack) for row in _stored_rows(first))]
            package = replace(package, files=(*package.files, *_stored_files(first)))
            number = numbers[first.app_id, first.version_num]
            renewals.append(Renewal(group, number, package, contents))
        yield renewals


def _new_numbers(versions: Iterable[AppVersion]) -> dict[tuple[int, int], int]:
    """Return the number of the replacement by (app id, number of the earlier version)."""
    numbers: dict[tuple[int, int], int] = {}
    highest: dict[int, int] = {}
    for version in versions:
        app, number = version.app_id, version.version_num
        if app not in highest:
            taken = AppVersion.objects.filter(app_id=app).values_list("version_num", flat=True)
            highest[app] = max(taken)
        if (app, number) not in numbers:
            highest[app] += 1
            numbers[app, number] = highest[app]
    return numbers


def write(renewals: Sequence[Renewal], folder: str) -> list[str]:
    """Write the files to be signed into a new folder, with a manifest; returns their names."""
    named = {name: item for renewal in renewals for name, _, item in _named(renewal)}
    storage.write_prepared(folder, named, {"app": "", "version": ""})
    return sorted(named)


def publish(
    renewals: Sequence[Renewal], signatures: Mapping[str, str], *, now: datetime
) -> list[Published]:
    """Publish all renewals or none, and deprecate the replaced versions.

    The keys of `signatures` are the names that `write` returned, with the suffix `.sig`.  Raises
    the exceptions of `app_versions.publish`.
    """
    done: list[Published] = []
    used: set[str] = set()
    with transaction.atomic():
        for renewal in renewals:
            own = _of(renewal, signatures)
            used |= own.keys()
            made = app_versions.publish_package(
                app=renewal.app,
                platforms=[version.platform.name for version in renewal.earlier],
                facts=_facts(renewal),
                package=renewal.package,
                signed=app_versions.sign(renewal.package, renewal.contents, own),
                now=now,
            )
            done += made
            for earlier, new in zip(renewal.earlier, made, strict=True):
                _replace(earlier, new.version)
        if strange := sorted(signatures.keys() - used):
            raise app_versions.BadSignature(
                f"{strange[0]} is not a signature by the project's key for one of the files. "
                "Hint: sign exactly the files that --prepare DIR writes now."
            )
    return done


def check(renewals: Sequence[Renewal], signatures: Mapping[str, str], public_text: str) -> None:
    """Verify that every file of the renewals has a signature by the key `public_text`.

    Raises `app_versions.SignatureMissing`, `BadSignature` and `BadPackage`.
    """
    missing = []
    for renewal in renewals:
        verified = app_versions.given_signatures(
            renewal.package.files,
            renewal.contents,
            _of(renewal, signatures),
            public_key=public_text,
        )
        named = zip(_named(renewal), verified, strict=True)
        missing += [name for (name, _, _), signature in named if signature is None]
    if missing:
        raise app_versions.SignatureMissing(missing)


def _of(renewal: Renewal, signatures: Mapping[str, str]) -> dict[str, str]:
    """Return the signatures of the files of one renewal, by name."""
    names = {f"{name}.sig" for name, _, _ in _named(renewal)}
    return {name: text for name, text in signatures.items() if name in names}


def _replace(earlier: AppVersion, new: AppVersion) -> None:
    columns = (
        *("avg_ncpus", "min_core_version", "max_core_version"),
        *("rollout_percent", "max_error_percent", "min_rollback_results"),
        *("rolled_back_at", "rollback_reason"),
    )
    for column in columns:
        setattr(new, column, getattr(earlier, column))
    new.save(update_fields=columns)
    earlier.deprecated = True
    earlier.save(update_fields=["deprecated"])


def _named(renewal: Renewal) -> Iterator[tuple[str, PackedFile, storage.Staged]]:
    for file, item in zip(renewal.package.files, renewal.contents, strict=True):
        yield f"{renewal.folder}/{file.name}", file, item


def _facts(renewal: Renewal) -> Facts:
    version = renewal.earlier[0]
    return Facts(
        version_num=renewal.version_num,
        plan_class=version.plan_class,
        cmdline=version.cmdline,
        image=version.image,
        source_url=version.source_url,
        beta=version.beta,
    )


def _package(version: AppVersion) -> Package:
    """Return a package with the facts of a version, and a new launcher unless it is native."""
    facts = {
        name: str(value)
        for name in ("api_version", "file_prefix")
        if (value := getattr(version, name))
    } | {flag: "" for flag in VERSION_FLAGS if getattr(version, flag)}
    if version.app.kind == AppKind.NATIVE:
        return Package((), facts)
    return Package((app_versions.launcher(version.app, version.image),), facts, launched=True)


def _stored_files(version: AppVersion) -> list[PackedFile]:
    launched, rows = version.app.kind != AppKind.NATIVE, _stored_rows(version)
    names = [f"{version.app.name}.tar.gz"] if launched else [_original(r, version) for r in rows]
    return [
        PackedFile(
            # Files of several folders may have the same name.
            name=name if names.count(name) == 1 else f"{row.position}-{name}",
            open_name=row.open_name,
            content=b"",
            main_program=row.main_program,
            executable=row.executable,
            copy_file=row.copy_file,
        )
        for row, name in zip(rows, names, strict=False)  # commands have no rows
    ]


def _stored_rows(version: AppVersion) -> list[AppVersionFile]:
    """Return the rows of a version's files in order, without its launcher."""
    launched = version.app.kind != AppKind.NATIVE
    return [row for row in _files(version) if not (launched and row.main_program)]


def stage_published(row: AppVersionFile, stack: ExitStack) -> storage.Staged:
    """Stage a published file until `stack` closes.

    Raises `BadPackage` if the file is missing or has changed.
    """
    try:
        with storage.published(row.file.name) as path:
            item = storage.stage_file(path)
    except FileNotFoundError as error:
        msg = f"The published file {row.file.name} is missing. Hint: run `manage.py fsck`."
        raise BadPackage(msg) from error
    stack.callback(storage.discard, item)
    if item.digest.sha256 != row.file.sha256:
        raise BadPackage(
            f"The published file {row.file.name} has changed: its SHA-256 is "
            f"{item.digest.sha256}, not {row.file.sha256}. Hint: restore it from a backup, or "
            "deprecate its version, and find out who changed it."
        )
    return item


def _original(row: AppVersionFile, version: AppVersion) -> str:
    """Return the original name of a file: its physical name without version, hash and row."""
    match = _PHYSICAL.fullmatch(row.file.name)
    stem, suffix = (match["stem"], match["suffix"] or "") if match else (row.file.name, "")
    return stem.removesuffix(f"_{version.version_num}") + suffix


def _files(version: AppVersion) -> list[AppVersionFile]:
    return sorted(version.files.all(), key=lambda row: row.position)


def _launcher_sha256(version: AppVersion) -> str:
    launcher = storage.launcher(kind=version.app.kind, image=version.image)
    return storage.stage_bytes(launcher).digest.sha256
