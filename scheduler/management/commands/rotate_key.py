"""Replaces a key of the project, or revokes a stolen key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from scheduler import signing, storage
from scheduler.apps import app_versions, key_rotation
from scheduler.management.base import Answer, JsonCommand, plural


class Command(JsonCommand):
    """``rotate_key code-sign|upload-grant [--revoke] [--prepare DIR | --public-key FILE ...]``."""

    help = (
        "Replace a key of the project. Signatures and grants made with the old key stay valid "
        "unless --revoke is given (docs/recipes.md, A stolen key)."
    )
    refusals = (
        app_versions.BadPackage,
        app_versions.BadSignature,
        signing.BadKey,
        signing.BadRotation,
        signing.KeyMissing,
        signing.KeyShaped,
        storage.StoreError,
        storage.UnreadablePackage,
    )

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("key", choices=("code-sign", "upload-grant"), help="key to replace")
        parser.add_argument(
            "--revoke",
            action="store_true",
            help="for a stolen key: revoke the old key, and publish every current app version "
            "under a new number",
        )
        offline = parser.add_argument_group("with the private key on another machine")
        offline.add_argument(
            "--prepare",
            metavar="DIR",
            help="write the files that the new key must sign into a new folder, and change nothing",
        )
        offline.add_argument("--public-key", metavar="FILE", help="the new public key to install")
        offline.add_argument(
            "--rotation-signature",
            metavar="FILE",
            action="append",
            default=[],
            help="signature of the new key by the old key; if it is missing, clients must attach "
            "again; may be repeated for earlier keys",
        )
        offline.add_argument(
            "--signatures", metavar="DIR", help="the folder of --prepare with the .sig files"
        )

    def answer(self, options: Mapping[str, Any]) -> Answer:
        revoke, prepare, signatures = options["revoke"], options["prepare"], options["signatures"]
        if options["key"] == "upload-grant":
            offline = ("prepare", "public_key", "rotation_signature", "signatures")
            if any(options[name] for name in offline):
                msg = "The upload grant key is on the server only. Hint: leave these options out."
                raise CommandError(msg)
            return _upload_grant(revoke=revoke)
        if prepare is not None:
            names = key_rotation.write_to_sign(prepare, revoke=revoke)
            return Answer(
                f"Wrote {plural(len(names), 'file')} to {prepare}; sign them with the new key and "
                "install it with --public-key.",
                {"files": names},
            )
        if options["public_key"] is None:
            if options["rotation_signature"] or signatures:
                raise CommandError("No new key is given. Hint: use --public-key FILE.")
            return _rotated(key_rotation.rotate(revoke=revoke, now=timezone.now()))
        had_key = signing.has_code_sign_key()
        rotations = [storage.read_key_text(path) for path in options["rotation_signature"]]
        rotated = key_rotation.install(
            storage.read_key_text(options["public_key"]),
            rotation_signatures=rotations,
            signatures=storage.read_signatures(signatures) if signatures else {},
            revoke=revoke,
            now=timezone.now(),
        )
        answer = _rotated(rotated)
        if rotations or not had_key:
            return answer
        warning = (
            "No rotation signature was given: clients with an earlier key keep it, and run no new "
            "app version until they are detached and attached again."
        )
        return replace(answer, warnings=[warning])


def _upload_grant(*, revoke: bool) -> Answer:
    key_rotation.rotate_upload_key(revoke=revoke, now=timezone.now())
    sentence = "Upload grants are now signed with a new key; earlier grants stay valid."
    if revoke:
        sentence = (
            "Upload grants are now signed with a new key; earlier grants are revoked. Hosts with "
            "earlier grants retry their uploads until the deadlines of their results have passed."
        )
    return Answer(sentence, {"key": "upload-grant", "revoked": revoke})


def _rotated(done: key_rotation.Rotated) -> Answer:
    sentence = f"A new code-sign key is installed and {done.signed} app files are signed by it"
    if done.is_vouched_for:
        sentence += "; clients accept the new key, which the old key signed"
    sentence += "."
    if done.republished:
        versions = "\n".join(f"Published {published.version}." for published in done.republished)
        sentence = f"{sentence}\n{versions}"
    facts = {
        "key": "code-sign",
        "files_signed": done.signed,
        "versions": [published.version.pk for published in done.republished],
    }
    return Answer(sentence, facts)
