"""Computes the coordinates of a line chart, which a template draws as SVG [pure]."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from scheduler.health.rules.series import Point

#: The size of the drawing in its own units, and the space for the labels of the axes.
WIDTH, HEIGHT = 560, 190
LEFT, RIGHT, TOP, BOTTOM = 56, 28, 10, 24
#: The number of horizontal lines to aim at, and the maximum number of labels below.
ROWS, MAX_COLUMNS = 4, 6
_DAY, _MONTH = timedelta(days=1), timedelta(days=45)
#: The distances between labels below; the shortest that needs at most `MAX_COLUMNS` is used.
_DISTANCES = (
    *(timedelta(hours=hours) for hours in (1, 2, 4, 6, 12)),
    *(timedelta(days=days) for days in (1, 2, 5, 10, 30, 61, 122)),
)
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)

Label = Callable[[float], str]
TimeLabel = Callable[[datetime, timedelta], str]


@dataclass(frozen=True, slots=True)
class Tick:
    """A label of an axis, at its distance from the left or from the top."""

    place: float
    label: str


@dataclass(frozen=True, slots=True)
class Line:
    """One line: its label, its newest value as text, and its segments.

    A segment is the text of the attribute `points` of an SVG polyline.  `dots` are the segments
    of one point, as (x, y).
    """

    label: str
    newest: str
    segments: tuple[str, ...]
    dots: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a histogram: its upper left corner, its size, and its values as text."""

    x: float
    y: float
    width: float
    height: float
    label: str


@dataclass(frozen=True, slots=True)
class LineChart:
    """A chart of lines over the same time, or of the bars of `histograms.draw`.

    `nothing` is the text of a chart without values.
    """

    title: str
    lines: tuple[Line, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    bars: tuple[Bar, ...] = ()
    nothing: str = "No samples yet: the housekeeper keeps one each minute."

    width, height = WIDTH, HEIGHT
    left, right, bottom = LEFT, WIDTH - RIGHT, HEIGHT - BOTTOM

    @property
    def is_empty(self) -> bool:
        return not self.bars and not any(line.segments or line.dots for line in self.lines)

    @property
    def summary(self) -> str:
        """The newest values as a sentence, for readers who do not see the drawing."""
        return f"{self.title}: " + ", ".join(f"{line.label} {line.newest}" for line in self.lines)


def draw(
    title: str,
    series: Sequence[tuple[str, Sequence[Point]]],
    *,
    since: datetime,
    until: datetime,
    label: Label,
    unit: float = 1,
    label_time: TimeLabel | None = None,
) -> LineChart:
    """Return the chart of the labelled `series` between two times; values are at least 0.

    The vertical axis begins at 0 and ends at a round number of `unit`.  `label` returns the text of
    a value, and `label_time` that of a time on a chart of some length (default: `time_label`).
    """
    values = [point.value for _, points in series for point in points if point.value is not None]
    step = round_step(max(values, default=0) / unit / ROWS) * unit
    top = step * max(math.ceil(max(values, default=0) / step), 1)

    text_of = time_label if label_time is None else label_time

    def x(at: datetime) -> float:
        return round(LEFT + (at - since) / (until - since) * (WIDTH - LEFT - RIGHT), 1)

    def y(value: float) -> float:
        return round(HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM), 1)

    return LineChart(
        title=title,
        lines=tuple(_line(name, points, x, y, label) for name, points in series),
        x_ticks=tuple(Tick(x(at), text_of(at, until - since)) for at in _times(since, until)),
        y_ticks=tuple(Tick(y(n * step), label(n * step)) for n in range(round(top / step) + 1)),
    )


def round_step(least: float) -> float:
    """Return the smallest of 1, 2, 5, 10, 20, 50, ... that is not below `least`; 1 for 0.

    >>> [round_step(least) for least in (0, 0.2, 3, 51, 1200)]
    [1, 1, 5, 100, 2000]
    """
    if least <= 1:
        return 1
    power: int = 10 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least)


def time_label(at: datetime, length: timedelta) -> str:
    """Return a time as text, as exact as a chart of this length needs.

    >>> noon = datetime(2026, 3, 5, 12)
    >>> [time_label(noon, timedelta(days=days)) for days in (1, 7, 366)]
    ['12:00', '5 Mar', 'Mar 2026']
    """
    if length <= _DAY:
        return f"{at:%H:%M}"
    return f"{at.day} {at:%b}" if length <= _MONTH else f"{at:%b %Y}"


def _times(since: datetime, until: datetime) -> list[datetime]:
    """Return round times in a period, such as full hours or midnights of UTC."""
    length = until - since
    fitting = (step for step in _DISTANCES if length / step <= MAX_COLUMNS)
    step = next(fitting, length)
    first = _EPOCH + step * math.ceil((since - _EPOCH) / step)
    return [first + step * n for n in range(MAX_COLUMNS + 1) if first + step * n <= until]


def _line(
    name: str,
    points: Sequence[Point],
    x: Callable[[datetime], float],
    y: Callable[[float], float],
    label: Label,
) -> Line:
    segments: list[list[tuple[float, float]]] = [[]]
    newest = "unknown"
    for point in points:
        if point.value is None:
            segments.append([])
            continue
        segments[-1].append((x(point.at), y(point.value)))
        newest = label(point.value)
    return Line(
        label=name,
        newest=newest,
        segments=tuple(
            " ".join(f"{left},{top}" for left, top in segment)
            for segment in segments
            if len(segment) > 1
        ),
        dots=tuple(segment[0] for segment in segments if len(segment) == 1),
    )
