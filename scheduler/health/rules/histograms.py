"""Computes the coordinates of a histogram with a logarithmic axis [pure].

It has the form of a line chart, so that the same template draws it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final

from scheduler.health.rules.line_charts import (
    BOTTOM,
    HEIGHT,
    LEFT,
    MAX_COLUMNS,
    RIGHT,
    ROWS,
    TOP,
    WIDTH,
    Bar,
    Label,
    Line,
    LineChart,
    Tick,
    round_step,
)

_BARS: Final = 40
#: The axis has at least this length in powers of ten, so that equal values are no single wide bar.
_MIN_LENGTH: Final = 0.3
#: The number of labels of an axis that is too short for two of the round values.
_EVEN_TICKS: Final = 4
_BASE: Final = HEIGHT - BOTTOM
_GAP: Final = 1.0


def draw(
    title: str,
    values: Sequence[float],
    *,
    noun: str,
    label: Label,
    round_values: Sequence[float],
    marks: Sequence[tuple[str, float]] = (),
) -> LineChart:
    """Return the histogram of positive values with vertical lines at the `marks`, which have names.

    `noun` names what is counted, `label` returns the text of a value, and `round_values` are the
    values for labels of the axis.
    """
    if not values:
        return LineChart(title, (), (), (), nothing=f"No {noun} with this figure.")
    powers = [math.log10(value) for value in values]
    ends = (*powers, *(math.log10(value) for _, value in marks))
    first, last = min(ends), max(ends)
    missing = max(0.0, _MIN_LENGTH - (last - first)) / 2
    first, last = first - missing, last + missing
    width = (WIDTH - LEFT - RIGHT) / _BARS

    def x(value: float) -> float:
        return round(LEFT + (math.log10(value) - first) / (last - first) * width * _BARS, 1)

    def edge(number: int) -> float:
        return float(10 ** (first + (last - first) * number / _BARS))

    bars_per_power = _BARS / (last - first)
    # A value at the end of the axis belongs to the last bar.
    counts = Counter(min(int((power - first) * bars_per_power), _BARS - 1) for power in powers)
    step = round_step(max(counts.values()) / ROWS)
    top = step * math.ceil(max(counts.values()) / step)

    def y(count: float) -> float:
        return round(_BASE - count / top * (_BASE - TOP), 1)

    bars = tuple(
        Bar(
            x=round(LEFT + number * width + _GAP / 2, 1),
            y=y(count),
            width=round(width - _GAP, 1),
            height=round(_BASE - y(count), 1),
            label=f"{label(edge(number))} to {label(edge(number + 1))}: {count:,} {noun}",
        )
        for number, count in sorted(counts.items())
    )
    lines = [Line(noun, f"{len(values):,}", (), ())]
    lines += [
        Line(name, label(value), (f"{x(value)},{TOP} {x(value)},{_BASE}",), ())
        for name, value in marks
    ]
    return LineChart(
        title=title,
        lines=tuple(lines),
        x_ticks=tuple(Tick(x(value), label(value)) for value in _ticks(first, last, round_values)),
        y_ticks=tuple(Tick(y(n * step), f"{n * step:,.0f}") for n in range(round(top / step) + 1)),
        bars=bars,
    )


def _ticks(first: float, last: float, round_values: Sequence[float]) -> list[float]:
    """Return the values for labels of an axis between two powers of ten, at most `MAX_COLUMNS`."""
    inside = [value for value in round_values if first <= math.log10(value) <= last]
    if len(inside) > 1:
        return inside[:: math.ceil(len(inside) / MAX_COLUMNS)]
    length = (last - first) / _EVEN_TICKS
    return [float(10 ** (first + length * (number + 0.5))) for number in range(_EVEN_TICKS)]
