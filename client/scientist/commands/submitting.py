"""The command `submit`: workunits from files, parameters or lines of JSON."""

from __future__ import annotations

import argparse
import json
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

from rich.text import Text

from scientist.commands.context import HELP, OK, Context, argument_type, non_negative, positive
from scientist.commands.sources import output_of, shared_of, works_of
from scientist.commands.watching import watch
from scientist.display import TransferBars
from scientist.drafts import DraftBatch
from scientist.errors import Interrupted, Unreachable, UsageError
from scientist.inputs import fields_of
from scientist.models import SubmissionSummary
from scientist.submission import CHUNK_BYTES, batch_name, submission_key
from scientist.template import parameter
from scientist.words import count, duration, moment, size

_EPILOG = """\
what is submitted:
  scientist submit fold a.pdb b.pdb                  a workunit per file
  scientist submit fold --from-file list.txt         a workunit per file listed
  scientist submit fold --ndjson workunits.ndjson    a workunit per line of JSON
  scientist submit walk --count 100000 --command-line '--seed {index}'
  scientist submit walk --param seed=1..1000 --param t=0.5,1.0 \\
                        --command-line '{seed} {t}'

In --command-line and --input-text, {file}, {name} (the file's name without its
extension), {index} (from 1) and the parameters are replaced by their values.
FILE and --param together submit every combination for each file.
"""


def describe(commands: Any, common: argparse.ArgumentParser) -> None:  # noqa: ANN401  argparse's own
    """Add the command."""
    submit = commands.add_parser(
        "submit",
        parents=[common],
        help="submit workunits; all are created, or none",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    submit.add_argument("app", metavar="APP", help="the app that computes them")
    submit.add_argument(
        "files", metavar="FILE", nargs="*", default=[], help="input files, one per workunit"
    )
    _describe_sources(submit)
    _describe_workunits(submit)
    _describe_batch(submit)
    submit.set_defaults(command=submit_work, extra_names_target="files")


def _describe_sources(submit: argparse.ArgumentParser) -> None:
    what = submit.add_argument_group("which workunits")
    what.add_argument("--from-file", metavar="LIST", help="a file with one path of a FILE per line")
    what.add_argument(
        "--count", type=argument_type(positive), metavar="N", help="repeat each N times"
    )
    what.add_argument(
        "--param",
        type=argument_type(parameter),
        action="append",
        default=[],
        metavar="NAME=VALUES",
        help="1..1000, 0.0..1.0..0.1, a,b,c or @FILE with one value per line; several combine",
    )
    what.add_argument(
        "--ndjson", metavar="FILE", help="a JSON object per workunit and line; - reads stdin"
    )


def _describe_workunits(submit: argparse.ArgumentParser) -> None:
    each = submit.add_argument_group("each workunit")
    each.add_argument("--command-line", metavar="WORDS", help="arguments of the program")
    each.add_argument(
        "--open-name", metavar="NAME", default="in", help="name under which FILE is opened"
    )
    each.add_argument(
        "--input-text", metavar="TEXT", help="content of the input, in place of a FILE"
    )
    each.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="[NAME=]FILE",
        help="a file that all workunits read, uploaded once, and the name under which it is opened",
    )
    each.add_argument(
        "--output",
        action="append",
        metavar="NAME[:SIZE]",
        help="output file and its maximal size (default: those of the app, or out)",
    )
    each.add_argument(
        "--quorum", type=argument_type(positive), metavar="N", help="results that must agree"
    )
    each.add_argument(
        "--max-errors", type=argument_type(non_negative), metavar="N", help=HELP["max_errors"]
    )
    each.add_argument(
        "--deadline", type=argument_type(duration), metavar="T", help=HELP["deadline"]
    )
    each.add_argument("--priority", type=int, metavar="N", help="higher priorities are sent first")
    each.add_argument("--takes", type=argument_type(duration), metavar="T", help=HELP["takes"])
    each.add_argument("--fpops", type=float, metavar="N", help=HELP["fpops"])
    each.add_argument("--memory", type=argument_type(size), metavar="SIZE", help=HELP["memory"])
    each.add_argument("--disk", type=argument_type(size), metavar="SIZE", help=HELP["disk"])
    each.add_argument(
        "--field",
        type=argument_type(_field),
        action="append",
        default=[],
        metavar="NAME=JSON",
        help="any other field of the API's workunits",
    )


def _describe_batch(submit: argparse.ArgumentParser) -> None:
    batch = submit.add_argument_group("the batch")
    batch.add_argument("--batch", metavar="NAME", help="name (default: a generated one)")
    batch.add_argument("--after", metavar="BATCH", help="wait until this batch is done")
    batch.add_argument(
        "--after-any", action="store_true", help="with --after: also if workunits of it failed"
    )
    batch.add_argument(
        "--expires", type=argument_type(duration), metavar="T", help="abort it after this time"
    )
    batch.add_argument(
        "--end-by", type=argument_type(moment), metavar="TIME", help="abort it at this time (UTC)"
    )
    batch.add_argument(
        "--accelerate-tail", action="store_true", help="send its last results to fast hosts"
    )
    batch.add_argument(
        "--meta",
        type=argument_type(_meta),
        action="append",
        default=[],
        metavar="K=V",
        help="your metadata; V is JSON or text",
    )
    batch.add_argument(
        "--key", metavar="KEY", help="a repeat with the same key creates nothing twice"
    )
    batch.add_argument("--watch", action="store_true", help="watch it until it is complete")


def _meta(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"{text!r} is not a note.", "write --meta study=7.")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _field(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    try:
        return name, json.loads(value if equals else "?")
    except ValueError:
        hint = "write --field max_timeouts=5 or --field keywords='\"1,2\"'."
        raise UsageError(f"{text!r} is not a field.", hint) from None


class _SendingState:
    """How much of a request was sent, for the progress bars and for Ctrl-C."""

    def __init__(self, bars: TransferBars) -> None:
        self._bars = bars
        #: Whether a request was started, and whether all of its body may have arrived.
        self.has_begun = self.may_be_whole = False

    def update(self, activity: str, done: int, total: int | None) -> None:
        """Record progress of the SDK and draw it."""
        if activity == "sending":
            self.has_begun = True
            # The chunk after the counted ones may be in transit.
            self.may_be_whole = self.may_be_whole or total is None or done + CHUNK_BYTES >= total
        self._bars.update(activity, done, total)


def _interrupted(
    draft: DraftBatch | None, sending: _SendingState, key: str, options: argparse.Namespace
) -> Interrupted:
    """Return the error for Ctrl-C, which describes what happened to the workunits."""
    sent = None if draft is None else draft.abandoned
    if draft is not None and sent is not None:
        batch = f"batch {sent.batch_name} ({sent.batch_id})"
        if draft.is_aborted:
            return Interrupted(f"Interrupted: {batch} was aborted; none of it is computed.")
        if draft.is_shared:
            return Interrupted(
                f"Interrupted: {batch} had workunits before. Workunits that were sent stay in it.",
                f"scientist list workunits {sent.batch_id} shows all; scientist cancel WORKUNIT... "
                "cancels some of them.",
            )
        hint = f"scientist cancel {sent.batch_id} cancels it."
        return Interrupted(f"Interrupted: {batch} exists and could not be aborted.", hint)
    if not sending.may_be_whole:
        return Interrupted("Interrupted: nothing was submitted.")
    name = options.batch or batch_name(options.app, key)
    return Interrupted(
        f"Interrupted: the project may still take the workunits, as batch {name}: all were sent.",
        f"in a few seconds, scientist watch {name} shows it; scientist cancel {name} cancels it.",
    )


def submit_work(context: Context) -> int:
    """Carry out `submit`."""
    options = context.options
    with ExitStack() as stack:
        works, total = works_of(options, stack)
        batch_options = _batch_options(options)
        key = options.key or submission_key()
        draft: DraftBatch | None = None
        with TransferBars(context.err, live=context.is_live) as bars:
            sending = _SendingState(bars)
            try:
                with context.project.batch(
                    options.batch,
                    app=options.app,
                    key=key,
                    total=total,
                    on_progress=sending.update,
                    **batch_options,
                ) as draft:
                    for work in works:
                        draft.add(work)
            except Unreachable as error:
                if not sending.has_begun:
                    raise
                raise _unknown_outcome(error, key, options) from None
            except KeyboardInterrupt:
                raise _interrupted(draft, sending, key, options) from None
    summary = draft.send()
    for warning in summary.warnings:
        context.warn(warning)
    facts = {**_facts(summary), "key": key}
    if options.watch and context.json:
        context.line({"kind": "submitted", **facts})
    else:
        context.answer(facts, _summary_text(options.app, summary))
    return watch(context, draft.batch) if options.watch else OK


def _batch_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the keyword arguments of `Project.batch` from the options."""
    arguments: dict[str, Any] = {
        "quorum": options.quorum,
        "max_errors": options.max_errors,
        "deadline": options.deadline,
        "priority": options.priority,
        "outputs": [output_of(text) for text in options.output or ()] or None,
        "input_files": [shared_of(text) for text in options.input],
        "meta": dict(options.meta),
        "after": options.after,
        "after_any": options.after_any or None,
        "expire_at": options.end_by,
        "expires": options.expires,
        "accelerate_tail": options.accelerate_tail or None,
        "takes": options.takes,
        "fpops": options.fpops,
        "memory": options.memory,
        "disk": options.disk,
    }
    return arguments | fields_of(dict(options.field))


def _unknown_outcome(error: Unreachable, key: str, options: argparse.Namespace) -> Unreachable:
    """Return the error for a project that became unreachable during a request."""
    option = "" if options.key else f" with --key {key}"
    hint = f"repeat the same command{option}: the workunits are created only once."
    return Unreachable(f"{error.sentence} The project may have created the workunits.", hint)


def _facts(summary: SubmissionSummary) -> dict[str, Any]:
    facts = asdict(summary)
    return {
        "batch": {"id": facts.pop("batch_id"), "name": facts.pop("batch_name")},
        **{name: list(v) if isinstance(v, tuple) else v for name, v in facts.items()},
    }


def _summary_text(app: str, summary: SubmissionSummary) -> Text:
    batch_id = summary.batch_id
    return Text.assemble(
        f"submitted {count(summary.count, 'workunit')} of {app}: batch ",
        (summary.batch_name, "bold"),
        f" ({batch_id})\n",
        (f"  scientist watch {batch_id}    scientist fetch {batch_id} DIR", "dim"),
    )
