"""`submit`: workunits from files, from parameters or from a stream of JSON lines."""

from __future__ import annotations

import argparse
import json
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

from rich.text import Text

from scientist.commands.context import HELP, OK, Context, positive, typed, whole
from scientist.commands.sources import output_of, shared_of, works_of
from scientist.commands.watching import watch
from scientist.display import Transfers
from scientist.drafts import DraftBatch
from scientist.errors import Interrupted, Unreachable, UsageError
from scientist.inputs import fields_of
from scientist.models import Submitted
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

{file}, {name} (the file's name without its ending), {index} (from 1) and the
parameters are put into --command-line and --input-text. FILE and --param
together give each file every combination.
"""


def describe(commands: Any, common: argparse.ArgumentParser) -> None:  # noqa: ANN401  argparse's own
    """Add the command."""
    submit = commands.add_parser(
        "submit",
        parents=[common],
        help="submit workunits, all or none",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    submit.add_argument("app", metavar="APP", help="the app that computes them")
    submit.add_argument("files", metavar="FILE", nargs="*", default=[], help="an input file each")
    _describe_sources(submit)
    _describe_workunits(submit)
    _describe_batch(submit)
    submit.set_defaults(command=submit_work, names_go_to="files")


def _describe_sources(submit: argparse.ArgumentParser) -> None:
    what = submit.add_argument_group("which workunits")
    what.add_argument("--from-file", metavar="LIST", help="a file with the path of a FILE a line")
    what.add_argument("--count", type=typed(positive), metavar="N", help="so many of each")
    what.add_argument(
        "--param",
        type=typed(parameter),
        action="append",
        default=[],
        metavar="NAME=VALUES",
        help="1..1000, 0.0..1.0..0.1, a,b,c or @FILE with a value a line; several combine",
    )
    what.add_argument(
        "--ndjson", metavar="FILE", help="a workunit per line in JSON; - reads standard input"
    )


def _describe_workunits(submit: argparse.ArgumentParser) -> None:
    each = submit.add_argument_group("each workunit")
    each.add_argument("--command-line", metavar="WORDS", help="what the program is called with")
    each.add_argument("--open-name", metavar="NAME", default="in", help="what FILE is opened as")
    each.add_argument("--input-text", metavar="TEXT", help="an input written here, not in a FILE")
    each.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="[NAME=]FILE",
        help="a file that all of them read, sent once; NAME is what it is opened as",
    )
    each.add_argument(
        "--output",
        action="append",
        metavar="NAME[:SIZE]",
        help="what each brings back, and how long at most (default: as the app has it, or out)",
    )
    each.add_argument("--quorum", type=typed(positive), metavar="N", help="results that must agree")
    each.add_argument("--max-errors", type=typed(whole), metavar="N", help=HELP["max_errors"])
    each.add_argument("--deadline", type=typed(duration), metavar="T", help=HELP["deadline"])
    each.add_argument("--priority", type=int, metavar="N", help="higher is sent first")
    each.add_argument("--takes", type=typed(duration), metavar="T", help=HELP["takes"])
    each.add_argument("--fpops", type=float, metavar="N", help=HELP["fpops"])
    each.add_argument("--memory", type=typed(size), metavar="SIZE", help=HELP["memory"])
    each.add_argument("--disk", type=typed(size), metavar="SIZE", help=HELP["disk"])
    each.add_argument(
        "--field",
        type=typed(_field),
        action="append",
        default=[],
        metavar="NAME=JSON",
        help="any other field of the API's workunits",
    )


def _describe_batch(submit: argparse.ArgumentParser) -> None:
    batch = submit.add_argument_group("their batch")
    batch.add_argument("--batch", metavar="NAME", help="a name of yours (default: one is made)")
    batch.add_argument("--after", metavar="BATCH", help="wait until this one has its answers")
    batch.add_argument("--after-any", action="store_true", help="also if some of it failed")
    batch.add_argument("--expires", type=typed(duration), metavar="T", help="given up after this")
    batch.add_argument("--end-by", type=typed(moment), metavar="TIME", help="given up then (UTC)")
    batch.add_argument(
        "--accelerate-tail", action="store_true", help="its last results to quick hosts"
    )
    batch.add_argument(
        "--meta",
        type=typed(_meta),
        action="append",
        default=[],
        metavar="K=V",
        help="a note of yours; V is JSON or a text",
    )
    batch.add_argument("--key", metavar="KEY", help="the same key makes the same workunits once")
    batch.add_argument("--watch", action="store_true", help="then watch it until it is complete")


def _meta(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"{text!r} is no note.", "write --meta study=7.")
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
        raise UsageError(f"{text!r} is no field.", hint) from None


class _Sending:
    """How much of a request was sent, for the bars and for Ctrl-C."""

    def __init__(self, bars: Transfers) -> None:
        self._bars = bars
        #: Whether a request was begun, and whether all of one may have arrived.
        self.has_begun = self.may_be_whole = False

    def tell(self, what: str, done: int, of: int | None) -> None:
        """Take what the SDK tells."""
        if what == "sending":
            self.has_begun = True
            # The chunk after those that are counted may be on its way.
            self.may_be_whole = self.may_be_whole or of is None or done + CHUNK_BYTES >= of
        self._bars.tell(what, done, of)


def _interrupted(
    draft: DraftBatch | None, sending: _Sending, key: str, options: argparse.Namespace
) -> Interrupted:
    """Ctrl-C: what became of the workunits, as far as that can be known."""
    sent = None if draft is None else draft.abandoned
    if draft is not None and sent is not None:
        batch = f"batch {sent.batch_name} ({sent.batch_id})"
        if draft.is_withdrawn:
            return Interrupted(f"Interrupted: {batch} was withdrawn; none of it is computed.")
        if draft.is_shared:
            return Interrupted(
                f"Interrupted: {batch} had workunits before. What was sent of these stays in it.",
                f"scientist list workunits {sent.batch_id} shows all; scientist cancel WORKUNIT... "
                "cancels some of them.",
            )
        hint = f"scientist cancel {sent.batch_id} cancels it."
        return Interrupted(f"Interrupted: {batch} exists and could not be withdrawn.", hint)
    if not sending.may_be_whole:
        return Interrupted("Interrupted: nothing was submitted.")
    name = options.batch or batch_name(options.app, key)
    return Interrupted(
        f"Interrupted: the project may still take the workunits, as batch {name}: all were sent.",
        f"scientist watch {name} shows it in some seconds, scientist cancel {name} cancels it.",
    )


def submit_work(context: Context) -> int:
    """Carry out `submit`."""
    options = context.options
    with ExitStack() as stack:
        works, total = works_of(options, stack)
        said = _said(options)
        key = options.key or submission_key()
        draft: DraftBatch | None = None
        with Transfers(context.err, live=context.is_live) as bars:
            sending = _Sending(bars)
            try:
                with context.project.batch(
                    options.batch, app=options.app, key=key, total=total, tell=sending.tell, **said
                ) as draft:
                    for work in works:
                        draft.add(work)
            except Unreachable as error:
                raise _perhaps(error, key, options) if sending.has_begun else error from None
            except KeyboardInterrupt:
                raise _interrupted(draft, sending, key, options) from None
    made = draft.send()
    for warning in made.warnings:
        context.warn(warning)
    facts = {**_facts(made), "key": key}
    if options.watch and context.json:
        context.line({"kind": "submitted", **facts})
    else:
        context.answer(facts, _sentence(options.app, made))
    return watch(context, draft.batch) if options.watch else OK


def _said(options: argparse.Namespace) -> dict[str, Any]:
    """What the options say of all workunits and of their batch."""
    said: dict[str, Any] = {
        "quorum": options.quorum,
        "max_errors": options.max_errors,
        "deadline": options.deadline,
        "priority": options.priority,
        "outputs": [output_of(one) for one in options.output or ()] or None,
        "input_files": [shared_of(one) for one in options.input],
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
    return said | fields_of(dict(options.field))


def _perhaps(error: Unreachable, key: str, options: argparse.Namespace) -> Unreachable:
    """The project went away while it was being told: nobody knows what it took."""
    again = "" if options.key else f" --key {key}"
    hint = f"give the same command again{' with' + again if again else ''}: it makes them once."
    return Unreachable(f"{error.sentence} Whether it took the workunits is not known.", hint)


def _facts(made: Submitted) -> dict[str, Any]:
    facts = asdict(made)
    return {
        "batch": {"id": facts.pop("batch_id"), "name": facts.pop("batch_name")},
        **{name: list(one) if isinstance(one, tuple) else one for name, one in facts.items()},
    }


def _sentence(app: str, made: Submitted) -> Text:
    return Text.assemble(
        f"submitted {count(made.count, 'workunit')} of {app}: batch ",
        (made.batch_name, "bold"),
        f" ({made.batch_id})\n",
        (f"  scientist watch {made.batch_id}    scientist fetch {made.batch_id} DIR", "dim"),
    )
