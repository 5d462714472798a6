"""Prints events as lines, and shows the state as a table on a terminal."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from volunteer.plan import processors_taken
from volunteer.preferences import working_rules
from volunteer.reasons import activity, wait_of
from volunteer.records import HeldResult, Phase, Project, State

if TYPE_CHECKING:
    from volunteer.config import Rules

_MAX_ROWS = 12
_ORDER = (Phase.RUNNING, Phase.UPLOADING, Phase.REPORTABLE, Phase.READY, Phase.FETCHING)


def stamp(text: str, now: float) -> str:
    """Return one line with the local time and the text."""
    return f"{time.strftime('%H:%M:%S', time.localtime(now))} {printable(text)}"


def printable(text: str) -> str:
    r"""Return a text in one line, with control characters replaced by `?`.

    >>> printable("done\x1b[2J \n now")
    'done?[2J now'
    """
    return "".join(sign if sign.isprintable() else "?" for sign in " ".join(text.split()))


class Lines:
    """Prints lines to standard output, and flushes it after each line."""

    def print_line(self, text: str, now: float) -> None:
        """Print one line with the local time."""
        print(stamp(text, now), flush=True)

    def show(self, state: State, now: float) -> None:
        """Do nothing, because only `LiveTable` shows the state."""

    def close(self) -> None:
        """Do nothing, because only `LiveTable` must restore the terminal."""


class LiveTable(Lines):
    """Prints lines above a table that is redrawn four times a second."""

    def __init__(self, console: Console, rules: Rules) -> None:
        self._rules = rules
        self._live = Live(console=console, refresh_per_second=4, transient=True)
        self._live.start()

    def print_line(self, text: str, now: float) -> None:
        self._live.console.print(Text(stamp(text, now)))

    def show(self, state: State, now: float) -> None:
        self._live.update(picture(state, now, working_rules(self._rules, state).slots))

    def close(self) -> None:
        self._live.stop()


def for_terminal(rules: Rules) -> Lines:
    """Return a `LiveTable` if standard output is a terminal, else `Lines`."""
    console = Console()
    return LiveTable(console, rules) if console.is_terminal else Lines()


def picture(state: State, now: float, slots: int) -> Group:
    """Return a headline and a table of at most 12 results for each project.

    `slots` is the number of slots that programs may use.
    """
    parts: list[Text | Table] = []
    for project in state.projects.values():
        table = Table(box=None, padding=(0, 1), show_header=False)
        results = sorted(
            project.results.values(), key=lambda held_result: _ORDER.index(held_result.phase)
        )
        for held_result in results[:_MAX_ROWS]:
            table.add_row(
                Text(printable(held_result.name)),
                "suspended" if held_result.is_suspended else held_result.phase.value,
                _bar(state, project, held_result, now),
                _time(held_result, now),
            )
        more = len(results) - _MAX_ROWS
        if more > 0:
            table.add_row(f"and {more} more", "", "", "")
        parts += [Text(printable(_headline(state, project, now, slots)), style="bold"), table]
    return Group(*parts)


def _headline(state: State, project: Project, now: float, slots: int) -> str:
    """Return the line above the results of a project.

    The line contains the busy slots, the number of results, the credit, the current activity and
    the reason why no work is requested.
    """
    name = project.account.project_name or project.url
    taken = processors_taken(state)
    wait = wait_of(state, project, now)
    words = [
        name,
        f"{taken:g} of {slots} slots busy" if taken else "idle",
        f"{len(project.results)} results",
        f"credit {project.account.user_total_credit:.2f}",
        activity(project, now),
        # A client without free slots requests no work, so only reasons without a time are shown.
        wait.sentence(now) if wait and (taken < slots or not wait.until) else "",
    ]
    return " · ".join(word for word in words if word)


def fraction_done(state: State, project: Project, held_result: HeldResult, now: float) -> float:
    """Return the fraction done of a running result.

    It is the fraction that the program reported, or else an estimate from the elapsed time. The
    expected run time may be far too low, so the estimate stays below 1.
    """
    progress = state.progress.get((project.url, held_result.name))
    if progress is not None and progress.fraction_done:
        return progress.fraction_done
    workunit, version = project.workunit_of(held_result), project.version_of(held_result)
    expected = max(workunit.rsc_fpops_est / max(version.flops, 1.0), 1.0)
    ran = held_result.elapsed_at(now)
    return ran / (ran + expected) if ran > expected / 2 else ran * 2 / 3 / expected


def _bar(state: State, project: Project, held_result: HeldResult, now: float) -> ProgressBar | str:
    if held_result.phase != Phase.RUNNING:
        return ""
    completed = fraction_done(state, project, held_result, now)
    return ProgressBar(total=1.0, completed=completed, width=24)


def _time(held_result: HeldResult, now: float) -> str:
    ran = held_result.elapsed_at(now)
    return f"{ran:.0f} s" if ran else ""
