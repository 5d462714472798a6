"""Checks that every app names science that exists, with options that it takes."""

from __future__ import annotations

import json
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from daemons.science import assimilators, validators
from daemons.science.assimilators import UnknownAssimilator
from daemons.science.interfaces import BadOptions
from daemons.science.validators import UnknownValidator
from scheduler.models import App


class Command(BaseCommand):
    """``check_science [APP...]``."""

    help = (
        "Check the validator and the assimilator of apps, and the options that they are given, as "
        "far as can be seen without running science. Exit status: 0 all is well, 1 it is not."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Ask which apps."""
        parser.add_argument("apps", metavar="APP", nargs="*", help="all, if none is named")
        parser.add_argument("--json", action="store_true", help="answer in JSON")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Check and say what is wrong."""
        apps = App.objects.order_by("name")
        if options["apps"]:
            apps = apps.filter(name__in=options["apps"])
        unknown = set(options["apps"]) - {app.name for app in apps}
        wrong = [
            {"app": name, "part": "app", "sentence": f"There is no app {name!r}."}
            for name in sorted(unknown)
        ]
        for app in apps:
            wrong += [
                {"app": app.name, "part": part, "sentence": sentence}
                for part, sentence in (
                    ("validator", validator_trouble(app)),
                    ("assimilator", assimilator_trouble(app)),
                )
                if sentence
            ]
        if options["json"]:
            self.stdout.write(json.dumps({"checked": len(apps), "wrong": wrong}))
        else:
            lines = [f"{one['app']}: {one['part']}: {one['sentence']}" for one in wrong]
            count = f"{len(apps)} app{'s' * (len(apps) != 1)} checked: "
            lines.append(f"{count}{len(wrong) or 'nothing'} wrong.")
            self.stdout.write("\n".join(lines))
        if wrong:
            sys.exit(1)


def validator_trouble(app: App) -> str:
    """Why an app's validator can judge nothing; empty if it may."""
    try:
        validators.check(app.validator, app.validator_options)
    except (UnknownValidator, BadOptions) as error:
        return str(error)
    return ""


def assimilator_trouble(app: App) -> str:
    """Why an app's assimilator can take nothing; empty if it may."""
    try:
        assimilators.find(app.assimilator, app.assimilator_options, app.science_time_limit)
    except (UnknownAssimilator, BadOptions) as error:
        return str(error)
    return ""
