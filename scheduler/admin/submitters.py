"""Admin pages of submitters, API tokens and idempotency keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from scheduler.admin.base import InlineBase, RecordAdmin, StaffAdmin, has_right, is_superuser
from scheduler.admin.confirm import confirmation_page_with, is_confirmed_as_shown, shown_names
from scheduler.admin.lists import searching
from scheduler.admin.lists.sorting import Sort
from scheduler.admin.site import staff
from scheduler.models import ApiToken, Batch, IdempotencyKey, Submitter, SubmitterApp
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
    is_small = True
    ordering = ("-account_id",)
    search_numbers = ("account_id",)
    search_owners = {"account_id": searching.accounts}
    search_help_text = "Beginning of an account's address or name, or its number"
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
    def forbid(self, request: HttpRequest, queryset: QuerySet[Submitter]) -> HttpResponse | None:
        """Remove the permissions of the accounts to submit, after the user confirmed it.

        Submitted work continues.  Superusers are skipped, unless the user is a superuser.
        """
        now = timezone.now()
        rows = queryset.select_related("account").order_by("pk")
        if not is_superuser(request):
            rows = rows.filter(account__is_superuser=False)
        allowed = [row for row in rows if row.all_apps or row.apps.all()]
        if not is_confirmed_as_shown(self, request, len(allowed), "people"):
            batches = Batch.objects.filter(
                submitter__in=[row.account_id for row in allowed],
                state__in=(Batch.State.INIT, Batch.State.IN_PROGRESS),
            )
            return confirmation_page_with(
                self,
                request,
                "forbid",
                verb="forbid these people to submit",
                button="Yes, forbid them",
                counts=(
                    ("people who may submit", len(allowed)),
                    ("open batches of these people", batches.count()),
                ),
                explanation=(
                    "They can submit no more work for any app, and change or publish none, unless "
                    "a role permits it. Submitted work continues. Limits and shares are kept."
                ),
                previewed=len(allowed),
                **shown_names([f"{row}: {self.may_submit_for(row)}" for row in allowed]),
            )
        count = sum(submitters.forbid(row.account, now=now) for row in rows)
        self.message_user(request, f"{count} people may no longer submit.")
        return None

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
    is_small = True
    search_fields = ("app__name",)
    search_owners = {"submitter_id": searching.accounts}
    search_help_text = "Beginning of an account's address or name, or a part of an app's name"


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
    search_fields = ("name",)
    search_numbers = ("id", "account_id")
    search_owners = {"account_id": searching.accounts}
    search_help_text = (
        "Beginning of an account's address or name, or number of a token or account; in the newest "
        "10,000 tokens also parts of their names"
    )
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
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiToken]) -> HttpResponse | None:
        """Revoke the tokens and all tokens made with them, after the user confirmed it.

        Only superusers may revoke tokens of superusers; other users get an error for such tokens.
        """
        valid = list(
            queryset.filter(revoked_at=None).select_related("account").order_by("account_id", "pk")
        )
        tokens = [t for t in valid if is_superuser(request) or not t.account.is_superuser]
        if not is_confirmed_as_shown(self, request, len(tokens), "tokens"):
            return self._confirm(request, tokens)
        now = timezone.now()
        revoked = sum(
            api_tokens.revoke(account=token.account, token_id=token.pk, now=now) for token in tokens
        )
        self.message_user(request, f"{revoked} tokens were revoked.")
        if kept := len(valid) - len(tokens):
            msg = f"{kept} tokens belong to superusers. Hint: ask a superuser to revoke them."
            self.message_user(request, msg, messages.ERROR)
        return None

    def _confirm(self, request: HttpRequest, tokens: Sequence[ApiToken]) -> HttpResponse:
        """Return the page that shows which tokens would be revoked."""
        below = api_tokens.descendants([token.pk for token in tokens])
        return confirmation_page_with(
            self,
            request,
            "revoke",
            counts=(
                ("tokens", len(tokens)),
                ("valid tokens that were made with them", len(below)),
            ),
            explanation=(
                "This cannot be undone. Programs with these tokens, and with those that were made "
                "with them, are refused at once."
            ),
            previewed=len(tokens),
            **shown_names(
                [f"{token} of {token.account} ({self.scopes(token)})" for token in tokens]
            ),
        )


@admin.register(IdempotencyKey, site=staff)
class IdempotencyKeyAdmin(RecordAdmin):
    """The page of idempotency keys, with the stored responses for repeated requests."""

    list_display = ("account", "key", "status", "created_at")
    list_filter = ("status",)
    sorts = {"created_at": Sort(("created_at",))}
    search_fields = ("key",)
    search_numbers = ("id", "account_id")
    search_owners = {"account_id": searching.accounts}
    fields = ("account", "key", "status", "answer", "created_at")
