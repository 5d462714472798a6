"""A result is given up if no host can get it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.dispatch.rules.sendability import is_nearly, is_unsendable


@pytest.mark.parametrize(
    ("refused", "seen", "most", "expected"),
    [
        (0, 0, 100, "wait"),
        (0, 5, 100, "wait"),
        (1, 5, 100, "wait"),
        (3, 5, 100, "nearly"),
        (4, 5, 100, "nearly"),
        (5, 5, 100, "give up"),
        (1, 1, 100, "give up"),
        (49, 1000, 100, "wait"),
        (50, 1000, 100, "nearly"),
        (99, 1000, 100, "nearly"),
        (100, 1000, 100, "give up"),
        (0, 1000, 0, "wait"),
        (1, 1000, 0, "give up"),
    ],
)
def test_result_is_unsendable_after_max_refusals_or_when_every_host_was_refused(
    refused, seen, most, expected
):
    if is_unsendable(refused, refused, seen, most):
        said = "give up"
    else:
        said = "nearly" if is_nearly(refused, seen, most) else "wait"
    assert said == expected


@pytest.mark.parametrize(
    ("confirmed", "refused", "seen", "most", "expected"),
    [
        (0, 1, 1, 100, False),
        (1, 1, 1, 100, True),
        (2, 3, 3, 100, False),
        (0, 99, 1000, 100, False),
        (0, 100, 1000, 100, True),
        (0, 1, 1000, 1, True),
    ],
)
def test_unconfirmed_refusals_count_only_at_the_max_infeasible_limit(
    confirmed, refused, seen, most, expected
):
    assert is_unsendable(confirmed, refused, seen, most) is expected


numbers = st.integers(0, 300)


@given(numbers, numbers, numbers)
def test_unsendable_result_is_also_nearly_unsendable(refused, seen, most):
    assert is_nearly(refused, seen, most) or not is_unsendable(refused, refused, seen, most)


@given(numbers, numbers)
def test_result_without_refusals_is_never_given_up(seen, most):
    assert not is_unsendable(0, 0, seen, most)
