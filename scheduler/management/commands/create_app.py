"""Creates a science app."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.core.management.base import CommandParser
from django.db.models import TextChoices
from django.utils import timezone

from scheduler.apps import app_versions, apps
from scheduler.management.conversation import Answer, Conversation, json_object
from scheduler.models.science import AppKind, CreditRule, OneResultPer, SuccessRule


class Command(Conversation):
    """``create_app NAME [--kind K] [--success-rule R] [--workunit-defaults JSON]``."""

    help = "Create an app, for which versions are then published; other settings are in the admin."
    refusals: ClassVar[tuple[type[Exception], ...]] = (
        apps.AppExists,
        apps.BadApp,
        app_versions.UnknownApp,
    )

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("name", metavar="NAME")
        parser.add_argument("--title", default="", help="the name that volunteers see")
        _add_choice(parser, "--kind", AppKind.NATIVE, "the kind of its programs")
        _add_choice(
            parser, "--success-rule", SuccessRule.EXIT_CODE, "when a report counts as a success"
        )
        parser.add_argument(
            "--workunit-defaults",
            metavar="JSON",
            type=json_object,
            default={},
            help="defaults of fields of workunits",
        )
        parser.add_argument("--validator", default="bitwise", help="(default: bitwise)")
        parser.add_argument("--assimilator", default="copy_files", help="(default: copy_files)")
        apart = "who may get only one result of a workunit"
        _add_choice(parser, "--one-result-per", OneResultPer.ACCOUNT, apart)
        _add_choice(parser, "--credit-rule", CreditRule.RUNTIME, "how valid results are credited")
        parser.add_argument("--beta", action="store_true", help="only for volunteers who test")

    def answer(self, options: Mapping[str, Any]) -> Answer:
        app = apps.create(
            name=options["name"],
            user_friendly_name=options["title"],
            kind=options["kind"],
            success_rule=options["success_rule"],
            workunit_defaults=options["workunit_defaults"],
            validator=options["validator"],
            assimilator=options["assimilator"],
            one_result_per=options["one_result_per"],
            credit_rule=options["credit_rule"],
            beta=options["beta"],
            now=timezone.now(),
        )
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
