"""Sets up, gives and takes roles; checks the permission to change an account.

Theory of operation.  A role is a Django group with the permissions of `rights.ROLES`.  Every
`migrate` resets these permissions.  A project that needs other permissions creates its own group.
Code checks `account.has_right(Right.X)`.  `is_staff` only gives access to the admin site.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from allauth.account.models import EmailAddress
from django.apps import apps
from django.conf import settings
from django.contrib.auth.management import create_permissions
from django.contrib.auth.models import Group, Permission
from django.db import transaction

from scheduler.models import Account, Submitter, SubmitterApp
from scheduler.people import audit
from scheduler.people.audit import Event
from scheduler.rights import FORMER_STAFF, FORMER_STAFF_RIGHTS, ROLES, Right, allowed_scopes

#: Groups whose permissions are defined by the release and cannot be changed in the admin.
BUILT_IN_GROUPS = frozenset({*ROLES, FORMER_STAFF})
#: Roles that set `is_staff`, because their members use the admin site.
_IN_ADMIN = frozenset({"publisher", "operator", "moderator", "read-only"})


class UnknownRole(ValueError):
    """No role has this name. Hint: see the roles in the message."""


def set_up() -> None:
    """Create missing groups of roles, and set the permissions of all groups of roles."""
    config = apps.get_app_config("scheduler")
    create_permissions(config, verbosity=0)
    ids = dict(
        Permission.objects.filter(content_type__app_label="scheduler").values_list("codename", "pk")
    )
    with transaction.atomic():
        groups = {group.name: group for group in Group.objects.filter(name__in=BUILT_IN_GROUPS)}
        for name, codenames in ROLES.items():
            group = groups.get(name) or Group.objects.get_or_create(name=name)[0]
            _set_permissions(group, {ids[codename] for codename in codenames})
        if former := groups.get(FORMER_STAFF):
            _set_permissions(former, {ids[codename] for codename in FORMER_STAFF_RIGHTS})


def _set_permissions(group: Group, wanted: set[int]) -> None:
    current = set(group.permissions.values_list("pk", flat=True))
    if current != wanted:
        group.permissions.set(wanted)


def of_account(account: Account) -> list[str]:
    """Return the names of an account's groups, after `superuser` if the account is a superuser."""
    names = sorted(account.groups.values_list("name", flat=True))
    return ["superuser", *names] if account.is_superuser else names


def members() -> dict[str, list[str]]:
    """Return the e-mail addresses of superusers and of each group's members, by group name."""
    emails_by_role: dict[str, list[str]] = {"superuser": []}
    emails_by_role |= {
        name: [] for name in Group.objects.order_by("name").values_list("name", flat=True)
    }
    superusers = Account.objects.filter(is_superuser=True).order_by("email")
    emails_by_role["superuser"] = list(superusers.values_list("email", flat=True))
    pairs = Account.groups.through.objects.order_by("account__email")
    for name, email in pairs.values_list("group__name", "account__email"):
        emails_by_role[name].append(email)
    return emails_by_role


def give(account: Account, role: str, *, now: datetime) -> bool:
    """Give an account a role; return False if the account already had the role.

    A role of `_IN_ADMIN` also sets `is_staff` and, in a project without a mail server, confirms the
    address, even if the account already had the role.  Raises `UnknownRole`.
    """
    with transaction.atomic():
        group = _group(role)
        if role in _IN_ADMIN:
            confirm_address(account, now=now)
        if account.groups.filter(pk=group.pk).exists():
            return False
        account.groups.add(group)
        if role in _IN_ADMIN and not account.is_staff:
            account.is_staff = True
            account.save(update_fields=["is_staff"])
        _record(account, {"given": role}, now)
    return True


def confirm_address(account: Account, *, now: datetime) -> None:
    """Mark the e-mail address of a member of staff as confirmed, if the project sends no mail.

    A second factor, which staff may need to enter the admin site, needs a confirmed address, and a
    project without a mail server cannot mail the link that confirms it.  With one, the address
    remains unconfirmed until its owner follows the link: it may be somebody else's.
    """
    if settings.MAIL is not None:
        return
    addresses = EmailAddress.objects.filter(user=account, email=account.email, verified=False)
    if addresses.update(verified=True):
        audit.record(Event.EMAIL_CONFIRMED, now=now, subject=account.email)


def take(account: Account, role: str, *, now: datetime) -> bool:
    """Take a role from an account; return False if the account did not have the role.

    Clears `is_staff` if the account has no other group, has no permission of its own and is not a
    superuser.  Raises `UnknownRole`.
    """
    with transaction.atomic():
        group = _group(role)
        if not account.groups.filter(pk=group.pk).exists():
            return False
        account.groups.remove(group)
        has_nothing = not (account.groups.exists() or account.user_permissions.exists())
        if account.is_staff and has_nothing and not account.is_superuser:
            account.is_staff = False
            account.save(update_fields=["is_staff"])
        _record(account, {"taken": role}, now)
    return True


def _group(role: str) -> Group:
    group = Group.objects.filter(name=role).first()
    if group is None:
        names = ", ".join(Group.objects.order_by("name").values_list("name", flat=True))
        raise UnknownRole(f"There is no role {role!r}. Hint: the roles are {names}.")
    return group


def _record(account: Account, change: Mapping[str, str], now: datetime) -> None:
    account.__dict__.pop("rights", None)
    audit.record(Event.RIGHTS_CHANGED, now=now, subject=account.email, details=change)


def grantable_scopes(account: Account) -> list[str]:
    """Return the scopes that the account may grant to a token.

    If the account acts through a token, its rights are limited by the scopes of that token.
    """
    rights = account.rights
    scopes = allowed_scopes(rights, manages_app=False)
    if {"publish", "manage"} <= set(scopes):
        return scopes
    manages = SubmitterApp.objects.filter(submitter__account=account, may_manage=True).exists()
    return allowed_scopes(rights, manages_app=manages)


def may_change(actor: Account, target: Account) -> bool:
    """Return whether `actor` may change the account `target`; see `unchangeable`."""
    return not unchangeable(actor, [target])


def unchangeable(actor: Account, targets: Sequence[Account]) -> list[Account]:
    """Return the accounts that `actor` may not change, by at most three statements.

    A superuser may change every account.  Other actors need `moderate_people`, and may not change
    superusers, staff, accounts that may manage an app, or accounts with a right that the actor
    lacks.  To change an account that may submit work, the actor also needs `submit_for_every_app`.
    The reason is that setting a password gives access to all rights of the account.  An inactive
    account counts with the rights that it would have if it were active.
    """
    if actor.is_superuser:
        return []
    if not actor.has_right(Right.MODERATE_PEOPLE):
        return list(targets)
    ids = [target.pk for target in targets]
    refused_ids = _ids_with_other_rights(actor, ids) | _ids_of_submitters(actor, ids)
    return [
        target
        for target in targets
        if target.is_superuser or target.is_staff or target.pk in refused_ids
    ]


def _ids_with_other_rights(actor: Account, account_ids: Sequence[int]) -> set[int]:
    """Return the ids of the accounts with a right that the actor lacks."""
    others = Permission.objects.filter(
        content_type__app_label="scheduler",
        codename__in=[right.value for right in Right if right not in actor.rights],
    )
    groups = Permission.group_set.through.objects.filter(permission__in=others)
    members = Account.groups.through._default_manager.filter(
        account__in=account_ids, group__in=groups.values("group_id")
    )
    holders = Account.user_permissions.through._default_manager.filter(
        account__in=account_ids, permission__in=others
    )
    ids = members.values_list("account_id", flat=True)
    return set(ids.union(holders.values_list("account_id", flat=True)))


def _ids_of_submitters(actor: Account, account_ids: Sequence[int]) -> set[int]:
    """Return the ids of the accounts that the actor may not change because of what they submit."""
    rows = SubmitterApp.objects.filter(submitter__account__in=account_ids)
    if actor.has_right(Right.SUBMIT_FOR_EVERY_APP):
        rows = rows.filter(may_manage=True)
        return set(rows.values_list("submitter__account", flat=True))
    for_every_app = Submitter.objects.filter(account__in=account_ids, all_apps=True)
    ids = rows.values_list("submitter__account", flat=True)
    return set(ids.union(for_every_app.values_list("account", flat=True)))
