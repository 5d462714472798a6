"""Calculations of the benchmark: ratios, aims, and changes since the last run."""

from __future__ import annotations

import pytest

from bench import compare
from bench.figures import Figure, Run
from bench.show import number

PGBENCH = {compare.SELECT: [10_000.0, 40_000.0, 20_000.0], compare.UPDATE: [2000.0]}


def a_figure(value, *, key="validator", unit="workunits/s"):
    return Figure(key=key, section=3, what="something", unit=unit, value=value)


def a_run(*figures, pgbench=PGBENCH, size="usual"):
    return Run(at="2026-01-01", size=size, machine={}, figures=list(figures), pgbench=pgbench)


def test_pgbench_rate_is_the_median_of_its_runs():
    assert compare.pgbench_rate(PGBENCH, compare.SELECT) == 20_000
    assert compare.pgbench_rate({}, compare.SELECT) is None


def test_rate_is_compared_with_pgbench_as_units_per_transaction():
    assert compare.ratio(a_figure(5000), 2000) == 2.5


def test_time_is_compared_with_pgbench_as_transactions_of_one_client():
    assert compare.ratio(a_figure(10, unit="ms"), 2000) == 10


def test_figures_that_do_not_depend_on_speed_have_no_ratio():
    assert compare.ratio(a_figure(80, unit="MB"), 2000) is None
    assert compare.ratio(a_figure(80), None) is None


def test_peer_ratio_is_computed_only_for_figures_with_a_peer():
    assert compare.peer_ratio(a_figure(3000)) == 10
    assert compare.peer_ratio(a_figure(3000, key="claim_growth")) is None


@pytest.mark.parametrize(
    ("key", "value", "share"), [("validator", 3000, 0.5), ("validator", 9000, 1.5)]
)
def test_share_of_a_minimum_aim_is_computed(key, value, share):
    found = a_figure(value, key=key)
    assert compare.aim(found).share(found) == share


def test_maximum_aim_is_met_by_lower_values():
    slow, quick = (a_figure(value, key="latency_p50", unit="ms") for value in (600, 150))
    assert compare.aim(slow).share(slow) == 0.5
    assert compare.aim(quick).share(quick) == 2


def test_figure_without_an_aim_returns_none():
    assert compare.aim(a_figure(1, key="timeout_checker")) is None


def test_change_since_the_last_run_excludes_the_speed_of_the_machine():
    before = a_run(a_figure(1000)).as_json()
    # Twice the rate, on a machine that was twice as fast in this run.
    twice = {name: [2 * rate for rate in rates] for name, rates in PGBENCH.items()}
    now = a_run(a_figure(2000), pgbench=twice)
    assert compare.change(now.figures[0], now, before) == pytest.approx(1)
    same = a_run(a_figure(2000))
    assert compare.change(same.figures[0], same, before) == pytest.approx(2)


def test_shorter_time_is_an_improvement():
    before = a_run(a_figure(30, unit="ms")).as_json()
    now = a_run(a_figure(10, unit="ms"))
    assert compare.change(now.figures[0], now, before) == pytest.approx(3)


def test_change_is_none_without_a_previous_run():
    now = a_run(a_figure(10))
    assert compare.change(now.figures[0], now, None) is None
    assert compare.change(now.figures[0], now, a_run().as_json()) is None


def test_last_run_is_found_per_figure_and_size(tmp_path):
    compare.store(a_run(a_figure(1), a_figure(7, key="purger")), tmp_path)
    compare.store(a_run(a_figure(2)), tmp_path, tmp_path / "also.json")
    compare.store(a_run(a_figure(9), size="large"), tmp_path)
    found = compare.last(tmp_path, size="usual")
    assert found["validator"]["figures"][0]["value"] == 2
    assert found["purger"]["figures"][1]["value"] == 7
    assert (tmp_path / "also.json").read_text() != (tmp_path / "last.json").read_text()


def test_first_run_has_no_previous_run(tmp_path):
    assert compare.last(tmp_path, size="usual") == {}


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), (12_345.6, "12,346"), (12.34, "12.3"), (1.234, "1.23"), (0.01234, "0.012")],
)
def test_numbers_are_printed_with_significant_digits_only(value, text):
    assert number(value) == text
