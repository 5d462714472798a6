"""Encodes the state of the server and the published versions of its apps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from scheduler.boinc.wire.documents import document
from scheduler.boinc.wire.shapes import FLAG, INT, LONG, REAL, TEXT, Row, Shape, nested, rows


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonLine:
    """A program of the server; `status` is `running`, `not running` or `disabled`."""

    host: str
    command: str
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AppLine:
    """The results of an app; run times are in hours, and None without recent results."""

    id: int
    name: str
    unsent: int
    in_progress: int
    avg_runtime: float | None = None
    min_runtime: float | None = None
    max_runtime: float | None = None
    users: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStates:
    """Counts of work, accounts and hosts; the speed is in GFLOPS.

    Figures that are not known yet are None, and their elements are left out.
    """

    results_ready_to_send: int | None = None
    results_in_progress: int | None = None
    workunits_waiting_for_validation: int | None = None
    workunits_waiting_for_assimilation: int | None = None
    workunits_waiting_for_deletion: int | None = None
    results_waiting_for_deletion: int | None = None
    transitioner_backlog_hours: float | None = None
    users_with_recent_credit: int | None = None
    users_with_credit: int | None = None
    users_registered_in_past_24_hours: int | None = None
    hosts_with_recent_credit: int | None = None
    hosts_with_credit: int | None = None
    hosts_registered_in_past_24_hours: int | None = None
    current_floating_point_speed: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCounts:
    """The counts of `server_status.php?counts=1`."""

    results_ready_to_send: int
    results_in_progress: int
    results_need_file_delete: int
    wus_need_validate: int
    wus_need_assimilate: int
    wus_need_file_delete: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionLine:
    """A published version; `date` is a text for people and `date_unix` the same time."""

    platform_short: str
    platform_long: str
    version_num: int
    plan_class: str
    date: str
    date_unix: int
    beta: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """An app with its newest version for each platform and plan class."""

    user_friendly_name: str
    name: str
    id: int
    beta: bool = False
    versions: tuple[VersionLine, ...] = ()


_DAEMON: Final = nested(Shape(DaemonLine, rows(TEXT, "host command status")))
_APP: Final = nested(
    Shape(
        AppLine,
        [
            Row("id", LONG),
            Row("name", TEXT),
            *rows(LONG, "unsent in_progress"),
            *rows(REAL, "avg_runtime min_runtime max_runtime"),
            Row("users", LONG),
        ],
    )
)
_STATES: Final = Shape(
    FileStates,
    [
        *rows(LONG, "results_ready_to_send results_in_progress"),
        *rows(LONG, "workunits_waiting_for_validation workunits_waiting_for_assimilation"),
        *rows(LONG, "workunits_waiting_for_deletion results_waiting_for_deletion"),
        Row("transitioner_backlog_hours", REAL),
        *rows(LONG, "users_with_recent_credit users_with_credit"),
        Row("users_registered_in_past_24_hours", LONG),
        *rows(LONG, "hosts_with_recent_credit hosts_with_credit"),
        Row("hosts_registered_in_past_24_hours", LONG),
        Row("current_floating_point_speed", REAL),
    ],
)
_COUNTS: Final = Shape(
    JobCounts,
    [
        *rows(LONG, "results_ready_to_send results_in_progress results_need_file_delete"),
        *rows(LONG, "wus_need_validate wus_need_assimilate wus_need_file_delete"),
    ],
)
_VERSION: Final = Shape(
    VersionLine,
    [
        *rows(TEXT, "platform_short platform_long"),
        Row("version_num", INT),
        *rows(TEXT, "plan_class date"),
        Row("date_unix", LONG),
        Row("beta", FLAG),
    ],
)
_APPLICATION: Final = nested(
    Shape(
        Application,
        [
            *rows(TEXT, "user_friendly_name name"),
            Row("id", LONG),
            Row("beta", FLAG),
            Row("version", nested(_VERSION), field="versions", many=True),
        ],
    )
)


def encode_server_status(
    daemons: Iterable[DaemonLine], states: FileStates, apps: Iterable[AppLine]
) -> bytes:
    """Return the reply of `server_status.php?xml=1`."""
    return document(
        "server_status",
        f"<daemon_status>\n{''.join(_DAEMON.write('daemon', each, '  ') for each in daemons)}"
        f"</daemon_status>\n<database_file_states>\n{_STATES.write(states, '  ')}"
        f"<tasks_by_app>\n{''.join(_APP.write('app', each, '') for each in apps)}"
        "</tasks_by_app>\n</database_file_states>\n",
    )


def encode_job_counts(counts: JobCounts) -> bytes:
    """Return the reply of `server_status.php?counts=1`."""
    return document("job_counts", _COUNTS.write(counts, "    "))


def encode_applications(applications: Iterable[Application]) -> bytes:
    """Return the reply of `apps.php?xml=1`."""
    lines = (_APPLICATION.write("application", each, "") for each in applications)
    return document("app_versions", "".join(lines))
