"""Reads the computers of an account in pages; limits or hides one for its owner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from django.db import transaction
from django.db.models import Count, F, IntegerField, OuterRef, Q, QuerySet, Subquery, Sum, Value
from django.db.models.functions import Coalesce, Lower

from scheduler.hosts.machines import Gpu
from scheduler.lifecycle import ServerState
from scheduler.models import Account, Host, HostAppVersion, Result
from scheduler.people import audit, sharing
from scheduler.people.account_keys import AccountRefused

#: Maximum number of computers that one reply lists.
MAX_HOSTS: Final = 5000
#: The columns of computers that lists show.
_LISTED_COLUMNS: Final = (
    "created_at",
    "rpc_seqno",
    "rpc_at",
    "host_cpid",
    "total_credit",
    "expavg_credit",
    "expavg_at",
    "domain_name",
    "p_ncpus",
    "p_vendor",
    "p_model",
    "p_fpops",
    "p_iops",
    "os_name",
    "os_version",
    "m_nbytes",
    "d_free",
    "d_total",
    "venue",
)
#: Clients read at most 255 bytes, and match the name in preferences.
_MAX_VENUE: Final = 60
#: The maximum of a limit, as in the preferences for the project.
MAX_LIMIT: Final = 10_000
_LIMITS: Final = ("own_max_held", "own_max_cpus")
#: Sort orders of `page_of`; a leading "-" reverses an order.
ORDERS: Final[Mapping[str, object]] = {
    "name": Lower("domain_name"),
    "system": Lower("os_name"),
    "processors": F("p_ncpus"),
    "contact": F("rpc_at"),
    "total": F("total_credit"),
    "recent": F("expavg_credit"),
}
#: A computer is active if its last contact is not longer ago, as on BOINC's page of own computers.
ACTIVE_FOR: Final = timedelta(days=30)
_MAX_GPUS, _MAX_NAME, _MAX_RECORDS = 16, 120, 50


class Group(StrEnum):
    """Computers that a list can be limited to, by their last contact or their visibility."""

    ACTIVE = "active"
    INACTIVE = "inactive"
    HIDDEN = "hidden"


class System(StrEnum):
    """A family of operating systems."""

    WINDOWS = "windows"
    LINUX = "linux"
    MACOS = "macos"
    ANDROID = "android"
    OTHER = "other"


#: The first words of the names of operating systems, as clients report them.
_FIRST_WORDS: Final[Mapping[System, tuple[str, ...]]] = {
    System.WINDOWS: ("microsoft", "windows"),
    System.LINUX: ("linux",),
    System.MACOS: ("darwin", "mac"),
    System.ANDROID: ("android",),
}


@dataclass(frozen=True, slots=True)
class HostList:
    """A page of an account's computers; each has the annotation `in_progress`.

    `number` is the number of this page, from 1, and `pages` that of all pages.  `matching` is the
    number of computers on all pages, and `total` that of the account.
    """

    hosts: tuple[Host, ...]
    number: int
    pages: int
    matching: int
    total: int


class UnknownHost(AccountRefused):
    """The account has no such computer. Hint: list the account's computers."""

    error_num = -136


class BadVenue(AccountRefused):
    """This is not the name of a venue. Hint: use home, school or work."""


class BadLimit(AccountRefused):
    """This is not a limit. Hint: give a whole number from 0 to 10000, or none."""


def of_account(account: Account) -> list[Host]:
    """Return at most `MAX_HOSTS` computers of the account, in ascending id.

    A computer that was merged into another is left out.  Only the columns that lists show are read.
    """
    own = _unmerged().filter(account=account).only(*_LISTED_COLUMNS)
    return list(own.order_by("pk")[:MAX_HOSTS])


def with_progress(account: Account) -> QuerySet[Host]:
    """Return the computers of the account, with their numbers of results in progress."""
    held_results = Result.objects.filter(
        host_id=OuterRef("pk"), server_state=ServerState.IN_PROGRESS
    )
    # Without a grouping by a column, the subquery would return a row per result.
    numbers = (
        held_results.order_by().values("host_id").annotate(number=Count("pk")).values("number")
    )
    counted = Coalesce(Subquery(numbers, output_field=IntegerField()), Value(0))
    return _unmerged().filter(account=account).annotate(in_progress=counted)


def condition(*, group: Group | None = None, system: System | None = None, now: datetime) -> Q:
    """Return the condition for the computers of a group and of a family of operating systems.

    An index finds the computers of an account, and the condition is checked for each of them.
    """
    matching = Q()
    if group is Group.HIDDEN:
        matching &= Q(hidden=True)
    elif group is not None:
        is_active = Q(rpc_at__gt=now - ACTIVE_FOR)
        matching &= is_active if group is Group.ACTIVE else ~is_active
    if system is System.OTHER:
        matching &= ~_of_systems(*_FIRST_WORDS)
    elif system is not None:
        matching &= _of_systems(system)
    return matching


def _of_systems(*systems: System) -> Q:
    of_one = Q()
    for word in (word for system in systems for word in _FIRST_WORDS[system]):
        of_one |= Q(os_name__istartswith=word)
    return of_one


def page_of(
    account: Account, *, order: str, number: int, size: int, matching: Q | None = None
) -> HostList:
    """Return a page of the account's computers, sorted by a key of `ORDERS`; two statements.

    `matching` is a `condition` that the computers meet.  A number after the last page returns the
    last page.
    """
    matching = matching or Q()
    own = _unmerged().filter(account=account)
    counts = own.aggregate(total=Count("pk"), matching=Count("pk", filter=matching))
    pages = max(1, -(-counts["matching"] // size))
    number = min(max(1, number), pages)
    key = ORDERS[order.removeprefix("-")]
    keys = [key.desc() if order.startswith("-") else key.asc(), "pk"]  # type: ignore[attr-defined]
    first = (number - 1) * size
    hosts = with_progress(account).filter(matching).order_by(*keys)[first : first + size]
    return HostList(tuple(hosts), number, pages, counts["matching"], counts["total"])


def totals(account: Account) -> tuple[int, int]:
    """Return the numbers of the account's computers and of their results in progress."""
    counts = with_progress(account).aggregate(hosts=Count("pk"), held=Sum("in_progress"))
    return counts["hosts"], counts["held"] or 0


def find(account: Account, host_id: int) -> Host | None:
    """Return the account's computer with the annotation `in_progress`, or None."""
    return with_progress(account).filter(pk=host_id).first()


def records(host: Host, *, today: date) -> list[HostAppVersion]:
    """Return the records of app versions on a computer, the newest versions first.

    `results_today` counts the results of `today`; the row may have the count of an earlier day.
    """
    rows = HostAppVersion.objects.filter(host=host).order_by("-app_version_id")
    listed = list(rows.select_related("app_version__app", "app_version__platform")[:_MAX_RECORDS])
    for record in listed:
        if record.quota_day != today:
            record.results_today = 0
    return listed


def gpus_of(host: Host) -> list[Gpu]:
    """Return the GPUs that the client reported, at most 16 kinds; unreadable ones are left out."""
    stored = host.capabilities.get("gpus") if isinstance(host.capabilities, Mapping) else None
    rows = stored if isinstance(stored, list) else []
    return [_gpu(row) for row in rows[:_MAX_GPUS] if isinstance(row, Mapping)]


def _gpu(stored: Mapping[str, Any]) -> Gpu:
    """Return stored GPUs with short texts; values of a wrong type become the defaults."""
    count, ram_bytes = stored.get("count"), stored.get("ram_bytes")
    return Gpu(
        kind=str(stored.get("kind", ""))[:_MAX_NAME],
        name=str(stored.get("name", ""))[:_MAX_NAME],
        count=count if isinstance(count, int) else 1,
        ram_bytes=ram_bytes if isinstance(ram_bytes, float | int) else 0.0,
    )


def find_shown(host_id: int) -> Host | None:
    """Return a computer with its account if everybody may see it (`sharing`), else None."""
    shown = Host.objects.filter(sharing.shown_hosts(), pk=host_id)
    return shown.select_related("account").first()


def set_venue(account: Account, host_id: int, venue: str, *, now: datetime) -> None:
    """Set the venue of the account's computer; the next scheduler reply has it.

    An empty venue selects the preferences that belong to no venue.  Raises `UnknownHost`,
    `BadVenue`.
    """
    change(account, host_id, {"venue": venue}, now=now)


def change(
    account: Account, host_id: int, values: Mapping[str, str | int | None], *, now: datetime
) -> None:
    """Set columns of the account's computer: `venue`, `own_max_held`, `own_max_cpus`, `hidden`.

    A limit replaces that of the preferences for the project: 0 means no limit, and with None the
    preferences apply.  The next request for work uses it; results in progress stay.  `hidden` hides
    the computer from others at once.  Raises `UnknownHost`, `BadVenue`, `BadLimit`.
    """
    for name, value in values.items():
        _check(name, value)
    own = _unmerged().filter(pk=host_id, account=account)
    with transaction.atomic():
        if not own.update(**values):
            raise UnknownHost(
                f"The account has no computer {host_id}. Hint: list the account's computers."
            )
        subject = f"host {host_id}"
        audit.record(audit.Event.HOST_CHANGED, now=now, subject=subject, details=dict(values))


def _check(name: str, value: str | int | None) -> None:
    """Raise `BadVenue` or `BadLimit` for a value that the column cannot have."""
    if name == "venue":
        venue = str(value)
        if len(venue) > _MAX_VENUE or not venue.isprintable() or set("<>&\"'") & set(venue):
            raise BadVenue(f"{venue[:60]!r} is not a venue. Hint: use home, school or work.")
    elif name in _LIMITS and value is not None and not _is_limit(value):
        raise BadLimit(
            f"{str(value)[:20]} is not a limit. Hint: give a whole number from 0 to {MAX_LIMIT}."
        )


def _is_limit(value: object) -> bool:
    return isinstance(value, int) and 0 <= value <= MAX_LIMIT


def _unmerged() -> QuerySet[Host]:
    return Host.objects.filter(merged_into__isnull=True)
