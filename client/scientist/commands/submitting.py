"""The command `submit`: submits workunits from files, parameters or JSON lines."""

from __future__ import annotations

import argparse
import json
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.text import Text

from scientist.commands.context import OK, Context
from scientist.commands.options import (
    Commands,
    add_quorum_options,
    add_resource_options,
    positive,
    workunit_fields,
)
from scientist.commands.sources import shared_of, works_of
from scientist.commands.watching import watch
from scientist.display import TransferBars
from scientist.drafts import DraftBatch
from scientist.errors import Interrupted, Unreachable, UsageError
from scientist.graphs import read_graph
from scientist.inputs import fields_of
from scientist.models import SubmissionSummary
from scientist.submission import CHUNK_BYTES, batch_name, submission_key
from scientist.template import parameter
from scientist.words import count, duration, moment

_EPILOG = """\
what is submitted:
  scientist submit fold a.pdb b.pdb                a workunit per file
  scientist submit fold --from-file list.txt       a workunit per listed path
  scientist submit fold --ndjson workunits.ndjson  a workunit per line of JSON
  scientist submit fold --dag graph.json           workunits of a graph
  scientist submit walk --count 100000 --command-line '--seed {index}'
  scientist submit walk --param seed=1..1000 --param t=0.5,1.0 \\
                        --command-line '{seed} {t}'

In --command-line and --input-text, {file}, {name} (the file's name without its
extension), {index} (from 1) and the parameters are replaced by their values.
FILE and --param together submit every combination for each file.
"""


def describe(commands: Commands) -> None:
    """Add `submit` to the parser."""
    submit = commands.add(
        "submit",
        submit_work,
        help="submit workunits; all are created, or none",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    submit.set_defaults(extra_names_target="files")
    submit.add_argument("app", metavar="APP", help="app of the workunits")
    text = "input files, one per workunit"
    submit.add_argument("files", metavar="FILE", nargs="*", default=[], help=text)
    _describe_sources(submit.add_argument_group("which workunits"))
    _describe_workunits(submit.add_argument_group("each workunit"))
    _describe_batch(submit.add_argument_group("the batch"))


def _describe_sources(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--from-file", metavar="LIST", help="a file with the path of one input file per line")
    add("--count", type=positive, metavar="N", help="submit each workunit N times")
    text = (
        "1..1000, 0.0..1.0..0.1, a,b,c or @FILE with one value per line; several options give "
        "all combinations"
    )
    add("--param", type=parameter, metavar="NAME=VALUES", help=text, action="append", default=[])
    add("--ndjson", metavar="FILE", help="a JSON object per workunit and line; - reads stdin")
    text = 'a graph of workunits, as JSON: {"workunits": [{"name": "b", "after": ["a"]}, ...]}'
    add("--dag", metavar="FILE", type=Path, help=text)


def _describe_workunits(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--command-line", metavar="WORDS", help="arguments of the program")
    add("--open-name", metavar="NAME", default="in", help="name under which FILE is opened")
    add("--input-text", metavar="TEXT", help="content of the input, in place of a FILE")
    text = "a file that all workunits read, uploaded once, and the name under which it is opened"
    add("--input", metavar="[NAME=]FILE", help=text, action="append", default=[])
    text = "output file and its maximal size (default: those of the app, or out)"
    add("--output", metavar="NAME[:SIZE]", help=text, action="append")
    add_quorum_options(group)
    add("--priority", type=int, metavar="N", help="higher priorities are sent first")
    add("--queue", metavar="NAME", help="queue that sends the work (see scientist queue list)")
    add_resource_options(group)
    text = "any other field of the API's workunits"
    add("--field", type=_field, metavar="NAME=JSON", help=text, action="append", default=[])


def _describe_batch(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--batch", metavar="NAME", help="name of the batch (default: a generated name)")
    add("--after", metavar="BATCH", help="start when all workunits of BATCH are done")
    add("--after-any", action="store_true", help="with --after: also start if workunits failed")
    add("--expires", type=duration, metavar="T", help="abort the batch after this time")
    add("--end-by", type=moment, metavar="TIME", help="abort the batch at this time (UTC)")
    text = "send the last results of the batch to fast hosts"
    add("--accelerate-tail", action="store_true", help=text)
    text = "send the workunits in task lists of at most N, each to one host"
    add("--bundle-size", type=positive, metavar="N", help=text)
    text = "your metadata; V is JSON or text"
    add("--meta", type=_meta, metavar="K=V", help=text, action="append", default=[])
    text = "idempotency key: a repeated command with the same key creates its workunits once"
    add("--key", metavar="KEY", help=text)
    add("--watch", action="store_true", help="watch the batch until it is complete")


def _meta(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"{text!r} is not metadata.", "write --meta study=7.")
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
    """Tracks how much of a submission was sent, for the progress bars and after Ctrl-C."""

    def __init__(self, bars: TransferBars) -> None:
        self._bars = bars
        #: Whether a request was started, and whether all of its body may have arrived.
        self.has_begun = self.may_be_whole = False

    def update(self, activity: str, done: int, total: int | None) -> None:
        """Record the progress of an activity and update its progress bar."""
        if activity == "sending":
            self.has_begun = True
            # The chunk after the counted ones may be in transit.
            self.may_be_whole = self.may_be_whole or total is None or done + CHUNK_BYTES >= total
        self._bars.update(activity, done, total)


def _interrupted(
    draft: DraftBatch | None, sending: _SendingState, key: str, options: argparse.Namespace
) -> Interrupted:
    """Return the error after Ctrl-C, which describes the outcome of the submission."""
    if draft is not None and (sent := draft.abandoned) is not None:
        batch = f"batch {sent.batch_name} ({sent.batch_id})"
        if draft.is_aborted:
            return Interrupted(f"Interrupted: {batch} was aborted; no workunit is computed.")
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
        f"Interrupted: the project may still create the workunits of batch {name}, "
        "because all of them were sent.",
        f"in a few seconds, scientist watch {name} shows it; scientist cancel {name} cancels it.",
    )


def submit_work(context: Context) -> int:
    """Submit a batch, watch the batch if --watch is set, and return the exit code."""
    options = context.options
    with ExitStack() as stack:
        graph = _graph_of(options)
        works, total = (iter(()), len(graph)) if graph else works_of(options, stack)
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
                    draft.submit_graph(graph)
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


def _graph_of(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the workunits of ``--dag``, or an empty list without this option."""
    if options.dag is None:
        return []
    if options.files or options.from_file or options.ndjson or options.param or options.count:
        hint = "list all workunits in the file."
        raise UsageError("--dag cannot be combined with files, parameters or --ndjson.", hint)
    return read_graph(options.dag)


def _batch_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options as keyword arguments of `Project.batch`."""
    arguments = {
        **workunit_fields(options),
        "priority": options.priority,
        "queue": options.queue,
        "input_files": [shared_of(text) for text in options.input],
        "meta": dict(options.meta),
        "after": options.after,
        "after_any": options.after_any or None,
        "expire_at": options.end_by,
        "expires": options.expires,
        "accelerate_tail": options.accelerate_tail or None,
        "bundle_size": options.bundle_size,
    }
    return arguments | fields_of(dict(options.field))


def _unknown_outcome(error: Unreachable, key: str, options: argparse.Namespace) -> Unreachable:
    """Return the error to raise if the connection broke after the submission began."""
    option = "" if options.key else f" with --key {key}"
    hint = f"repeat the same command{option}: the workunits are created only once."
    return Unreachable(f"{error.sentence} The project may have created the workunits.", hint)


def _facts(summary: SubmissionSummary) -> dict[str, Any]:
    facts = asdict(summary)
    return {"batch": {"id": facts.pop("batch_id"), "name": facts.pop("batch_name")}, **facts}


def _summary_text(app: str, summary: SubmissionSummary) -> Text:
    batch_id = summary.batch_id
    return Text.assemble(
        f"submitted {count(summary.count, 'workunit')} of {app}: batch ",
        (summary.batch_name, "bold"),
        f" ({batch_id})\n",
        (f"  scientist watch {batch_id}    scientist fetch {batch_id} DIR", "dim"),
    )
