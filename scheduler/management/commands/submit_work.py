"""Submits workunits from a shell, one for each input file."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone
from rich.console import Console
from rich.progress import track

from scheduler import storage
from scheduler.boinc_submission import templates
from scheduler.boinc_submission.rules.templated import TwoCommandLines, WrongFiles
from scheduler.files import download_files
from scheduler.management import templated_work
from scheduler.management.base import Answer, JsonCommand, optional_account, plural
from scheduler.management.parsing import duration, json_object, moment
from scheduler.models import Account, Team
from scheduler.storage import BadFileName
from scheduler.work import dependencies
from scheduler.work.submission import bulk, submit

#: Minimum number of workunits for which a progress bar is shown.
_PROGRESS_BAR_FROM = 1000
#: Fields of every workunit, by the option that sets them.
_FIELDS = {
    **templated_work.NUMBERS,
    "outputs": "outputs",
    "deadline": "delay_bound",
    "max_timeouts": "max_timeouts",
    "priority": "priority",
    "size_class": "size_class",
    "app_version": "app_version_num",
    "keywords": "keywords",
    "for_host": "target_host",
    "queue": "queue",
    "start_after": "start_after",
    "start_before": "start_before",
    "end_before": "end_before",
    "meta": "meta",
}


def output(text: str) -> submit.NewOutput:
    """Parse ``name`` or ``name:max_nbytes``; raise ArgumentTypeError for other text.

    >>> output("out:1000").max_nbytes
    1000
    """
    name, colon, nbytes = text.rpartition(":")
    if not colon:
        return submit.NewOutput(open_name=text)
    if not nbytes.isdecimal() or not name:
        msg = f"{text!r} is not an output. Hint: write NAME or NAME:BYTES, such as out:100000."
        raise ArgumentTypeError(msg)
    return submit.NewOutput(open_name=name, max_nbytes=int(nbytes))


class Command(JsonCommand):
    """``submit_work APP [FILE...] [--batch B] [--quorum 2] [--deadline 3d] ...``."""

    help = "Submit a workunit for each FILE, or one without input. If one is refused, none is made."
    refusals = (
        submit.SubmissionRefused,
        dependencies.DependencyRefused,
        download_files.UnknownFiles,
        download_files.FileInMotion,
        templates.BadTemplate,
        templates.NoTemplate,
        TwoCommandLines,
        WrongFiles,
        BadFileName,
        storage.StoreError,
    )

    def add_options(self, parser: CommandParser) -> None:
        # The usage that argparse generates for this many options is unreadable.
        parser.usage = "%(prog)s APP [FILE ...] [options]"
        add = parser.add_argument
        add("app", metavar="APP")
        # Strings need a fifth of the memory of Path objects, and there may be 100 000 paths.
        add("paths", metavar="FILE", nargs="*", default=[])
        add("--open-name", metavar="N", help="input name that the app opens (default: in)")
        add("--command-line", metavar="C", help="arguments; {file} is replaced by the name of FILE")
        add(
            "--outputs",
            nargs="+",
            type=output,
            metavar="O",
            help="output files: NAME, or NAME:BYTES for its maximum size (default: out)",
        )
        add("--batch", metavar="B", help="name of a batch, created if it does not exist")
        add("--submitter", metavar="EMAIL", help="submitter (default: the only superuser)")
        add("--quorum", metavar="N", type=int, help="results that must agree (default: 1)")
        add("--target", metavar="N", type=int, help="results created at first (default: QUORUM)")
        add("--max-errors", type=int, metavar="N", help="the workunit fails at error N+1")
        add("--max-timeouts", type=int, metavar="N", help="the workunit fails at timeout N+1")
        add("--priority", metavar="N", type=int, help="a higher number is sent first (default: 0)")
        add("--hold", action="store_true", help="hold the workunits until `cancel_work --release`")
        _add_batch(parser)
        add(
            "--ndjson",
            metavar="FILE",
            help="file in the format of POST /workunits, or - for stdin; options apply to all",
        )
        add("--input-template", metavar="F", help="BOINC input template, by file or name")
        add("--output-template", metavar="F", help="BOINC output template, by file or name")
        _add_resources(parser)
        _add_targets(parser)
        _add_times(parser)

    def answer(self, options: Mapping[str, Any]) -> Answer:
        for path in options["paths"]:
            if not Path(path).is_file():
                msg = f"There is no file {path}. Hint: check the path."
                raise CommandError(msg)
        now = timezone.now()
        created = submit.CreatedWorkunits() if options["json"] else None
        with ExitStack() as stack:
            head, lines = _submission(options, stack, now)
            reply = bulk.submit_lines(
                head,
                _shown(lines, len(options["paths"]) if options["ndjson"] is None else None),
                submitter=_submitter(options["submitter"], needed=head.batch is not None),
                by_operator=True,
                created=created,
                now=now,
            )
        body = reply.answer["body"]
        batch = body["batch"]
        into = f" into batch {batch['name']} ({batch['id']})" if batch else ""
        return Answer(
            f"Submitted {plural(body['count'], 'workunit')} of {options['app']}{into}"
            f"{', held' * options['hold']}: {_range(body)}.",
            {
                "batch_id": batch["id"] if batch else None,
                "workunit_ids": created.ids if created else [],
                "names": created.names if created else [],
            },
            body["warnings"],
        )


def _add_batch(parser: CommandParser) -> None:
    add = parser.add_argument
    add("--queue", metavar="Q", help="name of the queue that sends the work")
    add("--after", type=int, metavar="ID", help="wait until this batch is complete")
    add("--meta", type=json_object, metavar="JSON", help="data to store with each workunit")
    add("--keep-outputs", action="store_true", help="keep outputs until the batch is retired")


def _submission(
    options: Mapping[str, Any], stack: ExitStack, now: datetime
) -> tuple[bulk.Head, Iterator[bulk.Line]]:
    """Return the head of the submission, and an iterator that reads the lines."""
    name, after, keep = options["batch"], options["after"], options["keep_outputs"]
    batch = None
    if name is not None or after is not None or keep:
        batch = submit.NewBatch(name=name, after=after, keep_outputs=keep)
    if options["ndjson"] is not None:
        _refuse_beside_lines(options)
        return _from_ndjson(options, _opened(options["ndjson"], stack), batch, now)
    submitter = _submitter(options["submitter"], needed=batch is not None)
    numbered = enumerate(_workunits(options, submitter, now), 1)
    return bulk.Head(app=options["app"], batch=batch), (bulk.Line(*pair) for pair in numbered)


def _shown(lines: Iterator[bulk.Line], total: int | None) -> Iterator[bulk.Line]:
    """Return the lines; show a progress bar on a terminal if there may be many lines."""
    console = Console(stderr=True)
    if console.is_terminal and (total is None or total >= _PROGRESS_BAR_FROM):
        return iter(track(lines, "Reading", total=total, console=console, transient=True))
    return lines


def _refuse_beside_lines(options: Mapping[str, Any]) -> None:
    if options["paths"]:
        raise CommandError("FILE and --ndjson are both given. Hint: give one of them.")
    of_files = {
        "--open-name": options["open_name"] is not None,
        "--command-line {file}": "{file}" in (options["command_line"] or ""),
        "--input-template": options["input_template"] is not None,
        "--output-template": options["output_template"] is not None,
    }
    for option, is_given in of_files.items():
        if is_given:
            msg = f"{option} cannot be used with --ndjson. Hint: write it into the lines."
            raise CommandError(msg)


def _opened(name: str, stack: ExitStack) -> Iterable[bytes]:
    try:
        return sys.stdin.buffer if name == "-" else stack.enter_context(open(name, "rb"))  # noqa: PTH123
    except OSError as error:
        msg = f"{name} cannot be read: {error.strerror}. Hint: check the path."
        raise CommandError(msg) from error


def _from_ndjson(
    options: Mapping[str, Any],
    source: Iterable[bytes],
    batch: submit.NewBatch | None,
    now: datetime,
) -> tuple[bulk.Head, Iterator[bulk.Line]]:
    """Return the head and the lines of a file in the format of `POST /workunits`.

    The first line, with the app and defaults, is optional.  Options apply to every workunit whose
    line has no other value, and take precedence over the `defaults` of the first line.
    """
    lines: Iterator[bulk.Line] = (
        bulk.read_line(number, line) for number, line in enumerate(source, 1) if line.strip()
    )
    first = next(lines, None)
    head = bulk.Head(app=options["app"], batch=batch)
    if first is not None and isinstance(first.value, dict) and "app" in first.value:
        head = _merged(options, first.value, batch, now)
    elif first is not None:
        lines = chain([first], lines)
    return replace(head, defaults={**head.defaults, **_defaults(options)}), bulk.counted(lines)


def _merged(
    options: Mapping[str, Any],
    first_line: dict[str, Any],
    batch: submit.NewBatch | None,
    now: datetime,
) -> bulk.Head:
    head = bulk.read_head(first_line, now=now)
    if head.app != options["app"]:
        msg = (
            f"The first line of {options['ndjson']} is for app {head.app!r}, not "
            f"{options['app']!r}. Hint: name the same app in both."
        )
        raise CommandError(msg)
    if first_line.get("batch") is None:
        return replace(head, batch=batch)
    if batch is not None:
        msg = (
            f"The first line of {options['ndjson']} names a batch, and so do the options. "
            "Hint: leave --batch, --after and --keep-outputs out."
        )
        raise CommandError(msg)
    return head


def _add_resources(parser: CommandParser) -> None:
    add = parser.add_argument
    add("--fpops", metavar="N", type=float, help="floating-point operations (default: 3.6e12)")
    add("--memory", type=float, metavar="BYTES", help="maximum memory (default: 5e8)")
    add("--disk", type=float, metavar="BYTES", help="maximum disk space (default: 1e9)")
    add("--cpus", type=float, metavar="N", help="CPUs of a result (default: of its app version)")
    add("--gpus", type=float, metavar="N", help="GPUs of a result (default: of its app version)")
    add("--bandwidth", type=float, metavar="BYTES/S", help="minimum download rate of a host")
    add("--size-class", type=int, metavar="N", help="size class of the hosts, from 0 (slowest)")
    add("--app-version", type=int, metavar="N", help="number of the version, 100 for 1.00")
    add("--keywords", metavar="N,N", help="BOINC's keyword numbers")


def _add_targets(parser: CommandParser) -> None:
    targets = parser.add_mutually_exclusive_group()
    targets.add_argument("--for-host", type=int, metavar="ID", help="only for this host")
    targets.add_argument("--for-account", metavar="EMAIL", help="only for this account's hosts")
    targets.add_argument("--for-team", metavar="NAME", help="only for this team's hosts")
    targets.add_argument("--broadcast", action="store_true", help="for every host, until END")


def _add_times(parser: CommandParser) -> None:
    add = parser.add_argument
    add(
        "--deadline",
        metavar="D",
        type=duration,
        help="time to report a result, such as 12h (default: 7d)",
    )
    add("--start-after", type=moment, metavar="TIME", help="not sent before this time (UTC)")
    add(
        "--start-offset",
        type=float,
        metavar="S",
        help="random delay of the start of each workunit, at most S seconds",
    )
    add("--start-before", type=moment, metavar="TIME", help="not sent after this time (UTC)")
    add("--end-before", type=moment, metavar="END", help="the workunits expire at this time")


def _fields(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a workunit that are given by options, by field name."""
    fields = {name: options[option] for option, name in _FIELDS.items()}
    account = optional_account(options["for_account"])
    fields |= {
        "target_account": account and account.pk,
        "target_team": _team_id(options["for_team"]),
        "broadcast": options["broadcast"] or None,
        "held": options["hold"] or None,
    }
    if options["fpops"] is not None:
        fields["rsc_fpops_bound"] = max(submit.NewWorkunit().rsc_fpops_bound, 10 * options["fpops"])
    return {name: value for name, value in fields.items() if value is not None}


def _defaults(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options in the format of the API's `defaults`."""
    fields = _fields(options)
    if options["command_line"] is not None:
        fields["command_line"] = options["command_line"]
    if "delay_bound" in fields:
        fields["delay_bound_seconds"] = fields.pop("delay_bound").total_seconds()
    if "outputs" in fields:
        fields["outputs"] = [output.as_json() for output in fields["outputs"]]
    return fields


def _workunits(
    options: Mapping[str, Any], submitter: Account | None, now: datetime
) -> Iterable[submit.NewWorkunit]:
    fields = _fields(options)
    if "outputs" in fields:
        fields["outputs"] = tuple(fields["outputs"])
    if options["input_template"] or options["output_template"]:
        return templated_work.workunits(options, fields, submitter=submitter, now=now)
    common = submit.NewWorkunit(**{"outputs": (submit.NewOutput(open_name="out"),)} | fields)
    if not options["paths"]:
        return [_of_file(None, common, options)]
    return (_of_file(Path(path), common, options) for path in options["paths"])


def _of_file(
    path: Path | None, common: submit.NewWorkunit, options: Mapping[str, Any]
) -> submit.NewWorkunit:
    command_line = (options["command_line"] or "").replace("{file}", path.name if path else "")
    if path is None:
        return replace(common, command_line=command_line)
    file = submit.NewFile(open_name=options["open_name"] or "in", path=str(path))
    # Bytes that are not UTF-8 are replaced, because JSON cannot contain them.
    name = path.as_posix().encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    meta = {"input": name, **common.meta}
    return replace(common, command_line=command_line, input_files=(file,), meta=meta)


def _team_id(name: str | None) -> int | None:
    if name is None:
        return None
    team_id = Team.objects.filter(name=name).values_list("pk", flat=True).first()
    if team_id is None:
        msg = f"There is no team {name!r}. Hint: check its spelling."
        raise CommandError(msg)
    return team_id


def _submitter(email: str | None, *, needed: bool) -> Account | None:
    if email is not None:
        return optional_account(email)
    staff = list(Account.objects.filter(is_superuser=True)[:2]) if needed else []
    if needed and len(staff) != 1:
        msg = "The batch needs a submitter. Hint: name an account with --submitter EMAIL."
        raise CommandError(msg)
    return staff[0] if staff else None


def _range(body: Mapping[str, Any]) -> str:
    first, last = body["first_name"], body["last_name"]
    return str(first) if first == last else f"{first} to {last}"
