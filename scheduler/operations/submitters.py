"""Who may submit what, and how much of it at once [operations].

Theory of operation.  Staff may do everything.  Anybody else needs a row in ``submitter``, and for
each app one in ``submitter_app`` unless it says `all_apps`.  A row that names no app allows
nothing: it keeps the share and the clock of somebody who was forbidden, or is of the staff.  A
quota is looked at under the lock of the submitter's row, so that two submissions at once cannot
both take the last of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from scheduler.models import Account, App, Submitter, SubmitterApp


class NotAllowed(PermissionError):
    """The account may not do this. Hint: the message says whom to ask for what."""


def allow(
    account: Account,
    *,
    apps: Sequence[App] | None,
    may_manage: bool = False,
    max_unfinished_workunits: int | None = None,
    max_kept_bytes: int | None = None,
    now: datetime,
) -> Submitter:
    """Let an account submit for these apps (all, if None), and say how much at once.

    What was allowed before for other apps stays; limits are set as they are given.
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
    submitter.refresh_from_db()
    return submitter


def forbid(account: Account) -> bool:
    """Take back all that an account may submit; tells whether there was something.

    His share and his clock stay: allowed again, he goes on where he stood among the others.  Work
    that he has submitted goes on: cancel it if it shall not.
    """
    with transaction.atomic():
        submitter = Submitter.objects.select_for_update(no_key=True).filter(account=account).first()
        if submitter is None:
            return False
        deleted, _ = SubmitterApp.objects.filter(submitter=submitter).delete()
        Submitter.objects.filter(pk=submitter.pk).update(all_apps=False)
    return submitter.all_apps or deleted > 0


def require_submitter(account: Account) -> None:
    """Refuse (`NotAllowed`) an account that may submit nothing at all."""
    apps = SubmitterApp.objects.filter(submitter=OuterRef("pk"))
    if account.is_staff or _allowed(account, Exists(apps)).exists():
        return
    msg = (
        f"{account} may not submit work. "
        f"Hint: ask the project's staff for `manage.py submitter allow {account.email}`."
    )
    raise NotAllowed(msg)


def require_submit(account: Account, app: App) -> None:
    """Refuse (`NotAllowed`) an account that may not submit work for the app."""
    apps = SubmitterApp.objects.filter(submitter=OuterRef("pk"), app=app)
    if account.is_staff or _allowed(account, Exists(apps)).exists():
        return
    msg = (
        f"{account} may not submit work for app {app}. Hint: ask the project's staff for "
        f"`manage.py submitter allow {account.email} --app {app}`."
    )
    raise NotAllowed(msg)


def _allowed(account: Account, for_app: Exists) -> QuerySet[Submitter]:
    return Submitter.objects.filter(Q(all_apps=True) | for_app, account=account)


def require_manage(account: Account, app: App | None) -> None:
    """Refuse (`NotAllowed`) an account that may not publish for the app (None: create)."""
    if account.is_staff:
        return
    if app is not None and SubmitterApp.objects.filter(
        submitter__account=account, app=app, may_manage=True
    ):
        return
    what = f"manage app {app}" if app is not None else "create apps"
    msg = f"{account} may not {what}. Hint: ask the project's staff to do it, or for the right."
    raise NotAllowed(msg)
