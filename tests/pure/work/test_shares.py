"""Fair share: the order in which submitters' workunits are sent."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.work.submission.rules import share_priorities
from scheduler.work.submission.rules.share_priorities import (
    LAST,
    SHARES_OF_A_PROJECT,
    Entitlement,
    schedule,
)
from tests.conftest import NOON

#: A project speed at which 1e9 operations take one second of a submitter with one share.
SPEED = SHARES_OF_A_PROJECT * 1e9
WORK = 60e9


def lined_up(
    count: int, *, share: float, clock: datetime | None = None, now: datetime = NOON
) -> share_priorities.Schedule:
    return schedule(
        [WORK] * count, logical_start_at=clock, entitlement=Entitlement(share, SPEED), now=now
    )


def order(**priorities: tuple[int, ...]) -> list[str]:
    """Return the submitters of workunits in the order of the index: priority, then age."""
    rows = [(-p, i, who) for who, all_ in priorities.items() for i, p in enumerate(all_)]
    return [who for *_, who in sorted(rows)]


def test_each_workunit_starts_where_the_one_before_ends():
    found = lined_up(3, share=1)
    assert [found.priorities[0] - p for p in found.priorities] == [0, 60, 120]
    assert found.priorities[0] == share_priorities.priority_at(NOON)
    assert found.logical_start_at == NOON + timedelta(seconds=180)


def test_earlier_start_has_a_higher_priority_and_all_are_negative():
    assert share_priorities.priority_at(NOON) > share_priorities.priority_at(
        NOON + timedelta(seconds=1)
    )
    assert share_priorities.priority_at(share_priorities.EPOCH - timedelta(days=1)) == -1


def test_submitters_with_shares_1_and_3_are_served_in_that_ratio():
    sent = order(one=lined_up(1000, share=1).priorities, three=lined_up(3000, share=3).priorities)
    for end in (200, 1000, 4000):
        assert sent[:end].count("one") / end == pytest.approx(0.25, rel=0.05)


@given(st.lists(st.tuples(st.sampled_from(["one", "three"]), st.integers(1, 40)), max_size=30))
def test_shares_do_not_depend_on_the_size_of_submissions(pieces):
    clocks: dict[str, datetime | None] = {"one": None, "three": None}
    priorities: dict[str, list[int]] = {"one": [], "three": []}
    for who, count in [*pieces, ("one", 400), ("three", 1200)]:
        found = lined_up(count, share={"one": 1, "three": 3}[who], clock=clocks[who])
        clocks[who] = found.logical_start_at
        priorities[who] += found.priorities
    sent = order(**{who: tuple(found) for who, found in priorities.items()})[:1600]
    assert sent.count("one") / 1600 == pytest.approx(0.25, rel=0.05)


def test_idle_submitter_accumulates_no_advantage():
    long_ago = NOON - timedelta(days=300)
    assert lined_up(5, share=1, clock=long_ago) == lined_up(5, share=1, clock=None)


def test_clock_ahead_of_the_present_continues_from_its_value():
    ahead = NOON + timedelta(hours=1)
    assert lined_up(1, share=1, clock=ahead).priorities == (share_priorities.priority_at(ahead),)


@given(st.integers(1, 500), st.floats(0.01, 100))
def test_later_submissions_cannot_delay_a_workunit_forever(count, share):
    """Work that is submitted after a workunit's logical start is sent after that workunit."""
    poor = lined_up(count, share=share)
    come = poor.logical_start_at
    rich = lined_up(1000, share=1000, now=come)
    assert max(rich.priorities) <= min(poor.priorities)


def test_zero_share_gets_the_lowest_priority_and_does_not_advance_the_clock():
    found = lined_up(2, share=0)
    assert (found.priorities, found.logical_start_at) == ((LAST, LAST), NOON)


def test_priority_of_extremely_long_work_fits_its_column():
    found = schedule([1e30] * 3, logical_start_at=None, entitlement=Entitlement(1, SPEED), now=NOON)
    assert found.priorities[1:] == (LAST, LAST)
    assert share_priorities.priority_at(found.logical_start_at) == LAST
