"""Sends an app version to a share of the hosts, and rolls it back after errors.

Theory of operation.  A version with `rollout_percent` of less than 100 goes to this share of the
hosts (`hosts.rules.rollout_shares`); the others get the previous version.  Dispatch reads the share
with the cached versions.  With `max_error_percent`, the housekeeper compares the error rate of the
last `WINDOW`, but not before the hour of the last change of the roll-out, with this limit.  Above
it, the share becomes 0, and an alert reports it until the version is deprecated or its roll-out is
changed.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction
from django.db.models import Sum

from scheduler.dispatch.catalog import ANONYMOUS
from scheduler.dispatch.rules.sendability import SEEN_WITHIN
from scheduler.health import outcome_counts
from scheduler.health.rules.error_rates import Rate, exceeds
from scheduler.hosts.rules.rollout_shares import place
from scheduler.models import AppVersion, Host, VersionOutcomes
from scheduler.people import audit
from scheduler.people.audit import Event

#: The period of the error rate that is compared with the limit.
WINDOW: Final = timedelta(hours=24)
MAX_PERCENT: Final = 100
#: Fewer results may fail by chance, or on a few broken hosts.
DEFAULT_ROLLBACK_RESULTS: Final = 50
_MAX_LIMIT: Final = 99
_MAX_RESULTS: Final = 1_000_000


class BadRollout(ValueError):
    """The roll-out is out of range, or the version has none. Hint: the message has the range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """The share of the hosts in percent, and the automatic roll-back.

    The version is rolled back if more than `max_error_percent` percent of at least
    `min_rollback_results` results failed; None means no automatic roll-back.
    """

    rollout_percent: int = MAX_PERCENT
    max_error_percent: int | None = None
    min_rollback_results: int = DEFAULT_ROLLBACK_RESULTS

    def check(self) -> None:
        """Raise `BadRollout` for a number out of range."""
        if not 0 <= self.rollout_percent <= MAX_PERCENT:
            raise BadRollout(
                f"The share is {self.rollout_percent} %. Hint: give a number from 0 to 100."
            )
        limit = self.max_error_percent
        if limit is not None and not 0 <= limit <= _MAX_LIMIT:
            raise BadRollout(f"The limit is {limit} %. Hint: give a number from 0 to 99, or none.")
        if not 1 <= self.min_rollback_results <= _MAX_RESULTS:
            raise BadRollout(
                f"The number of results is {self.min_rollback_results}. "
                f"Hint: give a number from 1 to {_MAX_RESULTS}."
            )


@dataclass(frozen=True, slots=True)
class Preview:
    """The numbers of active hosts of the version's platform: all, and in the share before, after.

    `rate` is the rate of the version that the automatic roll-back would use after the change.
    """

    hosts: int
    before: int
    after: int
    rate: Rate
    is_above_limit: bool


def preview(version: AppVersion, rollout: Rollout, *, now: datetime) -> Preview:
    """Return what a change of the roll-out affects; raises `BadRollout`."""
    _check(version, rollout)
    seen = Host.objects.filter(
        rpc_at__gt=now - SEEN_WITHIN,
        denied=False,
        merged_into=None,
        platform_name=version.platform.name,
    )
    places = [place(id_, version.pk) for id_ in seen.values_list("id", flat=True).iterator()]
    rate = _rate(version.pk, since=outcome_counts.hour_of(now))
    limit = rollout.max_error_percent
    return Preview(
        hosts=len(places),
        before=sum(each < version.rollout_percent for each in places),
        after=sum(each < rollout.rollout_percent for each in places),
        rate=rate,
        is_above_limit=limit is not None
        and exceeds(rate, max_error_percent=limit, min_results=rollout.min_rollback_results),
    )


def change(version_id: int, rollout: Rollout, *, now: datetime) -> AppVersion:
    """Set the roll-out of a version, and write an audit entry; also ends the alert of a roll-back.

    Raises `BadRollout`, and `AppVersion.DoesNotExist`.
    """
    with transaction.atomic():
        version = _lock(version_id)
        _check(version, rollout)
        fields = asdict(rollout)
        before = {name: getattr(version, name) for name in fields}
        for name, value in fields.items():
            setattr(version, name, value)
        version.rollout_at, version.rolled_back_at, version.rollback_reason = now, None, ""
        version.save(update_fields=[*fields, "rollout_at", "rolled_back_at", "rollback_reason"])
        audit.record(
            Event.VERSION_CHANGED,
            now=now,
            subject=f"app version {version}",
            details={"before": before, **fields},
        )
    return version


def roll_back(*, now: datetime) -> int:
    """Set the share of each version above its limit to 0; return the number of these versions."""
    watched = AppVersion.objects.filter(
        rollout_percent__gt=0, max_error_percent__isnull=False, deprecated=False
    )
    return sum(
        _roll_back(id_, now=now) for id_ in watched.order_by("id").values_list("id", flat=True)
    )


def _roll_back(version_id: int, *, now: datetime) -> bool:
    with transaction.atomic():
        # Another change of the roll-out may have been committed meanwhile.
        version = _lock(version_id)
        limit = version.max_error_percent
        if limit is None or not version.rollout_percent or version.deprecated:
            return False
        since = outcome_counts.hour_of(now - WINDOW)
        if version.rollout_at is not None:
            since = max(since, outcome_counts.hour_of(version.rollout_at))
        rate = _rate(version.pk, since=since)
        if not exceeds(rate, max_error_percent=limit, min_results=version.min_rollback_results):
            return False
        reason = (
            f"{rate.failed} of {rate.reported} results failed since {since:%Y-%m-%d %H:%M} UTC "
            f"({rate.percent:.1f} %); the limit is {limit} %"
        )
        before = version.rollout_percent
        version.rollout_percent, version.rolled_back_at = 0, now
        version.rollback_reason = reason
        version.save(update_fields=["rollout_percent", "rolled_back_at", "rollback_reason"])
        audit.record(
            Event.VERSION_CHANGED,
            now=now,
            subject=f"app version {version}",
            details={"before": {"rollout_percent": before}, "rollout_percent": 0, "reason": reason},
        )
    return True


def _check(version: AppVersion, rollout: Rollout) -> None:
    if version.platform.name == ANONYMOUS:
        raise BadRollout("Programs of volunteers have no roll-out. Hint: choose another version.")
    rollout.check()


def _lock(version_id: int) -> AppVersion:
    versions = AppVersion.objects.select_related("app", "platform")
    return versions.select_for_update(of=("self",), no_key=True).get(pk=version_id)


def _rate(version_id: int, *, since: datetime) -> Rate:
    counted = VersionOutcomes.objects.filter(app_version_id=version_id, hour__gte=since)
    sums = counted.aggregate(Sum("reported"), Sum("errors"), Sum("invalid"))
    return Rate("", sums["reported__sum"] or 0, sums["errors__sum"] or 0, sums["invalid__sum"] or 0)
