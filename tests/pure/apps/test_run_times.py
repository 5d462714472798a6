"""Quantiles of run times, and sentences about estimates and bounds."""

from __future__ import annotations

import pytest

from scheduler.apps.rules.run_times import MIN_RUNS, PERCENTS, Run, advice, quantiles, scientific
from tests.conftest import NOON


def runs(*, seconds=100.0, speed=1e9, estimate=1e11, bound=2e12, count=100):
    return [Run(1, NOON, seconds, seconds, speed, estimate, bound) for _ in range(count)]


def test_quantiles_are_those_of_postgresql():
    # percentile_cont of the same values
    assert PERCENTS == (5, 25, 50, 75, 95)
    assert quantiles([7.0, 1.0, 4.0, 10.0]) == pytest.approx((1.45, 3.25, 5.5, 7.75, 9.55))
    assert quantiles([3.0]) == (3.0,) * 5


def test_fitting_estimate_and_bound_are_confirmed():
    text = advice(runs())
    assert text[0] == "The median is 1 times the estimate (rsc_fpops_est) of 1e11."
    assert text[1] == "The estimate fits."
    assert text[2].startswith("The bound fits: 95 % of the results need less than 5 %")


def test_wrong_estimate_and_tight_bound_get_numbers_that_would_fit():
    text = " ".join(advice(runs(seconds=1500.0)))
    assert "The median is 15 times" in text
    assert "An estimate of 1.5e12 would fit." in text
    assert "The bound is tight: one result in 20 needs more than 75 %" in text
    assert "A bound of 1.5e13 would fit: 10 times what 95 % of the results need." in text


def test_loose_bound_is_reported():
    text = " ".join(advice(runs(bound=1e14)))
    assert "The bound is loose: 95 % of the results need less than 0.1 %" in text
    assert "A bound of 1e12 would fit" in text


def test_workunits_with_different_estimates_get_factors():
    mixed = runs(seconds=500.0) + runs(seconds=1000.0, estimate=2e11, bound=2e12)
    text = " ".join(advice(mixed))
    assert "The median is 5 times the estimates (rsc_fpops_est) of their workunits." in text
    assert "Estimates that are 5 times as large would fit." in text


def test_few_results_and_results_without_speed_are_not_judged():
    assert advice(runs(count=MIN_RUNS - 1))[0].startswith(f"{MIN_RUNS - 1} of these results")
    assert advice(runs(speed=0.0))[0].startswith("0 of these results")
    assert len(advice(runs(count=MIN_RUNS))) > 1


@pytest.mark.parametrize(
    ("number", "text"), [(8.64e13, "8.6e13"), (1e-3, "1e-3"), (9.96e11, "1e12")]
)
def test_numbers_can_be_submitted(number, text):
    assert scientific(number) == text
    assert float(text) == pytest.approx(number, rel=0.06)
