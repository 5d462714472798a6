"""Checks that the plug-ins of every app are allowed and have valid options."""

from __future__ import annotations

import json
import sys
from typing import Any

from django.core.management.base import CommandParser
from django.forms.models import model_to_dict

from daemons.management.suggesting import suggested
from daemons.science import worker
from scheduler.health import alerts
from scheduler.management.base import PlainCommand
from scheduler.models import App


class Command(PlainCommand):
    """Implements ``check_science [APP...] [--suggest]``."""

    help = (
        "Check that the validator, assimilator, generator and trickle handlers of apps are built "
        "in or in the allow-list (PLUGINS), that their options are valid as far as that can be "
        "checked without running science code, and that science code can be confined. "
        "Exit status: 0 if there are no faults, else 1."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "apps", metavar="APP", nargs="*", help="an app's name (default: all apps)"
        )
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.add_argument(
            "--suggest",
            action="store_true",
            help="print a draft of a PLUGINS file with the names that the allow-list lacks",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        apps = App.objects.order_by("name")
        if options["apps"]:
            apps = apps.filter(name__in=options["apps"])
        unknown = set(options["apps"]) - {app.name for app in apps}
        wrong = [
            {"app": name, "part": "app", "sentence": f"There is no app {name!r}."}
            for name in sorted(unknown)
        ]
        for app in apps:
            facts = model_to_dict(app, fields=alerts.SCIENCE_COLUMNS)
            wrong += [
                {"app": app.name, "part": part, "sentence": sentence}
                for part, sentence in alerts.science_refusals(facts)
            ]
        warning = worker.warning()
        if options["suggest"]:
            self.stdout.write(suggested(apps))
            return
        if options["json"]:
            report = {"checked": len(apps), "wrong": wrong, "warning": warning}
            self.stdout.write(json.dumps(report))
        else:
            lines = [f"{entry['app']}: {entry['part']}: {entry['sentence']}" for entry in wrong]
            count = f"{len(apps)} app{'s' * (len(apps) != 1)} checked: "
            lines.append(f"{count}{len(wrong) or 'nothing'} wrong.")
            self.stdout.write("\n".join([*lines, *([warning] if warning else [])]))
        if wrong:
            sys.exit(1)
