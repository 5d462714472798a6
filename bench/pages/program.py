"""Loads a few rows, then many, visits every page with both, and prints the table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from django.core.management import call_command
from rich import box
from rich.console import Console
from rich.table import Table

from bench.figures import BenchError
from bench.pages import rows, visits
from bench.pages.rows import Sizes
from bench.pages.visits import Visit
from bench.show import Show
from bench.stage import VAR
from project.embedded_postgres import EmbeddedPostgres
from scheduler import signing

MAX_MS: Final = 100.0
FEW: Final = 2_000
_COLUMNS: Final = 110


def perform(results: int, timed_visits: int) -> int:
    """Measure the pages with `FEW` and with `results` results; return the exit status.

    Times are medians of `timed_visits` visits, at least 1.  The status is 1 if a page takes longer
    than `MAX_MS`, or more statements with more rows.
    """
    console = Console()
    if not console.is_terminal:
        console = Console(width=_COLUMNS)
    show = Show(console)
    EmbeddedPostgres(VAR).convert()
    call_command("migrate", verbosity=0, interactive=False)
    EmbeddedPostgres(VAR).grant_parameters("session_replication_role")
    signing.ensure_keys()
    try:
        originals = rows.make_originals()
        rows.create_account(visits.CHIEF, is_staff=True)
        few, many = Sizes.of(FEW), Sizes.of(max(FEW, results))
        rows.load(originals, Sizes(), few, lambda _count: None)
        before = dict(visits.visit_all(timed_visits))
        with show.bar("loading workunits", many.workunits - few.workunits) as advance:
            rows.load(originals, few, many, advance)
        after = dict(visits.visit_all(timed_visits))
    except BenchError as error:
        show.print_line(f"FAILED {error}")
        return 1
    title = f"Pages with {results:,} results, {many.hosts:,} computers, {many.accounts:,} accounts"
    console.print(_table(title, before, after))
    faults = list(_faults(before, after))
    for fault in faults:
        show.print_line(f"FAILED {fault}")
    if not faults:
        show.print_line(f"{len(after)} pages, each below {MAX_MS:.0f} ms except downloads.")
    return 1 if faults else 0


def _table(title: str, before: Mapping[str, Visit], after: Mapping[str, Visit]) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, header_style="dim")
    table.add_column("page", overflow="fold")
    for heading in ("statements", f"ms with {FEW:,}", "ms", "first visit, ms"):
        table.add_column(heading, justify="right", no_wrap=True)
    for path, visit in sorted(after.items(), key=lambda item: -item[1].ms):
        few = before.get(path)
        table.add_row(
            path,
            str(visit.statements),
            "" if few is None else f"{few.ms:.1f}",
            f"{visit.ms:.1f}",
            f"{visit.first_ms:.1f}",
        )
    return table


def _faults(before: Mapping[str, Visit], after: Mapping[str, Visit]) -> list[str]:
    """Return a sentence for each page that is too slow, or needs more statements for more rows."""
    faults = [
        f"{path} takes {visit.ms:.0f} ms, more than {MAX_MS:.0f} ms."
        for path, visit in after.items()
        if visit.ms > MAX_MS and path not in visits.DOWNLOADS
    ]
    for path, visit in after.items():
        few = before.get(path)
        is_download = path in visits.DOWNLOADS  # which reads rows in blocks
        if few is not None and visit.statements > few.statements and not is_download:
            faults.append(
                f"{path} takes {visit.statements} statements, with few rows {few.statements}."
            )
    return faults
