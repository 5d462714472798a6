"""Assimilators for tests that run in the test's own process."""

from __future__ import annotations

from typing import Any

from scheduler.models import Team
from tests.conftest import NOON

#: The assimilations given to `remember`, and the calls that it makes before it returns.
handed_over: list[Any] = []
before_returning: list[Any] = []


def remember(assimilation: Any) -> None:
    """Append the assimilation to `handed_over`, then call all of `before_returning`."""
    handed_over.append(assimilation)
    for act in before_returning:
        act()


#: The values that `ask` returns in turn; exceptions are raised.
answers: list[Any] = []


def ask(assimilation: Any) -> Any:
    """Return or raise the next of `answers`; return None after the last."""
    answer = answers.pop(0) if answers else None
    if isinstance(answer, Exception):
        raise answer
    return answer[0] if isinstance(answer, tuple) else answer


def fail(assimilation: Any) -> None:
    """Raise OSError for every workunit."""
    message = f"no room for {assimilation.workunit_name}"
    raise OSError(message)


def write_a_row(assimilation: Any) -> None:
    """Write a row to the project's database; then raise OSError if the name contains "stumble"."""
    Team.objects.create(name=assimilation.workunit_name, created_at=NOON)
    if "stumble" in assimilation.workunit_name:
        raise OSError("after the row was written")


write_a_row.transactional = True  # type: ignore[attr-defined]
