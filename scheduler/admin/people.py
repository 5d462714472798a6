"""Admin pages of accounts, account keys, teams and groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from django import forms
from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.forms import SetPasswordMixin
from django.contrib.auth.models import Group, Permission
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone

from scheduler.admin import credit_grants
from scheduler.admin.base import (
    FormBase,
    RecordAdmin,
    RecordInline,
    RowPage,
    StaffAdmin,
    is_superuser,
    section,
    without_fields,
)
from scheduler.admin.confirm import confirmation_page_of_teams, is_confirmed_as_shown
from scheduler.admin.lists import searching
from scheduler.admin.lists.searching import Prefix
from scheduler.admin.lists.sorting import BY_ID, LOWER_NAME, Sort, is_positive
from scheduler.admin.previews import account_blocks
from scheduler.admin.site import staff
from scheduler.models import (
    Account,
    AccountKey,
    EmailChange,
    StatisticsDeletion,
    Team,
    TeamAdministrator,
)
from scheduler.people import accounts, audit, roles, teams
from scheduler.people.account_keys import BadName, good_name
from scheduler.people.accounts import BadEmail
from scheduler.people.audit import Event
from scheduler.people.teams import TeamProfile, TeamRefused
from scheduler.people.teams.team_profiles import checked_fields, with_plain_line_ends
from scheduler.rights import ROLES, Right

if TYPE_CHECKING:
    AccountForm = forms.ModelForm[Account]
    UserBase = UserAdmin[Account]
    Passwords = SetPasswordMixin[Account]
else:
    AccountForm, UserBase, Passwords = forms.ModelForm, UserAdmin, SetPasswordMixin

#: Teams that one action deletes, and accounts that one action blocks or unblocks.
_MAX_DELETED = 100
_MAX_BLOCKED = 100
#: The fields of a team that its founder and staff set.
_PROFILE = tuple(field.name for field in fields(TeamProfile))
_OF_ACCOUNT = (
    "Beginning of an account's address or name, or its number; in the newest 10,000 rows also "
    "parts of the names of this list"
)


def _on_board(column: str) -> dict[str, Any]:
    """Return the condition of the index of a leaderboard of accounts, and the note about it."""
    return {
        "only": Q(is_active=True, share_statistics=True) & is_positive(column),
        "note": "This order lists only accounts with credit that are active and share statistics.",
    }


class NewAccountForm(Passwords, AccountForm):
    """The form that creates an account with `accounts.create_staff`."""

    required_css_class = "required"
    #: Hash of the password, computed before the transaction that saves the form.
    stored_password: str | None = None
    password1, password2 = SetPasswordMixin.create_password_fields()

    class Meta:
        model = Account
        fields = ("email", "name", "is_staff")

    def clean_email(self) -> str:
        """Return the address in lower case, which is the stored form."""
        try:
            return accounts.good_email(str(self.cleaned_data["email"]).lower())
        except BadEmail as refusal:
            raise forms.ValidationError(str(refusal)) from refusal

    def clean_name(self) -> str:
        """Validate the name; `save` replaces an empty name by a part of the e-mail address."""
        name = str(self.cleaned_data["name"])
        try:
            return good_name(name) if name else ""
        except BadName as refusal:
            raise forms.ValidationError(str(refusal)) from refusal

    def clean(self) -> dict[str, Any]:
        """Validate the passwords, and add an error if an account has the e-mail address."""
        super().clean()
        self.validate_passwords()
        self.validate_password_for_user(self.instance)
        email = self.cleaned_data.get("email")
        if email and Account.objects.filter(email__iexact=email).exists():
            self.add_error(
                "email", f"There is already an account for {email}. Hint: change that account."
            )
        return self.cleaned_data

    def save(self, commit: bool = True) -> Account:
        """Create the account and its keys in the database, even if `commit` is False."""
        return accounts.create_staff(
            email=self.cleaned_data["email"],
            password=self.cleaned_data["password1"],
            stored_password=self.stored_password,
            name=self.cleaned_data["name"],
            now=timezone.now(),
            is_staff=self.cleaned_data.get("is_staff", False),
            is_superuser=False,
        )

    def save_m2m(self) -> None:
        """Do nothing, because a new account has no groups."""


class NewPasswordForm(Passwords, forms.Form):
    """The form that sets another account's password."""

    required_css_class = "required"
    field_order = ("password1", "password2", "revoke_host_keys")
    password1, password2 = SetPasswordMixin.create_password_fields()
    revoke_host_keys = forms.BooleanField(
        required=False,
        label="Revoke the keys of attached computers, too",
        help_text=(
            "If set, every computer must be attached again, and stock BOINC clients lose the work "
            "they hold. "
            "API tokens, submission keys, the weak key and other sessions are revoked in any case."
        ),
    )

    def __init__(self, user: Account, *args: Any, **kwargs: Any) -> None:
        self.user = user
        super().__init__(*args, **kwargs)
        self.fields["password1"].widget.attrs["autofocus"] = True

    def clean(self) -> dict[str, Any]:
        """Check that the passwords match and that Django's validators accept them."""
        super().clean()
        self.validate_passwords()
        self.validate_password_for_user(self.user)
        # Django's view reads this key.  Passwords set by this form are always usable.
        return {**self.cleaned_data, "set_usable_password": True}

    def save(self) -> Account:
        """Change the password; if `revoke_host_keys` is set, revoke the keys of computers."""
        email, password = self.user.email, self.cleaned_data["password1"]
        accounts.change_password(
            account=self.user,
            passwd_hash=accounts.password_digest(email=email, password=password),
            revoke_host_keys=self.cleaned_data["revoke_host_keys"],
            now=timezone.now(),
        )
        return self.user

    @property
    def changed_data(self) -> list[str]:
        """Return the name of the changed field, for the history."""
        return ["password"]


class AccountChangeForm(AccountForm):
    """The form of an existing account, which can be moved to another team."""

    def clean(self) -> dict[str, Any]:
        """Add an error if the account may not leave its team; lock the account and its teams."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if "team" in self.changed_data and "team" in cleaned:
            team = cleaned["team"]
            try:
                teams.check_move(self.instance, None if team is None else team.pk)
            except TeamRefused as refusal:
                self.add_error("team", str(refusal))
        return cleaned


@admin.register(Account, site=staff)
class AccountAdmin(StaffAdmin, UserBase):
    """The page of accounts.

    The e-mail address is read-only, because it is part of the password digest.  The accounts that a
    moderator can change are limited by `roles.may_change`.
    """

    change_right = Right.MODERATE_PEOPLE
    audit_event = Event.ACCOUNT_CHANGED
    add_form = NewAccountForm
    change_password_form = NewPasswordForm
    form = AccountChangeForm
    list_display = (
        "email",
        "name",
        "team",
        "total_credit",
        "expavg_credit",
        "is_staff",
        "created_at",
    )
    list_filter = ("is_active", "is_staff", "is_superuser")
    sorts = {
        "email": Sort(("email",)),
        "name": Sort((LOWER_NAME,)),
        "total_credit": Sort(("total_credit", "id"), **_on_board("total_credit")),
        "expavg_credit": Sort(("expavg_credit", "id"), **_on_board("expavg_credit")),
        "created_at": BY_ID,
    }
    search_fields = ("email", "name")
    search_prefixes = (Prefix("email", is_lower=True), searching.NAME_IN_ANY_CASE)
    search_help_text = (
        "Beginning of an address or a name, or number of an account; in the newest 10,000 accounts "
        "also parts of addresses and names"
    )
    ordering = ("-id",)
    raw_id_fields = ("team",)
    readonly_fields = (
        "email",
        "cross_project_id",
        "total_credit",
        "expavg_credit",
        "expavg_at",
        "last_login",
        "created_at",
        "is_active",
        "global_prefs",
        "project_prefs",
        "share_statistics",
        "show_hosts",
        "receive_letters",
        "terms_accepted_at",
    )
    fieldsets = (
        section(None, "email", "name", "country", "url", "team", "venue"),
        section("Credit", "total_credit", "expavg_credit", "expavg_at"),
        section("Rights", "is_active", "is_staff", "is_superuser", "groups", "user_permissions"),
        section(
            "Consents", "share_statistics", "show_hosts", "receive_letters", "terms_accepted_at"
        ),
        section("Preferences", "global_prefs", "project_prefs", is_collapsed=True),
        section("Dates and ids", "created_at", "last_login", "cross_project_id"),
    )
    add_fieldsets = (
        (
            None,
            {
                "classes": ("wide",),
                "fields": ("email", "name", "password1", "password2", "is_staff"),
            },
        ),
    )
    actions = ("block", "unblock")
    _stored_passwords: WeakKeyDictionary[HttpRequest, str] = WeakKeyDictionary()
    change_form_template = "scheduler/admin/account.html"
    row_page = RowPage("credit", credit_grants.page, credit_grants.may_grant)
    change_user_password_template = "scheduler/admin/password.html"  # noqa: S105  a page

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return True if the user has the permissions and `roles.may_change` allows the change."""
        if not super().has_change_permission(request, obj):
            return False
        return obj is None or (
            isinstance(request.user, Account) and roles.may_change(request.user, obj)
        )

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """Write only Django's history entry, because the operation has written the audit entry."""
        return admin.ModelAdmin.log_addition(self, request, obj, message)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the fieldsets; only superusers get the staff flag of a new account."""
        fieldsets = super().get_fieldsets(request, obj)
        if obj is not None or request.user.is_superuser:
            return fieldsets
        return without_fields(fieldsets, ("is_staff",))

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """Return the read-only fields; only superusers can change the rights of an account."""
        if obj is None:
            return ()
        if request.user.is_superuser:
            return self.readonly_fields
        rights = ("is_staff", "is_superuser", "groups", "user_permissions")
        return (*self.readonly_fields, *rights)

    @admin.action(description="Block the selected accounts", permissions=["change"])
    def block(self, request: HttpRequest, queryset: QuerySet[Account]) -> HttpResponse | None:
        """Block the accounts, after a preview: nothing can be done in their names."""
        chosen = self.selected(request, queryset, at_most=_MAX_BLOCKED)
        return account_blocks.page(self, request, chosen, blocked=True) if chosen else None

    @admin.action(description="Unblock the selected accounts", permissions=["change"])
    def unblock(self, request: HttpRequest, queryset: QuerySet[Account]) -> HttpResponse | None:
        """Unblock the accounts, after a preview."""
        chosen = self.selected(request, queryset, at_most=_MAX_BLOCKED)
        return account_blocks.page(self, request, chosen, blocked=False) if chosen else None

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> Any:
        """Hash the new account's password before Django's transaction begins."""
        if request.method == "POST" and self.has_add_permission(request):
            email = request.POST.get("email", "").strip().lower()
            password = request.POST.get("password1", "")
            stored = accounts.stored_hash(email=email, password=password)
            self._stored_passwords[request] = stored
        return super().add_view(request, form_url, extra_context)

    def save_form(self, request: HttpRequest, form: Any, change: bool) -> Any:
        """Pass the password hash to the form of a new account."""
        if not change:
            form.stored_password = self._stored_passwords.get(request)
        return super().save_form(request, form, change)

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Read permissions together with their content types, which the form field shows."""
        if db_field.name == "user_permissions":
            kwargs["queryset"] = Permission.objects.select_related("content_type")
        return super().formfield_for_manytomany(db_field, request, **kwargs)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Save the changed columns of an existing account; the form has already saved a new one.

        An account whose team changed left its former team by the rules for leaving it.
        """
        if change:
            if "team" in form.changed_data:
                teams.move_as_staff(obj, obj.team_id, now=timezone.now())
            super().save_model(request, obj, form, change)

    def record(self, event: Event, obj: Model, details: Mapping[str, Any]) -> None:
        """Write an audit entry whose subject is the account's address, as in other entries."""
        subject = obj.email if isinstance(obj, Account) else str(obj)
        audit.record(event, now=timezone.now(), subject=subject, details=details)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Save groups and permissions; write an audit entry if rights or flags changed.

        The flags are `is_staff` and `is_superuser`.  The address of an account that became staff is
        confirmed (`roles.confirm_address`).
        """
        if not change:  # a new account has no groups, and `form.instance` is not the saved row
            super().save_related(request, form, formsets, change)
            return
        account = form.instance
        before = _rights_of(account)
        super().save_related(request, form, formsets, change)
        after = _rights_of(account)
        details: dict[str, Any] = {
            name: {"from": form.initial.get(name), "to": getattr(account, name)}
            for name in ("is_staff", "is_superuser")
            if name in form.changed_data
        }
        if granted := sorted(after - before):
            details["given"] = granted
        if taken := sorted(before - after):
            details["taken"] = taken
        if account.is_staff and "is_staff" in form.changed_data:
            roles.confirm_address(account, now=timezone.now())
        if details:
            self.record(Event.RIGHTS_CHANGED, account, details)


def _rights_of(account: Account) -> set[str]:
    """Return the names of the account's groups and the codenames of its permissions."""
    groups = account.groups.values_list("name", flat=True)
    return {*groups, *account.user_permissions.values_list("codename", flat=True)}


@admin.register(AccountKey, site=staff)
class AccountKeyAdmin(RecordAdmin):
    """The page of account keys, without their secrets."""

    list_display = ("account", "name", "kind", "is_current", "created_at", "revoked_at")
    list_filter = ("kind", "is_current", ("revoked_at", admin.EmptyFieldListFilter))
    sorts = {"created_at": BY_ID}
    search_fields = ("name",)
    search_numbers = ("id", "account_id")
    search_owners = {"account_id": searching.accounts}
    search_help_text = _OF_ACCOUNT
    fields = ("account", "name", "kind", "is_current", "created_at", "last_used_on", "revoked_at")


@admin.register(EmailChange, site=staff)
class EmailChangeAdmin(RecordAdmin):
    """The page of changes of addresses that wait for the new address, without their secrets."""

    list_display = ("account", "email", "created_at", "expire_at")
    sorts = {"created_at": BY_ID}
    search_fields = ("email",)
    search_owners = {"account_id": searching.accounts}
    fields = ("account", "email", "created_at", "expire_at")


@admin.register(StatisticsDeletion, site=staff)
class StatisticsDeletionAdmin(RecordAdmin):
    """The page of accounts and hosts that the statistics export lists as deleted."""

    list_display = ("kind", "number", "cpid", "deleted_at")
    list_filter = ("kind",)
    sorts = {"deleted_at": BY_ID}
    search_numbers = ("number",)
    search_leading = {"number": Q(kind__in=StatisticsDeletion.Kind.values)}


class AdministratorsOfTeam(RecordInline):
    """An inline with the administrators of a team, whom its founder names and dismisses."""

    model = TeamAdministrator
    fields = ("account", "named_at")
    ordering = ("pk",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows, joined with the accounts, whose names are shown."""
        return super().get_queryset(request).select_related("account", "team")


@admin.register(TeamAdministrator, site=staff)
class TeamAdministratorAdmin(RecordAdmin):
    """The page of administrators of teams."""

    list_display = ("team", "account", "named_at")
    sorts = {"named_at": BY_ID}
    search_owners = {"account_id": searching.accounts}
    search_help_text = _OF_ACCOUNT
    search_numbers = ("team_id", "account_id")
    fields = ("team", "account", "named_at")


class TeamForm(FormBase):
    """The form of a team; an existing team also has a founder, who is an active member."""

    def clean_description(self) -> str:
        """Return the description with LF as line ends, which is the stored form."""
        return with_plain_line_ends(str(self.cleaned_data["description"]))

    def clean(self) -> dict[str, Any]:
        """Check the changed fields; lock the team and its new founder."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        for name, value in self.edited_fields().items():
            try:
                if name == "founder":
                    teams.check_founder(self.instance.pk, None if value is None else value.pk)
                else:
                    checked_fields({name: value})
            except (BadName, TeamRefused) as refusal:
                self.add_error(name, str(refusal))
        return cleaned

    def edited_fields(self) -> dict[str, Any]:
        """Return the changed values by name; a description with other line ends is no change."""
        cleaned = self.cleaned_data
        return {
            name: cleaned[name]
            for name in self.changed_data
            if name in cleaned and cleaned[name] != self.initial.get(name)
        }


@admin.register(Team, site=staff)
class TeamAdmin(StaffAdmin):
    """The page of teams, on which staff can change and delete them.

    The operations of `people.teams` write the audit entries.  A new team has no founder, because it
    has no members.
    """

    form = TeamForm
    change_right = Right.MODERATE_PEOPLE
    list_display = (
        *("name", "founder", "country", "joinable"),
        *("total_credit", "expavg_credit", "created_at"),
    )
    list_filter = ("joinable",)
    sorts = {
        "name": Sort((LOWER_NAME, "id")),
        "total_credit": Sort(("total_credit", "id")),
        "expavg_credit": Sort(("expavg_credit", "id")),
        "created_at": BY_ID,
    }
    search_fields = ("name",)
    search_prefixes = (searching.NAME_IN_ANY_CASE,)
    search_help_text = (
        "Beginning of a team's name, or its number; in the newest 10,000 teams also parts of names"
    )
    raw_id_fields = ("founder",)
    #: Credit is changed only by entries of credit.
    readonly_fields = (
        *("total_credit", "expavg_credit", "expavg_at"),
        *("requested_by", "requested_at", "created_at", "boinc_wide_id"),
    )
    fields = (*_PROFILE[:1], "founder", *_PROFILE[1:], *readonly_fields)
    helps = {
        "founder": "An active member, whose rights as an administrator end. Without a founder, the "
        "first member who requests the foundership gets it.",
    }
    inlines = (AdministratorsOfTeam,)
    actions = ("delete_teams",)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the fields; those of a new team are the ones of its profile."""
        return _PROFILE if obj is None else self.fields

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Create the team, or save the changed fields of an existing one."""
        now = timezone.now()
        if not change:
            profile = {name: form.cleaned_data[name] for name in _PROFILE}
            team = teams.create_as_staff(TeamProfile(**profile), now=now)
            obj.pk, obj.created_at = team.pk, team.created_at
            return
        edited = form.edited_fields()
        if "founder" in edited:
            founder = edited.pop("founder")
            teams.set_founder_as_staff(obj.pk, None if founder is None else founder.pk, now=now)
        if edited:
            teams.change_as_staff(obj.pk, edited, now=now)

    @admin.action(description="Delete the selected teams", permissions=["change"])
    def delete_teams(
        self, request: HttpRequest, queryset: QuerySet[Team]
    ) -> TemplateResponse | None:
        """Delete the selected teams, after the user confirmed it; their members stay accounts."""
        selected = self.selected(request, queryset, at_most=_MAX_DELETED)
        if not selected:
            return None
        if not is_confirmed_as_shown(self, request, len(selected), "teams"):
            return confirmation_page_of_teams(self, request, selected, "delete_teams")
        deleted = 0
        for team in selected:
            with self.refusals_shown(request, TeamRefused):
                teams.delete_as_staff(team.pk, now=timezone.now())
                deleted += 1
        if deleted:
            self.message_user(request, f"{deleted} of {len(selected)} teams are deleted.")
        return None


@admin.register(Group, site=staff)
class StaffGroupAdmin(GroupAdmin):
    """The page of groups, on which superusers can add groups; built-in groups are read-only."""

    def get_queryset(self, request: HttpRequest) -> QuerySet[Group]:
        """Read the permissions with their content types, which the page of a group shows."""
        return super().get_queryset(request).prefetch_related("permissions__content_type")

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return whether the user is a superuser, because a group can give every right."""
        return is_superuser(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return True for superusers, except for built-in groups."""
        return is_superuser(request) and not _is_built_in(obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return True for superusers, except for groups in `ROLES`."""
        return is_superuser(request) and (obj is None or obj.name not in ROLES)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Save the permissions; write an audit entry with the added and removed permissions."""
        group = form.instance
        before = set(group.permissions.values_list("codename", flat=True))
        super().save_related(request, form, formsets, change)
        after = set(group.permissions.values_list("codename", flat=True))
        _record_group(group, {"given": sorted(after - before), "taken": sorted(before - after)})

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        _record_group(obj, {"deleted": True})
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for group in queryset:
            _record_group(group, {"deleted": True})
        super().delete_queryset(request, queryset)


def _is_built_in(group: Group | None) -> bool:
    return group is not None and group.name in roles.BUILT_IN_GROUPS


def _record_group(group: Group, details: dict[str, Any]) -> None:
    subject = f"group {group.name}"
    audit.record(Event.RIGHTS_CHANGED, now=timezone.now(), subject=subject, details=details)
