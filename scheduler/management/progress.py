"""Shows the progress bars of commands on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn


@contextmanager
def progress_bar(
    title: str, *columns: ProgressColumn, total: Callable[[], int]
) -> Iterator[Callable[..., None]]:
    """Show a progress bar if standard error is a terminal.

    Yields a function `advance(amount, at="")`.  `amount` is the progress since the last call, and
    `at` is the text of a column with `{task.fields[at]}`.  `total` returns the amount at the end;
    it is only called if the bar is shown.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda *_, **__: None
        return
    bar = Progress(TextColumn(title), BarColumn(), *columns, console=console, transient=True)
    with bar:
        task = bar.add_task(title, total=total(), at="")
        yield lambda advance, at="": bar.update(task, advance=advance, at=at)
