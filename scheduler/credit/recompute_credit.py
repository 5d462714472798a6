"""Compares credit totals with the sums of their entries, and corrects the totals.

A total is written together with its entries, except those of hosts and teams by app, which have the
entries up to the cursor of `app_credits`.  So a difference means that the tables were changed by
hand or partly restored.  The owners of totals (hosts, accounts, teams, apps) are processed in
batches, in ascending id.  A comparison reads each batch in one snapshot.  A correction first locks
the owners of the batch, and then reads the entries.  Therefore, a concurrent grant is included in
both the total and the entries, or in neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db import transaction
from django.db.models import Manager, Min, Model, QuerySet, Sum

from scheduler.credit import app_credits
from scheduler.credit.rules.credit import recent_average
from scheduler.health.invariants import one_snapshot
from scheduler.models import (
    Account,
    AccountAppCredit,
    App,
    CreditEntry,
    Host,
    HostAppCredit,
    Result,
    Team,
    TeamAppCredit,
)

BATCH = 1000
#: The assumed duration of an owner's first granted result if the result is purged.
ASSUMED_FIRST_WORK = timedelta(days=1)

Key = tuple[int, ...]
Progress = Callable[[int], None]


class UnknownApp(LookupError):
    """No app has this name.  Hint: the admin lists the apps."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A stored total (`kept`) that differs from the sum of its entries (`entered`)."""

    kind: str
    name: str
    kept: Decimal
    entered: Decimal


@dataclass(frozen=True, slots=True)
class Scope:
    """The totals to process: the totals of one app, or all totals if `app_id` is None."""

    app_id: int | None = None

    @classmethod
    def of_app(cls, name: str) -> Scope:
        """Return the scope of the app with this name; raise `UnknownApp` if no app has it."""
        if app := App.objects.filter(name=name).only("pk").first():
            return cls(app.pk)
        raise UnknownApp(f"There is no app {name!r}. Hint: the admin lists the apps.")


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of credit total, such as the totals of hosts.

    `key` names the columns of an entry that identify its total.  The rows of `owners` are locked
    for a correction.  `table` stores the totals; `columns` names its columns for the total, the
    recent average and the time of the average.  If `is_delayed`, a total has only the entries that
    `app_credits` has counted.
    """

    name: str
    key: tuple[str, ...]
    owners: type[Model]
    table: type[Model]
    columns: tuple[str, str, str] = ("total_credit", "expavg_credit", "expavg_at")
    is_delayed: bool = False


_BY_APP = ("total", "expavg", "expavg_at")


def _kinds(scope: Scope) -> tuple[_Kind, ...]:
    accounts_by_app = _Kind(
        "accounts by app", ("account_id", "app_id"), Account, AccountAppCredit, _BY_APP
    )
    others_by_app = (
        _Kind("hosts by app", ("host_id", "app_id"), Host, HostAppCredit, _BY_APP, True),
        _Kind("teams by app", ("team_id", "app_id"), Team, TeamAppCredit, _BY_APP, True),
    )
    # An app has no recent average.
    apps = _Kind("apps", ("app_id",), App, App, ("total_credit", "", ""))
    if scope.app_id is not None:
        return accounts_by_app, *others_by_app, apps
    return (
        _Kind("hosts", ("host_id",), Host, Host),
        _Kind("accounts", ("account_id",), Account, Account),
        accounts_by_app,
        _Kind("teams", ("team_id",), Team, Team),
        *others_by_app,
        apps,
    )


def count_owners(scope: Scope) -> int:
    """Return the number of owners to check; an owner counts once for each kind of total."""
    return sum(_owners(kind, scope).count() for kind in _kinds(scope))


def compare(scope: Scope, *, progress: Progress) -> Iterator[Difference]:
    """Yield every total that differs from the sum of its entries, without changing it.

    `progress` is called after each batch with its number of owners.
    """
    for kind in _kinds(scope):
        for ids in _batches(kind, scope):
            yield from _compare_batch(kind, scope, ids)
            progress(len(ids))


def kind_names() -> tuple[str, ...]:
    """Return the names of all kinds of totals, in the order in which `compare` processes them."""
    return tuple(kind.name for kind in _kinds(Scope()))


def next_owners(kind_name: str, after_id: int) -> list[int]:
    """Return the ids of the next owners of a kind of total, ascending, at most `BATCH`."""
    return _next_batch(_kind_named(kind_name), Scope(), after_id)


def compare_owners(kind_name: str, ids: Sequence[int]) -> list[Difference]:
    """Return the totals of these owners that differ from their entries, from one snapshot.

    If a transaction is open, it must have one snapshot.
    """
    return _compare_batch(_kind_named(kind_name), Scope(), ids)


def correct(scope: Scope, *, averages: bool = False, progress: Progress) -> Iterator[Difference]:
    """Correct every total that differs from its entries; yield the differences.

    The recent average of a corrected total is recomputed.  With `averages`, the recent average of
    every total that has entries is recomputed.  `progress` is called after each batch with its
    number of owners.
    """
    for kind in _kinds(scope):
        for ids in _batches(kind, scope):
            with transaction.atomic():
                locked = _all_rows(kind.owners).select_for_update(no_key=True)
                list(locked.filter(pk__in=ids).order_by("pk").values_list("pk"))
                if kind.is_delayed:
                    app_credits.lock_cursor()
                differences = list(_differences(kind, scope, ids))
                keys = {key for key, _ in differences}
                for key, difference in differences:
                    _write(kind, key, {kind.columns[0]: difference.entered})
                if kind.columns[1]:
                    _replay(kind, scope, ids, None if averages else keys)
            yield from (difference for _, difference in differences)
            progress(len(ids))


def _all_rows(table: type[Model]) -> Manager[Any]:
    """Return a manager of all rows, also of those of deleted teams."""
    return table._base_manager  # noqa: SLF001  documented by Django


def _owners(kind: _Kind, scope: Scope) -> QuerySet[Any]:
    rows = _all_rows(kind.owners).order_by("pk")
    return rows.filter(pk=scope.app_id) if kind.owners is App and scope.app_id else rows


def _batches(kind: _Kind, scope: Scope) -> Iterator[list[int]]:
    last = 0
    while ids := _next_batch(kind, scope, last):
        yield ids
        last = ids[-1]


def _next_batch(kind: _Kind, scope: Scope, after_id: int) -> list[int]:
    rows = _owners(kind, scope).filter(pk__gt=after_id)
    return list(rows.values_list("pk", flat=True)[:BATCH])


def _kind_named(name: str) -> _Kind:
    return next(kind for kind in _kinds(Scope()) if kind.name == name)


def _compare_batch(kind: _Kind, scope: Scope, ids: Sequence[int]) -> list[Difference]:
    with one_snapshot():
        return [difference for _, difference in _differences(kind, scope, ids)]


def _entries(kind: _Kind, scope: Scope, ids: Sequence[int]) -> QuerySet[CreditEntry]:
    rows = CreditEntry.objects.filter(**{f"{kind.key[0]}__in": ids}).order_by()
    # An entry that was made by hand may belong to no app.
    rows = rows.filter(**{f"{column}__isnull": False for column in kind.key})
    if kind.is_delayed:
        rows = rows.filter(pk__lte=app_credits.counted_to())
    return rows.filter(app_id=scope.app_id) if scope.app_id else rows


def _differences(kind: _Kind, scope: Scope, ids: Sequence[int]) -> Iterator[tuple[Key, Difference]]:
    is_own = kind.table is kind.owners
    rows = _all_rows(kind.table).filter(**{"pk__in" if is_own else f"{kind.key[0]}__in": ids})
    if scope.app_id and not is_own:
        rows = rows.filter(app_id=scope.app_id)
    names = ("pk",) if is_own else kind.key
    kept = {tuple(row[:-1]): row[-1] for row in rows.values_list(*names, kind.columns[0])}
    entered = {
        tuple(row[:-1]): row[-1]
        for row in _entries(kind, scope, ids).values_list(*kind.key).annotate(Sum("amount"))
    }
    for key in sorted(kept.keys() | entered.keys()):
        before, after = kept.get(key, Decimal(0)), entered.get(key, Decimal(0))
        if before != after:
            yield key, Difference(kind.name, _name(kind, key), before, after)


def _name(kind: _Kind, key: Key) -> str:
    words = (column.removesuffix("_id") for column in kind.key)
    return ", ".join(f"{word} {number}" for word, number in zip(words, key, strict=True))


def _write(kind: _Kind, key: Key, values: dict[str, Any]) -> None:
    if kind.table is kind.owners:
        _all_rows(kind.table).filter(pk=key[0]).update(**values)
    else:
        where: dict[str, Any] = dict(zip(kind.key, key, strict=True))
        _all_rows(kind.table).update_or_create(defaults=values, **where)


# Recent averages


def _replay(kind: _Kind, scope: Scope, ids: Sequence[int], keys: set[Key] | None) -> None:
    """Recompute recent averages from the entries, in the order of the grants.

    `keys` are the keys of the totals to process; None means every total that has entries.  Grants
    with the same time come from one pass, which added them in one step.  Therefore, this function
    adds them in one step as well.  Entries that were made by hand do not change an average.
    """
    grants = (
        _entries(kind, scope, ids)
        .filter(result_id__isnull=False)
        .values_list(*kind.key, "granted_at")
        .annotate(Sum("amount"))
        .order_by(*kind.key, "granted_at")
    )
    recent: dict[Key, tuple[float, datetime]] = {}
    for *parts, granted_at, amount in grants.iterator(chunk_size=2000):
        key = tuple(parts)
        if keys is not None and key not in keys:
            continue
        average, averaged_at = recent.get(key, (0.0, None))
        began_at = granted_at if averaged_at else _first_work(kind, key, granted_at)
        average = recent_average(
            average, averaged_at, float(amount), work_began_at=began_at, now=granted_at
        )
        recent[key] = (average, granted_at)
    for key in sorted(recent.keys() | (keys or set())):
        average, last = recent.get(key, (0.0, None))
        _write(kind, key, {kind.columns[1]: average, kind.columns[2]: last})


def _first_work(kind: _Kind, key: Key, granted_at: datetime) -> datetime:
    """Return the time at which the result of an owner's first grant was sent.

    If the result is purged, return the time `ASSUMED_FIRST_WORK` before the grant.
    """
    first = CreditEntry.objects.filter(
        **dict(zip(kind.key, key, strict=True)), granted_at=granted_at
    )
    sent_at = Result.objects.filter(pk__in=first.values("result_id")).aggregate(at=Min("sent_at"))
    return sent_at["at"] or granted_at - ASSUMED_FIRST_WORK
