"""The extension of deadlines by outages of the server."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.results.rules.deadline_moves import Span, is_silent, moved_deadline, uncovered
from tests.builders import later
from tests.conftest import NOON


def span(began, ended):
    return Span(later(hours=began), later(hours=ended))


def overlap(one, other):
    began, ended = max(one.began_at, other.began_at), min(one.ended_at, other.ended_at)
    return max(ended - began, timedelta(0))


@pytest.mark.parametrize(
    ("outage", "hours"),
    [
        (span(1, 3), 2),
        (span(-5, 3), 3),
        (span(-5, 0), 0),
        (span(9, 14), 5),  # 1 h before the deadline at the start of the outage, and 1 h at its end
        (span(10, 14), 0),
        (span(-5, 20), 20),
    ],
)
def test_deadline_moves_by_the_length_of_an_outage(outage, hours):
    found = moved_deadline(later(hours=10), sent_at=NOON, outages=[outage])
    assert found == later(hours=10 + hours)


def test_deadline_that_moves_into_a_second_outage_moves_by_both():
    assert moved_deadline(
        later(hours=10), sent_at=NOON, outages=[span(11, 14), span(2, 4)]
    ) == later(hours=15)


def test_outage_before_the_result_was_sent_does_not_move_the_deadline():
    assert moved_deadline(later(hours=10), sent_at=NOON, outages=[span(-4, -2)]) == later(hours=10)


@pytest.mark.parametrize(
    ("others", "left"),
    [
        ([], [(0, 10)]),
        ([(2, 4)], [(0, 2), (4, 10)]),
        ([(-3, 5), (4, 6)], [(6, 10)]),
        ([(-1, 11)], []),
        ([(8, 12), (0, 1)], [(1, 8)]),
        ([(12, 14)], [(0, 10)]),
    ],
)
def test_uncovered_parts_of_a_span(others, left):
    found = uncovered(span(0, 10), [span(*one) for one in others])
    assert found == tuple(span(*one) for one in left)


hours = st.integers(-20, 20)
spans = st.builds(lambda began, length: span(began, began + length), hours, st.integers(1, 15))


@given(spans, st.lists(spans, max_size=4))
def test_remaining_spans_are_inside_and_do_not_overlap(one, others):
    left = uncovered(one, others)
    assert all(overlap(part, other) == timedelta(0) for part in left for other in others)
    assert all(overlap(part, one) == part.length for part in left)


@given(st.lists(spans, max_size=4))
def test_a_deadline_never_moves_back(outages):
    assert moved_deadline(later(hours=5), sent_at=NOON, outages=outages) >= later(hours=5)


@pytest.mark.parametrize(
    ("last_sign", "expected"),
    [(None, False), (later(minutes=-10), False), (later(minutes=-10, seconds=-1), True)],
)
def test_server_is_silent_when_the_last_sign_of_life_is_older_than_the_limit(last_sign, expected):
    assert is_silent(last_sign, now=NOON, outage_after=timedelta(minutes=10)) is expected
