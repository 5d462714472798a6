"""`watch` and `fetch`: how far it is, and what came of it."""

from __future__ import annotations

import argparse
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.text import Text

from scientist.batches import INTERVAL, Batch
from scientist.commands.context import FAILED_WORKUNITS, OK, Context, typed
from scientist.display import Transfers, Watching
from scientist.fetching import Fetched, fetch
from scientist.models import Look, Progress, Troubles
from scientist.placing import Layout
from scientist.words import count, duration, nbytes

LOST = 1


def describe(commands: Any, common: argparse.ArgumentParser) -> None:  # noqa: ANN401  argparse's own
    """Add the two commands."""
    watch = commands.add_parser(
        "watch", parents=[common], help="show how far a batch is until it is complete"
    )
    watch.add_argument("batch", metavar="BATCH", help="its id or its name")
    watch.add_argument(
        "--interval", type=typed(duration), metavar="T", help="between two looks (default 2s)"
    )
    watch.set_defaults(command=watch_batch)
    bring = commands.add_parser("fetch", parents=[common], help="bring the outputs of a batch")
    bring.add_argument("batch", metavar="BATCH", help="its id or its name")
    bring.add_argument("folder", metavar="DIR", type=Path, help="made if there is none")
    bring.add_argument("--follow", action="store_true", help="go on until the batch is complete")
    bring.add_argument(
        "--failed", action="store_true", help="bring the stderr of failed workunits as well"
    )
    bring.add_argument(
        "--flat", action="store_true", help="DIR/WORKUNIT.EXT in place of DIR/WORKUNIT/NAME"
    )
    bring.set_defaults(command=fetch_batch)


def now() -> datetime:
    """The reader's clock."""
    return datetime.now(UTC).astimezone()  # noqa: TID251  the edge reads the clock


def watch_batch(context: Context) -> int:
    """Carry out `watch`."""
    batch = context.batch(context.options.batch)
    every = context.options.interval
    return watch(context, batch, every.total_seconds() if every is not None else INTERVAL)


def watch(context: Context, batch: Batch, interval: float = INTERVAL) -> int:
    """Show a batch until it is complete; Ctrl-C only stops looking."""
    last = Progress()
    try:
        with Watching(context.out, batch.info, live=context.is_live) as shown:
            troubles = Troubles()
            for look in batch.looks(interval):
                last = look.progress
                if context.json:
                    _write(context, batch, look, troubles)
                else:
                    shown.show(look, now())
                troubles = look.troubles
    except KeyboardInterrupt:
        if not context.json:
            context.err.print(
                Text(
                    f"\nThe batch goes on without being watched.\n"
                    f"  look again  scientist watch {batch.id}\n"
                    f"  stop it     scientist cancel {batch.id}"
                )
            )
        raise
    return FAILED_WORKUNITS if last.failed else OK


def _write(context: Context, batch: Batch, look: Look, before: Troubles) -> None:
    """Write a look as lines of JSON, if it has news."""
    about = {"batch": {"id": batch.id, "name": batch.name}}
    if look.is_news and look.silent_since is not None:
        context.line({"kind": "no_answer", **about, "since": look.silent_since})
    elif look.is_news:
        context.line({"kind": "progress", **about} | asdict(look.progress))
    if replace(look.troubles, waits=()) != replace(before, waits=()):
        troubles = asdict(look.troubles)
        del troubles["waits"]
        context.line({"kind": "troubles", **about} | troubles)
    if look.troubles.waits != before.waits:
        waits = [asdict(wait) for wait in look.troubles.waits]
        context.line({"kind": "waits", **about, "waits": waits})


def fetch_batch(context: Context) -> int:
    """Carry out `fetch`."""
    options = context.options
    batch = context.batch(options.batch)
    layout = Layout(options.folder, flat=options.flat, failed=options.failed)
    with Transfers(context.err, live=context.is_live) as bars:

        def tell(workunits: int, of: int, size: int, of_size: int) -> None:
            bars.tell("workunits", workunits, of)
            bars.tell("outputs", size, of_size)

        done = fetch(
            context.project.transport, batch.info, layout, follow=options.follow, tell=tell
        )
    facts = {"batch": {"id": batch.id, "name": batch.name}, "folder": str(options.folder)}
    context.answer({**facts, **asdict(done)}, _fetched(options.folder, done))
    if done.lost:
        context.warn(
            f"the project has lost outputs of {count(len(done.lost), 'workunit')}: "
            f"{', '.join(done.lost[:5])}. Hint: submit them again."
        )
        return LOST
    return FAILED_WORKUNITS if options.follow and done.failed else OK


def _fetched(folder: Path, done: Fetched) -> Text:
    parts = [f"fetched {count(done.brought, 'workunit')} ({nbytes(done.nbytes)}) into {folder}"]
    if done.already:
        parts.append(f"{count(done.already)} {'were' if done.already > 1 else 'was'} there")
    if done.failed:
        parts.append(f"{count(len(done.failed))} failed")
    parts.append("that is all" if done.is_complete else "more will come")
    return Text(" · ".join(parts))
