"""Publishes a version of a science app."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from scheduler import signing, storage
from scheduler.apps import app_versions, apps, deliveries, programs
from scheduler.apps.programs import Order
from scheduler.apps.rollouts import DEFAULT_ROLLBACK_RESULTS
from scheduler.apps.rules.packaging import version_number
from scheduler.management.base import Answer, JsonCommand, plural
from scheduler.models.science import AppKind, SuccessRule

#: Argument that means no file, or the default platforms of the app's kind.
_NONE = "-"
#: Options that set fields of `Order`.
_ORDER = (
    *("version_num", "plan_class", "main_program", "cmdline"),
    *("image", "source_url", "beta", "create_platform"),
    *("rollout_percent", "max_error_percent", "min_rollback_results"),
)
#: Timeout of a download; it is long, because only this command waits for the download.
_FETCH_TIMEOUT_SECONDS = 3600.0


def version(text: str) -> int:
    """Parse a version number; both 123 and 1.23 give 123.

    Raises ArgumentTypeError for other text.

    >>> version("1.02")
    102
    """
    try:
        return version_number(text)
    except app_versions.BadPackage as error:
        raise ArgumentTypeError(str(error)) from error


class Command(JsonCommand):
    """``publish_app APP VERSION [PLATFORM] [SOURCE] [--image I] [--create-app --kind K]``."""

    help = (
        "Publish a version of an app from a folder, an archive or a single program, "
        "from a URL, or as a container image with its digest."
    )
    refusals = (
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

    def add_options(self, parser: CommandParser) -> None:
        add = parser.add_argument
        add("app", metavar="APP")
        add("version_num", metavar="VERSION", type=version)
        add(
            "platforms",
            metavar="PLATFORM",
            nargs="?",
            default=_NONE,
            help="such as x86_64-pc-linux-gnu, or several separated by commas; "
            "- (or nothing) means all Unix platforms, for apps that are not native",
        )
        add("source", metavar="SOURCE", nargs="?", default=_NONE, help="folder, archive or file")
        add("--source-url", default="", help="http(s) or rsync URL to fetch the program from")
        add("--image", default="", help="container image, as name@sha256:DIGEST")
        add("--plan-class", default="", help="such as mt (default: none)")
        add("--main-program", help="name of the file to start, if there are several files")
        add("--cmdline", default="", help="arguments appended at every start")
        add("--beta", action="store_true", help="only for volunteers who want test applications")
        add(
            "--rollout-percent",
            type=int,
            default=100,
            metavar="N",
            help="share of the hosts that get the version at first (default: 100)",
        )
        add(
            "--max-error-percent",
            type=int,
            metavar="N",
            help="set the share to 0 if more than N %% of the results fail (default: never)",
        )
        add(
            "--min-rollback-results",
            type=int,
            default=DEFAULT_ROLLBACK_RESULTS,
            metavar="N",
            help="do not do so with fewer than N results (default: %(default)s)",
        )
        add("--create-app", action="store_true", help="create the app if it does not exist")
        add(
            "--kind",
            choices=AppKind.values,
            help="kind of the app that --create-app creates (default: native)",
        )
        add(
            "--success-rule",
            choices=SuccessRule.values,
            help="success rule of the app that --create-app creates (default: exit_code)",
        )
        add(
            "--prepare",
            metavar="DIR",
            help="write the exact files to be signed into a new folder, and publish nothing",
        )
        add(
            "--signatures",
            metavar="DIR",
            help="the folder of --prepare with the .sig files made on another machine",
        )
        add("--create-platform", action="store_true", help="allow a platform that BOINC lacks")

    def answer(self, options: Mapping[str, Any]) -> Answer:
        now = timezone.now()
        rules = {key: options[key] for key in ("kind", "success_rule")}
        if not options["create_app"] and any(rules.values()):
            msg = "--kind and --success-rule are for a new app. Hint: add --create-app."
            raise CommandError(msg)
        platforms, where = options["platforms"], options["source"]
        if where == _NONE and Path(platforms).exists():
            # With one argument, an existing path is SOURCE, and the platforms are the default.
            platforms, where = _NONE, platforms
        signatures = options["signatures"]
        order = Order(
            **{name: options[name] for name in _ORDER},
            platforms=[name for name in platforms.split(",") if name not in {"", _NONE}],
            signatures=storage.read_signatures(signatures) if signatures else {},
        )
        reading = nullcontext() if where == _NONE else storage.open_package(where)
        with reading as source:
            if options["prepare"] is not None:
                return _prepared(options, order, source)
            app = (
                apps.ensure(name=options["app"], now=now, **rules)
                if options["create_app"]
                else app_versions.find_app(options["app"], now=now)
            )
            if order.source_url and source is None:
                seconds = _FETCH_TIMEOUT_SECONDS
                return _published(deliveries.import_from(app, order, seconds=seconds, now=now))
            return _published(programs.publish(app, order, source, now=now))


def _prepared(options: Mapping[str, Any], order: Order, source: storage.Source | None) -> Answer:
    """Write the files to be signed; with ``--create-app``, the app need not exist."""
    name, folder = options["app"], options["prepare"]
    if order.source_url:
        msg = "A file at a URL cannot be signed before it is fetched."
        raise CommandError(f"{msg} Hint: download it, and give the file.")
    if options["create_app"]:
        app = apps.draft(name=name, kind=options["kind"] or AppKind.NATIVE)
    else:
        app = app_versions.find_app(name, now=timezone.now())
    names = programs.prepare(app, order, source, folder)
    return Answer(
        f"Wrote {plural(len(names), 'file')} to {folder}: {', '.join(names)}.\n"
        f"Sign them on the machine that has the key: python3 sign.py sign {folder}\n"
        f"Then run the same command with --signatures {folder} instead of --prepare.",
        {"folder": str(folder), "files": names},
    )


def _published(outcome: programs.Outcome) -> Answer:
    sentences = []
    for published in outcome.published:
        count = plural(len(published.file_names), "file")
        sentences.append(
            f"Published {published.version} with {count}."
            if published.created
            else f"{published.version} is published already, with the same {count}."
        )
    first = outcome.published[0]
    return Answer(
        "\n".join(sentences),
        {
            "app_version_id": first.version.pk,
            "created": outcome.created,
            "files": list(first.file_names),
            "versions": [
                {
                    "app_version_id": published.version.pk,
                    "platform": published.version.platform.name,
                    "created": published.created,
                    "files": list(published.file_names),
                }
                for published in outcome.published
            ],
        },
    )
