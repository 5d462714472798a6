"""Submit workunits from a shell, one per input file."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from scheduler.management.conversation import Answer, Conversation, duration, plural
from scheduler.models import Account
from scheduler.operations import files, submit
from scheduler.queries.accounts import find_account_by_email


def output(text: str) -> submit.NewOutput:
    """Read ``name:max_nbytes``, or a name alone; for argparse.

    >>> output("out:1000").max_nbytes
    1000
    """
    name, colon, nbytes = text.rpartition(":")
    if not colon:
        return submit.NewOutput(open_name=text)
    if not nbytes.isdecimal() or not name:
        msg = f"{text!r} is no output. Hint: write out, or out:100000 for at most so many bytes."
        raise ArgumentTypeError(msg)
    return submit.NewOutput(open_name=name, max_nbytes=int(nbytes))


class Command(Conversation):
    """``submit_work APP [FILE...] [--batch B] [--quorum 2] [--deadline 3d] ...``."""

    help = "Submit one workunit per FILE (or one without input), all or none."
    refusals: ClassVar[tuple[type[Exception], ...]] = (
        submit.SubmissionRefused,
        files.UnknownFiles,
        files.FileInMotion,
    )

    def ask(self, parser: CommandParser) -> None:
        """Ask for the app, the input files and the numbers that scientists change."""
        parser.add_argument("app", metavar="APP")
        parser.add_argument("paths", metavar="FILE", nargs="*", type=Path)
        parser.add_argument("--open-name", default="in", help="what the app opens (default: in)")
        parser.add_argument("--command-line", default="", help="{file} becomes the FILE's name")
        parser.add_argument(
            "--outputs", nargs="+", type=output, metavar="NAME[:BYTES]", help="default: out"
        )
        parser.add_argument("--batch", help="name of a batch, made if there is none")
        parser.add_argument("--submitter", metavar="EMAIL", help="default: the only staff account")
        parser.add_argument("--quorum", type=int, default=1, help="results that must agree")
        parser.add_argument("--target", type=int, help="results made at first (default: QUORUM)")
        parser.add_argument(
            "--deadline", type=duration, default=timedelta(days=7), help="such as 12h (default: 7d)"
        )
        parser.add_argument("--fpops", type=float, default=3.6e12, help="estimated operations")
        parser.add_argument("--priority", type=int, default=0, help="higher is sent first")
        parser.add_argument("--hold", action="store_true", help="until `cancel_work --release`")

    def answer(self, options: Mapping[str, Any]) -> Answer:
        """Submit them."""
        for path in options["paths"]:
            if not path.is_file():
                msg = f"There is no file {path}. Hint: check the path."
                raise CommandError(msg)
        done = submit.submit(
            app=options["app"],
            workunits=[_workunit(path, options) for path in options["paths"] or [None]],
            batch=options["batch"],
            submitter=_submitter(options["submitter"], needed=options["batch"] is not None),
            now=timezone.now(),
        )
        into = f" into batch {options['batch']}" if options["batch"] else ""
        return Answer(
            f"Submitted {plural(done.count, 'workunit')} of {options['app']}{into}"
            f"{', held back' * options['hold']}: {_range(done.names)}.",
            {
                "batch_id": done.batch_id,
                "workunit_ids": list(done.workunit_ids),
                "names": list(done.names),
            },
            done.warnings,
        )


def _workunit(path: Path | None, options: Mapping[str, Any]) -> submit.NewWorkunit:
    inputs = (
        () if path is None else (submit.NewFile(open_name=options["open_name"], path=str(path)),)
    )
    return submit.NewWorkunit(
        command_line=options["command_line"].replace("{file}", path.name if path else ""),
        input_files=inputs,
        outputs=tuple(options["outputs"] or [submit.NewOutput(open_name="out")]),
        rsc_fpops_est=options["fpops"],
        rsc_fpops_bound=max(8.64e13, 10 * options["fpops"]),
        delay_bound=options["deadline"],
        min_quorum=options["quorum"],
        target_nresults=options["target"],
        priority=options["priority"],
        held=options["hold"],
    )


def _submitter(email: str | None, *, needed: bool) -> Account | None:
    if email is not None:
        account = find_account_by_email(email)
        if account is None:
            msg = f"No account has the e-mail address {email!r}. Hint: check its spelling."
            raise CommandError(msg)
        return account
    staff = list(Account.objects.filter(is_staff=True)[:2]) if needed else []
    if needed and len(staff) != 1:
        msg = "A batch is a person's. Hint: say whose with --submitter EMAIL."
        raise CommandError(msg)
    return staff[0] if staff else None


def _range(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
