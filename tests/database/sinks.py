"""Assimilators for tests that run in the test's own process."""

from __future__ import annotations

from typing import Any

from scheduler.models import Team
from tests.conftest import NOON

#: What was handed over to `remember`, and what happens before it returns.
handed_over: list[Any] = []
before_returning: list[Any] = []


def remember(assimilation: Any) -> None:
    """Keep what was handed over."""
    handed_over.append(assimilation)
    for act in before_returning:
        act()


#: What `ask` returns, or raises.
answers: list[Any] = []


def ask(assimilation: Any) -> Any:
    """Do what the test wants."""
    answer = answers.pop(0) if answers else None
    if isinstance(answer, Exception):
        raise answer
    return answer[0] if isinstance(answer, tuple) else answer


def fail(assimilation: Any) -> None:
    """Take nothing."""
    message = f"no room for {assimilation.workunit_name}"
    raise OSError(message)


def write_a_row(assimilation: Any) -> None:
    """Write to our own database, and stumble over workunits named so."""
    Team.objects.create(name=assimilation.workunit_name, created_at=NOON)
    if "stumble" in assimilation.workunit_name:
        raise OSError("after the row was written")


write_a_row.transactional = True  # type: ignore[attr-defined]
