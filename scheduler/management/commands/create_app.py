"""Create a science app."""

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

    help = "Create an app, of which versions are published then; the rest is in the administration."
    refusals: ClassVar[tuple[type[Exception], ...]] = (
        apps.AppExists,
        apps.BadApp,
        app_versions.UnknownApp,
    )

    def ask(self, parser: CommandParser) -> None:
        """Ask for what an app is known by, and its rules."""
        parser.add_argument("name", metavar="NAME")
        parser.add_argument("--title", default="", help="the name that volunteers read")
        _ask_choice(parser, "--kind", AppKind.NATIVE, "what is published of it")
        _ask_choice(
            parser, "--success-rule", SuccessRule.EXIT_CODE, "what makes a report a success"
        )
        parser.add_argument(
            "--workunit-defaults",
            metavar="JSON",
            type=json_object,
            default={},
            help="what a submission need not say",
        )
        parser.add_argument("--validator", default="bitwise", help="(default: bitwise)")
        parser.add_argument("--assimilator", default="copy_files", help="(default: copy_files)")
        apart = "how apart the results of a workunit are kept"
        _ask_choice(parser, "--one-result-per", OneResultPer.ACCOUNT, apart)
        _ask_choice(parser, "--credit-rule", CreditRule.RUNTIME, "how valid results are paid")
        parser.add_argument("--beta", action="store_true", help="for volunteers who want to test")

    def answer(self, options: Mapping[str, Any]) -> Answer:
        """Create it."""
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
            f"Created app {app} of kind {app.kind}. Publish a version of it by `publish_app`.",
            {
                "app_id": app.pk,
                "name": app.name,
                "kind": app.kind,
                "success_rule": app.success_rule,
            },
        )


def _ask_choice(parser: CommandParser, name: str, usual: TextChoices, what: str) -> None:
    """Ask for one of the choices of which `usual` is what is taken if nothing is said."""
    parser.add_argument(
        name,
        choices=type(usual).values,
        default=usual.value,
        help=f"{what} (default: {usual.value})",
    )
