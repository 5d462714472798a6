"""Publish a version of a science app."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, ClassVar

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from scheduler import signing, storage
from scheduler.apps import app_versions, apps, deliveries, programs
from scheduler.apps.programs import Order
from scheduler.apps.rules.packaging import version_number
from scheduler.management.conversation import Answer, Conversation, plural
from scheduler.models.science import AppKind, SuccessRule

#: In place of the file of a kind that has none, and of the platforms to take the usual ones.
_NONE = "-"
#: How long fetching may take here, where nobody waits but who asked; seconds.
_PATIENCE = 3600.0


def version(text: str) -> int:
    """Read 123 or 1.23, which is the same version; for argparse.

    >>> version("1.02")
    102
    """
    try:
        return version_number(text)
    except app_versions.BadPackage as error:
        raise ArgumentTypeError(str(error)) from error


class Command(Conversation):
    """``publish_app APP VERSION [PLATFORM] [SOURCE] [--image I] [--create-app --kind K]``."""

    help = (
        "Publish a version of an app from a folder, an archive or a single program; "
        "or from an address, or the digest of a container's image."
    )
    refusals: ClassVar[tuple[type[Exception], ...]] = (
        signing.KeyMissing,
        storage.UnreadablePackage,
        storage.StoreError,
        app_versions.BadPackage,
        app_versions.BadSignature,
        app_versions.UnknownApp,
        app_versions.UnknownPlatform,
        app_versions.VersionExists,
        apps.BadApp,
        deliveries.BadSource,
        deliveries.SourceFailed,
        deliveries.SourceBusy,
    )

    def ask(self, parser: CommandParser) -> None:
        """Ask for the four facts of a version and for its files."""
        parser.add_argument("app", metavar="APP")
        parser.add_argument("version_num", metavar="VERSION", type=version)
        parser.add_argument(
            "platforms",
            metavar="PLATFORM",
            nargs="?",
            default=_NONE,
            help="such as x86_64-pc-linux-gnu, or several with commas between; "
            "- (or nothing) takes every Unix for apps that are not native",
        )
        parser.add_argument(
            "source", metavar="SOURCE", nargs="?", default=_NONE, help="folder, archive or file"
        )
        parser.add_argument(
            "--source-url", default="", help="http(s) or rsync address to fetch the program from"
        )
        parser.add_argument("--image", default="", help="a container's, as name@sha256:DIGEST")
        parser.add_argument("--plan-class", default="", help="such as mt (default: none)")
        parser.add_argument("--main-program", help="which of several files is started")
        parser.add_argument("--cmdline", default="", help="words that every start gets at its end")
        parser.add_argument("--beta", action="store_true", help="for volunteers who want to test")
        parser.add_argument("--create-app", action="store_true", help="if there is no such app")
        parser.add_argument(
            "--kind", choices=AppKind.values, help="of the app to create (default: native)"
        )
        parser.add_argument(
            "--success-rule",
            choices=SuccessRule.values,
            help="of the app to create (default: exit_code)",
        )
        parser.add_argument(
            "--prepare",
            metavar="DIR",
            help="write the exact files to be signed into a new folder, and publish nothing",
        )
        parser.add_argument(
            "--signatures",
            metavar="DIR",
            help="the folder of --prepare with the .sig files made on another machine",
        )
        parser.add_argument(
            "--create-platform", action="store_true", help="if BOINC has no such platform"
        )

    def answer(self, options: Mapping[str, Any]) -> Answer:
        """Read the files and publish them."""
        now = timezone.now()
        asked = {key: options[key] for key in ("kind", "success_rule")}
        if not options["create_app"] and any(asked.values()):
            msg = "--kind and --success-rule are for an app that is created. Hint: --create-app."
            raise CommandError(msg)
        platforms, where = options["platforms"], options["source"]
        if where == _NONE and Path(platforms).exists():
            # What stands alone is the program: for the platforms that are usual.
            platforms, where = _NONE, platforms
        order = Order(
            version_num=options["version_num"],
            platforms=[name for name in platforms.split(",") if name not in {"", _NONE}],
            plan_class=options["plan_class"],
            main_program=options["main_program"],
            cmdline=options["cmdline"],
            image=options["image"],
            source_url=options["source_url"],
            beta=options["beta"],
            create_platform=options["create_platform"],
            signatures=storage.read_signatures(options["signatures"])
            if options["signatures"]
            else {},
        )
        reading = nullcontext() if where == _NONE else storage.open_package(where)
        with reading as source:
            if options["prepare"] is not None:
                return _prepared(options, order, source)
            app = (
                apps.ensure(name=options["app"], now=now, **asked)
                if options["create_app"]
                else app_versions.find_app(options["app"], now=now)
            )
            if order.source_url and source is None:
                done = deliveries.import_from(app, order, seconds=_PATIENCE, now=now)
            else:
                done = programs.publish(app, order, source, now=now)
        return _told(done)


def _prepared(options: Mapping[str, Any], order: Order, source: storage.Source | None) -> Answer:
    """Write the files to be signed, even if the app does not exist yet."""
    name, folder = options["app"], options["prepare"]
    if order.source_url:
        msg = "A file at an address cannot be signed before it is fetched."
        raise CommandError(f"{msg} Hint: fetch it yourself, and give the file.")
    if options["create_app"]:
        app = apps.draft(name=name, kind=options["kind"] or AppKind.NATIVE)
    else:
        app = app_versions.find_app(name, now=timezone.now())
    names = programs.prepare(app, order, source, folder)
    return Answer(
        f"Wrote {plural(len(names), 'file')} to {folder}: {', '.join(names)}.\n"
        f"Sign them on the machine that has the key: python3 sign.py sign {folder}\n"
        f"Then publish by the same command with --signatures {folder} instead of --prepare.",
        {"folder": str(folder), "files": names},
    )


def _told(done: programs.Outcome) -> Answer:
    sentences = []
    for one in done.published:
        count = plural(len(one.file_names), "file")
        sentences.append(
            f"Published {one.version} with {count}."
            if one.created
            else f"{one.version} is published already, with the same {count}."
        )
    first = done.published[0]
    return Answer(
        "\n".join(sentences),
        {
            "app_version_id": first.version.pk,
            "created": done.created,
            "files": list(first.file_names),
            "versions": [
                {
                    "app_version_id": one.version.pk,
                    "platform": one.version.platform.name,
                    "created": one.created,
                    "files": list(one.file_names),
                }
                for one in done.published
            ],
        },
    )
