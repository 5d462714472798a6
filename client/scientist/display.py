"""What people see: bars, tables and timelines; plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from types import TracebackType
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

from scientist.models import BatchInfo, Look, Wait
from scientist.models import Progress as Figures
from scientist.words import count, local, nbytes, rate, span

#: How each status is painted, in the order in which workunits go through them.
STYLES = {
    "done": "green",
    "validating": "cyan",
    "in_progress": "blue",
    "unsent": "bright_black",
    "waiting": "magenta",
    "failed": "red",
}
#: What nobody computes yet is drawn as a line, not as a bar.
_FAINT = {"unsent", "waiting"}
_WIDTH = 44
#: The cause of work that hosts have.
_COMPUTING = "computing"
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def words(status: str) -> str:
    """A status as people say it."""
    return status.replace("_", " ")


def painted(status: str) -> Text:
    """A status in its colour."""
    return Text(words(status), style=STYLES.get(status, ""))


def pairs(rows: Mapping[str, RenderableType | None]) -> Table:
    """Names and values, one pair a line; those without a value are left out."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows.items():
        if value is not None and value != "":
            table.add_row(name, value)
    return table


# Batches


def strip(figures: Figures, width: int = _WIDTH) -> Text:
    """All workunits of a batch as one bar; whatever there is of a kind takes at least a cell."""
    parts = {name: getattr(figures, name) for name in STYLES if getattr(figures, name)}
    total = max(figures.total, 1)
    cells = {name: max(1, round(number * width / total)) for name, number in parts.items()}
    # Rounding must neither lengthen nor shorten it: the longest part makes up for it.
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


def picture(batch: BatchInfo, figures: Figures, now: datetime, waits: Sequence[Wait] = ()) -> Group:
    """A batch as it stands: a bar of all, a bar of each kind, rate and time left, or the reason."""
    head = Text.assemble(
        (batch.name, "bold"), ("  ·  ", "dim"), batch.app, ("  ·  ", "dim"), f"batch {batch.id}"
    )
    percent = Text.assemble(
        strip(figures), "  ", (f"{_percent(figures)} %", "bold"), (" of ", "dim"),
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
            Text(words(name), style=f"{faint}{style if number else ''}".strip()),
            Text(count(number), style="bold" if number else "dim"),
            _share(number, figures.total, style, faint=name in _FAINT),
        )
    return Group(Text(), head, percent, Text(), table, Text(), _outlook(figures, now, waits))


def _percent(figures: Figures) -> int:
    """How much is over, in percent; 100 only if all is."""
    if figures.is_complete:
        return 100
    return min(99, int(100 * figures.over / max(figures.total, 1)))


def _outlook(figures: Figures, now: datetime, waits: Sequence[Wait]) -> Text:
    if figures.is_complete:
        done, failed = count(figures.done), count(figures.failed)
        if figures.failed:
            return Text.assemble(
                ("complete", "bold"), f": {done} done, ", (f"{failed} failed", "red")
            )
        return Text.assemble(("complete", "bold green"), f": all {done} done")
    parts = [Text(rate(figures.rate_per_second or 0.0), style="bold")]
    shown = reasons(figures, waits)
    if figures.seconds_left is not None and figures.rate_per_second:
        until = now + timedelta(seconds=figures.seconds_left)
        clock = f"{until:%H:%M}" if figures.seconds_left < 86400 else f"{until:%d %b %H:%M}"  # noqa: PLR2004
        parts.append(Text.assemble((span(figures.seconds_left), "bold"), f" left, about {clock}"))
    elif not shown:
        parts.append(Text("nobody can say yet how long it takes", style="dim"))
    outlook = Text("  ·  ", style="dim").join(parts)
    for sentence_of_wait in shown:
        outlook.append(f"\n{sentence_of_wait}", "yellow")
    return outlook


def reasons(figures: Figures, waits: Sequence[Wait]) -> list[str]:
    """Why open work does not move; what is being computed is a reason while nothing else moves."""
    if figures.is_complete:
        return []
    is_moving = bool(figures.rate_per_second)
    return [one.sentence for one in waits if one.cause != _COMPUTING or not is_moving]


def sentence(batch: BatchInfo, figures: Figures, now: datetime) -> str:
    """The same as one line of a log."""
    kinds = [name for name in STYLES if getattr(figures, name) or name in {"done", "failed"}]
    parts = [f"{_percent(figures)} %"]
    parts += [f"{count(getattr(figures, name))} {words(name)}" for name in kinds]
    if not figures.is_complete:
        parts.append(rate(figures.rate_per_second or 0.0))
        if figures.seconds_left is not None and figures.rate_per_second:
            parts.append(f"{span(figures.seconds_left)} left")
    return f"{now:%H:%M:%S} {batch.name}: {' · '.join(parts)}"


class Watching:
    """A batch drawn again at each look; without a terminal a line at each change."""

    def __init__(self, console: Console, batch: BatchInfo, *, live: bool) -> None:
        self._console, self._batch = console, batch
        self._live = (
            Live(console=console, refresh_per_second=4, auto_refresh=False) if live else None
        )
        self._troubles: tuple[str, ...] = ()
        self._causes: set[str] = set()

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, look: Look, now: datetime) -> None:
        """Draw it."""
        silence = _silence(look)
        if self._live is not None:
            waits = look.troubles.waits
            parts: list[RenderableType] = [picture(self._batch, look.progress, now, waits)]
            parts += [Text(one, style="red") for one in look.troubles.sentences]
            parts += [Text(silence, style="yellow")] if silence else []
            self._live.update(Group(*parts), refresh=True)
            return
        said = []
        if look.is_news:
            line = f"{now:%H:%M:%S} {self._batch.name}: {silence}"
            said.append(line if silence else sentence(self._batch, look.progress, now))
        news = [one for one in look.troubles.sentences if one not in self._troubles]
        news += self._new_waits(look)
        said += [f"{now:%H:%M:%S} {self._batch.name}: {one}" for one in news]
        self._troubles = look.troubles.sentences
        if said:
            print("\n".join(said), flush=True)

    def _new_waits(self, look: Look) -> list[str]:
        """The sentences of causes that the look before did not have: numbers alone are no news."""
        waits = () if look.progress.is_complete else look.troubles.waits
        # The progress counts what is being computed.
        waits = tuple(one for one in waits if one.cause != _COMPUTING)
        news = [one.sentence for one in waits if one.cause not in self._causes]
        self._causes = {one.cause for one in waits}
        return news


def _silence(look: Look) -> str:
    if look.silent_since is None:
        return ""
    return f"no answer from the project since {local(look.silent_since)[11:]}; asking again"


# Transfers


class Transfers:
    """Bars for what takes a while: reading, hashing, uploading, sending; nothing if not live."""

    def __init__(self, console: Console, *, live: bool) -> None:
        self._progress = Progress(
            TextColumn("{task.description}", style="bold"),
            BarColumn(_WIDTH - 8, complete_style="green", finished_style="green"),
            TaskProgressColumn(),
            _Amount(),
            TimeRemainingColumn(compact=True),
            console=console,
            transient=True,
        )
        self._live = live
        self._tasks: dict[str, TaskID] = {}
        self._told: dict[str, float] = {}

    def __enter__(self) -> Self:
        if self._live:
            self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live:
            self._progress.stop()

    def tell(self, what: str, done: int, total: int | None) -> None:
        """Draw how far something is; some times a second at most."""
        if not self._live:
            return
        at = time.monotonic()
        if what in self._tasks and done != total and at - self._told[what] < 0.05:  # noqa: PLR2004
            return
        self._told[what] = at
        if what not in self._tasks:
            self._tasks[what] = self._progress.add_task(what, total=total)
        self._progress.update(self._tasks[what], completed=done, total=total)


class _Amount(DownloadColumn):
    """Bytes, but workunits where workunits are counted."""

    def render(self, task: object) -> Text:
        """Write how many of how many."""
        if getattr(task, "total", None) is None:
            return Text(nbytes(getattr(task, "completed", 0.0)), style="progress.download")
        described = getattr(task, "description", "")
        column = MofNCompleteColumn if described in {"reading", "workunits"} else DownloadColumn
        return column().render(task)  # type: ignore[arg-type]  # a Task
