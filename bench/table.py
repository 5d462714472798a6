"""Prints the tables of figures, processes and SQL statements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench import compare, peer
from bench.figures import SECTIONS, Figure, Run
from bench.show import number

#: From this fraction of an aim on, a figure is yellow, because the difference may be noise.
_NEARLY = 0.9
#: Relative changes up to this fraction are treated as noise.
_NOISE = 0.1


def show(run: Run, before: Mapping[str, Mapping[str, Any]], console: Console) -> None:
    """Print the results of a run.

    `before` maps the key of a figure to the previous run with this figure.
    """
    console.print()
    console.print(of_figures(run, before))
    for line in remarks(run):
        console.print(line)
    if run.processes:
        console.print()
        console.print(of_processes(run))
    if run.statements:
        console.print()
        console.print(of_statements(run))
    for failure in run.failures:
        console.print(Text(f"FAILED {failure}", style="bold red"))


def of_figures(run: Run, before: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return the table of figures, which has a section for each kind of measurement."""
    minutes, seconds = divmod(round(run.took_seconds), 60)
    name = "" if run.size == "usual" else f", {run.size}"
    table = Table(
        title=f"Manyhands, {run.at[:16].replace('T', ' ')}{name}, {minutes} min {seconds} s",
        title_style="bold",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
        header_style="dim",
    )
    table.add_column("", no_wrap=True)
    for heading in ("", "", "aim", "", "BOINC", "×", "× -S", "× -N", "last"):
        left = heading == "" and len(table.columns) in {2, 4}
        table.add_column(heading, justify="left" if left else "right", no_wrap=True)
    for place, section in enumerate(SECTIONS):
        lines = [figure for figure in run.figures if figure.section == place]
        if lines:
            table.add_row(Text(section, style="bold cyan"))
        for figure in lines:
            table.add_row(*_cells(figure, run, before.get(figure.key)))
        if lines:
            table.add_row()
    return table


def _cells(figure: Figure, run: Run, before: Mapping[str, Any] | None) -> list[Text]:
    peer_rate, aim = peer.RATES.get(figure.key), compare.aim(figure)
    cells = [Text(f"  {figure.what}"), Text(number(figure.value), style="bold")]
    cells.append(Text(figure.unit, style="dim"))
    if aim is None:
        cells += [Text(), Text()]
    else:
        sign = "≤" if aim.at_most else "≥"
        cells += [Text(f"{sign} {number(aim.value)}", style="dim"), _verdict(aim.share(figure))]
    cells.append(Text(number(peer_rate), style="dim"))
    cells.append(_times(compare.peer_ratio(figure)))
    for workload in (compare.SELECT, compare.UPDATE):
        rate = compare.pgbench_rate(run.pgbench, workload)
        # The rate of reads is not comparable with times, which include durable writes.
        is_comparable = figure.section and (figure.is_rate or workload == compare.UPDATE)
        ratio = compare.ratio(figure, rate) if is_comparable else None
        cells.append(Text(_small(ratio)))
    cells.append(_change(compare.change(figure, run, before) if figure.section else None))
    return cells


def _verdict(share: float) -> Text:
    if share >= 1:
        return Text("met", style="green")
    return Text(f"{100 * share:.0f} %", style="yellow" if share >= _NEARLY else "red")


def _times(ratio: float | None) -> Text:
    if ratio is None:
        return Text()
    return Text(f"{ratio:.1f}" if ratio >= 1 else f"{ratio:.2f}", style="" if ratio >= 1 else "red")


def _small(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def _change(times: float | None) -> Text:
    if times is None:
        return Text()
    style = "dim"
    if abs(times - 1) > _NOISE:
        style = "green" if times > 1 else "red"
    return Text(f"{100 * (times - 1):+.0f} %", style=style)


def remarks(run: Run) -> list[Text]:
    """Return the legend of the table and the notes on the figures."""
    machine = ", ".join(f"{what} {value}" for what, value in run.machine.items())
    lines = [
        machine,
        f"aim: met, or the percentage reached; BOINC: {peer.SOURCE}; ×: ratio to BOINC's rate",
        "× -S, × -N: ratio to pgbench's rates; for a time, the transactions of one client in it",
        "last: change of the ratio to pgbench since the previous run",
    ]
    for figure in run.figures:
        notes = figure.notes
        if remark := peer.REMARKS.get(figure.key):
            notes = (*notes, remark)
        if figure.cpu_ms:
            used = ", ".join(f"{name} {spent:.2f}" for name, spent in figure.cpu_ms.items())
            notes = (*notes, f"CPU-ms each: {used}")
        if notes:
            lines.append(f"{figure.what}: {'; '.join(notes)}")
    return [Text(line, style="dim") for line in lines]


def of_processes(run: Run) -> Table:
    """Return the table of the processes in the pipeline."""
    table = _titled("processes in the pipeline", header_style="dim")
    table.add_column("", no_wrap=True)
    for heading in ("CPU-ms/result", "share", "resident MB", "own MB", "aim"):
        table.add_column(heading, justify="right")
    total = sum(process.cpu_ms for process in run.processes)
    max_mb = peer.AIMS_AT_MOST["memory"]
    for process in run.processes:
        fits = process.own_mb <= max_mb
        table.add_row(
            f"  {process.name}",
            f"{process.cpu_ms:.3f}",
            f"{100 * process.cpu_ms / total:.0f} %",
            number(process.resident_mb) if process.resident_mb else "",
            number(process.own_mb) if process.own_mb else "",
            Text("met" if fits else f"≤ {max_mb:.0f}", style="green" if fits else "red")
            if process.own_mb
            else "",
        )
    table.add_row("  together", f"{total:.3f}", style="bold")
    return table


def of_statements(run: Run) -> Table:
    """Return the table of statements, with a line per operation."""
    table = _titled("statements, by size", show_header=False)
    for line in run.statements:
        counts = ", ".join(f"{size}: {count}" for size, count in line.counts.items())
        table.add_row(f"  {line.what}", counts)
    return table


def _titled(title: str, *, show_header: bool = True, header_style: str = "") -> Table:
    return Table(
        title=title,
        title_style="bold cyan",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        show_header=show_header,
        header_style=header_style,
    )
