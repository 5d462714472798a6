"""Exports tables.xml, user.gz, team.gz, host.gz and others for statistics sites.

The format is that of BOINC's statistics export.  Each file is first written row by row under a
temporary name in the same folder.  When all files are complete, they are renamed, ``tables.xml``
last.  A reader never gets a partial file.  If a write fails, the files of the last export remain.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Any

from scheduler.boinc import statistics_export
from scheduler.credit import badges
from scheduler.health.invariants import one_snapshot
from scheduler.models import Badge, StatisticsDeletion
from scheduler.storage.syncing import sync, sync_folder

PROLOGUE = '<?xml version="1.0" encoding="utf-8"?>\n'

Row = Mapping[str, Any]
Kind = StatisticsDeletion.Kind
Element = tuple[str, object]


class BadFolder(ValueError):
    """Statistics cannot be written to the folder. Hint: name a folder that is writable."""


@dataclass(frozen=True, slots=True)
class Written:
    """The numbers of exported rows."""

    users: int
    teams: int
    hosts: int
    deleted_users: int
    deleted_hosts: int


def export(folder: Path, *, now: datetime) -> Written:
    """Write all export files into `folder`, from one snapshot of the database.

    Creates the folder if it does not exist.  Raises `BadFolder` if a file cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _replacing(folder, int(now.timestamp())) as open_file, one_snapshot():
            written = Written(
                users=_rows(open_file("user.gz"), "users", map(user, statistics_export.accounts())),
                teams=_rows(open_file("team.gz"), "teams", map(team, statistics_export.teams())),
                hosts=_rows(open_file("host.gz"), "hosts", map(host, statistics_export.hosts())),
                deleted_users=_rows(
                    open_file("user_deleted.gz"),
                    "users_deleted",
                    map(deleted_user, statistics_export.deletions(Kind.ACCOUNT)),
                ),
                deleted_hosts=_rows(
                    open_file("host_deleted.gz"),
                    "hosts_deleted",
                    map(deleted_host, statistics_export.deletions(Kind.HOST)),
                ),
            )
            awards = map(badge_user, statistics_export.account_badges())
            _rows(open_file("badge_user.gz"), "badge_users", awards)
            awards = map(badge_team, statistics_export.team_badges())
            _rows(open_file("badge_team.gz"), "badge_teams", awards)
            open_file("tables.xml").write(PROLOGUE + tables(written, now))
    except OSError as error:
        msg = f"{folder} cannot be written to: {error.strerror or error}."
        raise BadFolder(f"{msg} Hint: name a folder that this user may write to.") from error
    return written


# The folder


@contextmanager
def _replacing(folder: Path, made_at: int) -> Iterator[Callable[[str], IO[str]]]:
    """Yield a function that opens an export file under a temporary name.

    After the block, the new files replace the old files.  After an exception, the new files are
    deleted.
    """
    files: dict[str, IO[str]] = {}

    def open_file(name: str) -> IO[str]:
        raw = (folder / f".{name}.part").open("wb")
        if name.endswith(".gz"):
            packed = gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=made_at)
            files[name] = _Packed(packed, raw)
        else:
            files[name] = TextIOWrapper(raw, encoding="utf-8")
        return files[name]

    try:
        yield open_file
        for file in files.values():
            file.close()
        sync([str(folder / f".{name}.part") for name in files], top=str(folder))
        for name in files:
            (folder / f".{name}.part").replace(folder / name)
        sync_folder(str(folder))
    finally:
        for name, file in files.items():
            with suppress(OSError, ValueError):
                file.close()
            (folder / f".{name}.part").unlink(missing_ok=True)


class _Packed(TextIOWrapper):
    """A gzip text file; `close` also closes the underlying file, which `GzipFile` leaves open."""

    def __init__(self, packed: gzip.GzipFile, raw: IO[bytes]) -> None:
        super().__init__(packed, encoding="utf-8")
        self._raw_file = raw

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._raw_file.close()


# The format


def _rows(file: IO[str], tag: str, rows: Iterable[str]) -> int:
    """Write `rows` as the children of the XML element `tag`; return the number of rows."""
    file.write(f"{PROLOGUE}<{tag}>\n")
    count = 0
    for count, row in enumerate(rows, 1):  # noqa: B007  counted, and used below
        file.write(row)
    file.write(f"</{tag}>\n")
    return count


def user(row: Row) -> str:
    """Return an account as BOINC's ``<user>``."""
    optional = [("country", row["country"]), ("url", row["url"]), ("teamid", row["team_id"])]
    secret = row["cross_project_id"] + row["email"]
    return _element(
        "user",
        [
            ("id", row["id"]),
            ("name", row["name"]),
            ("create_time", _seconds(row["created_at"])),
            *_credit(row),
            ("cpid", hashlib.md5(secret.encode(), usedforsecurity=False).hexdigest()),
            *((tag, value) for tag, value in optional if value),
        ],
    )


def team(row: Row) -> str:
    """Return a team as BOINC's ``<team>``; omits a founder who does not share statistics."""
    optional = [(tag, row[tag]) for tag in ("url", "description", "country")]
    shares = bool(row["founder_shares"])
    return _element(
        "team",
        [
            ("id", row["id"]),
            ("type", row["kind"]),
            ("name", row["name"]),
            ("userid", row["founder_id"] if shares else 0),
            *_credit(row),
            ("founder_name", row["founder_name"] if shares else ""),
            ("create_time", _seconds(row["created_at"])),
            *((tag, value) for tag, value in optional if value),
        ],
    )


def host(row: Row) -> str:
    """Return a host as BOINC's ``<host>``; omits an owner who does not show the host."""
    named = [("userid", row["account_id"])] if row["names_owner"] else []
    measured = "p_fpops p_iops p_membw m_nbytes m_cache m_swap d_total d_free n_bwup n_bwdown"
    return _element(
        "host",
        [
            ("id", row["id"]),
            *named,
            *_credit(row),
            *((tag, row[tag]) for tag in ("p_vendor", "p_model", "os_name", "os_version")),
            ("misc", json.dumps({"gpus": row["capabilities"].get("gpus", [])})),
            ("create_time", _seconds(row["created_at"])),
            ("rpc_time", _seconds(row["rpc_at"])),
            ("timezone", row["timezone"]),
            ("ncpus", row["p_ncpus"]),
            *((tag, float(row[tag])) for tag in measured.split()),
            ("avg_turnaround", row["turnaround_seconds"]),
            # A constant, as in BOINC, which no longer measures this value.
            ("credit_per_cpu_sec", 0.0),
            ("host_cpid", row["host_cpid"]),
        ],
    )


def deleted_user(row: Row) -> str:
    """Return an account that sites must delete as BOINC's ``<user>`` of user_deleted."""
    return _element("user", [("id", row["number"]), ("cpid", row["cpid"])])


def deleted_host(row: Row) -> str:
    """Return a computer that sites must delete as BOINC's ``<host>`` of host_deleted."""
    return _element("host", [("id", row["number"]), ("host_cpid", row["cpid"])])


def badge_user(row: Row) -> str:
    """Return the award of a badge to an account as BOINC's ``<badge_user>``."""
    return _award("badge_user", [("user_id", row["account_id"])], row)


def badge_team(row: Row) -> str:
    """Return the award of a badge to a team as BOINC's ``<badge_team>``."""
    return _award("badge_team", [("team_id", row["team_id"])], row)


def _award(tag: str, holder: list[Element], row: Row) -> str:
    created_at = _seconds(row["created_at"])
    return _element(tag, [*holder, ("badge_id", row["badge_id"]), ("create_time", created_at)])


def badge(row: Badge) -> str:
    """Return a badge as BOINC's ``<badge>``."""
    return _element(
        "badge",
        [
            ("id", row.pk),
            ("name", row.name),
            ("title", row.title),
            ("image_url", badges.image_url(row)),
        ],
    )


def tables(written: Written, now: datetime) -> str:
    """Return the time of the export, its totals, apps and badges as BOINC's ``<tables>``."""
    apps = "".join(_element("application", [("name", n)]) for n in statistics_export.applications())
    badge_rows = "".join(map(badge, statistics_export.badges()))
    summary = [
        ("update_time", _seconds(now)),
        ("nusers_total", written.users),
        ("nteams_total", written.teams),
        ("nhosts_total", written.hosts),
        *_unless_zero("nusers_deleted_total", written.deleted_users),
        *_unless_zero("nhosts_deleted_total", written.deleted_hosts),
        ("total_credit", float(statistics_export.total_credit())),
    ]
    lines = "".join(map(_line, summary))
    return (
        f"<tables>\n{lines}<applications>\n{apps}</applications>\n"
        f"<badges>\n{badge_rows}</badges>\n</tables>\n"
    )


def _unless_zero(tag: str, number: int) -> list[Element]:
    return [(tag, number)] if number else []


def _credit(row: Row) -> list[Element]:
    averaged_at = row["expavg_at"]
    return [
        ("total_credit", float(row["total_credit"])),
        ("expavg_credit", float(row["expavg_credit"])),
        ("expavg_time", averaged_at.timestamp() if averaged_at else 0.0),
    ]


def _seconds(at: datetime) -> int:
    return int(at.timestamp())


def _element(tag: str, children: Iterable[Element]) -> str:
    return f"<{tag}>\n{''.join(map(_line, children))}</{tag}>\n"


def _line(child: Element) -> str:
    tag, value = child
    if isinstance(value, float):
        return f" <{tag}>{value:.6f}</{tag}>\n"
    return f" <{tag}>{statistics_export.element_text(value)}</{tag}>\n"
