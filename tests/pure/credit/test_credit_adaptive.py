"""Adaptive credit: excessive claims gain nothing, and credit is bounded."""

from __future__ import annotations

from decimal import Decimal
from math import inf, isclose

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scheduler.credit.rules import adaptive_credit as adaptive
from scheduler.credit.rules.adaptive_credit import Averages, Claim, VersionAverage
from scheduler.credit.rules.credit import (
    COBBLESTONE,
    MAX_GRANTED,
    OF_VERSION,
    Effort,
    running_average,
)

#: The run of an honest host: one hour at 2 GFLOPS, equal to the scientist's estimate.
HOUR = Effort(3600, 3600, 2e9)
ESTIMATE = 7.2e12
SETTLED = Averages(
    version_samples=200,
    version_average=1.0,
    version_scale=1.0,
    host_samples=50,
    host_average=1.0,
    consecutive_valid=20,
)


def known(**fields):
    values = {name: getattr(SETTLED, name) for name in Averages.__slots__}
    return Averages(**values | fields)


def claim(effort=HOUR, record=SETTLED, *, bound=1e18, **options):
    return adaptive.claim(effort, record, estimated=ESTIMATE, rsc_fpops_bound=bound, **options)


def paid(*claims, bound=1e18, estimated=ESTIMATE):
    return adaptive.amount(claims, estimated=estimated, rsc_fpops_bound=bound)


def normal(operations):
    return Claim(operations, is_normal=True)


def approximate(operations):
    return Claim(operations, is_normal=False)


# Claims


@pytest.mark.parametrize(
    ("what", "record", "operations", "is_normal"),
    [
        ("an honest host", SETTLED, ESTIMATE, True),
        ("who claims twice as much as others", known(host_average=2.0), ESTIMATE / 2, True),
        ("who claims half as much", known(host_average=0.5), 2 * ESTIMATE, True),
        ("who claims next to nothing", known(host_average=0.01), 10 * ESTIMATE, True),
        ("a version that exaggerates", known(version_scale=0.25), ESTIMATE / 4, True),
        ("a version without a scale", known(version_scale=0.0), ESTIMATE, False),
        ("a new host", known(host_samples=9, host_average=9.0), ESTIMATE, False),
        ("a new version", known(version_samples=99, host_average=9.0), ESTIMATE, False),
        ("a host whose average is nothing", known(host_average=0.0), ESTIMATE, False),
        ("a version that nobody knows", None, ESTIMATE, False),
    ],
)
def test_claim_is_scaled_by_the_averages_of_host_and_version(what, record, operations, is_normal):
    assert claim(record=record) == Claim(operations, is_normal), what


def test_host_scale_can_require_ten_consecutive_valid_results():
    doubtful = known(host_average=2.0, consecutive_valid=9)
    assert claim(record=doubtful).is_normal
    assert not claim(record=doubtful, host_scale_check=True).is_normal
    assert claim(record=known(consecutive_valid=10), host_scale_check=True).is_normal


@pytest.mark.parametrize("seconds", [0.0, -5.0, inf])
def test_claim_without_a_usable_run_time_is_the_estimate(seconds):
    assert claim(Effort(seconds, 10, 2e9)) == approximate(ESTIMATE)


@pytest.mark.parametrize("flops", [0.0, -1.0, 1e9])
def test_unbenchmarked_host_gets_the_default_speed_and_gives_no_sample(flops):
    effort = Effort(1000, 1000, flops)
    assert adaptive.raw_operations(effort) == 4.3e12
    assert adaptive.sample(effort, 4.3e12, is_outlier=False) is None


def test_claim_is_limited_by_the_workunit_bound():
    assert claim(bound=1e12) == normal(1e12)
    assert claim(record=None, bound=1e12) == approximate(1e12)


def test_estimate_is_scaled_by_the_measured_cost_of_the_app():
    assert adaptive.estimate(100.0, min_avg_pfc=0.5) == 50
    assert adaptive.estimate(100.0, min_avg_pfc=0.0) == 100


# Granted credit


def test_approximate_claims_are_ignored_if_there_are_two_normal_claims():
    assert paid(normal(ESTIMATE), normal(ESTIMATE), approximate(1e16)) == paid(normal(ESTIMATE))


def test_single_normal_claim_counts_twice():
    expected = adaptive.pegged_average([2.0, 2.0, 1.0], 1.0) * COBBLESTONE
    found = paid(normal(2e12), approximate(1e12), estimated=1e12)
    assert isclose(float(found), expected * 1e12, rel_tol=1e-6)


def test_one_day_at_one_gigaflops_earns_200_cobblestones():
    assert paid(normal(8.64e13), normal(8.64e13), estimated=8.64e13) == 200


def test_credit_without_results_is_zero():
    assert paid() == 0


def test_credit_is_limited_by_the_workunit_bound_and_the_maximum():
    assert paid(normal(1e15), bound=8.64e13, estimated=1e15) == 200
    assert paid(normal(1e30), bound=1e31, estimated=1e30) == Decimal(MAX_GRANTED)


AMOUNTS = st.floats(0, 1e20, allow_nan=False)
CLAIMS = st.lists(st.builds(Claim, AMOUNTS, st.booleans()), max_size=8)


@given(claims=CLAIMS, estimated=st.floats(1, 1e20), bound=st.floats(1, 1e20))
def test_credit_is_never_negative_and_never_above_the_bound(claims, estimated, bound):
    found = adaptive.amount(claims, estimated=estimated, rsc_fpops_bound=bound)
    assert 0 <= found <= Decimal(min(bound * COBBLESTONE, MAX_GRANTED)) + Decimal("0.000001")


@given(
    operations=st.lists(st.floats(0, 1e20), min_size=1, max_size=8), estimated=st.floats(1, 1e20)
)
@example(operations=[5e-324], estimated=2.0)
def test_pegged_average_lies_between_minimum_and_maximum(operations, estimated):
    found = adaptive.pegged_average(operations, estimated)
    assert min(operations) * (1 - 1e-9) <= found <= max(operations) * (1 + 1e-9)


@given(factor=st.floats(0.2, 1e3))
def test_host_that_always_claims_too_much_gains_nothing(factor):
    liar = claim(Effort(3600 * factor, 0, 2e9), known(host_average=factor))
    assert isclose(liar.operations, claim().operations, rel_tol=1e-9)


@given(factor=st.floats(1, 1e9))
def test_one_extreme_claim_of_three_raises_credit_by_at_most_a_fifth(factor):
    honest = normal(ESTIMATE)
    found = paid(honest, honest, normal(ESTIMATE * factor))
    assert paid(honest) <= found <= paid(honest) * Decimal("1.2")


@given(
    seconds=st.floats(allow_nan=True, allow_infinity=True),
    flops=st.floats(allow_nan=False, allow_infinity=True),
)
def test_claim_from_invalid_client_values_is_a_bounded_number(seconds, flops):
    found = claim(Effort(seconds, 0, flops), bound=1e18)
    assert 0 <= found.operations <= 1e18


# Averages of claims


@pytest.mark.parametrize(
    ("effort", "is_outlier", "expected"),
    [
        (HOUR, False, 1.0),
        (HOUR, True, None),
        (Effort(0.1, 0, 2e9), False, None),
        (Effort(3.6e8, 0, 2e9), False, None),
        (Effort(0, 3600, 2e9), False, None),
    ],
)
def test_only_plausible_ratios_are_added_to_the_averages(effort, is_outlier, expected):
    assert adaptive.sample(effort, ESTIMATE, is_outlier=is_outlier) == expected


def test_version_average_is_a_mean_of_100_samples_then_changes_slowly():
    assert running_average(1.0, 99, 2.0, OF_VERSION) == (1.01, 100)
    assert running_average(1.0, 100, 2.0, OF_VERSION) == (1.001, 101)
    assert running_average(1.0, 100, 2000.0, OF_VERSION) == (1.009, 101)


# Scales of versions


def test_claims_are_scaled_down_to_the_cheaper_device():
    scales, least = adaptive.version_scales(
        [
            VersionAverage(1, on_gpu=False, samples=300, average=2.0),
            VersionAverage(2, on_gpu=False, samples=100.5, average=2.0),
            VersionAverage(3, on_gpu=True, samples=500, average=20.0),
        ]
    )
    assert scales == {1: 1.0, 2: 1.0, 3: 0.1}
    assert least == 2.0


def test_versions_of_one_device_are_weighted_by_their_samples():
    scales, least = adaptive.version_scales(
        [
            VersionAverage(1, on_gpu=False, samples=300, average=1.0),
            VersionAverage(2, on_gpu=False, samples=101, average=2.0),
        ]
    )
    assert least == pytest.approx((300 + 202) / 401)
    assert scales == {1: least, 2: least / 2}


def test_version_with_few_samples_has_no_scale():
    few = VersionAverage(1, on_gpu=False, samples=100, average=2.0)
    assert adaptive.version_scales([few]) == ({}, None)
    assert adaptive.version_scales([]) == ({}, None)
