"""Awards badges by their rules and by hand, and withdraws them.

Theory of operation.  The housekeeper assigns each published badge in a transaction of its own, with
a constant number of statements.  An account or team earns a badge only with credit, and an account
only while it is active.  An award by total credit or years is withdrawn only when the account
becomes inactive; one by percentage also when the account or team leaves the percentage.  Awards by
hand stay until they are withdrawn by hand.  Each transaction locks the badge, so that awards and a
deletion of the badge wait for each other; an account is locked before the badge.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import transaction
from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from scheduler import sql
from scheduler.credit.rules.badge_bounds import Bounds, count_within, years_before
from scheduler.models import Account, AccountBadge, Badge, Team, TeamBadge
from scheduler.people import audit, sharing

Rule = Badge.Rule
Award = AccountBadge | TeamBadge


class BadgeRefused(ValueError):
    """A badge cannot be awarded or stored. Hint: see the message."""


@dataclass(frozen=True, slots=True)
class Earners:
    """The numbers of accounts and teams that earn a badge now; None if it is not for them."""

    accounts: int | None
    teams: int | None


@dataclass(frozen=True, slots=True)
class HolderCounts:
    """The numbers of accounts and teams that have a badge."""

    accounts: int
    teams: int


@dataclass(frozen=True, slots=True)
class AwardChanges:
    """The numbers of awards that an assignment makes and withdraws."""

    awarded: int
    withdrawn: int


@dataclass(frozen=True, slots=True)
class _Holders:
    """The rows that can hold a badge, and the table of their awards."""

    rows: QuerySet[Any]
    awards: QuerySet[Any]
    #: The lookup from an award to its holder.
    lookup: str
    statement: str


_ACCOUNTS: Final = _Holders(
    Account.objects.filter(is_active=True, total_credit__gt=0),
    AccountBadge.objects.all(),
    "account",
    "credit/award_account_badge",
)
_TEAMS: Final = _Holders(
    Team.objects.filter(total_credit__gt=0),
    TeamBadge.objects.all(),
    "team",
    "credit/award_team_badge",
)


# By rule


def assign_all(*, now: datetime) -> int:
    """Assign all published badges with a rule; return the number of awards that changed."""
    badges = Badge.objects.filter(is_published=True).exclude(rule=Rule.BY_HAND).order_by("pk")
    return sum(assign(badge_id, now=now) for badge_id in badges.values_list("pk", flat=True))


@transaction.atomic
def assign(badge_id: int, *, now: datetime) -> int:
    """Award a badge to all holders that earn it, and withdraw it from others as its rule demands.

    Returns the number of awards that changed; 0 if the badge was deleted or has no rule.
    """
    badge = _locked(badge_id)
    if badge is None or badge.rule == Rule.BY_HAND:
        return 0
    changed = 0
    for holders in _holders_of(badge):
        bounds = _bounds(badge, holders, now)
        if bounds is None:
            changed += _delete(holders.awards.filter(badge=badge))
            continue
        changed += _withdraw_unearned(badge, holders, bounds)
        params = {
            "badge_id": badge.pk,
            "min_total": bounds.min_total,
            "min_recent": bounds.min_recent,
            "created_until": bounds.created_until,
            "now": now,
        }
        changed += sql.execute(holders.statement, params)
    _count(badge)
    return changed


def preview(badge: Badge, *, now: datetime) -> Earners:
    """Return how many accounts and teams earn the badge by its rule at this time."""
    numbers: dict[str, int] = {}
    for holders in _holders_of(badge):
        bounds = _bounds(badge, holders, now)
        earned = holders.rows.none() if bounds is None else holders.rows.filter(_within(bounds))
        numbers[holders.lookup] = earned.count()
    return Earners(numbers.get("account"), numbers.get("team"))


def changes(badge: Badge, *, now: datetime) -> AwardChanges:
    """Return how many awards `assign` would make and withdraw at this time."""
    awarded = withdrawn = 0
    for holders in _holders_of(badge) if badge.rule != Rule.BY_HAND else ():
        bounds = _bounds(badge, holders, now)
        awards = holders.awards.filter(badge=badge)
        if bounds is None:
            withdrawn += awards.count()
            continue
        earned = holders.rows.filter(_within(bounds))
        awarded += earned.exclude(pk__in=awards.values(f"{holders.lookup}_id")).count()
        withdrawn += awards.filter(_unearned(badge, holders, bounds)).count()
    return AwardChanges(awarded, withdrawn)


def _holders_of(badge: Badge) -> list[_Holders]:
    chosen = ((badge.for_accounts, _ACCOUNTS), (badge.for_teams, _TEAMS))
    return [holders for is_chosen, holders in chosen if is_chosen]


def _bounds(badge: Badge, holders: _Holders, now: datetime) -> Bounds | None:
    """Return the bounds of a badge's rule, or None if nobody can be within them."""
    threshold = badge.threshold
    if threshold is None:
        return None
    if badge.rule == Rule.TOTAL_CREDIT:
        return Bounds(min_total=threshold)
    if badge.rule == Rule.YEARS:
        return Bounds(created_until=years_before(now, int(threshold)))
    participants = holders.rows.filter(expavg_credit__gt=0)
    place = count_within(threshold, participants.count())
    if not place:
        return None
    averages = participants.order_by("-expavg_credit").values_list("expavg_credit", flat=True)
    # There can be fewer than were counted: then all who are left are within.
    last = list(averages[place - 1 : place]) or [sys.float_info.min]
    return Bounds(min_recent=last[0])


def _within(bounds: Bounds, lookup: str = "") -> Q:
    prefix = f"{lookup}__" if lookup else ""
    return Q(
        **{
            f"{prefix}total_credit__gte": bounds.min_total,
            f"{prefix}expavg_credit__gte": bounds.min_recent,
            f"{prefix}created_at__lte": bounds.created_until,
        }
    )


def _withdraw_unearned(badge: Badge, holders: _Holders, bounds: Bounds) -> int:
    return _delete(holders.awards.filter(_unearned(badge, holders, bounds), badge=badge))


def _unearned(badge: Badge, holders: _Holders, bounds: Bounds) -> Q:
    unearned = Q(pk__in=())
    if holders is _ACCOUNTS:
        unearned |= Q(account__is_active=False)
    if badge.rule == Rule.RECENT_PERCENTAGE:
        unearned |= ~_within(bounds, holders.lookup)
    return unearned


def _delete(awards: QuerySet[Any]) -> int:
    return awards.delete()[0]


# By hand


def award_account(badge_id: int, account_id: int, *, now: datetime) -> AccountBadge:
    """Award a badge to an account, and record it in the audit log.

    Raises `BadgeRefused` as `lock_for_account` does, or if the account has the badge already.
    """
    with transaction.atomic():
        badge = lock_for_account(badge_id, account_id)
        award, is_new = AccountBadge.objects.get_or_create(
            badge=badge, account_id=account_id, defaults={"created_at": now}
        )
        _finish(award, badge, is_new=is_new, now=now)
        return award


def award_team(badge_id: int, team_id: int, *, now: datetime) -> TeamBadge:
    """Award a badge to a team; otherwise like `award_account`."""
    with transaction.atomic():
        badge = lock_for_team(badge_id, team_id)
        award, is_new = TeamBadge.objects.get_or_create(
            badge=badge, team_id=team_id, defaults={"created_at": now}
        )
        _finish(award, badge, is_new=is_new, now=now)
        return award


def lock_for_account(badge_id: int, account_id: int) -> Badge:
    """Lock an account and a badge that is awarded to it by hand, and return the badge.

    Must be called in a transaction.  Raises `BadgeRefused` if the badge is not awarded by hand or
    is not for accounts, or if the account is not active.
    """
    accounts = Account.objects.select_for_update(no_key=True).filter(pk=account_id)
    account = accounts.only("pk", "is_active").first()
    badge = _locked_by_hand(badge_id)
    if not badge.for_accounts:
        raise BadgeRefused(f"Badge {badge} is for teams. Hint: award it to a team.")
    if account is None or not account.is_active:
        raise BadgeRefused(f"Account {account_id} is not active. Hint: check the number.")
    return badge


def lock_for_team(badge_id: int, team_id: int) -> Badge:
    """Lock a badge that is awarded to a team by hand, and return it; see `lock_for_account`."""
    team = Team.objects.select_for_update(no_key=True).filter(pk=team_id).only("pk").first()
    badge = _locked_by_hand(badge_id)
    if not badge.for_teams:
        raise BadgeRefused(f"Badge {badge} is for accounts. Hint: award it to an account.")
    if team is None:
        raise BadgeRefused(f"There is no team {team_id}. Hint: check the number.")
    return badge


def withdraw(award: Award, *, now: datetime) -> bool:
    """Withdraw an award and record it in the audit log; return False if it is gone already.

    A badge with a rule is awarded again by the next assignment, if it is still earned.
    """
    with transaction.atomic():
        badge = _locked(award.badge_id)
        if badge is None or not _delete(type(award)._default_manager.filter(pk=award.pk)):
            return False
        _record(audit.Event.BADGE_WITHDRAWN, badge, award, now)
        _count(badge)
        return True


def count_holders(badge_ids: Collection[int]) -> dict[int, HolderCounts]:
    """Return the numbers of accounts and teams with each badge, by its id, in one statement."""
    rows = Badge.objects.filter(pk__in=badge_ids).values_list(
        "pk", _count_in(AccountBadge.objects.all()), _count_in(TeamBadge.objects.all())
    )
    return {badge_id: HolderCounts(accounts, teams) for badge_id, accounts, teams in rows}


def _count_in(awards: QuerySet[Any]) -> Coalesce:
    """Return the number of awards of the badge of the outer statement."""
    of_badge = awards.filter(badge=OuterRef("pk")).order_by().values("badge")
    return Coalesce(Subquery(of_badge.annotate(number=Count("pk")).values("number")), 0)


def delete(badge: Badge, *, now: datetime) -> None:
    """Delete a badge with all its awards, and record it in the audit log."""
    with transaction.atomic():
        if Badge.objects.select_for_update().filter(pk=badge.pk).first() is None:
            return
        counts = {"accounts": badge.account_count, "teams": badge.team_count}
        details = {"deleted": True, **counts}
        audit.record(audit.Event.BADGE_CHANGED, now=now, subject=f"badge {badge}", details=details)
        Badge.objects.filter(pk=badge.pk).delete()


def _locked(badge_id: int) -> Badge | None:
    return Badge.objects.select_for_update(no_key=True).filter(pk=badge_id).first()


def _locked_by_hand(badge_id: int) -> Badge:
    badge = _locked(badge_id)
    if badge is None:
        raise BadgeRefused(f"There is no badge {badge_id}. Hint: reload the page.")
    if badge.rule != Rule.BY_HAND:
        raise BadgeRefused(
            f"Badge {badge} is awarded by its rule. Hint: create a badge that is awarded by hand."
        )
    return badge


def _finish(award: Award, badge: Badge, *, is_new: bool, now: datetime) -> None:
    if not is_new:
        raise BadgeRefused(f"Badge {badge} is awarded already. Hint: see the list of awards.")
    _record(audit.Event.BADGE_AWARDED, badge, award, now)
    _count(badge)


def _record(event: audit.Event, badge: Badge, award: Award, now: datetime) -> None:
    holder = "account" if isinstance(award, AccountBadge) else "team"
    details = {holder: getattr(award, f"{holder}_id")}
    audit.record(event, now=now, subject=f"badge {badge}", details=details)


def _count(badge: Badge) -> None:
    """Store the numbers of holders that everybody may see."""
    accounts = AccountBadge.objects.filter(sharing.shares("account"), badge=badge)
    Badge.objects.filter(pk=badge.pk).update(
        account_count=accounts.count(), team_count=TeamBadge.objects.filter(badge=badge).count()
    )
