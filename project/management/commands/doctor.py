"""Checks the services, files, keys and addresses that a project needs."""

from __future__ import annotations

import json
import shutil
import textwrap
from collections import Counter
from dataclasses import asdict
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from project import doctor
from scheduler.health.rules.checkups import Finding, Level, exit_status
from scheduler.management.base import PlainCommand
from scheduler.messages.rules import mail_rules

#: The widths of the columns with the result and the name of a check, and the maximum of a line.
_LEVEL_WIDTH, _NAME_WIDTH, _MAX_WIDTH = 9, 18, 110


class Command(PlainCommand):
    """``doctor [--json] [--strict] [--send-mail ADDRESS]``."""

    help = (
        "Check database, broker, storage, permissions, keys, public address, HTTPS, mail and "
        "daemons. Exit status: 0 no failure, 1 a failure."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        parser.add_argument(
            "--strict", action="store_true", help="exit with status 1 for a warning, too"
        )
        parser.add_argument(
            "--send-mail",
            metavar="ADDRESS",
            default="",
            help="send a test message to this e-mail address",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        checks = doctor.all_checks(send_mail_to=_recipient(options["send_mail"]))
        findings = []
        for finding in doctor.run(checks):
            findings.append(finding)
            if not options["json"]:
                self._print(finding)
        if options["json"]:
            rows = [asdict(finding) for finding in findings]
            self.stdout.write(json.dumps({"findings": rows}, indent=2))
        else:
            self.stdout.write(_summary(findings))
        if status := exit_status(findings, is_strict=options["strict"]):
            raise SystemExit(status)

    def _print(self, finding: Finding) -> None:
        style = {
            Level.OK: self.style.SUCCESS,
            Level.WARNING: self.style.WARNING,
            Level.FAILURE: self.style.ERROR,
        }[finding.level]
        level = style(f"{finding.level:<{_LEVEL_WIDTH}}")
        indent = " " * (_LEVEL_WIDTH + _NAME_WIDTH)
        value = _wrapped(f"{finding.check:<{_NAME_WIDTH}}", finding.value, indent[_LEVEL_WIDTH:])
        self.stdout.write(level + value.replace("\n", f"\n{' ' * _LEVEL_WIDTH}"))
        if finding.hint:
            self.stdout.write(_wrapped(f"{indent}Hint: ", finding.hint, indent))
        self.stdout.flush()


def _recipient(address: str) -> str:
    """Return the address of `--send-mail`; raises CommandError if no mail can be sent to it."""
    if not address:
        return ""
    if settings.MAIL is None:
        msg = "This project sends no mail. Hint: set EMAIL_URL (docs/mail.md)."
        raise CommandError(msg, returncode=2)
    try:
        return mail_rules.check_address(address)
    except mail_rules.BadMail as error:
        raise CommandError(str(error), returncode=2) from error


def _wrapped(start: str, text: str, indent: str) -> str:
    width = min(shutil.get_terminal_size((_MAX_WIDTH, 24)).columns, _MAX_WIDTH)
    return textwrap.fill(
        text,
        max(width, 60),
        initial_indent=start,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _summary(findings: list[Finding]) -> str:
    counts = Counter(finding.level for finding in findings)
    failures, warnings = counts[Level.FAILURE], counts[Level.WARNING]
    parts = [
        f"{len(findings)} checks",
        f"{failures} failure{'s' * (failures != 1)}",
        f"{warnings} warning{'s' * (warnings != 1)}",
    ]
    return f"\n{', '.join(parts)}"
