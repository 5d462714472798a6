"""Grants and checks permissions to submit work and manage apps, and sets quotas.

Theory of operation.  An account with the right `submit_for_every_app` may submit for every app.
Other accounts need a row in ``submitter`` and, unless `all_apps` is set, a row in ``submitter_app``
for each app.  A row of ``submitter`` without apps gives no permission.  It stores the fair share
and the logical start time (`share`, `logical_start_at`) of an account that has the right, or that
lost its permission.  `may_manage` of ``submitter_app`` is equivalent to the rights
`publish_versions` and `manage_apps` for this app.  Quotas are checked under the lock of the
submitter's row (`people.quotas`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet, Value
from django.db.models.expressions import Combinable

from scheduler.models import Account, App, Submitter, SubmitterApp
from scheduler.people import audit
from scheduler.people.audit import Event
from scheduler.rights import Right


class NotAllowed(PermissionError):
    """The account lacks a permission. Hint: see the message."""


def allow(
    account: Account,
    *,
    apps: Sequence[App] | None,
    may_manage: bool = False,
    max_unfinished_workunits: int | None = None,
    max_kept_bytes: int | None = None,
    now: datetime,
) -> Submitter:
    """Permit an account to submit for `apps` (None: all apps), and set its limits.

    `may_manage` is stored for each app in `apps`.  Permissions for other apps remain.  Both limits
    are replaced; None removes a limit.
    """
    limits = {
        "max_unfinished_workunits": max_unfinished_workunits,
        "max_kept_bytes": max_kept_bytes,
    }
    with transaction.atomic():
        submitter, _ = Submitter.objects.select_for_update(no_key=True).get_or_create(
            account=account, defaults={"created_at": now}
        )
        Submitter.objects.filter(pk=submitter.pk).update(
            all_apps=submitter.all_apps or apps is None, **limits
        )
        for app in apps or ():
            SubmitterApp.objects.update_or_create(
                submitter=submitter, app=app, defaults={"may_manage": may_manage}
            )
        audit.record(
            Event.RIGHTS_CHANGED,
            now=now,
            subject=account.email,
            details={
                "may_submit_for": "every app" if apps is None else [app.name for app in apps],
                "may_manage": may_manage,
                **limits,
            },
        )
    submitter.refresh_from_db()
    return submitter


def forbid(account: Account, *, now: datetime) -> bool:
    """Remove an account's permissions for apps; return whether the account had a permission.

    Permissions by a role remain.  The fair share and logical start time of the account are kept for
    a later permission.  Submitted work is not cancelled.
    """
    with transaction.atomic():
        submitter = Submitter.objects.select_for_update(no_key=True).filter(account=account).first()
        if submitter is None:
            return False
        deleted, _ = SubmitterApp.objects.filter(submitter=submitter).delete()
        Submitter.objects.filter(pk=submitter.pk).update(all_apps=False)
        audit.record(
            Event.RIGHTS_CHANGED,
            now=now,
            subject=account.email,
            details={"may_submit_for": "no app"},
        )
    return submitter.all_apps or deleted > 0


def is_submitter(account: Account) -> bool:
    """Return whether the account may submit for some app."""
    apps = SubmitterApp.objects.filter(submitter=OuterRef("pk"))
    # The row is read first, because most submitters have a row, which saves reading rights.
    return _allowed(account, Exists(apps)).exists() or account.has_right(Right.SUBMIT_FOR_EVERY_APP)


def require_submitter(account: Account) -> None:
    """Raise `NotAllowed` if the account may not submit for any app."""
    if is_submitter(account):
        return
    raise NotAllowed(
        f"{account} may not submit work. "
        f"Hint: ask the project's staff for `manage.py submitter allow {account.email}`."
    )


def require_submit(account: Account, app: App) -> None:
    """Raise `NotAllowed` if the account may not submit work for the app."""
    apps = SubmitterApp.objects.filter(submitter=OuterRef("pk"), app=app)
    if _allowed(account, Exists(apps)).exists() or account.has_right(Right.SUBMIT_FOR_EVERY_APP):
        return
    raise NotAllowed(
        f"{account} may not submit work for app {app}. Hint: ask the project's staff for "
        f"`manage.py submitter allow {account.email} --app {app}`."
    )


def _allowed(account: Account, for_app: Exists) -> QuerySet[Submitter]:
    return Submitter.objects.filter(Q(all_apps=True) | for_app, account=account)


def manages(account: Account) -> Combinable:
    """Return an expression on rows of `App` that is true if the account may manage the app."""
    if account.has_right(Right.MANAGE_APPS):
        return Value(value=True)
    return Exists(
        SubmitterApp.objects.filter(submitter__account=account, app=OuterRef("pk"), may_manage=True)
    )


def require_publish(account: Account, app: App) -> None:
    """Raise `NotAllowed` if the account may not publish or withdraw versions of the app."""
    if account.has_right(Right.PUBLISH_VERSIONS) or _manages(account, app):
        return
    raise NotAllowed(
        f"{account} may not publish versions of app {app}. Hint: ask the project's staff for "
        f"`manage.py submitter allow {account.email} --app {app} --manage`, or for the role "
        f"publisher: `manage.py role give {account.email} publisher`."
    )


def require_manage(account: Account, app: App | None) -> None:
    """Raise `NotAllowed` if the account may not change the app; None means a new app."""
    if account.has_right(Right.MANAGE_APPS) or (app is not None and _manages(account, app)):
        return
    what = f"manage app {app}" if app is not None else "create apps"
    raise NotAllowed(
        f"{account} may not {what}. Hint: ask the project's staff to do it, or for the role "
        f"publisher: `manage.py role give {account.email} publisher`."
    )


def _manages(account: Account, app: App) -> bool:
    rows = SubmitterApp.objects.filter(submitter__account=account, app=app, may_manage=True)
    return rows.exists()
