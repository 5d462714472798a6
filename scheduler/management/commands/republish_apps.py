"""Publishes app versions again under new numbers, with this server's launcher."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from scheduler import signing, storage
from scheduler.apps import app_versions, republishing
from scheduler.management.base import Answer, JsonCommand, plural, require


class Command(JsonCommand):
    """``republish_apps [APP ...] [--all] [--prepare DIR | --signatures DIR]``."""

    help = (
        "Republish every current version whose launcher is older than this server's, under the "
        "next free version number, and deprecate the old version (--all: every current version)."
    )
    refusals = (
        app_versions.BadPackage,
        app_versions.BadSignature,
        signing.KeyMissing,
        storage.StoreError,
        storage.UnreadablePackage,
    )

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("apps", metavar="APP", nargs="*", help="only these apps")
        parser.add_argument(
            "--all", action="store_true", help="every current version, native programs included"
        )
        parser.add_argument("--dry-run", action="store_true", help="only list the versions")
        parser.add_argument(
            "--prepare",
            metavar="DIR",
            help="write the files to be signed into a new folder, and publish nothing",
        )
        parser.add_argument(
            "--signatures", metavar="DIR", help="the folder of --prepare with the .sig files"
        )

    def answer(self, options: Mapping[str, Any]) -> Answer:
        prepare, signatures = options["prepare"], options["signatures"]
        both = "Both folders are given. Hint: use --prepare first, then --signatures."
        require(not (prepare and signatures), both, returncode=1)
        versions = republishing.current_versions(options["apps"])
        if not options["all"]:
            versions = republishing.with_old_launchers(versions)
        names = [str(version) for version in versions]
        if not versions:
            return Answer("There is nothing to publish again.", {"versions": []})
        if options["dry_run"]:
            return Answer("Would publish again:\n" + "\n".join(names), {"versions": names})
        with republishing.prepared(versions) as renewals:
            if prepare is not None:
                files = republishing.write(renewals, prepare)
                return Answer(f"Wrote {plural(len(files), 'file')} to {prepare}.", {"files": files})
            texts = storage.read_signatures(signatures) if signatures else {}
            done = republishing.publish(renewals, texts, now=timezone.now())
        old_versions = [version for renewal in renewals for version in renewal.earlier]
        lines = [
            f"Published {new.version} in place of {old}."
            for new, old in zip(done, old_versions, strict=True)
        ]
        return Answer("\n".join(lines), {"versions": [str(new.version) for new in done]})
