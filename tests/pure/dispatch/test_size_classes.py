"""The size class of a host, from its speed."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.dispatch.rules.size_classes import boundaries, effective_speed, size_class

SPEEDS = st.floats(min_value=1, max_value=1e15)


@pytest.mark.parametrize(
    ("speed", "bounds", "suits"),
    [(5, [], 0), (5, [6], 0), (6, [6], 1), (7, [6], 1), (7, [6, 7, 8], 2), (9, [6, 7, 8], 3)],
)
def test_size_class_is_the_one_whose_bounds_contain_the_speed(speed, bounds, suits):
    assert size_class(speed, bounds) == suits


def test_host_that_is_on_half_of_the_time_has_half_the_effective_speed():
    assert effective_speed(4e9, 0.5) == 2e9


@pytest.mark.parametrize(
    ("speeds", "classes", "bounds"),
    [
        ([], 3, []),
        ([1, 2], 3, []),
        ([1, 2, 3], 1, []),
        ([3, 1, 2], 3, [2, 3]),
        ([1, 2, 3, 4], 2, [3]),
        ([0, -1, math.nan, math.inf, 5, 6], 2, [6]),
    ],
)
def test_boundaries_divide_hosts_into_equal_groups(speeds, classes, bounds):
    assert boundaries(speeds, classes) == bounds


@given(st.lists(SPEEDS, min_size=20, max_size=200, unique=True), st.integers(2, 6))
def test_every_size_class_has_the_same_number_of_hosts(speeds, classes):
    bounds = boundaries(speeds, classes)
    sizes = Counter(size_class(speed, bounds) for speed in speeds)
    assert bounds == sorted(bounds)
    assert set(sizes) == set(range(classes))
    assert max(sizes.values()) - min(sizes.values()) <= 1
