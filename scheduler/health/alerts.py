"""Reads the facts for alerts with a bounded number of statements.

The daemons' registry and the science code are loaded by dotted name, because `scheduler` must not
import `daemons`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string

from scheduler import sql, storage
from scheduler.dispatch.rules.launching import COMMAND
from scheduler.dispatch.rules.sendability import SEEN_WITHIN
from scheduler.health import daemon_activity
from scheduler.health.recent import MAX_REFUSALS
from scheduler.health.rules.alert_texts import REMIND_BEFORE, Alert, Facts, LastCheck, judge
from scheduler.health.rules.checkups import NEARLY_FULL_NBYTES
from scheduler.models import App, ScienceFailure
from scheduler.queues import slots

#: Columns of an app with the names and options of science code.
SCIENCE_COLUMNS = (
    "validator",
    "validator_options",
    "assimilator",
    "assimilator_options",
    "generator",
    "generator_options",
    "trickle_handlers",
)
_APP_COLUMNS = ("name", "kind", *SCIENCE_COLUMNS)


def current(
    *, now: datetime, due_since: Mapping[str, datetime | None] | None = None
) -> tuple[Alert, ...]:
    """Return the alerts; `due_since` is as in `facts`."""
    return judge(facts(now=now, due_since=due_since), now=now)


def facts(*, now: datetime, due_since: Mapping[str, datetime | None] | None = None) -> Facts:
    """Read the facts for alerts with four statements and a few accesses to files.

    `due_since` is the result of `daemon_activity.due_since`; if it is None, it is read here.
    """
    params = {
        "now": now,
        "max_refusals": MAX_REFUSALS,
        "max_infeasible": settings.PROJECT.max_infeasible,
        "remind_before": REMIND_BEFORE,
        "seen_since": now - SEEN_WITHIN,
    }
    row = sql.fetch_one("health/read_troubles", params) or {}
    stages = {str(stage.value): stage.name.lower() for stage in ScienceFailure.Stage}
    notice = storage.notice("maintenance")
    apps = list(App.objects.filter(deprecated=False).order_by("name").values(*_APP_COLUMNS))
    return Facts(
        lives=lives(),
        daemons_paused=notice is not None and bool(notice.get("daemons", True)),
        maintenance=_maintenance(notice),
        oldest=daemon_activity.due_since(now=now) if due_since is None else due_since,
        hard_to_send=row["hard_to_send"],
        hosts_about=row["hosts_about"],
        refused_by_all=(row["refused_by"] or {}).get(str(row["hosts_about"]), 0),
        parked={stages[stage]: n for stage, n in sorted((row["parked"] or {}).items())},
        unknown_science=_unknown_science(apps),
        unserved_command_apps=_unserved_command_apps(apps),
        expiring_batches=tuple(row["expiring_batches"] or ()),
        waiting_queues=tuple(slots.waiting_queues(seen_since=now - SEEN_WITHIN)),
        rolled_back=tuple((name, reason) for name, reason in row["rolled_back"] or ()),
        checks={
            kind: LastCheck(datetime.fromtimestamp(ended, UTC), unresolved)
            for kind, (ended, unresolved) in (row["last_checks"] or {}).items()
        },
        open_outages=row["open_outages"],
        web_seen_at=row["web_seen_at"],
        uploads_stopped=storage.uploads_stopped(),
        parked_messages=row["parked_messages"],
        disk_is_full=not storage.has_room_for(0),
        disk_is_nearly_full=not storage.has_room_for(NEARLY_FULL_NBYTES),
    )


def lives() -> dict[str, datetime | None]:
    """Return the time of each daemon's last heartbeat, or None if there was none."""
    daemons: dict[str, Any] = import_string("daemons.registry.BY_NAME")
    seen = storage.signs_of_life()
    return {name: seen.get(name) for name in daemons}


def _unknown_science(apps: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return a sentence for each app with unknown science code or invalid options."""
    return tuple(
        f"App {app['name']}: {refusal}" for app in apps for _, refusal in science_refusals(app)
    )


def _unserved_command_apps(apps: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    if settings.PROJECT.command_apps:
        return ()
    return tuple(app["name"] for app in apps if app["kind"] == COMMAND)


def science_refusals(app: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the columns of `app` whose science code cannot be used, each with the reason."""
    minute = timedelta(minutes=1)
    checks: dict[str, tuple[str, tuple[object, ...]]] = {
        "validator": ("validators.check", (app.get("validator_options"),)),
        "assimilator": ("assimilators.find", (app.get("assimilator_options"), minute)),
        "generator": ("generators.check", (app.get("generator_options"),)),
        "trickle_handlers": ("trickles.check", ()),
    }
    refusals = [
        (column, _refusal(import_string(f"daemons.science.{check}"), app[column], *more))
        for column, (check, more) in checks.items()
        if app.get(column)
    ]
    return [(column, refusal) for column, refusal in refusals if refusal]


def _refusal(check: Callable[..., object], *arguments: object) -> str:
    """Return the error message of a check, or an empty string if the check passes."""
    try:
        check(*arguments)
    except (LookupError, ValueError) as error:
        return str(error)
    return ""


def _maintenance(notice: dict[str, Any] | None) -> str:
    if notice is None:
        return ""
    if notice.get("ended"):
        return "The project has ended: no work is sent."
    since = str(notice.get("since", ""))[:16].replace("T", " ")
    stopped = bool(notice.get("scheduler", True)), bool(notice.get("daemons", True))
    what = {
        (True, True): "scheduler RPCs are refused and the daemons are paused",
        (True, False): "scheduler RPCs are refused",
    }.get(stopped, "the daemons are paused")
    return f"Maintenance is on since {since or 'an unknown time'} UTC: {what}."
