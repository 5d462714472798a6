"""How the bench tells what it does: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.figures import Figure


class Show:
    """The console and, on a terminal, the bar of what is going on."""

    def __init__(self, console: Console) -> None:
        self.console = console

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
        self.console.print(f"{figure.what}: {figure.rate:,.0f} {figure.unit}/s", highlight=False)

    def say(self, sentence: str) -> None:
        """Say something else."""
        self.console.print(sentence, highlight=False, markup=False)
