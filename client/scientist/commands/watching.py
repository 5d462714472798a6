"""The commands `watch` (progress of a batch) and `fetch` (outputs of a batch)."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

from rich.text import Text

from scientist.batches import INTERVAL, Batch
from scientist.commands.context import FAILED_WORKUNITS, OK, Context, about
from scientist.commands.options import Commands
from scientist.display import BatchDisplay, TransferBars
from scientist.fetching import FetchSummary, fetch
from scientist.models import Progress, Snapshot, Troubles
from scientist.placing import Layout
from scientist.words import count, duration, nbytes

LOST = 1


def describe(commands: Commands) -> None:
    """Add `watch` and `fetch` to the parser."""
    text = "show the progress of a batch until it is complete"
    add = commands.add("watch", watch_batch, help=text).add_argument
    add("batch", metavar="BATCH", help="id or name of the batch")
    add("--interval", type=duration, metavar="T", help="time between two polls (default 2s)")
    add = commands.add("fetch", fetch_batch, help="download the outputs of a batch").add_argument
    add("batch", metavar="BATCH", help="id or name of the batch")
    add("folder", metavar="DIR", type=Path, help="target folder; created if missing")
    add("--follow", action="store_true", help="continue until the batch is complete")
    add("--failed", action="store_true", help="also download the stderr of failed workunits")
    add("--flat", action="store_true", help="write DIR/WORKUNIT.EXT instead of DIR/WORKUNIT/NAME")


def now() -> datetime:
    """Return the current time in the local time zone."""
    return datetime.now(UTC).astimezone()  # noqa: TID251  the edge reads the clock


def watch_batch(context: Context) -> int:
    batch = context.batch(context.options.batch)
    interval = context.options.interval
    return watch(context, batch, interval.total_seconds() if interval is not None else INTERVAL)


def watch(context: Context, batch: Batch, interval: float = INTERVAL) -> int:
    """Show the progress of a batch until it is complete; return the exit code.

    The code is `FAILED_WORKUNITS` if workunits failed.  Ctrl-C ends the command but not the batch.
    """
    last = Progress()
    try:
        with BatchDisplay(context.out, batch.info, live=context.is_live) as display:
            troubles = Troubles()
            for snapshot in batch.snapshots(interval):
                last = snapshot.progress
                if context.json:
                    _print_json(context, batch, snapshot, troubles)
                else:
                    display.show(snapshot, now())
                troubles = snapshot.troubles
    except KeyboardInterrupt:
        if not context.json:
            text = (
                "\nThe batch continues on the server.\n"
                f"  watch it   scientist watch {batch.id}\n"
                f"  cancel it  scientist cancel {batch.id}"
            )
            context.err.print(Text(text))
        raise
    return FAILED_WORKUNITS if last.failed else OK


def _print_json(context: Context, batch: Batch, snapshot: Snapshot, previous: Troubles) -> None:
    """Print a line of JSON for each kind of change since the previous snapshot.

    `previous` has the troubles of the previous snapshot.
    """
    if snapshot.has_changed and snapshot.unreachable_since is not None:
        context.line({"kind": "no_answer", **about(batch), "since": snapshot.unreachable_since})
    elif snapshot.has_changed:
        context.line({"kind": "progress", **about(batch), **asdict(snapshot.progress)})
    troubles = asdict(snapshot.troubles)
    waits = troubles.pop("waits")
    if replace(snapshot.troubles, waits=()) != replace(previous, waits=()):
        context.line({"kind": "troubles", **about(batch), **troubles})
    if snapshot.troubles.waits != previous.waits:
        context.line({"kind": "waits", **about(batch), "waits": waits})


def fetch_batch(context: Context) -> int:
    """Download the outputs of a batch; return the exit code.

    The code is `LOST` if the project has lost outputs, and `FAILED_WORKUNITS` if workunits failed
    and --follow is given.
    """
    options = context.options
    batch = context.batch(options.batch)
    layout = Layout(options.folder, flat=options.flat, failed=options.failed)
    with TransferBars(context.err, live=context.is_live) as bars:

        def on_progress(workunits: int, of: int, size: int, of_size: int) -> None:
            bars.update("workunits", workunits, of)
            bars.update("outputs", size, of_size)

        transport, follow = context.project.transport, options.follow
        summary = fetch(transport, batch.info, layout, follow=follow, on_progress=on_progress)
    facts = {**about(batch), "folder": str(options.folder), **asdict(summary)}
    context.answer(facts, _summary_line(options.folder, summary))
    if summary.lost:
        context.warn(
            f"the project has lost outputs of {count(len(summary.lost), 'workunit')}: "
            f"{', '.join(summary.lost[:5])}. Hint: submit them again."
        )
        return LOST
    return FAILED_WORKUNITS if options.follow and summary.failed else OK


def _summary_line(folder: Path, summary: FetchSummary) -> Text:
    fetched, size = count(summary.brought, "workunit"), nbytes(summary.nbytes)
    parts = [f"fetched {fetched} ({size}) into {folder}"]
    if summary.already:
        parts.append(f"{count(summary.already)} already there")
    if summary.failed:
        parts.append(f"{count(len(summary.failed))} failed")
    parts.append("batch complete" if summary.is_complete else "batch not complete yet")
    return Text(" · ".join(parts))
