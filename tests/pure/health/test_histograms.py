"""Histograms with a logarithmic axis."""

from __future__ import annotations

from itertools import pairwise

import pytest

from scheduler.health.rules import histograms
from scheduler.health.rules.line_charts import BOTTOM, HEIGHT, LEFT, MAX_COLUMNS, RIGHT, TOP, WIDTH


def drawn(values, marks=(), powers=range(-2, 101)):
    return histograms.draw(
        "Run time",
        values,
        noun="results",
        label=lambda value: f"{value:.3g}",
        round_values=[10.0**power for power in powers],
        marks=marks,
    )


def test_equal_ratios_have_equal_distances():
    chart = drawn([1, 10, 100, 1000])
    places = [bar.x for bar in chart.bars]
    width = (WIDTH - LEFT - RIGHT) / 40
    assert len(places) == 4
    steps = [right - left for left, right in pairwise(places)]
    assert max(steps) - min(steps) <= width + 0.2
    assert places[0] == pytest.approx(LEFT, abs=1)
    assert places[-1] + chart.bars[-1].width == pytest.approx(WIDTH - RIGHT, abs=1)


def test_heights_are_the_counts_and_labels_name_range_and_count():
    chart = drawn([1, 1, 1, 1, 1000])
    assert [round(bar.height) for bar in chart.bars] == [
        HEIGHT - TOP - BOTTOM,
        round((HEIGHT - TOP - BOTTOM) / 4),
    ]
    assert all(bar.y + bar.height == pytest.approx(HEIGHT - BOTTOM) for bar in chart.bars)
    assert chart.bars[0].label == "1 to 1.19: 4 results"
    assert [tick.label for tick in chart.y_ticks] == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("values", [[5.0], [5.0] * 9, [5.0, 5.000001]])
def test_equal_values_are_one_bar_in_the_middle(values):
    chart = drawn(values)
    assert sum(int(bar.label.split(": ")[1].split()[0]) for bar in chart.bars) == len(values)
    middle = LEFT + (WIDTH - LEFT - RIGHT) / 2
    assert all(abs(bar.x - middle) < 15 for bar in chart.bars)
    assert len(chart.x_ticks) == 4


def test_a_mark_beyond_the_values_lengthens_the_axis():
    chart = drawn([10, 20], marks=[("estimate", 1e6)])
    [line] = [line for line in chart.lines if line.label == "estimate"]
    assert line.segments == (
        f"{float(WIDTH - RIGHT)},{TOP} {float(WIDTH - RIGHT)},{HEIGHT - BOTTOM}",
    )
    assert line.newest == "1e+06"
    assert chart.lines[0].newest == "2"


def test_long_axes_have_few_labels_in_the_drawing():
    chart = drawn([1e-2, 1e60])
    assert 2 <= len(chart.x_ticks) <= MAX_COLUMNS
    assert all(LEFT <= tick.place <= WIDTH - RIGHT for tick in chart.x_ticks)


def test_without_values_the_chart_says_so():
    chart = drawn([])
    assert chart.is_empty
    assert chart.nothing == "No results with this figure."
    assert not drawn([1]).is_empty
