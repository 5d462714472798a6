"""Publish a version of a science app."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from django.core.management.base import CommandParser
from django.utils import timezone

from scheduler.management.conversation import Answer, Conversation, plural
from scheduler.management.packages import UnreadablePackage, read_package
from scheduler.operations import app_versions


def version_number(text: str) -> int:
    """Read 123 or 1.23, which is the same version; for argparse.

    >>> version_number("1.02")
    102
    """
    if found := re.fullmatch(r"(\d+)\.(\d\d)", text):
        return int(found[1]) * 100 + int(found[2])
    if text.isdecimal():
        return int(text)
    msg = f"{text!r} is no version. Hint: write 123, or 1.23, which is the same."
    raise ArgumentTypeError(msg)


class Command(Conversation):
    """``publish_app APP VERSION PLATFORM SOURCE [--main-program FILE] [--create-app]``."""

    help = "Publish a version of an app from a folder, an archive or a single program."
    refusals: ClassVar[tuple[type[Exception], ...]] = (
        UnreadablePackage,
        app_versions.BadPackage,
        app_versions.BadSignature,
        app_versions.UnknownApp,
        app_versions.UnknownPlatform,
        app_versions.VersionExists,
    )

    def ask(self, parser: CommandParser) -> None:
        """Ask for the four facts of a version and for its files."""
        parser.add_argument("app", metavar="APP")
        parser.add_argument("version_num", metavar="VERSION", type=version_number)
        parser.add_argument("platform", metavar="PLATFORM", help="such as x86_64-pc-linux-gnu")
        parser.add_argument("source", metavar="SOURCE", type=Path, help="folder, archive or file")
        parser.add_argument("--plan-class", default="", help="such as mt (default: none)")
        parser.add_argument("--main-program", help="which of several files is started")
        parser.add_argument("--create-app", action="store_true", help="if there is no such app")
        parser.add_argument(
            "--create-platform", action="store_true", help="if BOINC has no such platform"
        )

    def answer(self, options: Mapping[str, Any]) -> Answer:
        """Read the files and publish them."""
        source = read_package(options["source"])
        done = app_versions.publish(
            app=options["app"],
            version_num=options["version_num"],
            platform=options["platform"],
            plan_class=options["plan_class"],
            files=source.files,
            main_program=options["main_program"],
            executables=source.executables,
            create_app=options["create_app"],
            create_platform=options["create_platform"],
            now=timezone.now(),
        )
        count = plural(len(done.file_names), "file")
        return Answer(
            f"Published {done.version} with {count}."
            if done.created
            else f"{done.version} is published already, with the same {count}.",
            {
                "app_version_id": done.version.pk,
                "created": done.created,
                "files": list(done.file_names),
            },
        )
