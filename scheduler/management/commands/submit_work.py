"""Submit workunits from a shell, one per input file."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone
from rich.console import Console
from rich.progress import track

from scheduler import storage
from scheduler.management import templated_work
from scheduler.management.conversation import (
    Answer,
    Conversation,
    duration,
    json_object,
    moment,
    plural,
)
from scheduler.management.people import account_of
from scheduler.models import Account, Team
from scheduler.operations import bulk, files, submit, templates
from scheduler.storage import BadFileName

#: From so many on, a bar shows how far it is.
_MANY = 1000


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
        templates.BadTemplate,
        templates.NoTemplate,
        templates.TwoCommandLines,
        templates.WrongFiles,
        BadFileName,
        storage.StoreError,
    )

    def ask(self, parser: CommandParser) -> None:
        """Ask for the app, the input files and the numbers that scientists change."""
        # What argparse would write of so many options is nothing that anybody reads.
        parser.usage = "%(prog)s APP [FILE ...] [options]"
        parser.add_argument("app", metavar="APP")
        # As texts: a hundred thousand of them weigh a fifth of as many paths.
        parser.add_argument("paths", metavar="FILE", nargs="*")
        parser.add_argument(
            "--open-name", metavar="N", default="in", help="what the app opens (default: in)"
        )
        parser.add_argument(
            "--command-line", metavar="C", default="", help="{file} becomes the FILE's name"
        )
        parser.add_argument(
            "--outputs", nargs="+", type=output, metavar="NAME[:BYTES]", help="default: out"
        )
        parser.add_argument("--batch", metavar="B", help="name of a batch, made if there is none")
        parser.add_argument("--submitter", metavar="EMAIL", help="default: the only staff account")
        parser.add_argument(
            "--quorum", metavar="N", type=int, default=1, help="results that must agree"
        )
        parser.add_argument(
            "--target", metavar="N", type=int, help="results made at first (default: QUORUM)"
        )
        parser.add_argument("--max-timeouts", type=int, metavar="N", help="fails after so many")
        parser.add_argument(
            "--priority", metavar="N", type=int, help="higher is sent first (default: 0)"
        )
        parser.add_argument("--hold", action="store_true", help="until `cancel_work --release`")
        _ask_batch(parser)
        parser.add_argument(
            "--ndjson",
            metavar="FILE",
            help="a workunit per line; - is stdin",
        )
        parser.add_argument("--input-template", metavar="F", help="BOINC's, in a file, or by name")
        parser.add_argument("--output-template", metavar="F", help="the same, of the outputs")
        _ask_resources(parser)
        _ask_whom(parser)
        _ask_times(parser)

    def answer(self, options: Mapping[str, Any]) -> Answer:
        """Submit them."""
        for path in options["paths"]:
            if not Path(path).is_file():
                msg = f"There is no file {path}. Hint: check the path."
                raise CommandError(msg)
        now = timezone.now()
        batch = _batch(options)
        submitter = _submitter(options["submitter"], needed=batch is not None)
        made = submit.Made() if options["json"] else None
        with ExitStack() as stack:
            lines = _lines(options, submitter, now, stack)
            told = bulk.submit_lines(
                bulk.Head(app=options["app"], batch=batch),
                lines,
                submitter=submitter,
                by_operator=True,
                made=made,
                now=now,
            )
        body = told.answer["body"]
        into = f" into batch {body['batch']['name']}" if body["batch"] else ""
        return Answer(
            f"Submitted {plural(body['count'], 'workunit')} of {options['app']}{into}"
            f"{', held back' * options['hold']}: {_range(body)}.",
            {
                "batch_id": body["batch"]["id"] if body["batch"] else None,
                "workunit_ids": made.ids if made else [],
                "names": made.names if made else [],
            },
            body["warnings"],
        )


def _ask_batch(parser: CommandParser) -> None:
    parser.add_argument(
        "--after", type=int, metavar="ID", help="wait for this batch to be complete"
    )
    parser.add_argument("--meta", type=json_object, metavar="JSON", help="kept with each workunit")
    parser.add_argument("--keep-outputs", action="store_true", help="until the batch is retired")


def _batch(options: Mapping[str, Any]) -> submit.NewBatch | None:
    name, after, keep = options["batch"], options["after"], options["keep_outputs"]
    if name is None and after is None and not keep:
        return None
    return submit.NewBatch(name=name, after=after, keep_outputs=keep)


def _lines(
    options: Mapping[str, Any], submitter: Account | None, now: datetime, stack: ExitStack
) -> Iterator[bulk.Line]:
    """What to submit, one after the other; with a bar of progress where it is many."""
    given: Iterable[bulk.Line]
    if options["ndjson"]:
        if options["paths"]:
            msg = "FILE and --ndjson are both given. Hint: give one of them."
            raise CommandError(msg)
        given, total = _from_ndjson(options["ndjson"], stack), None
    else:
        given = (
            bulk.Line(number, one)
            for number, one in enumerate(_workunits(options, submitter, now), 1)
        )
        total = len(options["paths"])
    console = Console(stderr=True)
    if console.is_terminal and (total is None or total >= _MANY):
        given = track(given, "Reading", total=total, console=console, transient=True)
    yield from given


def _from_ndjson(name: str, stack: ExitStack) -> Iterator[bulk.Line]:
    try:
        source = sys.stdin.buffer if name == "-" else stack.enter_context(open(name, "rb"))  # noqa: PTH123, SIM115  it does
    except OSError as error:
        msg = f"{name} cannot be read: {error.strerror}. Hint: check the path."
        raise CommandError(msg) from error
    for number, line in enumerate(source, 1):
        if line.strip():
            yield bulk.read_line(number, line)


def _ask_resources(parser: CommandParser) -> None:
    parser.add_argument(
        "--fpops", metavar="N", type=float, default=3.6e12, help="estimated operations"
    )
    parser.add_argument("--memory", type=float, metavar="BYTES", default=5e8)
    parser.add_argument("--disk", type=float, metavar="BYTES", default=1e9)
    parser.add_argument("--bandwidth", type=float, metavar="BYTES/S", default=0.0)
    parser.add_argument("--size-class", type=int, metavar="N", default=-1)
    parser.add_argument("--app-version", type=int, metavar="N", default=0, help="100 for 1.00")
    parser.add_argument("--keywords", default="", metavar="N,N", help="BOINC's keyword numbers")


def _ask_whom(parser: CommandParser) -> None:
    whom = parser.add_mutually_exclusive_group()
    whom.add_argument("--for-host", type=int, metavar="ID", help="for this host alone")
    whom.add_argument("--for-account", metavar="EMAIL", help="for this account's hosts alone")
    whom.add_argument("--for-team", metavar="NAME", help="for this team's hosts alone")
    whom.add_argument("--broadcast", action="store_true", help="for every host, until END")


def _ask_times(parser: CommandParser) -> None:
    parser.add_argument(
        "--deadline",
        metavar="D",
        type=duration,
        default=timedelta(days=7),
        help="such as 12h (default: 7d)",
    )
    parser.add_argument("--start-after", type=moment, metavar="TIME", help="not sent before (UTC)")
    parser.add_argument("--start-before", type=moment, metavar="TIME", help="not sent afterwards")
    parser.add_argument("--end-before", type=moment, metavar="END", help="expired afterwards")


def _workunits(
    options: Mapping[str, Any], submitter: Account | None, now: datetime
) -> Iterable[submit.NewWorkunit]:
    common = submit.NewWorkunit(
        outputs=tuple(options["outputs"] or [submit.NewOutput(open_name="out")]),
        rsc_fpops_est=options["fpops"],
        rsc_fpops_bound=max(8.64e13, 10 * options["fpops"]),
        rsc_memory_bound=options["memory"],
        rsc_disk_bound=options["disk"],
        rsc_bandwidth_bound=options["bandwidth"],
        delay_bound=options["deadline"],
        min_quorum=options["quorum"],
        target_nresults=options["target"],
        max_timeouts=options["max_timeouts"],
        priority=options["priority"],
        size_class=options["size_class"],
        app_version_num=options["app_version"],
        keywords=options["keywords"],
        target_host=options["for_host"],
        target_account=_account_id(options["for_account"]),
        target_team=_team_id(options["for_team"]),
        broadcast=options["broadcast"],
        start_after=options["start_after"],
        start_before=options["start_before"],
        end_before=options["end_before"],
        held=options["hold"],
        meta=options["meta"] or {},
    )
    if options["input_template"] or options["output_template"]:
        return templated_work.workunits(options, common, submitter=submitter, now=now)
    if not options["paths"]:
        return [_of_file(None, common, options)]
    return (_of_file(Path(path), common, options) for path in options["paths"])


def _of_file(
    path: Path | None, common: submit.NewWorkunit, options: Mapping[str, Any]
) -> submit.NewWorkunit:
    inputs = (
        () if path is None else (submit.NewFile(open_name=options["open_name"], path=str(path)),)
    )
    command_line = options["command_line"].replace("{file}", path.name if path else "")
    return replace(common, command_line=command_line, input_files=inputs)


def _account_id(email: str | None) -> int | None:
    return None if email is None else account_of(email).pk


def _team_id(name: str | None) -> int | None:
    if name is None:
        return None
    found = Team.objects.filter(name=name).values_list("pk", flat=True).first()
    if found is None:
        msg = f"There is no team {name!r}. Hint: check its spelling."
        raise CommandError(msg)
    return found


def _submitter(email: str | None, *, needed: bool) -> Account | None:
    if email is not None:
        return account_of(email)
    staff = list(Account.objects.filter(is_superuser=True)[:2]) if needed else []
    if needed and len(staff) != 1:
        msg = "A batch is a person's. Hint: say whose with --submitter EMAIL."
        raise CommandError(msg)
    return staff[0] if staff else None


def _range(body: Mapping[str, Any]) -> str:
    first, last = body["first_name"], body["last_name"]
    return str(first) if first == last else f"{first} to {last}"
