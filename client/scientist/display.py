"""Prints progress bars and tables on a terminal, and plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from scientist.models import BatchInfo, Snapshot, Wait
from scientist.models import Progress as BatchProgress
from scientist.words import count, local, nbytes, rate, span

#: The style of each status, in the order of display.
STYLES = {
    "done": "green",
    "validating": "cyan",
    "in_progress": "blue",
    "unsent": "bright_black",
    "waiting": "magenta",
    "failed": "red",
}
#: Statuses of workunits without a result on a host; they are drawn as a line instead of a bar.
_FAINT = {"unsent", "waiting"}
_WIDTH = 44
#: The `cause` of a Wait for results that hosts are computing.
_COMPUTING = "computing"
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def status_text(status: str) -> str:
    """Return a status as words; for example, `in_progress` becomes "in progress"."""
    return status.replace("_", " ")


def styled_status(status: str) -> Text:
    """Return a status as words in its color."""
    return Text(status_text(status), style=STYLES.get(status, ""))


def key_value_table(rows: Mapping[str, RenderableType | None]) -> Table:
    """Return a table with a name and its value in each line, without None and empty values."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows.items():
        if value is not None and value != "":
            table.add_row(name, value)
    return table


# Batches


def stacked_bar(figures: BatchProgress, width: int = _WIDTH) -> Text:
    """Return a bar with a part of at least one cell for each status that has workunits."""
    parts = {name: getattr(figures, name) for name in STYLES if getattr(figures, name)}
    total = max(figures.total, 1)
    cells = {name: max(1, round(number * width / total)) for name, number in parts.items()}
    # The longest part absorbs the rounding errors, so that the bar has the full width.
    if cells:
        longest = max(cells, key=lambda name: cells[name])
        cells[longest] = max(1, cells[longest] + width - sum(cells.values()))
    bar = Text()
    for name, number in cells.items():
        bar.append(("━" if name in _FAINT else "█") * number, STYLES[name])
    return bar if cells else Text("━" * width, style="bright_black")


def _share(number: int, total: int, style: str, *, faint: bool, width: int = 24) -> Text:
    eighths = round(number * width * 8 / max(total, 1))
    eighths = max(eighths, 1) if number else 0
    whole, rest = divmod(eighths, 8)
    if faint:
        return Text("━" * max(whole, 1 if number else 0), style=style)
    return Text("█" * whole + (_EIGHTHS[rest] if rest else ""), style=style)


def batch_panel(
    batch: BatchInfo, figures: BatchProgress, now: datetime, waits: Sequence[Wait] = ()
) -> Group:
    """Return the panel of a batch, with its bars, its rate, the time left and its waits."""
    head = Text.assemble(
        (batch.name, "bold"), ("  ·  ", "dim"), batch.app, ("  ·  ", "dim"), f"batch {batch.id}"
    )
    percent = Text.assemble(
        stacked_bar(figures), "  ", (f"{_percent(figures)} %", "bold"), (" of ", "dim"),
        (count(figures.total, "workunit"), "dim"),
    )  # fmt: skip
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    for name, style in STYLES.items():
        number = getattr(figures, name)
        if not number and name == "waiting":
            continue
        faint = "" if number else "dim "
        table.add_row(
            Text(status_text(name), style=f"{faint}{style if number else ''}".strip()),
            Text(count(number), style="bold" if number else "dim"),
            _share(number, figures.total, style, faint=name in _FAINT),
        )
    return Group(Text(), head, percent, Text(), table, Text(), _outlook(figures, now, waits))


def _percent(figures: BatchProgress) -> int:
    """Return the percentage of finished workunits, which is 100 only if all are finished."""
    if figures.is_complete:
        return 100
    return min(99, int(100 * figures.finished / max(figures.total, 1)))


def _outlook(figures: BatchProgress, now: datetime, waits: Sequence[Wait]) -> Text:
    if figures.is_complete:
        done, failed = count(figures.done), count(figures.failed)
        if figures.failed:
            return Text.assemble(
                ("complete", "bold"), f": {done} done, ", (f"{failed} failed", "red")
            )
        return Text.assemble(("complete", "bold green"), f": all {done} done")
    parts = [Text(rate(figures.rate_per_second or 0.0), style="bold")]
    # Waits for computing hosts are shown only while no workunit finishes.
    is_moving = bool(figures.rate_per_second)
    sentences = [wait.sentence for wait in waits if wait.cause != _COMPUTING or not is_moving]
    if figures.seconds_left is not None and figures.rate_per_second:
        until = now + timedelta(seconds=figures.seconds_left)
        clock = f"{until:%H:%M}" if figures.seconds_left < 86400 else f"{until:%d %b %H:%M}"  # noqa: PLR2004
        parts.append(Text.assemble((span(figures.seconds_left), "bold"), f" left, about {clock}"))
    elif not sentences:
        parts.append(Text("the time left is not known yet", style="dim"))
    outlook = Text("  ·  ", style="dim").join(parts)
    for sentence in sentences:
        outlook.append(f"\n{sentence}", "yellow")
    return outlook


def progress_line(batch: BatchInfo, figures: BatchProgress, now: datetime) -> str:
    """Return a line with the time of day and the progress of a batch."""
    shown = [name for name in STYLES if getattr(figures, name) or name in {"done", "failed"}]
    parts = [f"{_percent(figures)} %"]
    parts += [f"{count(getattr(figures, name))} {status_text(name)}" for name in shown]
    if not figures.is_complete:
        parts.append(rate(figures.rate_per_second or 0.0))
        if figures.seconds_left is not None and figures.rate_per_second:
            parts.append(f"{span(figures.seconds_left)} left")
    return f"{now:%H:%M:%S} {batch.name}: {' · '.join(parts)}"


class BatchDisplay:
    """Shows the progress of a batch.

    If `live` is set, a panel is redrawn; otherwise, a line is printed for each change.
    """

    def __init__(self, console: Console, batch: BatchInfo, *, live: bool) -> None:
        self._console, self._batch = console, batch
        self._live = Live(console=console, auto_refresh=False) if live else None
        self._troubles: tuple[str, ...] = ()
        self._causes: set[str] = set()

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, snapshot: Snapshot, now: datetime) -> None:
        """Redraw the panel, or print a line for each change since the previous snapshot."""
        outage = _outage(snapshot)
        if self._live is not None:
            waits = snapshot.troubles.waits
            parts: list[RenderableType] = [batch_panel(self._batch, snapshot.progress, now, waits)]
            parts += [Text(error, style="red") for error in snapshot.troubles.sentences]
            parts += [Text(outage, style="yellow")] if outage else []
            self._live.update(Group(*parts), refresh=True)
            return
        lines = []
        if snapshot.has_changed:
            line = f"{now:%H:%M:%S} {self._batch.name}: {outage}"
            lines.append(line if outage else progress_line(self._batch, snapshot.progress, now))
        news = [error for error in snapshot.troubles.sentences if error not in self._troubles]
        news += self._new_waits(snapshot)
        lines += [f"{now:%H:%M:%S} {self._batch.name}: {sentence}" for sentence in news]
        self._troubles = snapshot.troubles.sentences
        if lines:
            print("\n".join(lines), flush=True)

    def _new_waits(self, snapshot: Snapshot) -> list[str]:
        """Return the sentences of waits whose cause the previous snapshot did not have."""
        waits = () if snapshot.progress.is_complete else snapshot.troubles.waits
        # The progress line already shows the number of workunits that are being computed.
        waits = tuple(wait for wait in waits if wait.cause != _COMPUTING)
        news = [wait.sentence for wait in waits if wait.cause not in self._causes]
        self._causes = {wait.cause for wait in waits}
        return news


def _outage(snapshot: Snapshot) -> str:
    if snapshot.unreachable_since is None:
        return ""
    return f"no answer from the project since {local(snapshot.unreachable_since)[11:]}; retrying"


# TransferBars


class TransferBars:
    """The progress bars of an upload or a download, with a bar for each activity.

    Nothing is drawn unless `live` is set.
    """

    def __init__(self, console: Console, *, live: bool) -> None:
        self._progress = Progress(
            TextColumn("{task.description}", style="bold"),
            BarColumn(_WIDTH - 8, complete_style="green", finished_style="green"),
            TaskProgressColumn(),
            _Amount(),
            TimeRemainingColumn(compact=True),
            console=console,
            transient=True,
            disable=not live,
        )
        self._tasks: dict[str, TaskID] = {}
        self._drawn_at: dict[str, float] = {}

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._progress.disable:  # before rich 15, `stop` prints a line if disabled
            self._progress.stop()

    def update(self, activity: str, done: int, total: int | None) -> None:
        """Update the bar of an activity, at most 20 times a second until the activity ends."""
        if self._progress.disable:
            return
        now = time.monotonic()
        is_known = activity in self._tasks
        if is_known and done != total and now - self._drawn_at[activity] < 0.05:  # noqa: PLR2004
            return
        self._drawn_at[activity] = now
        if not is_known:
            self._tasks[activity] = self._progress.add_task(activity, total=total)
        self._progress.update(self._tasks[activity], completed=done, total=total)


class _Amount(DownloadColumn):
    """A column with an amount in bytes, or in workunits if the activity counts workunits."""

    def render(self, task: object) -> Text:
        """Return the amount done and the total, or only the amount if the total is unknown."""
        if getattr(task, "total", None) is None:
            return Text(nbytes(getattr(task, "completed", 0.0)), style="progress.download")
        described = getattr(task, "description", "")
        column = MofNCompleteColumn if described in {"reading", "workunits"} else DownloadColumn
        return column().render(task)  # type: ignore[arg-type]  # a Task
