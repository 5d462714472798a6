"""Publishes versions of science apps: hashes, signs, names and stores their files.

Theory of operation.  Clients identify a version by four facts (app, platform, number, plan class).
A published version never changes (PROTOCOL trap 5), and the names of its files contain the version
and the hash (trap 4).  Publishing the same files again changes nothing; publishing other files
under the same four facts is refused.  This server creates signatures only if `ONLINE_SIGNING` is
on.  Otherwise the caller passes signatures from another machine (docs/signing.md), which are
verified before anything is written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from difflib import get_close_matches
from functools import cached_property

from django.conf import settings
from django.db import transaction

from scheduler import signing, storage
from scheduler.apps.rollouts import DEFAULT_ROLLBACK_RESULTS, BadRollout, Rollout
from scheduler.apps.rules.packaging import (
    KNOWN_PLATFORMS,
    VERSION_FLAGS,
    BadPackage,
    Package,
    PackedFile,
    find_api_version,
    unpack,
)
from scheduler.dispatch.catalog import ANONYMOUS
from scheduler.files import download_files as file_rows
from scheduler.files.download_files import KnownFile
from scheduler.files.file_holds import Holds
from scheduler.key_text import START_NBYTES
from scheduler.models import Account, App, AppVersion, AppVersionFile, Platform
from scheduler.people import audit
from scheduler.people.audit import Event
from scheduler.work.submission.rules.new_workunits import NAME_PATTERN

__all__ = ["BadPackage"]  # a re-export

_MAX_APP_NAME = 60
_MAX_VERSION = 2**31 - 1
#: The search for BOINC's API version reads a program in chunks of this size and overlap, in bytes.
_CHUNK = 1 << 20
_MARKER = 64
#: The maximum number of files that an error lists.
_MAX_LISTED = 10


class UnknownApp(LookupError):
    """There is no such app. Hint: create it while publishing."""


class UnknownPlatform(LookupError):
    """BOINC's clients have no such platform. Hint: use the name in the message."""


class VersionExists(ValueError):
    """The version exists with other files. Hint: use the number `free`."""

    def __init__(self, version: AppVersion, free: int) -> None:
        self.free = free
        super().__init__(
            f"{version} exists with other files, and clients that have it never fetch it again. "
            f"Hint: set version_num to {free}, for example."
        )


class BadSignature(ValueError):
    """A signature was not made by the project's key. Hint: sign the file again."""


class SignatureMissing(BadSignature):
    """A signature is missing, and the server does not sign. Hint: sign the files in the message."""

    def __init__(self, names: Sequence[str]) -> None:
        shown = ", ".join(names[:_MAX_LISTED]) + (", ..." if len(names) > _MAX_LISTED else "")
        super().__init__(
            f"No signature was given for {shown}, and this server does not sign "
            "(ONLINE_SIGNING is off). Hint: get the files by *Files to sign* in the "
            "administration, or write them by `manage.py publish_app ... --prepare DIR`, sign them "
            "on the machine that has the key by `python3 sign.py sign DIR`, and "
            "publish with their .sig files (docs/signing.md)."
        )


@dataclass(frozen=True, slots=True)
class Published:
    """A version, the physical names of its files, and whether `publish` created the version."""

    version: AppVersion
    file_names: tuple[str, ...]
    created: bool


@dataclass(frozen=True, slots=True)
class Signed:
    """The staged files of a package, in order, and their signatures.

    A missing signature is None.  `made_here` is True for each signature that this server created.
    `api_version` is the version of BOINC's API in the main program, or an empty string.
    """

    contents: Sequence[storage.Staged]
    signatures: Sequence[str | None]
    made_here: Sequence[bool]
    api_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The columns of a version that the publisher sets, except app and platform."""

    version_num: int
    plan_class: str = ""
    cmdline: str = ""
    image: str = ""
    source_url: str = ""
    beta: bool = False
    #: The share of the hosts that may get the version at first, and the automatic roll-back
    #: (`apps.rollouts`).
    rollout_percent: int = 100
    max_error_percent: int | None = None
    min_rollback_results: int = DEFAULT_ROLLBACK_RESULTS

    @property
    def rollout(self) -> Rollout:
        """The staged roll-out with which the version is published."""
        return Rollout(
            rollout_percent=self.rollout_percent,
            max_error_percent=self.max_error_percent,
            min_rollback_results=self.min_rollback_results,
        )


def publish(  # noqa: PLR0913  the four facts of a version, its files, and two flags
    *,
    app: str,
    version_num: int,
    platform: str,
    plan_class: str = "",
    files: Mapping[str, bytes | str],
    main_program: str | None = None,
    executables: Collection[str] = (),
    create_app: bool = False,
    create_platform: bool = False,
    now: datetime,
) -> Published:
    """Publish one version of a native app for one platform.

    `files` has the content of each file, or its path, by relative name.

    Raises `BadPackage` if the files cannot be a version, for example without a main program.
    Raises `UnknownApp` if the app does not exist and `create_app` is not set, and `UnknownPlatform`
    if BOINC's clients do not have the platform and `create_platform` is not set.  Raises
    `VersionExists` if the version exists with other files, `BadSignature` if a signature does not
    verify, and `SignatureMissing` if a file has no signature.  Raises `signing.KeyMissing` if this
    server signs but has no key.
    """
    package = unpack(files, main_program=main_program, executables=executables)
    with staged(package) as contents:
        signed = sign(package, contents)
        with transaction.atomic():
            [done] = publish_package(
                app=find_app(app, create=create_app, now=now),
                platforms=[platform],
                facts=Facts(version_num=version_num, plan_class=plan_class),
                package=package,
                signed=signed,
                create_platform=create_platform,
                now=now,
            )
    return done


def publish_package(
    *,
    app: App,
    platforms: Sequence[str],
    facts: Facts,
    package: Package,
    signed: Signed,
    create_platform: bool = False,
    now: datetime,
) -> list[Published]:
    """Publish one package for several platforms, in the caller's transaction.

    `signed` is the return value of `sign` for the package.  Raises the exceptions of
    `publish`.
    """
    _check_numbers(facts)
    platform_rows = _platforms(platforms, create=create_platform)
    files = _Files(package, signed, facts.version_num, now)
    return [_publish(app, platform, facts, files) for platform in platform_rows]


def would_create(
    *,
    app: App,
    platforms: Sequence[str],
    facts: Facts,
    package: Package,
    signed: Signed,
    create_platform: bool = False,
) -> bool:
    """Return whether `publish_package` would create a version; nothing is written.

    The app may be unsaved.  Raises the exceptions of `publish_package`.
    """
    _check_numbers(facts)
    with transaction.atomic():
        names = [platform.name for platform in _platforms(platforms, create=create_platform)]
        transaction.set_rollback(True)  # new platforms are not stored
    versions = AppVersion.objects.select_related("app", "platform").filter(
        app__name=app.name,
        platform__name__in=names,
        version_num=facts.version_num,
        plan_class=facts.plan_class,
    )
    for version in versions:
        _same_or_refused(version, facts, package, signed.contents)
    if len(versions) == len(names):
        return False
    rows = zip(package.files, signed.signatures, strict=True)
    if missing := [file.name for file, signature in rows if signature is None]:
        raise SignatureMissing(missing)
    return True


def _check_numbers(facts: Facts) -> None:
    try:
        facts.rollout.check()
    except BadRollout as refusal:
        raise BadPackage(str(refusal)) from refusal
    if 0 < facts.version_num <= _MAX_VERSION:
        return
    raise BadPackage(
        f"version_num is {facts.version_num}. "
        f"Hint: give a number from 1 to {_MAX_VERSION}; 123 is shown as 1.23."
    )


@dataclass(frozen=True)
class _Files:
    """A package to publish; its file rows are written once and shared by all platforms."""

    package: Package
    signed: Signed
    version_num: int
    now: datetime

    @cached_property
    def rows(self) -> Sequence[KnownFile]:
        """The rows of the package's files, inserted on first access."""
        wanted = _wanted(self.package, self.signed.contents, self.version_num)
        files_by_sha, _ = file_rows.keep(wanted, now=self.now)
        return [files_by_sha[item.digest.sha256] for item in self.signed.contents]

    @cached_property
    def signatures(self) -> Sequence[str]:
        """The signatures of all files; the audit log records each signature by this server.

        Raises `SignatureMissing`.
        """
        rows = zip(
            self.package.files,
            self.signed.contents,
            self.signed.signatures,
            self.signed.made_here,
            strict=True,
        )
        complete, missing = [], []
        for file, item, signature, is_made_here in rows:
            if signature is None:
                missing.append(file.name)
                continue
            complete.append(signature)
            if is_made_here:
                audit.record(
                    Event.FILE_SIGNED,
                    now=self.now,
                    subject=file.name,
                    details={"sha256": item.digest.sha256, "nbytes": item.digest.nbytes},
                )
        if missing:
            raise SignatureMissing(missing)
        return complete


def _publish(app: App, platform: Platform, facts: Facts, files: _Files) -> Published:
    fields = {
        "cmdline": facts.cmdline,
        "image": facts.image,
        "source_url": facts.source_url,
        "created_at": files.now,
        **asdict(facts.rollout),
        "rollout_at": files.now,
    }
    contents = files.signed.contents
    described = _described(files.package)
    described.setdefault("api_version", files.signed.api_version)
    version, created = AppVersion.objects.get_or_create(
        app=app,
        platform=platform,
        version_num=facts.version_num,
        plan_class=facts.plan_class,
        defaults=fields | described | {"beta": facts.beta or described.get("beta", False)},
    )
    if created:
        names = _attach(version, files)
        digests = {name: item.digest.sha256 for name, item in zip(names, contents, strict=True)}
        audit.record(
            Event.VERSION_PUBLISHED,
            now=files.now,
            subject=str(version),
            details={"app_version_id": version.pk, "files": digests},
        )
    else:
        names = _same_or_refused(version, facts, files.package, contents)
    return Published(version, names, created)


@contextmanager
def kept(
    package: Package,
    contents: Sequence[storage.Staged],
    version_num: int,
    *,
    holder: Account | None,
    now: datetime,
) -> Iterator[None]:
    """Store a package's files and hold them for `holder` inside the block.

    After the block, files without references are marked for deletion.  Without a holder, nothing is
    stored.
    """
    if holder is None:
        yield
        return
    holds = Holds(holder, now=now)
    try:
        with transaction.atomic():
            files_by_sha, _ = file_rows.keep(_wanted(package, contents, version_num), now=now)
            holds.add(file.id for file in files_by_sha.values())
        yield
    finally:
        holds.abandon(now=now)


@contextmanager
def staged(package: Package) -> Iterator[Sequence[storage.Staged]]:
    """Stage the contents of a package's files; unpublished contents are discarded at the end."""
    contents: list[storage.Staged] = []
    try:
        contents.extend(_stage(file.content) for file in package.files)
        yield contents
    finally:
        for content in contents:
            storage.discard(content)


def _stage(content: bytes | str) -> storage.Staged:
    if isinstance(content, bytes):
        return storage.stage_bytes(content)
    return storage.stage_file(content)


def launcher(app: App, image: str) -> PackedFile:
    """Return the launcher: the main program of a version that is not a BOINC program."""
    return PackedFile(
        name=f"{app.name}_launcher",
        open_name="",
        content=storage.launcher(kind=app.kind, image=image),
        main_program=True,
        executable=True,
    )


def given_signatures(
    files: Sequence[PackedFile],
    contents: Sequence[storage.Staged],
    signatures: Mapping[str, str],
    *,
    public_key: str | None = None,
) -> list[str | None]:
    """Verify signatures of files; return the signature of each file, or None if it is missing.

    Uses `public_key`, by default the current public key.  Raises `BadPackage` for a content that
    clients could mistake for a key, and `BadSignature` for a signature that matches no file.
    """
    signatures_by_file: list[str | None] = []
    unused = dict(signatures)
    for file, item in zip(files, contents, strict=True):
        refuse_key_shaped(item, f"The content of {file.name}")
        if file.signature is None and not signatures:
            signatures_by_file.append(None)
            continue
        key = public_key or signing.code_sign_key_text()
        if file.signature is not None:
            if not signing.verify(item.digest.md5, file.signature, key):
                raise BadSignature(
                    f"The signature beside {file.name} is not by the project's key. "
                    "Hint: sign the file again."
                )
            signatures_by_file.append(file.signature)
            continue
        good = [n for n, text in signatures.items() if signing.verify(item.digest.md5, text, key)]
        signatures_by_file.append(signatures[good[0]] if good else None)
        for name in good:
            unused.pop(name, None)
    if unused:
        names = ", ".join(sorted(unused)[:_MAX_LISTED])
        raise BadSignature(
            f"{names} is not a signature by the project's key for one of the files. "
            "Hint: sign exactly the files that `publish_app ... --prepare DIR` writes."
        )
    return signatures_by_file


def refuse_key_shaped(item: storage.Staged, title: str) -> None:
    """Raise `BadPackage` for a content that clients could mistake for a key."""
    with item.open() as content:
        try:
            signing.refuse_key_shaped(content.read(START_NBYTES), title)
        except signing.KeyShaped as error:
            raise BadPackage(str(error)) from error


def sign(
    package: Package,
    contents: Sequence[storage.Staged],
    signatures: Mapping[str, str] | None = None,
) -> Signed:
    """Verify the signatures of a package, and create missing ones if `ONLINE_SIGNING` is on.

    `signatures` were made on another machine and are keyed by file name.  Call this before the
    contents are stored.  Raises the exceptions of `given_signatures`, and `signing.KeyMissing`.
    """
    supplied = given_signatures(package.files, contents, signatures or {})
    made_here = [signature is None and settings.PROJECT.online_signing for signature in supplied]
    for position, (item, is_made_here) in enumerate(zip(contents, made_here, strict=True)):
        if is_made_here:
            with item.open() as content:
                supplied[position] = signing.sign(content)
    return Signed(contents, supplied, made_here, _api_version(package, contents))


def find_app(name: str, *, create: bool = False, now: datetime) -> App:
    """Return the app of this name.

    If the app does not exist and `create` is set, a native app is created.  Otherwise, raises
    `UnknownApp`.
    """
    if create:
        check_app_name(name)
        defaults = {"user_friendly_name": name, "created_at": now}
        app, created = App.objects.get_or_create(name=name, defaults=defaults)
        if created:
            audit.record(Event.APP_CREATED, now=now, subject=f"app {name}")
        return app
    if existing := App.objects.filter(name=name).first():
        return existing
    near = get_close_matches(name, App.objects.values_list("name", flat=True), n=1)
    hint = f"did you mean {near[0]!r}?" if near else "create it while publishing."
    raise UnknownApp(f"There is no app {name!r}. Hint: {hint}")


def check_app_name(name: str) -> None:
    """Raise `UnknownApp` if the name is not valid for an app."""
    if not NAME_PATTERN.fullmatch(name) or len(name) > _MAX_APP_NAME or ".." in name:
        raise UnknownApp(
            f"{name[:80]!r} is not a name for an app. "
            f"Hint: use 1 to {_MAX_APP_NAME} letters, digits, dots, dashes and underscores."
        )


def _platforms(names: Sequence[str], *, create: bool) -> list[Platform]:
    platforms_by_name = {
        platform.name: platform for platform in Platform.objects.filter(name__in=names)
    }
    for name in names:
        if name in platforms_by_name and name != ANONYMOUS:
            continue
        if name == ANONYMOUS:
            msg = "The platform anonymous is for volunteers' own programs. Hint: name another."
            raise UnknownPlatform(msg)
        if name not in KNOWN_PLATFORMS and not create:
            near = get_close_matches(name, KNOWN_PLATFORMS, n=1)
            hint = (
                f"did you mean {near[0]!r}?" if near else f"use {KNOWN_PLATFORMS[0]}, for example."
            )
            raise UnknownPlatform(f"BOINC's clients have no platform {name!r}. Hint: {hint}")
        platforms_by_name[name] = Platform.objects.get_or_create(name=name)[0]
    return [platforms_by_name[name] for name in names]


def _described(package: Package) -> dict[str, object]:
    """Return the columns of `AppVersion` that ``version.xml`` sets, with their values."""
    facts: dict[str, object] = {flag: flag in package.facts for flag in VERSION_FLAGS}
    for tag in ("api_version", "file_prefix"):
        if value := package.facts.get(tag):
            facts[tag] = value
    return facts


def _api_version(package: Package, contents: Sequence[storage.Staged]) -> str:
    """Return the version of BOINC's API in the main program, or "" if it contains none."""
    if package.launched:
        return ""
    for file, item in zip(package.files, contents, strict=True):
        if file.main_program:
            with item.open() as content:
                end = b""
                while chunk := content.read(_CHUNK):
                    if api_version := find_api_version(end + chunk):
                        return api_version
                    end = (end + chunk)[-_MARKER:]
                return find_api_version(end + b"\0")
    return ""


def _attach(version: AppVersion, files: _Files) -> tuple[str, ...]:
    rows = files.rows
    AppVersionFile.objects.bulk_create(
        AppVersionFile(
            app_version=version,
            file_id=row.id,
            position=position,
            open_name=file.open_name,
            main_program=file.main_program,
            executable=file.executable,
            copy_file=file.copy_file,
            signature=signature,
        )
        for position, (file, row, signature) in enumerate(
            zip(files.package.files, rows, files.signatures, strict=True)
        )
    )
    return tuple(row.name for row in rows)


def _wanted(
    package: Package, contents: Sequence[storage.Staged], version_num: int
) -> dict[str, file_rows.Wanted]:
    return {
        item.digest.sha256: file_rows.Wanted(item, versioned_name(file.name, version_num))
        for file, item in zip(package.files, contents, strict=True)
    }


def versioned_name(name: str, version_num: int) -> str:
    """Return a file name without folders, with the version number before the suffix.

    >>> versioned_name("bin/sieve.exe", 12)
    'sieve_12.exe'
    """
    stem, dot, suffix = name.rpartition("/")[2].rpartition(".")
    return f"{stem}_{version_num}.{suffix}" if dot and stem else f"{suffix}_{version_num}"


def _same_or_refused(
    version: AppVersion, facts: Facts, package: Package, contents: Sequence[storage.Staged]
) -> tuple[str, ...]:
    file_rows = list(version.files.select_related("file").order_by("position"))
    has = [
        (f.open_name, f.main_program, f.executable, f.copy_file, f.file.sha256) for f in file_rows
    ]
    wants = [
        (f.open_name, f.main_program, f.executable, f.copy_file, item.digest.sha256)
        for f, item in zip(package.files, contents, strict=True)
    ]
    if package.launched:
        # The launcher is not compared: it changes with the server, not with the app.
        has, wants = [file for file in has if not file[1]], [file for file in wants if not file[1]]
    if (has, version.image, version.cmdline) != (wants, facts.image, facts.cmdline):
        numbers = AppVersion.objects.filter(app=version.app).values_list("version_num", flat=True)
        raise VersionExists(version, max(numbers) + 1)
    return tuple(f.file.name for f in file_rows)
