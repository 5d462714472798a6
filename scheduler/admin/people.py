"""Admin pages of accounts, account keys, teams and groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from django import forms
from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.forms import SetPasswordMixin
from django.contrib.auth.models import Group, Permission
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.utils import timezone

from scheduler.admin import credit_grants
from scheduler.admin.base import RecordAdmin, StaffAdmin, is_superuser, section, without_fields
from scheduler.admin.site import staff
from scheduler.models import Account, AccountKey, EmailChange, StatisticsDeletion, Team
from scheduler.people import accounts, audit, roles
from scheduler.people.account_keys import BadName, good_name
from scheduler.people.accounts import BadEmail
from scheduler.people.audit import Event
from scheduler.rights import ROLES, Right

if TYPE_CHECKING:
    AccountForm = forms.ModelForm[Account]
    UserBase = UserAdmin[Account]
    Passwords = SetPasswordMixin[Account]
else:
    AccountForm, UserBase, Passwords = forms.ModelForm, UserAdmin, SetPasswordMixin


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
    form = forms.ModelForm
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
    search_fields = ("email", "name")
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
        "global_prefs",
        "project_prefs",
        "share_statistics",
        "show_hosts",
        "terms_accepted_at",
    )
    fieldsets = (
        section(None, "email", "name", "country", "url", "team", "venue"),
        section("Credit", "total_credit", "expavg_credit", "expavg_at"),
        section("Rights", "is_active", "is_staff", "is_superuser", "groups", "user_permissions"),
        section("Consents", "share_statistics", "show_hosts", "terms_accepted_at"),
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
    _stored_passwords: WeakKeyDictionary[HttpRequest, str] = WeakKeyDictionary()
    change_form_template = "scheduler/admin/account.html"
    change_user_password_template = "scheduler/admin/password.html"  # noqa: S105  a page

    def get_urls(self) -> list[Any]:
        """Return Django's URLs and that of the page which grants credit by hand."""

        def credit_page(request: HttpRequest, account_id: int) -> HttpResponse:
            return credit_grants.page(self, request, account_id)

        view = self.admin_site.admin_view(credit_page)
        own = path("<int:account_id>/credit/", view, name="scheduler_account_credit")
        return [own, *super().get_urls()]

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Return the page of an account, with a link for users who may grant credit by hand."""
        context = {"may_grant_credit": credit_grants.may_grant(request), **(extra_context or {})}
        return super().change_view(request, object_id, form_url, context)

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
        """Save the changed columns of an existing account; the form has already saved a new one."""
        if change:
            super().save_model(request, obj, form, change)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Save groups and permissions; write an audit entry if rights or flags changed.

        The flags are `is_active`, `is_staff` and `is_superuser`.  The address of an account that
        became staff is confirmed (`roles.confirm_address`).
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
            for name in ("is_active", "is_staff", "is_superuser")
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
    search_fields = ("account__email", "account__name", "name")
    search_numbers = ("id", "account_id")
    fields = ("account", "name", "kind", "is_current", "created_at", "revoked_at")


@admin.register(EmailChange, site=staff)
class EmailChangeAdmin(RecordAdmin):
    """The page of changes of addresses that wait for the new address, without their secrets."""

    list_display = ("account", "email", "created_at", "expire_at")
    search_fields = ("account__email", "email")
    fields = ("account", "email", "created_at", "expire_at")


@admin.register(StatisticsDeletion, site=staff)
class StatisticsDeletionAdmin(RecordAdmin):
    """The page of accounts and hosts that the statistics export lists as deleted."""

    list_display = ("kind", "number", "cpid", "deleted_at")
    list_filter = ("kind",)
    search_numbers = ("number",)


@admin.register(Team, site=staff)
class TeamAdmin(StaffAdmin):
    change_right = Right.MODERATE_PEOPLE
    list_display = ("name", "founder", "country", "joinable", "created_at")
    list_filter = ("joinable",)
    search_fields = ("name",)
    raw_id_fields = ("founder",)
    readonly_fields = ("requested_by", "requested_at", "created_at")


@admin.register(Group, site=staff)
class StaffGroupAdmin(GroupAdmin):
    """The page of groups, on which superusers can add groups; built-in groups are read-only."""

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
