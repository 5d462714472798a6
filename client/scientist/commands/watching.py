"""The commands `watch` and `fetch`: progress and outputs of a batch."""

from __future__ import annotations

import argparse
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.text import Text

from scientist.batches import INTERVAL, Batch
from scientist.commands.context import FAILED_WORKUNITS, OK, Context, argument_type
from scientist.display import BatchDisplay, TransferBars
from scientist.fetching import FetchSummary, fetch
from scientist.models import Progress, Snapshot, Troubles
from scientist.placing import Layout
from scientist.words import count, duration, nbytes

LOST = 1


def describe(commands: Any, common: argparse.ArgumentParser) -> None:  # noqa: ANN401  argparse's own
    """Add the two commands."""
    watch = commands.add_parser(
        "watch", parents=[common], help="show the progress of a batch until it is complete"
    )
    watch.add_argument("batch", metavar="BATCH", help="its id or its name")
    watch.add_argument(
        "--interval",
        type=argument_type(duration),
        metavar="T",
        help="time between two polls (default 2s)",
    )
    watch.set_defaults(command=watch_batch)
    bring = commands.add_parser("fetch", parents=[common], help="download the outputs of a batch")
    bring.add_argument("batch", metavar="BATCH", help="its id or its name")
    bring.add_argument("folder", metavar="DIR", type=Path, help="target folder; created if missing")
    bring.add_argument("--follow", action="store_true", help="continue until the batch is complete")
    bring.add_argument(
        "--failed", action="store_true", help="also download the stderr of failed workunits"
    )
    bring.add_argument(
        "--flat", action="store_true", help="write DIR/WORKUNIT.EXT instead of DIR/WORKUNIT/NAME"
    )
    bring.set_defaults(command=fetch_batch)


def now() -> datetime:
    """Return the current time in the local time zone."""
    return datetime.now(UTC).astimezone()  # noqa: TID251  the edge reads the clock


def watch_batch(context: Context) -> int:
    """Carry out `watch`."""
    batch = context.batch(context.options.batch)
    interval = context.options.interval
    return watch(context, batch, interval.total_seconds() if interval is not None else INTERVAL)


def watch(context: Context, batch: Batch, interval: float = INTERVAL) -> int:
    """Show a batch until it is complete; return the exit code.  Ctrl-C only ends the command."""
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
            context.err.print(
                Text(
                    f"\nThe batch continues on the project.\n"
                    f"  watch it   scientist watch {batch.id}\n"
                    f"  cancel it  scientist cancel {batch.id}"
                )
            )
        raise
    return FAILED_WORKUNITS if last.failed else OK


def _print_json(context: Context, batch: Batch, snapshot: Snapshot, previous: Troubles) -> None:
    """Print the changes of a snapshot as lines of JSON."""
    about = {"batch": {"id": batch.id, "name": batch.name}}
    if snapshot.has_changed and snapshot.unreachable_since is not None:
        context.line({"kind": "no_answer", **about, "since": snapshot.unreachable_since})
    elif snapshot.has_changed:
        context.line({"kind": "progress", **about} | asdict(snapshot.progress))
    if replace(snapshot.troubles, waits=()) != replace(previous, waits=()):
        troubles = asdict(snapshot.troubles)
        del troubles["waits"]
        context.line({"kind": "troubles", **about} | troubles)
    if snapshot.troubles.waits != previous.waits:
        waits = [asdict(wait) for wait in snapshot.troubles.waits]
        context.line({"kind": "waits", **about, "waits": waits})


def fetch_batch(context: Context) -> int:
    """Carry out `fetch`."""
    options = context.options
    batch = context.batch(options.batch)
    layout = Layout(options.folder, flat=options.flat, failed=options.failed)
    with TransferBars(context.err, live=context.is_live) as bars:

        def on_progress(workunits: int, of: int, size: int, of_size: int) -> None:
            bars.update("workunits", workunits, of)
            bars.update("outputs", size, of_size)

        summary = fetch(
            context.project.transport,
            batch.info,
            layout,
            follow=options.follow,
            on_progress=on_progress,
        )
    facts = {"batch": {"id": batch.id, "name": batch.name}, "folder": str(options.folder)}
    context.answer({**facts, **asdict(summary)}, _summary_line(options.folder, summary))
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
