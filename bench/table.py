"""The tables: figures beside the peer's and pgbench's, and statements."""

from __future__ import annotations

from collections.abc import Mapping

from rich.table import Table

from bench import peer
from bench.figures import Run, Statements


def of_figures(run: Run, before: Mapping[str, float]) -> Table:
    """One line per figure."""
    table = Table(box=None, pad_edge=False, caption_justify="left")
    table.title = f"{run.at}{', quick' if run.quick else ''}"
    table.add_column("what", no_wrap=True)
    for heading in ("per s", "unit", "BOINC", "× BOINC", "× -S", "× -N", "last", "CPU-ms each"):
        table.add_column(heading, justify="left" if heading == "unit" else "right", no_wrap=True)
    select, update = run.rate("pgbench_select"), run.rate("pgbench_update")
    for figure in run.figures:
        theirs = peer.RATES.get(figure.key)
        table.add_row(
            figure.what,
            _number(figure.rate),
            figure.unit,
            _number(theirs),
            _ratio(figure.rate, theirs),
            _ratio(figure.rate, select),
            _ratio(figure.rate, update),
            _change(figure.rate, before.get(figure.key)),
            " ".join(f"{name} {used:.2f}" for name, used in figure.cpu_ms.items()),
        )
    return table


def remarks(run: Run) -> list[str]:
    """What must be known to read the figures."""
    machine = ", ".join(f"{what} {value}" for what, value in run.machine.items())
    said = [
        machine,
        f"BOINC: {peer.SOURCE}; last: change since the run before",
        "× -S, × -N: ours to pgbench's select-only and simple-update in this run",
    ]
    for figure in run.figures:
        notes = figure.notes
        if remark := peer.REMARKS.get(figure.key):
            notes = (*notes, remark)
        if notes:
            said.append(f"{figure.what}: {'; '.join(notes)}")
    return said


def of_statements(lines: list[Statements]) -> Table:
    """One line per thing that talks to the database."""
    table = Table("statements of", box=None, pad_edge=False)
    table.add_column("by size")
    for line in lines:
        counts = ", ".join(f"{size}: {count}" for size, count in line.counts.items())
        table.add_row(line.what, counts)
    return table


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _ratio(ours: float, theirs: float | None) -> str:
    if not theirs:
        return ""
    ratio = ours / theirs
    return f"{ratio:.1f}" if ratio >= 1 else f"{ratio:.2g}"


def _change(rate: float, before: float | None) -> str:
    return f"{100 * (rate / before - 1):+.0f} %" if before else ""
