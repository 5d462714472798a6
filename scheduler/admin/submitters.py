"""Admin pages of submitters, API tokens and idempotency keys."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from scheduler.admin.base import InlineBase, RecordAdmin, StaffAdmin, has_right, is_superuser
from scheduler.admin.site import staff
from scheduler.models import ApiToken, IdempotencyKey, Submitter, SubmitterApp
from scheduler.people import api_tokens, submitters
from scheduler.people.audit import Event
from scheduler.rights import Right


def _may_give_apps(request: HttpRequest) -> bool:
    """Return whether the user has the rights that `may_manage` gives to a submitter."""
    return has_right(request, Right.PUBLISH_VERSIONS) and has_right(request, Right.MANAGE_APPS)


class AppsOfSubmitter(InlineBase):
    """An inline with the apps for which a submitter without `all_apps` may submit."""

    model = SubmitterApp
    fields = ("app", "may_manage")
    extra = 0

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Require the rights that `may_manage` gives, because the app of a row can be changed."""
        return super().has_change_permission(request, obj) and _may_give_apps(request)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """Make `may_manage` read-only for users without the rights that it gives."""
        return () if _may_give_apps(request) else ("may_manage",)


@admin.register(Submitter, site=staff)
class SubmitterAdmin(StaffAdmin):
    """The page of submitters.

    A row without apps and without `all_apps` gives no permission.  Such a row keeps the account's
    fair share and logical start time.
    """

    change_right = Right.ADMINISTER_PROJECT
    audit_event = Event.RIGHTS_CHANGED
    list_display = (
        "account",
        "may_submit_for",
        "max_unfinished_workunits",
        "max_kept_bytes",
        "created_at",
    )
    list_filter = ("all_apps",)
    ordering = ("-account_id",)
    search_fields = ("account__email", "account__name")
    search_numbers = ("account_id",)
    raw_id_fields = ("account",)
    fields = (
        "account",
        "all_apps",
        "max_unfinished_workunits",
        "max_kept_bytes",
        "share",
        "logical_start_at",
        "created_at",
    )
    inlines = (AppsOfSubmitter,)
    readonly_fields = ("logical_start_at", "created_at")
    helps = {
        "all_apps": "If set, the account may submit for every app, including future apps. "
        "Otherwise it may submit only for the apps below.",
        "max_unfinished_workunits": "Maximum number of unfinished workunits. If empty, there is no "
        "limit.",
        "max_kept_bytes": "Maximum total size of files and outputs. If empty, there is no limit.",
        "share": "Computing time relative to other submitters, if the project uses fair shares.",
    }
    actions = ("forbid",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Submitter]:
        """Return the submitters with their apps prefetched, because the list shows the apps."""
        return super().get_queryset(request).prefetch_related("apps__app")

    def may_submit_for(self, submitter: Submitter) -> str:
        """Return the names of the apps for which the submitter may submit, as text."""
        names = sorted(row.app.name for row in submitter.apps.all())
        return "every app" if submitter.all_apps else (", ".join(names) or "no app")

    @admin.action(description="Forbid the selected people to submit", permissions=["change"])
    def forbid(self, request: HttpRequest, queryset: QuerySet[Submitter]) -> None:
        """Remove the permissions of the selected accounts to submit; submitted work continues.

        Superusers are skipped, unless the user is a superuser.
        """
        now = timezone.now()
        rows = queryset.select_related("account")
        if not is_superuser(request):
            rows = rows.filter(account__is_superuser=False)
        count = sum(submitters.forbid(row.account, now=now) for row in rows)
        self.message_user(request, f"{count} people may no longer submit.")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """Return the read-only fields.

        The account of an existing row is read-only.  `all_apps` is read-only for users without the
        right `submit_for_every_app`.
        """
        fixed: tuple[str, ...] = self.readonly_fields
        if not has_right(request, Right.SUBMIT_FOR_EVERY_APP):
            fixed = ("all_apps", *fixed)
        return fixed if obj is None else ("account", *fixed)


@admin.register(SubmitterApp, site=staff)
class SubmitterAppAdmin(RecordAdmin):
    """The read-only page of permissions by app, which staff change on the submitter's page."""

    list_display = ("submitter", "app", "may_manage")
    list_filter = ("may_manage", "app")
    list_select_related = ("submitter__account",)
    search_fields = ("submitter__account__email", "app__name")


@admin.register(ApiToken, site=staff)
class ApiTokenAdmin(RecordAdmin):
    """The page of API tokens, which are stored as hashes and cannot be shown."""

    list_display = ("account", "name", "scopes", "last_used_on", "expire_at", "revoked_at")
    list_filter = (
        "may_publish",
        "may_manage",
        "may_administer",
        ("revoked_at", admin.EmptyFieldListFilter),
    )
    search_fields = ("account__email", "account__name", "name")
    search_numbers = ("id", "account_id")
    actions = ("revoke",)
    fields = (
        "account",
        "name",
        "may_read",
        "may_submit",
        "may_publish",
        "may_manage",
        "may_administer",
        "created_at",
        "last_used_on",
        "expire_at",
        "revoked_at",
    )

    def scopes(self, token: ApiToken) -> str:
        return ", ".join(api_tokens.scopes_of(token))

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        """Return whether the user may revoke tokens of other accounts."""
        return has_right(request, Right.ADMINISTER_PROJECT)

    @admin.action(description="Revoke the selected tokens permanently", permissions=["revoke"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiToken]) -> None:
        """Revoke the selected tokens and all tokens that were created with them.

        Only superusers may revoke tokens of superusers; other users get an error for such tokens.
        """
        now, revoked, kept = timezone.now(), 0, 0
        for token in queryset.select_related("account"):
            if token.account.is_superuser and not is_superuser(request):
                kept += 1
                continue
            revoked += api_tokens.revoke(account=token.account, token_id=token.pk, now=now)
        self.message_user(request, f"{revoked} tokens were revoked.")
        if kept:
            msg = f"{kept} tokens belong to superusers. Hint: ask a superuser to revoke them."
            self.message_user(request, msg, messages.ERROR)


@admin.register(IdempotencyKey, site=staff)
class IdempotencyKeyAdmin(RecordAdmin):
    """The page of idempotency keys, with the stored responses for repeated requests."""

    list_display = ("account", "key", "status", "created_at")
    list_filter = ("status",)
    search_fields = ("account__email", "key")
    search_numbers = ("id", "account_id")
    fields = ("account", "key", "status", "answer", "created_at")
