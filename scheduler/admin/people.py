"""Accounts, their keys and teams, as staff sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.forms import SetPasswordMixin
from django.contrib.auth.models import Group, Permission
from django.db.models import Model
from django.http import HttpRequest
from django.utils import timezone

from scheduler.admin.base import RecordAdmin, StaffAdmin
from scheduler.admin.site import set_password, staff
from scheduler.models import Account, AccountKey, Team
from scheduler.operations import accounts

if TYPE_CHECKING:
    AccountForm = forms.ModelForm[Account]
    UserBase = UserAdmin[Account]
    Passwords = SetPasswordMixin[Account]
else:
    AccountForm, UserBase, Passwords = forms.ModelForm, UserAdmin, SetPasswordMixin


class NewAccountForm(Passwords, AccountForm):
    """Asks for what an account needs; `operations.accounts` makes it."""

    required_css_class = "required"
    password1, password2 = SetPasswordMixin.create_password_fields()

    class Meta:
        """The fields that a person gives."""

        model = Account
        fields = ("email", "name", "is_staff")

    def clean_email(self) -> str:
        """Spell the address as it is stored."""
        return str(self.cleaned_data["email"]).lower()

    def clean(self) -> dict[str, Any]:
        """Compare the passwords and judge their strength."""
        super().clean()
        self.validate_passwords()
        self.validate_password_for_user(self.instance)
        email = self.cleaned_data.get("email")
        if email and Account.objects.filter(email__iexact=email).exists():
            self.add_error("email", f"{email} has an account already. Hint: change that one.")
        return self.cleaned_data

    def save(self, commit: bool = True) -> Account:
        """Create the account with its keys."""
        return accounts.create_staff(
            email=self.cleaned_data["email"],
            password=self.cleaned_data["password1"],
            name=self.cleaned_data["name"],
            now=timezone.now(),
            is_staff=self.cleaned_data["is_staff"],
            is_superuser=False,
        )

    def save_m2m(self) -> None:
        """Do nothing: a new account has no groups yet."""


class NewPasswordForm(Passwords, forms.Form):
    """Asks staff for another person's new password, twice."""

    required_css_class = "required"
    password1, password2 = SetPasswordMixin.create_password_fields()

    def __init__(self, user: Account, *args: Any, **kwargs: Any) -> None:
        """Remember whose password it is."""
        self.user = user
        super().__init__(*args, **kwargs)
        self.fields["password1"].widget.attrs["autofocus"] = True

    def clean(self) -> dict[str, Any]:
        """Compare the passwords and judge their strength."""
        super().clean()
        self.validate_passwords()
        self.validate_password_for_user(self.user)
        # Django's view asks whether the password stays usable at all: always.
        return {**self.cleaned_data, "set_usable_password": True}

    def save(self) -> Account:
        """Store the password as BOINC's clients compute it."""
        return set_password(self.user, self.cleaned_data["password1"])

    @property
    def changed_data(self) -> list[str]:
        """What the history of changes says."""
        return ["password"]


@admin.register(Account, site=staff)
class AccountAdmin(StaffAdmin, UserBase):
    """People. The e-mail address is part of the password's digest, so it is not changed here."""

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
    list_select_related = ("team",)
    search_fields = ("email", "name")
    ordering = ("-id",)
    autocomplete_fields = ("team",)
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
    )
    fieldsets = (
        (None, {"fields": ("email", "name", "country", "url", "team", "venue")}),
        ("Credit", {"fields": ("total_credit", "expavg_credit", "expavg_at")}),
        (
            "Rights",
            {"fields": ("is_active", "is_staff", "is_superuser", "groups", "user_permissions")},
        ),
        ("Preferences", {"classes": ("collapse",), "fields": ("global_prefs", "project_prefs")}),
        ("Since", {"fields": ("created_at", "last_login", "cross_project_id")}),
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
    change_form_template = "scheduler/admin/account.html"
    change_user_password_template = "scheduler/admin/password.html"  # noqa: S105  a page

    def get_readonly_fields(
        self, request: HttpRequest, obj: Model | None = None
    ) -> tuple[str, ...]:
        """Let the e-mail address be given once; let only superusers hand out rights."""
        if obj is None:
            return ()
        if request.user.is_superuser:
            return self.readonly_fields
        rights = ("is_staff", "is_superuser", "groups", "user_permissions")
        return (*self.readonly_fields, *rights)

    def formfield_for_manytomany(
        self,
        db_field: Any,
        request: HttpRequest,
        **kwargs: Any,
    ) -> Any:
        """Read what the rights are rights to in the same statement."""
        if db_field.name == "user_permissions":
            kwargs["queryset"] = Permission.objects.select_related("content_type")
        return super().formfield_for_manytomany(db_field, request, **kwargs)

    def save_model(
        self,
        request: HttpRequest,
        obj: Any,
        form: Any,
        change: bool,
    ) -> None:
        """Save the changed columns; a new account was made whole by its form."""
        if change:
            super().save_model(request, obj, form, change)


@admin.register(AccountKey, site=staff)
class AccountKeyAdmin(RecordAdmin):
    """Keys by name; the secrets themselves are never shown."""

    list_display = ("account", "name", "kind", "is_current", "created_at", "revoked_at")
    list_filter = ("kind", "is_current", ("revoked_at", admin.EmptyFieldListFilter))
    list_select_related = ("account",)
    search_fields = ("account__email", "account__name", "name")
    search_numbers = ("id", "account_id")
    fields = ("account", "name", "kind", "is_current", "created_at", "revoked_at")


@admin.register(Team, site=staff)
class TeamAdmin(StaffAdmin):
    """Teams."""

    list_display = ("name", "founder", "country", "joinable", "created_at")
    list_filter = ("joinable",)
    list_select_related = ("founder",)
    search_fields = ("name",)
    autocomplete_fields = ("founder",)
    readonly_fields = ("created_at",)


@admin.register(Group, site=staff)
class StaffGroupAdmin(GroupAdmin):
    """Groups of rights for staff."""
