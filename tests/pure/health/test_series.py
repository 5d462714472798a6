"""Levels and rates over time, and the coordinates of their charts."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduler.health.rules import line_charts, series
from scheduler.health.rules.series import Point, Sample
from tests.conftest import NOON

STEP = timedelta(minutes=5)


def samples(*values, name="done", every=STEP):
    return [Sample(NOON + every * n, {name: value}) for n, value in enumerate(values)]


def values(points):
    return [point.value for point in points]


def test_rate_is_the_growth_per_hour():
    assert values(series.rates(samples(100, 105, 105), "done", step=STEP)) == [60, 0]


def test_rate_of_several_figures_is_the_rate_of_their_sum():
    two = [
        Sample(NOON, {"errors": 1, "lost": 1}),
        Sample(NOON + STEP, {"errors": 2, "lost": 3}),
    ]
    assert values(series.rates(two, "errors", "lost", step=STEP)) == [36]


def test_figure_that_falls_has_no_rate():
    assert values(series.rates(samples(100, 3, 4), "done", step=STEP)) == [None, 12]


def test_pause_of_the_housekeeper_interrupts_the_line():
    late = STEP * (series.MAX_STEPS + 1)
    points = series.levels(samples(7, 8, every=late), "done", step=STEP)
    assert points == (
        Point(NOON, 7),
        Point(NOON + STEP, None),
        Point(NOON + late, 8),
    )
    assert None in values(series.rates(samples(7, 8, every=late), "done", step=STEP))


def test_pause_of_three_steps_does_not_interrupt_the_line():
    within = STEP * series.MAX_STEPS
    assert values(series.levels(samples(7, 8, every=within), "done", step=STEP)) == [7, 8]


def test_figure_that_older_samples_lack_has_no_level():
    two = [Sample(NOON, {}), Sample(NOON + STEP, {"done": 3})]
    assert values(series.levels(two, "done", step=STEP)) == [None, 3]


def test_newest_rate_counts_the_last_hour_only():
    two_hours = samples(0, 1000, 1060, every=timedelta(hours=1))
    assert series.newest_rate(two_hours, "done", within=timedelta(hours=1)) == 60


def test_newest_rate_ignores_samples_without_the_figure():
    noon = Sample(NOON, {"other": 1})
    later = [Sample(NOON + timedelta(minutes=n), {"done": 5000 + n}) for n in (10, 40)]
    assert series.newest_rate([noon, *later], "done", within=timedelta(hours=1)) == 60


@pytest.mark.parametrize("few", [[], samples(5)])
def test_newest_rate_of_fewer_than_two_samples_is_unknown(few):
    assert series.newest_rate(few, "done", within=timedelta(hours=1)) is None


def chart(*points, length=timedelta(days=1), **options):
    lines = [("done", points)]
    options = {"label": str, "since": NOON, "until": NOON + length, **options}
    return line_charts.draw("Done", lines, **options)


def test_line_spans_the_area_between_the_axes():
    drawn = chart(Point(NOON, 0), Point(NOON + timedelta(days=1), 4))
    [line] = drawn.lines
    bottom, top = line_charts.HEIGHT - line_charts.BOTTOM, line_charts.TOP
    left, right = line_charts.LEFT, line_charts.WIDTH - line_charts.RIGHT
    assert line.segments == (f"{left}.0,{bottom}.0 {right}.0,{top}.0",)
    assert line.newest == "4"


def test_interrupted_line_has_a_segment_for_each_part_and_a_dot_for_a_single_point():
    hour = timedelta(hours=1)
    drawn = chart(
        Point(NOON, 1),
        Point(NOON + hour, 1),
        Point(NOON + hour * 2, None),
        Point(NOON + hour * 9, 1),
    )
    [line] = drawn.lines
    assert (len(line.segments), len(line.dots)) == (1, 1)


def test_vertical_axis_ends_at_a_round_number_above_the_largest_value():
    drawn = chart(Point(NOON, 3), Point(NOON + timedelta(hours=1), 730))
    assert [tick.label for tick in drawn.y_ticks] == ["0", "200", "400", "600", "800"]


def test_vertical_axis_of_bytes_is_round_in_their_unit():
    drawn = chart(Point(NOON, 9 * 2**30), unit=2**30, label=lambda value: f"{value / 2**30:g}")
    assert [tick.label for tick in drawn.y_ticks] == ["0", "5", "10"]


def test_horizontal_axis_has_full_hours_for_a_day_and_dates_for_a_month():
    assert [tick.label for tick in chart().x_ticks][:3] == ["12:00", "16:00", "20:00"]
    month = [tick.label for tick in chart(length=timedelta(days=30)).x_ticks]
    assert 3 <= len(month) <= line_charts.MAX_COLUMNS + 1
    assert all(" " in label for label in month)


def test_chart_without_values_is_empty_and_still_has_axes():
    drawn = chart()
    assert drawn.is_empty
    assert [tick.label for tick in drawn.y_ticks] == ["0", "1"]
    assert drawn.summary == "Done: done unknown"
