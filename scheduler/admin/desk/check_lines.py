"""Shows runs of checks: a line of each, and what one of them found."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.urls import reverse

from scheduler.admin.base import duration_label
from scheduler.models import CheckRun, Result, Workunit

#: A name of a violation that is a noun and a number -> the model that its page shows.
_NOUNS: Final = {
    "account": "account",
    "app": "app",
    "host": "host",
    "task list": "bundle",
    "team": "team",
    "workunit": "workunit",
}
_NUMBERED: Final = re.compile(rf"({'|'.join(_NOUNS)}) (\d{{1,18}})(?:, (?:app|result) \d+)?")
_OF_RESULT: Final = re.compile(r"workunit \d+, result (\d{1,18})")


@dataclass(frozen=True, slots=True)
class RunLine:
    """A line of the table of runs.

    `at` is the time of the last change of the run's state.  `tone` is the CSS class of the light:
    good, bad or uneasy.
    """

    check: str
    scope: str
    by: str
    at: datetime | None
    duration: str
    checked: str
    tone: str
    outcome: str
    url: str


def line(run: CheckRun) -> RunLine:
    """Return the line of a run, without a statement."""
    tone, outcome = _outcome(run)
    return RunLine(
        check=run.get_kind_display(),
        scope=scope(run),
        by=requester(run),
        at=run.ended_at or run.started_at or run.requested_at,
        duration=_duration(run),
        checked=progress(run),
        tone=tone,
        outcome=outcome,
        url=reverse("admin:scheduler_checkrun_change", args=[run.pk]),
    )


def requester(run: CheckRun) -> str:
    """Return the person who requested a run, or where it was started."""
    if run.requested_at is None:
        return "from a shell"
    return "a deleted account" if run.requested_by is None else run.requested_by.email


def scope(run: CheckRun) -> str:
    """Return what a run checked, in words; a new kind of check needs words of its own."""
    if run.kind == CheckRun.Kind.CREDIT:
        words = f"app {run.options['app']}" if "app" in run.options else "all sums"
        return f"{words}, corrected" if run.options.get("applied") else words
    if run.requested_at is not None:
        return "without files"
    return "with the content of files" if run.options.get("digests") else "all"


def progress(run: CheckRun) -> str:
    """Return the number of checked invariants or sums; for an open run, also the total."""
    if run.ended_at is None and run.to_check is not None:
        return f"{run.checked:,} of {run.to_check:,}"
    return f"{run.checked:,}"


def _duration(run: CheckRun) -> str:
    if run.started_at is None or run.ended_at is None:
        return "–"
    return duration_label(run.ended_at - run.started_at)


def _outcome(run: CheckRun) -> tuple[str, str]:
    """Return the tone of a run's light, and its words."""
    if run.ended_at is None:
        waits = "waits for the housekeeper" if run.started_at is None else "is running"
        so_far = f", {run.violations:,} found" if run.violations else ""
        return ("bad" if run.violations else "uneasy"), f"{waits}{so_far}"
    if run.violations and run.options.get("applied"):
        return "good", f"{run.violations:,} corrected"
    if run.violations:
        return "bad", f"{run.violations:,} found"
    if run.unresolved:
        return "bad", f"none new, {run.unresolved:,} of earlier runs"
    if run.skipped:
        return "uneasy", f"none, but {run.skipped:,} not checked"
    return "good", "none"


# The page of one run


def details(run: CheckRun) -> dict[str, Any]:
    """Return the context of the page of a run, with links to the rows; at most two statements."""
    findings = [*run.findings, *run.carried]
    links = _links(name for finding in findings for name, _detail in finding["rows"])
    is_of_credit = run.kind == CheckRun.Kind.CREDIT
    corrects = is_of_credit and run.unresolved
    return {
        "run": line(run),
        "command": "manage.py recompute_credit --verify" if is_of_credit else "manage.py fsck",
        "is_open": run.ended_at is None,
        "findings": [_shown(finding, links) for finding in run.findings],
        "carried": [_shown(finding, links) for finding in run.carried],
        "not_checked": run.not_checked,
        "correction": "manage.py recompute_credit --apply" if corrects else "",
    }


def _shown(finding: dict[str, Any], links: dict[str, str]) -> dict[str, Any]:
    rows = [(name, links.get(name, ""), detail) for name, detail in finding["rows"]]
    return {**finding, "rows": rows, "more": max(0, finding["count"] - len(rows))}


def _links(names: Iterable[str]) -> dict[str, str]:
    """Return the addresses of the pages of the rows with these names, as far as they are known."""
    urls: dict[str, str] = {}
    others = set()
    for name in names:
        if match := _OF_RESULT.fullmatch(name):
            urls[name] = _url("result", match[1])
        elif match := _NUMBERED.fullmatch(name):
            urls[name] = _url(_NOUNS[match[1]], match[2])
        else:
            others.add(name)
    return urls | _links_of_names(others)


def _links_of_names(names: Collection[str]) -> dict[str, str]:
    """Return the addresses of the workunits and results that have one of these names."""
    urls: dict[str, str] = {}
    if not names:
        return urls
    for model in (Workunit, Result):
        rows = model._default_manager.filter(name__in=names).values_list("name", "pk")
        urls |= {name: _url(model._meta.model_name or "", pk) for name, pk in rows}
    return urls


def _url(model: str, number: int | str) -> str:
    return reverse(f"admin:scheduler_{model}_change", args=[number])
