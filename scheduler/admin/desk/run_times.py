"""The page of run times and estimated operations of an app's newest results."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlencode

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest

from scheduler.admin.base import duration_label, is_bigint
from scheduler.apps import newest_runs
from scheduler.apps.rules.run_times import PERCENTS, Run, advice, quantiles, scientific
from scheduler.health.rules import histograms
from scheduler.health.rules.line_charts import LineChart
from scheduler.models import App, AppVersion

#: The permission of the list of app versions, whose run times are shown.
_PERMISSION: Final = "scheduler.view_appversion"
#: The maximum number of app versions in a table, those with most results.
MAX_VERSIONS: Final = 20
_MEDIAN: Final = PERCENTS.index(50)
_DAY: Final = 86_400
#: Values for the labels of the axes: of times in seconds, and of operations.
_ROUND_SECONDS: Final = (0.01, 0.1, 1, 10, 60, 600, 3600, 36_000, _DAY, 10 * _DAY, 100 * _DAY)
_ROUND_NUMBERS: Final = tuple(10.0**power for power in range(-2, 101))
_MAX_SECONDS: Final = 1e11

#: The runs of each app version by its id, and of all versions by None.
Groups = Mapping[int | None, Sequence[Run]]


@dataclass(frozen=True, slots=True)
class Measure:
    """A measured figure: how it is read, shown and explained."""

    id: str
    title: str
    read: Callable[[Run], float]
    label: Callable[[float], str]
    round_values: Sequence[float]
    note: str


@dataclass(frozen=True, slots=True)
class Line:
    """The quantiles of an app version; `n_measured` of its `n_runs` runs have the figure."""

    name: str
    url: str
    is_chosen: bool
    n_runs: int
    n_measured: int
    quantiles: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """The histogram of the chosen runs, and the quantiles of all versions."""

    measure: Measure
    chart: LineChart
    lines: Sequence[Line]


def seconds_label(seconds: float) -> str:
    """Return a time as text, with two digits below a second.

    >>> seconds_label(0.25), seconds_label(5400)
    ('0.25 s', '1 h 30 min')
    """
    if seconds < 1:
        return f"{seconds:.2g} s"
    return duration_label(timedelta(seconds=round(min(seconds, _MAX_SECONDS))))


_MEASURES: Final = (
    Measure(
        "run-time",
        "Run time",
        lambda run: run.elapsed_time,
        seconds_label,
        _ROUND_SECONDS,
        "The time in which the program ran, as the clients reported it.",
    ),
    Measure(
        "cpu-time",
        "CPU time",
        lambda run: run.cpu_time,
        seconds_label,
        _ROUND_SECONDS,
        "The time of all processors together. Scripts may report none.",
    ),
    Measure(
        "operations",
        "Estimated operations",
        lambda run: run.operations,
        scientific,
        _ROUND_NUMBERS,
        "Floating-point operations: the run time, multiplied by the speed that the server assumed "
        "when it sent the result.",
    ),
)


def may_view(request: HttpRequest) -> bool:
    return request.user.has_perm(_PERMISSION)


def context(request: HttpRequest) -> dict[str, Any]:
    """Return the context of the page for the app and the version in the query string.

    The first app and all versions are the defaults.  Raises `PermissionDenied` for users who may
    not view app versions, and `Http404` for an unknown app.
    """
    if not may_view(request):
        raise PermissionDenied
    apps = list(App.objects.only("name", "user_friendly_name").order_by("name"))
    app = _chosen_app(request, apps)
    shared = {"title": "Run times", "apps": [(each, each == app) for each in apps], "app": app}
    if app is None:
        return shared
    newest = newest_runs.read(app)
    groups = _groups(newest.runs)
    versions = _versions(groups)
    chosen = next((id_ for id_ in versions if request.GET.get("version") == str(id_)), None)
    times = sorted(run.received_at for run in newest.runs if run.received_at is not None)
    return {
        **shared,
        "title": f"Run times of {app}",
        "newest": newest,
        "received": (times[0], times[-1]) if times else None,
        "max_results": newest_runs.MAX_RESULTS,
        "max_grants": newest_runs.MAX_GRANTS,
        "max_hosts": newest_runs.MAX_HOSTS,
        "chosen": versions.get(chosen, "all versions"),
        "sections": [_section(measure, app, groups, versions, chosen) for measure in _MEASURES],
        "percents": PERCENTS,
        "advice": advice(groups[chosen]) if newest.runs else (),
        "left_out": max(0, len(groups) - 1 - MAX_VERSIONS),
    }


def _chosen_app(request: HttpRequest, apps: Sequence[App]) -> App | None:
    text = request.GET.get("app")
    if text is None:
        return apps[0] if apps else None
    app_id = int(text) if is_bigint(text) else None
    app = next((each for each in apps if each.pk == app_id), None)
    if app is None:
        raise Http404
    return app


def _groups(runs: Sequence[Run]) -> Groups:
    groups: dict[int | None, list[Run]] = defaultdict(list)
    for run in runs:
        groups[run.app_version_id or 0].append(run)
    return {None: runs, **groups}


def _versions(groups: Groups) -> dict[int | None, str]:
    """Return the names of all versions together and of those with most runs, by id."""
    ids = [id_ for id_ in groups if id_ is not None]
    ids.sort(key=lambda id_: (-len(groups[id_]), -id_))
    rows = AppVersion.objects.select_related("app", "platform").in_bulk(ids[:MAX_VERSIONS])
    named: dict[int | None, str] = {None: "all versions"}
    named.update((id_, str(rows.get(id_, "no version"))) for id_ in ids[:MAX_VERSIONS])
    return named


def _section(
    measure: Measure,
    app: App,
    groups: Groups,
    versions: Mapping[int | None, str],
    chosen: int | None,
) -> Section:
    lines = []
    values_of = {id_: _values(measure, groups[id_]) for id_ in versions}
    for id_, name in versions.items():
        values = values_of[id_]
        query = {"app": app.pk} if id_ is None else {"app": app.pk, "version": id_}
        lines.append(
            Line(
                name=name,
                url=f"?{urlencode(query)}#{measure.id}",
                is_chosen=id_ == chosen,
                n_runs=len(groups[id_]),
                n_measured=len(values),
                quantiles=tuple(map(measure.label, quantiles(values)))
                if values
                else ("–",) * len(PERCENTS),
            )
        )
    chart = _chart(measure, groups[chosen], values_of[chosen], versions[chosen])
    return Section(measure, chart, lines)


def _values(measure: Measure, runs: Sequence[Run]) -> list[float]:
    return [value for value in map(measure.read, runs) if value > 0]


def _chart(measure: Measure, runs: Sequence[Run], values: Sequence[float], name: str) -> LineChart:
    marks = [("median", quantiles(values)[_MEDIAN])] if values else []
    if values and measure.id == "operations":
        marks.append(("median estimate", quantiles([r.rsc_fpops_est for r in runs])[_MEDIAN]))
    return histograms.draw(
        f"{measure.title}, {name}",
        values,
        noun="results",
        label=measure.label,
        round_values=measure.round_values,
        marks=marks,
    )
