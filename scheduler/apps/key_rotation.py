"""Replaces the code signing key, and signs the published files with the new key.

Theory of operation.  A stock client accepts a new key only if its current key has signed it
(PROTOCOL 4.4), and then verifies the files that it fetches with the new key.  So a rotation changes
the key and the signatures of all published files together.  A reply that is composed during the
change may contain an old signature; then the result fails and is computed again.

With a stolen private key, an attacker can rotate clients to another key as well, and revoking
cannot undo that (see docs/recipes.md).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256

from django.conf import settings
from django.db import transaction

from scheduler import signing, storage
from scheduler.apps import app_versions, republishing
from scheduler.apps.app_versions import BadPackage, BadSignature, SignatureMissing
from scheduler.models import AppVersionFile
from scheduler.people import audit


@dataclass(frozen=True, slots=True)
class Rotated:
    """The number of files that the new key signed, and the versions with new numbers.

    `is_vouched_for` is True if an earlier key has signed the new key.
    """

    signed: int
    republished: Sequence[app_versions.Published] = ()
    is_vouched_for: bool = True


def rotate(*, revoke: bool = False, now: datetime) -> Rotated:
    """Create a new code signing key on this server and sign every published file with it.

    With `revoke` the earlier private keys are deleted, and the current versions are also published
    under new numbers, so that hosts download them again.  Raises `signing.KeyMissing` if
    `ONLINE_SIGNING` is off, and `BadPackage` for a published file that has changed, is missing, or
    could be mistaken for a key; then nothing is changed.
    """
    if not settings.PROJECT.online_signing:
        raise signing.KeyMissing(
            "This server does not create private keys (ONLINE_SIGNING is off). Hint: create one on "
            "another machine and give --public-key (docs/signing.md)."
        )
    new = signing.NewCodeSignKey()
    with transaction.atomic(), ExitStack() as stack:
        rows = [row for row in _locked_rows() if _sign_by(new, row)]
        AppVersionFile.objects.bulk_update(rows, ["signature"], batch_size=1000)
        renewals = _renewals(stack) if revoke else []
        new.install(revoke=revoke)
        done = republishing.publish(renewals, {}, now=now)
        _record(revoke=revoke, signed=len(rows), now=now)
    return Rotated(len(rows), done)


def install(
    public_text: str,
    *,
    rotation_signatures: Collection[str] = (),
    signatures: Mapping[str, str] | None = None,
    revoke: bool = False,
    now: datetime,
) -> Rotated:
    """Install a public key whose private half is on another machine.

    `signatures` by the new key must cover every file that `write_to_sign` wrote: the files of the
    current versions, or with `revoke` the files of the versions that replace them.  Raises
    `signing.BadKey`, `signing.BadRotation`, `SignatureMissing`, `BadSignature` and `BadPackage`;
    then nothing is changed.
    """
    texts = dict(signatures or {})
    with transaction.atomic(), ExitStack() as stack:
        rows = _locked_rows()
        renewals, signed = [], []
        if revoke:
            renewals = _renewals(stack)
            republishing.check(renewals, texts, public_text)
        else:
            signed = _signed_elsewhere(rows, texts, public_text)
            AppVersionFile.objects.bulk_update(signed, ["signature"], batch_size=1000)
        signing.install_code_sign_key(public_text, rotation_signatures, revoke=revoke)
        done = republishing.publish(renewals, texts if revoke else {}, now=now)
        _record(revoke=revoke, signed=len(signed), now=now)
    return Rotated(len(signed), done, is_vouched_for=bool(rotation_signatures))


def write_to_sign(folder: str, *, revoke: bool = False) -> list[str]:
    """Write the files that must be signed for `install` to a new folder; return their names."""
    with ExitStack() as stack:
        if revoke:
            return republishing.write(_renewals(stack), folder)
        rows = {row.file.name: row for row in _rows() if _is_current(row)}
        named = {name: republishing.stage_published(row, stack) for name, row in rows.items()}
        storage.write_prepared(folder, named, {"app": "", "version": ""})
        return sorted(named)


def _renewals(stack: ExitStack) -> list[republishing.Renewal]:
    versions = republishing.current_versions()
    return stack.enter_context(republishing.prepared(versions))


def _rows() -> list[AppVersionFile]:
    related = ("file", "app_version__app", "app_version__platform")
    return list(AppVersionFile.objects.select_related(*related).order_by("pk"))


def _locked_rows() -> list[AppVersionFile]:
    list(AppVersionFile.objects.order_by("pk").select_for_update().values_list("pk"))
    return _rows()


def _is_current(row: AppVersionFile) -> bool:
    return not (row.app_version.deprecated or row.app_version.app.deprecated)


def _sign_by(new: signing.NewCodeSignKey, row: AppVersionFile) -> bool:
    """Sign a published file; return False if signing fails and the version is deprecated.

    Raises `BadPackage` if signing fails and the version is current.
    """
    try:
        with ExitStack() as stack, republishing.stage_published(row, stack).open() as content:
            row.signature = new.sign(content)
    except (BadPackage, signing.KeyShaped) as error:
        if not _is_current(row):
            return False
        msg = f"The published file {row.file.name} of {row.app_version} cannot be signed: {error}"
        raise BadPackage(msg) from error
    return True


def _signed_elsewhere(
    rows: list[AppVersionFile], signatures: Mapping[str, str], public_text: str
) -> list[AppVersionFile]:
    signed, missing, used = [], [], set()
    for row in rows:
        good = [n for n, s in signatures.items() if signing.verify(row.file.md5, s, public_text)]
        used.update(good)
        if good:
            _refuse_key_shaped(row)
            row.signature = signatures[good[0]]
            signed.append(row)
        elif _is_current(row):
            missing.append(row.file.name)
    if missing:
        raise SignatureMissing(sorted(set(missing)))
    if strange := sorted(signatures.keys() - used):
        raise BadSignature(
            f"{strange[0]} is not a signature by the new key for a published file. Hint: sign the "
            "files that --prepare DIR writes, by the private half of the key that you install."
        )
    return signed


def _refuse_key_shaped(row: AppVersionFile) -> None:
    with ExitStack() as stack:
        app_versions.refuse_key_shaped(republishing.stage_published(row, stack), row.file.name)


def _record(*, revoke: bool, signed: int, now: datetime) -> None:
    fingerprint = sha256(signing.code_sign_key_text().encode()).hexdigest()
    audit.record(
        audit.Event.KEY_REVOKED if revoke else audit.Event.KEY_ROTATED,
        now=now,
        subject="code signing key",
        details={"public_key_sha256": fingerprint, "files_signed": signed},
    )


def rotate_upload_key(*, revoke: bool = False, now: datetime) -> None:
    """Create a new key for upload grants; with `revoke`, earlier keys become invalid."""
    with transaction.atomic():
        audit.record(
            audit.Event.KEY_REVOKED if revoke else audit.Event.KEY_ROTATED,
            now=now,
            subject="upload grant key",
        )
        signing.rotate_upload_grant_key(revoke=revoke)
