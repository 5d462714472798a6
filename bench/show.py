"""How the bench tells what it does: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.figures import Figure


class Show:
    """The console and, on a terminal, the bar of what is going on."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._began = time.monotonic()

    @contextmanager
    def bar(self, what: str, total: float) -> Iterator[Callable[[float], None]]:
        """Show that something goes on; yields what is called with each bit of progress."""
        if not self.console.is_terminal:
            yield lambda _amount: None
            return
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        with Progress(
            *columns,
            TimeElapsedColumn(),
            console=self.console,
            transient=True,
            refresh_per_second=4,
        ) as progress:
            task = progress.add_task(what, total=total)
            yield lambda amount: progress.advance(task, amount)

    def figure(self, figure: Figure) -> None:
        """Say one figure as soon as it is known."""
        self.console.print(
            f"[dim]{self._clock()}[/] {figure.what}: [bold]{number(figure.value)}[/] {figure.unit}",
            highlight=False,
        )

    def say(self, sentence: str) -> None:
        """Say something else."""
        self.console.print(sentence, highlight=False, markup=False)

    def _clock(self) -> str:
        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        return f"{minutes}:{seconds:02}"


def number(value: float | None) -> str:
    """A number as people read it: three digits or more, none that means nothing."""
    if value is None:
        return ""
    for least, form in ((100, ",.0f"), (10, ".1f"), (0.1, ".2f")):
        if abs(value) >= least:
            return f"{value:{form}}"
    return f"{value:.2g}"
