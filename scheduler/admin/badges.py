"""Admin pages of badges and of their awards."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django import forms
from django.contrib import admin
from django.db import IntegrityError, transaction
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString, mark_safe
from psycopg.errors import UniqueViolation

from scheduler.admin.base import FormBase, StaffAdmin, is_bigint, section
from scheduler.admin.confirm import confirmation_page_with, is_confirmed, shown_names
from scheduler.admin.lists import searching
from scheduler.admin.lists.sorting import BY_ID, Sort
from scheduler.admin.previews import badge_changes
from scheduler.admin.site import staff
from scheduler.credit import badge_awards, badges
from scheduler.credit.badge_awards import BadgeRefused
from scheduler.credit.rules import badge_images
from scheduler.models import AccountBadge, Badge, TeamBadge
from scheduler.people.audit import Event
from scheduler.rights import Right


class BadgeForm(FormBase):
    """The form of a badge.  The rule and the holders of an existing badge cannot be changed."""

    class Meta:
        model = Badge
        exclude = ("account_count", "team_count", "created_at")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.threshold is not None:
            # Without the zeros of the column.
            self.initial["threshold"] = Decimal(f"{self.instance.threshold.normalize():f}")

    def clean_color(self) -> str:
        """Return the color in lower case, which is the stored form."""
        return str(self.cleaned_data["color"]).lower()

    def clean(self) -> dict[str, Any]:
        """Check the values that must fit each other."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if self.errors:
            return cleaned
        fixed = ("rule", "for_accounts", "for_teams")
        try:
            badges.check({name: getattr(self.instance, name) for name in fixed} | cleaned)
        except BadgeRefused as refusal:
            raise forms.ValidationError(str(refusal)) from refusal
        return cleaned


class DeletableAdmin(StaffAdmin):
    """A page of rows that operators add and delete."""

    change_right = Right.ADMINISTER_PROJECT

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Return True if the user has Django's permission and the right `change_right`."""
        name = f"{self.opts.app_label}.delete_{self.opts.model_name}"
        return request.user.has_perm(name) and self._has_change_right(request)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Return the names of the rows; a badge can have too many awards to list them."""
        names = [str(obj) for obj in objs]
        return names, {self.opts.verbose_name_plural: len(names)}, set(), []

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Delete each row as its page does."""
        for row in queryset:
            self.delete_model(request, row)


@admin.register(Badge, site=staff)
class BadgeAdmin(DeletableAdmin):
    """The page of badges, with a preview of how many accounts and teams a rule awards."""

    form = BadgeForm
    audit_event = Event.BADGE_CHANGED
    list_display = (
        "name",
        "rule",
        "threshold_label",
        "level",
        "is_published",
        "account_count",
        "team_count",
    )
    list_filter = ("is_published", "rule")
    is_small = True
    search_fields = ("name", "title")
    readonly_fields = ("picture", "earners", "account_count", "team_count", "created_at")
    fieldsets = (
        section(None, "name", "title", "description", "level", "color", "is_published"),
        section("Rule", "rule", "threshold", "for_accounts", "for_teams"),
        section(
            "Preview and holders", "picture", "earners", "account_count", "team_count", "created_at"
        ),
    )
    helps = {
        "name": "Statistics sites know the badge by this name.",
        "level": "Badges of a higher level are listed first.",
        "color": "Color of the image, such as #b08d57.",
        "is_published": "If set, the badge is shown, and the housekeeper awards it once a day. "
        "A preview shows how many accounts and teams earn it.",
        "threshold": "Amount of credit, percentage, or number of years, as the rule demands. "
        "Empty for a badge by hand. Awards by credit and years remain after a change; those by "
        "percentage are withdrawn if they are no longer earned.",
        "rule": "Cannot be changed later.",
        "for_accounts": "Cannot be changed later.",
        "for_teams": "Cannot be changed later. The years of a team are those since it was created.",
    }
    actions = ("assign",)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """Return the read-only fields; the rule of an existing badge is read-only."""
        fixed = () if obj is None else ("rule", "for_accounts", "for_teams")
        return (*self.readonly_fields, *fixed)

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Return Django's page, or the preview of a badge to publish; saves the badge after it."""
        if request.method == "POST" and self.has_add_permission(request):
            preview = badge_changes.page_of_new(self, request)
            if preview is not None:
                return preview
        try:
            return super().add_view(request, form_url, extra_context)
        except IntegrityError as error:
            # The same form was sent twice at the same time.
            if not isinstance(error.__cause__, UniqueViolation):
                raise
        self.refuse(request, "A badge with this name exists already. Hint: see the list.")
        return HttpResponseRedirect(reverse("admin:scheduler_badge_changelist"))

    @transaction.atomic
    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Return Django's page, or the preview of a sent form; saves the badge after it."""
        if request.method == "POST" and is_bigint(object_id):
            locked = Badge.objects.select_for_update(no_key=True)
            badge = locked.filter(pk=object_id).first()
            if badge is not None and self.has_change_permission(request, badge):
                preview = badge_changes.page(self, request, badge)
                if preview is not None:
                    return preview
        return super().change_view(request, object_id, form_url, extra_context)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Save the badge; the audit entry of a change has the former and the new values."""
        super().save_model(request, obj, form, change)
        if change and form.changed_data:
            before = {name: form[name].initial for name in form.changed_data}
            after = {name: form.cleaned_data[name] for name in form.changed_data}
            self.record(Event.BADGE_CHANGED, obj, {"before": before, **after})

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """Write Django's history entry; `save_model` writes the audit entry."""
        return super(StaffAdmin, self).log_change(request, obj, message)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the fieldsets; a new badge has no preview."""
        return super().get_fieldsets(request, obj)[: 2 if obj is None else 3]

    @admin.display(description="threshold")
    def threshold_label(self, badge: Badge) -> str:
        return badge.amount or "–"

    @admin.display(description="image")
    def picture(self, badge: Badge) -> SafeString:
        """Return the image; its title is escaped."""
        return mark_safe(badge_images.draw(badge.title, badge.color))  # noqa: S308  escaped

    @admin.display(description="earned now by")
    def earners(self, badge: Badge) -> str:
        """Return how many accounts and teams earn the badge by its rule."""
        if badge.rule == Badge.Rule.BY_HAND:
            return "awarded by hand"
        counts = badge_awards.preview(badge, now=timezone.now())
        parts = (("accounts", counts.accounts), ("teams", counts.teams))
        return ", ".join(f"{noun}: {count}" for noun, count in parts if count is not None)

    @admin.action(description="Assign the selected badges now", permissions=["change"])
    def assign(self, request: HttpRequest, queryset: QuerySet[Badge]) -> HttpResponse | None:
        """Award the published badges by their rules, after the user confirmed it.

        The housekeeper does the same once a day.
        """
        badges = list(queryset.order_by("pk"))
        published = [badge for badge in badges if badge.is_published]
        now = timezone.now()
        if is_confirmed(request):
            count = sum(badge_awards.assign(badge.pk, now=now) for badge in published)
            self.message_user(request, f"{count} awarded or withdrawn.")
            return None
        changes = [badge_awards.changes(badge, now=now) for badge in published]
        left_out = len(badges) - len(published)
        return confirmation_page_with(
            self,
            request,
            "assign",
            counts=(
                ("badges", len(published)),
                ("awards that are new", sum(each.awarded for each in changes)),
                ("awards that are withdrawn", sum(each.withdrawn for each in changes)),
            ),
            explanation=(
                "The holders see the badges at once. Awards by credit and years are not withdrawn "
                "later, even if the rule changes; those by hand do not change."
            ),
            notes=[f"{left_out} of the badges are not published, and are left out."]
            if left_out
            else [],
            **shown_names(
                [
                    f"{badge}: {each.awarded:,} new, {each.withdrawn:,} withdrawn"
                    for badge, each in zip(published, changes, strict=True)
                ]
            ),
        )

    audited_actions = frozenset({"assign"})

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Return the badges with the numbers of accounts and teams that lose them."""
        badges: list[Badge] = list(objs)
        holders = badge_awards.count_holders([badge.pk for badge in badges])
        names = [
            f"{badge}: accounts that lose it {holders[badge.pk].accounts:,}, "
            f"teams that lose it {holders[badge.pk].teams:,}"
            for badge in badges
            if badge.pk in holders
        ]
        counts = {
            self.opts.verbose_name_plural: len(names),
            AccountBadge._meta.verbose_name_plural: sum(each.accounts for each in holders.values()),
            TeamBadge._meta.verbose_name_plural: sum(each.teams for each in holders.values()),
        }
        return names, counts, set(), []

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        """Delete the badge with its awards."""
        badge_awards.delete(obj, now=timezone.now())


class AwardForm(FormBase):
    """The form that awards a badge by hand."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "badge" in self.fields:
            field: Any = self.fields["badge"]
            field.queryset = Badge.objects.filter(rule=Badge.Rule.BY_HAND).order_by("name")

    def clean(self) -> dict[str, Any]:
        """Lock the holder and the badge, whose current values replace those that were read."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if self.errors:
            return cleaned
        try:
            badge_id = cleaned["badge"].pk
            if account := cleaned.get("account"):
                cleaned["badge"] = badge_awards.lock_for_account(badge_id, account.pk)
            else:
                cleaned["badge"] = badge_awards.lock_for_team(badge_id, cleaned["team"].pk)
        except BadgeRefused as refusal:
            raise forms.ValidationError(str(refusal)) from refusal
        return cleaned


class AwardAdmin(DeletableAdmin):
    """A page of awards.  Adding a row awards a badge by hand, and deleting it withdraws it.

    Both show a preview first.
    """

    form = AwardForm
    list_filter = ("badge",)
    readonly_fields = ("created_at",)
    helps = {"badge": "Only badges by hand; the housekeeper awards the others by their rules."}

    @transaction.atomic
    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Return Django's page, or the preview of a sent form; awards the badge after it."""
        if request.method == "POST" and self.has_add_permission(request):
            preview = badge_changes.page_of_award(self, request)
            if preview is not None:
                return preview
        return super().add_view(request, form_url, extra_context)

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Return False, because an award is not changed."""
        return False

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the fields; a new award has no time yet."""
        return self.fields if obj is not None or self.fields is None else self.fields[:-1]

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        """Withdraw the award."""
        badge_awards.withdraw(obj, now=timezone.now())


@admin.register(AccountBadge, site=staff)
class AccountBadgeAdmin(AwardAdmin):
    """The page of badges of accounts."""

    list_display = ("badge", "account", "created_at")
    sorts = {"badge": Sort(("badge_id", "account_id")), "created_at": BY_ID}
    search_numbers = ("account_id",)
    search_owners = {"account_id": searching.accounts}
    search_help_text = "Beginning of an account's address or name, or its number"
    raw_id_fields = ("account",)
    fields = ("badge", "account", "created_at")

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Award the badge."""
        award = badge_awards.award_account(obj.badge_id, obj.account_id, now=timezone.now())
        obj.pk, obj.created_at = award.pk, award.created_at


@admin.register(TeamBadge, site=staff)
class TeamBadgeAdmin(AwardAdmin):
    """The page of badges of teams."""

    list_display = ("badge", "team", "created_at")
    sorts = {"badge": Sort(("badge_id", "team_id")), "created_at": BY_ID}
    search_numbers = ("team_id",)
    search_owners = {"team_id": searching.teams}
    search_help_text = "Beginning of a team's name, or its number"
    raw_id_fields = ("team",)
    fields = ("badge", "team", "created_at")

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Award the badge."""
        award = badge_awards.award_team(obj.badge_id, obj.team_id, now=timezone.now())
        obj.pk, obj.created_at = award.pk, award.created_at
