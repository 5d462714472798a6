"""Encodes accounts, hosts and teams for account managers and statistics sites."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote_plus

from scheduler.boinc.wire.documents import document, well_formed
from scheduler.boinc.wire.shapes import (
    BIT,
    FLAG,
    INT,
    LONG,
    REAL,
    TEXT,
    Kind,
    Row,
    Shape,
    nested,
    rows,
    uncached,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownHost:
    """A computer, as its owner's account manager sees it."""

    id: int
    create_time: int
    rpc_seqno: int
    rpc_time: int
    host_cpid: str
    total_credit: float
    expavg_credit: float
    expavg_time: float
    domain_name: str
    p_ncpus: int
    p_vendor: str
    p_model: str
    p_fpops: float
    p_iops: float
    os_name: str
    os_version: str
    m_nbytes: float
    d_free: float
    d_total: float
    venue: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownUser:
    """An account; `venue` and `hosts` are None and empty if the caller may not see them."""

    id: int
    cpid: str
    create_time: int
    name: str
    total_credit: float
    expavg_credit: float
    expavg_time: float
    teamid: int
    has_profile: bool = False
    venue: str | None = None
    hosts: tuple[ShownHost, ...] = ()
    country: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownMember:
    """A member of a team; the fields after `total_credit` are None in a list of credit."""

    id: int
    cpid: str
    total_credit: float
    create_time: int | None = None
    name: str | None = None
    expavg_credit: float | None = None
    expavg_time: float | None = None
    has_profile: bool | None = None
    country: str | None = None
    url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTeam:
    """A team; `userid` is 0 if its founder may not be named."""

    id: int
    create_time: int
    userid: int
    name: str
    url: str
    type: int
    country: str
    total_credit: float
    expavg_credit: float
    expavg_time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountInfo:
    """The account of a key, with the preferences that account managers copy.

    Name, country and URL are percent-encoded in the reply.  The preferences are raw XML, without
    the tags around them.  `send_email` is the consent to letters of the project.
    """

    id: int
    name: str
    country: str
    weak_auth: str
    cpid: str
    create_time: int
    global_prefs: str
    project_prefs: str
    url: str
    send_email: bool
    show_hosts: bool
    teamid: int
    venue: str
    teamfounder: bool
    has_profile: bool = False


def _write_quoted(element: str, value: str, indent: str) -> str:
    return f"{indent}<{element}>{quote_plus(value)}</{element}>\n"


def _preferences(inner: str) -> Kind:
    """Return a `Kind` for preferences, which are wrapped in `<inner>` as BOINC stores them."""

    def write(element: str, value: str, indent: str) -> str:
        raw = well_formed(value)
        content = f"<{inner}>\n{raw}\n</{inner}>\n" if raw.strip() else ""
        return f"{indent}<{element}>\n{content}{indent}</{element}>\n"

    return Kind(TEXT.read, uncached(write))


_QUOTED: Final = Kind(TEXT.read, uncached(_write_quoted))
_HOST: Final = Shape(
    ShownHost,
    [
        *rows(LONG, "id create_time rpc_seqno rpc_time"),
        Row("host_cpid", TEXT),
        *rows(REAL, "total_credit expavg_credit expavg_time"),
        Row("domain_name", TEXT),
        Row("p_ncpus", INT),
        *rows(TEXT, "p_vendor p_model"),
        *rows(REAL, "p_fpops p_iops"),
        *rows(TEXT, "os_name os_version"),
        *rows(REAL, "m_nbytes d_free d_total"),
        Row("venue", TEXT),
    ],
)
_USER: Final = Shape(
    ShownUser,
    [
        Row("id", LONG),
        Row("cpid", TEXT),
        Row("create_time", LONG),
        Row("name", TEXT),
        *rows(REAL, "total_credit expavg_credit expavg_time"),
        Row("teamid", LONG),
        Row("has_profile", BIT, always=True),
        Row("venue", TEXT),
        Row("host", nested(_HOST), field="hosts", many=True),
        *rows(TEXT, "country url"),
    ],
)
_MEMBER: Final = Shape(
    ShownMember,
    [
        Row("id", LONG),
        Row("cpid", TEXT),
        Row("total_credit", REAL),
        Row("create_time", LONG),
        Row("name", TEXT),
        *rows(REAL, "expavg_credit expavg_time"),
        Row("has_profile", BIT),
        *rows(TEXT, "country url"),
    ],
)
_TEAM: Final = Shape(
    ShownTeam,
    [
        *rows(LONG, "id create_time userid"),
        *rows(TEXT, "name url"),
        Row("type", INT),
        Row("country", TEXT),
        *rows(REAL, "total_credit expavg_credit expavg_time"),
    ],
)
_INFO: Final = Shape(
    AccountInfo,
    [
        Row("id", LONG),
        *rows(_QUOTED, "name country"),
        *rows(TEXT, "weak_auth cpid"),
        Row("has_profile", BIT, always=True),
        Row("create_time", LONG),
        Row("global_prefs", _preferences("global_preferences")),
        Row("project_prefs", _preferences("project_preferences")),
        Row("url", _QUOTED),
        Row("send_email", BIT, always=True),
        Row("show_hosts", BIT),
        Row("teamid", LONG),
        Row("venue", TEXT),
        Row("teamfounder", FLAG),
    ],
)
_USER_ELEMENT: Final = nested(_MEMBER)
_TEAM_ELEMENT: Final = nested(_TEAM)
_SUCCESS: Final = "    <success/>\n"


def encode_user(user: ShownUser) -> bytes:
    """Return the reply of `show_user.php?format=xml`."""
    return document("user", _USER.write(user, "    "))


def encode_team(team: ShownTeam) -> bytes:
    """Return the reply of `team_lookup.php?team_id=N`."""
    return document("team", _TEAM.write(team, "    "))


def encode_teams(teams: Iterable[ShownTeam]) -> bytes:
    """Return the reply of `team_lookup.php` to a list of ids or a name."""
    return document("teams", "".join(_TEAM_ELEMENT.write("team", team, "") for team in teams))


def encode_members(members: Iterable[ShownMember]) -> bytes:
    """Return the reply of `team_email_list.php?xml=1`."""
    return document("users", "".join(_USER_ELEMENT.write("user", each, "") for each in members))


def encode_account_info(info: AccountInfo) -> bytes:
    """Return the reply of `am_get_info.php`."""
    return document("am_get_info_reply", _SUCCESS + _INFO.write(info, "    "))


def encode_host_info_set() -> bytes:
    """Return the reply of a successful `am_set_host_info.php`."""
    return document("am_set_host_info_reply", _SUCCESS)
