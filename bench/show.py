"""Prints the progress and the figures of the bench."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.figures import Figure


class Show:
    """Prints figures to the console, with a progress bar if the console is a terminal."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._began = time.monotonic()

    @contextmanager
    def bar(self, what: str, total: float) -> Iterator[Callable[[float], None]]:
        """Show a progress bar within the block; yield a function that advances the bar."""
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
        """Print a figure, with the time since the start of the bench."""
        self.console.print(
            f"[dim]{self._clock()}[/] {figure.what}: [bold]{number(figure.value)}[/] {figure.unit}",
            highlight=False,
        )

    def print_line(self, sentence: str) -> None:
        self.console.print(sentence, highlight=False, markup=False)

    def _clock(self) -> str:
        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        return f"{minutes}:{seconds:02}"


def number(value: float | None) -> str:
    """Return a number as text with two or three significant digits.

    From 100 on, all digits before the decimal point are shown.  None becomes an empty string.
    """
    if value is None:
        return ""
    for minimum, form in ((100, ",.0f"), (10, ".1f"), (0.1, ".2f")):
        if abs(value) >= minimum:
            return f"{value:{form}}"
    return f"{value:.2g}"
