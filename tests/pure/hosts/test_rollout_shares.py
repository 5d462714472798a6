"""The share of hosts that may get an app version in a staged roll-out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.hosts.rules.rollout_shares import is_in_share, place

HOSTS = range(1, 4001)


def share(percent: int, version_id: int = 7) -> set[int]:
    return {host for host in HOSTS if is_in_share(host, version_id, percent)}


@given(st.integers(1, 2**63 - 1), st.integers(1, 2**63 - 1), st.integers(0, 100))
def test_a_larger_share_contains_every_smaller_one(host, version, percent):
    is_in = is_in_share(host, version, percent)
    assert all(is_in_share(host, version, larger) >= is_in for larger in range(percent, 101))
    assert 0 <= place(host, version) < 100


@pytest.mark.parametrize("percent", [1, 5, 10, 50, 90])
def test_a_share_has_about_its_percentage_of_the_hosts(percent):
    # Four standard deviations of a binomial distribution.
    deviation = 4 * (len(HOSTS) * percent * (100 - percent)) ** 0.5 / 100
    assert abs(len(share(percent)) - len(HOSTS) * percent / 100) < deviation


def test_a_share_of_0_has_no_host_and_a_share_of_100_has_all():
    assert share(0) == set()
    assert share(100) == set(HOSTS)


def test_versions_begin_with_different_hosts():
    assert len(share(10, 1) & share(10, 2)) < len(HOSTS) * 0.03
