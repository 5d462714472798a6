"""Creates a science app."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandParser
from django.db.models import TextChoices
from django.utils import timezone

from scheduler.apps import app_versions, apps
from scheduler.management.base import Answer, JsonCommand
from scheduler.management.parsing import json_object
from scheduler.models.science import AppKind, CreditRule, OneResultPer, SuccessRule

#: Options that set fields of the app.
_FIELDS = (
    *("name", "kind", "success_rule", "workunit_defaults", "validator", "assimilator"),
    *("one_result_per", "credit_rule", "beta", "description"),
)


class Command(JsonCommand):
    """``create_app NAME [--kind K] [--success-rule R] [--workunit-defaults JSON]``."""

    help = "Create an app. Publish its versions with `publish_app`; set other fields in the admin."
    refusals = (apps.AppExists, apps.BadApp, app_versions.UnknownApp)

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("name", metavar="NAME")
        parser.add_argument("--title", default="", help="the name that volunteers see")
        parser.add_argument(
            "--description",
            default="",
            metavar="TEXT",
            help="what the app computes, and why, as plain text for volunteers",
        )
        _add_choice(parser, "--kind", AppKind.NATIVE, "kind of the app's programs")
        _add_choice(
            parser, "--success-rule", SuccessRule.EXIT_CODE, "when a report counts as a success"
        )
        parser.add_argument(
            "--workunit-defaults",
            metavar="JSON",
            type=json_object,
            default={},
            help="default values of workunit fields",
        )
        parser.add_argument(
            "--validator", default="bitwise", help="name of the validator (default: bitwise)"
        )
        parser.add_argument(
            "--assimilator",
            default="copy_files",
            help="name of the assimilator (default: copy_files)",
        )
        one_result_help = "send at most one result of a workunit to each account or host"
        _add_choice(parser, "--one-result-per", OneResultPer.ACCOUNT, one_result_help)
        _add_choice(parser, "--credit-rule", CreditRule.RUNTIME, "how valid results are credited")
        parser.add_argument(
            "--beta", action="store_true", help="only for volunteers who want test applications"
        )

    def answer(self, options: Mapping[str, Any]) -> Answer:
        fields = {name: options[name] for name in _FIELDS}
        app = apps.create(user_friendly_name=options["title"], **fields, now=timezone.now())
        return Answer(
            f"Created app {app} of kind {app.kind}. Publish a version of it with `publish_app`.",
            {
                "app_id": app.pk,
                "name": app.name,
                "kind": app.kind,
                "success_rule": app.success_rule,
            },
        )


def _add_choice(parser: CommandParser, name: str, default: TextChoices, what: str) -> None:
    parser.add_argument(
        name,
        choices=type(default).values,
        default=default.value,
        help=f"{what} (default: {default.value})",
    )
