"""The forms of the account pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from allauth.account import forms as allauth_forms
from allauth.account.adapter import get_adapter
from allauth.core import context
from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.http import HttpRequest, QueryDict
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from scheduler.config import AccountCreation
from scheduler.models import Account, AccountKey
from scheduler.people import (
    account_keys,
    accounts,
    api_tokens,
    email_changes,
    roles,
    submitters,
    throttle,
)
from scheduler.people.account_keys import AccountRefused
from scheduler.people.hashing import HashQueueFull
from scheduler.people.personal_data.consents import Chosen
from scheduler.people.providers import identities
from scheduler.people.public_texts.confirmed_addresses import UnconfirmedAddress
from scheduler.people.throttle import TooManyAttempts, UsedCode
from scheduler.web.texts import translated

#: The scopes of tokens.
_SCOPES: Final = {
    "read": pgettext_lazy("scope", "read"),
    "submit": pgettext_lazy("scope", "submit"),
    "publish": pgettext_lazy("scope", "publish"),
    "manage": pgettext_lazy("scope", "manage"),
    "administer": pgettext_lazy("scope", "administer"),
}


def scope_label(scope: str) -> str:
    """Return the visitor's word for a scope, with its name in the API if this is another word.

    >>> scope_label("read")
    'read'
    """
    label = str(_SCOPES.get(scope, scope))
    return scope if label == scope else f"{label} ({scope})"


class RefusableForm(forms.BaseForm):
    """A form that stores the exception if an attempt is refused.

    An attempt is refused if the throttle blocks it or if the queue of password hashes is full;
    `web.refusals` sets the status of the page by `refusal`.
    """

    refusal: TooManyAttempts | HashQueueFull | None = None

    @contextmanager
    def refusable(self) -> Iterator[None]:
        """Convert a refusal within the block to an error of the form."""
        try:
            yield
        except (TooManyAttempts, HashQueueFull) as refusal:
            self.refusal = refusal
            raise ValidationError(translated(str(refusal)), code="refused") from refusal
        except (AccountRefused, UsedCode) as refusal:
            raise ValidationError(translated(str(refusal)), code="refused") from refusal


def address_of(request: HttpRequest) -> str:
    """Return the network address of the client."""
    return str(request.META.get("REMOTE_ADDR", ""))


def plain(form: forms.BaseForm) -> None:
    """Remove allauth's placeholders, which only repeat the labels."""
    for field in form.fields.values():
        field.widget.attrs.pop("placeholder", None)


class LogInForm(RefusableForm, allauth_forms.LoginForm):
    """The first step of a log-in: e-mail address and password."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        plain(self)
        self.fields["login"].label = _("E-mail address")
        self.fields["login"].widget.attrs["autocomplete"] = "username"
        self.fields["password"].help_text = ""

    def clean(self) -> dict[str, Any]:
        with self.refusable():
            cleaned: dict[str, Any] = super().clean() or {}
        return cleaned


def prepare_sign_up(form: forms.BaseForm) -> None:
    """Remove the fields that the project does not need from a form that creates an account."""
    plain(form)
    form.fields["email"].label = _("E-mail address")
    if settings.PROJECT.account_creation is not AccountCreation.INVITATION:
        del form.fields["invite_code"]
    if not settings.PROJECT.terms_of_use:
        del form.fields["accepts_terms"]


class SignUpForm(RefusableForm, allauth_forms.SignupForm):
    """The form that creates an account, as `create_account.php` does for clients."""

    name = forms.CharField(
        label=_("Name"),
        max_length=254,
        help_text=_("Other people see it beside your credit."),
        widget=forms.TextInput(attrs={"autocomplete": "nickname"}),
    )
    invite_code = forms.CharField(
        label=_("Invitation code"), max_length=100, help_text=_("The project's staff gives codes.")
    )
    accepts_terms = forms.BooleanField(
        label=_("I accept the terms of use"),
        error_messages={"required": _("Accept the terms of use to create an account.")},
    )
    field_order = ("email", "name", "password1", "password2", "invite_code", "accepts_terms")
    account: Account | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        prepare_sign_up(self)

    def clean_email(self) -> str:
        """Return the address; `accounts.create_account` checks whether an account has it."""
        return str(self.cleaned_data["email"]).lower()

    def clean(self) -> dict[str, Any]:
        """Create the account, so that a refusal is shown as an error of the form.

        With the password of an existing account, that account logs in, as with clients.
        """
        super().clean()
        cleaned: dict[str, Any] = self.cleaned_data
        if self.errors:
            return cleaned
        digest = accounts.password_digest(email=cleaned["email"], password=cleaned["password1"])
        with self.refusable():
            self.account = accounts.create_account(
                email=cleaned["email"],
                passwd_hash=digest,
                name=cleaned["name"],
                invite_code=cleaned.get("invite_code", ""),
                terms_accepted_in="web site" if cleaned.get("accepts_terms") else None,
                address=address_of(context.request),
                now=timezone.now(),
            ).account
        return cleaned

    def try_save(self, request: HttpRequest) -> tuple[Account | None, None]:  # noqa: ARG002
        """Return the account that `clean` has created; called by allauth."""
        return self.account, None


class ChangePasswordForm(RefusableForm, allauth_forms.ChangePasswordForm):
    """The form with which owners change their password."""

    revoke_host_keys = forms.BooleanField(
        required=False,
        label=_("Revoke the keys of attached computers, too"),
        help_text=_(
            "Every computer must then be attached again, and BOINC clients lose the work they "
            "hold. API tokens, submission keys, the weak key and other sessions are revoked in "
            "any case."
        ),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        plain(self)
        self.fields["oldpassword"].help_text = ""

    def clean_oldpassword(self) -> str:
        """Check the current password; the log-in throttle counts wrong ones."""
        with self.refusable():
            password: str = self.cleaned_data["oldpassword"]
            if not get_adapter().reauthenticate(self.user, password):
                raise get_adapter().validation_error("enter_current_password")
        return password

    def clean(self) -> dict[str, Any]:
        """Change the password, so that a refusal is shown as an error of the form."""
        super().clean()
        if not self.errors:
            email = self.user.email
            digest = accounts.password_digest(email=email, password=self.cleaned_data["password1"])
            with self.refusable():
                accounts.change_password(
                    account=self.user,
                    passwd_hash=digest,
                    revoke_host_keys=self.cleaned_data["revoke_host_keys"],
                    now=timezone.now(),
                )
        cleaned: dict[str, Any] = self.cleaned_data
        return cleaned

    def save(self) -> None:
        """Do nothing: `clean` has changed the password."""


class ReauthenticateForm(RefusableForm, allauth_forms.ReauthenticateForm):
    """The form that asks for the password before a sensitive page."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        plain(self)
        self.fields["password"].help_text = ""

    def clean_password(self) -> str:
        with self.refusable():
            password: str = super().clean_password()
        return password


class ResetPasswordForm(RefusableForm, allauth_forms.ResetPasswordForm):
    """The form that has a link mailed with which a forgotten password is replaced."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        plain(self)
        self.fields["email"].label = _("E-mail address")

    def clean_email(self) -> str:
        """Charge the mail to its address, whether or not an account has the address."""
        with self.refusable():
            accounts.good_email(self.cleaned_data["email"])
            throttle.charge_mail(
                door="password_reset",
                email=self.cleaned_data["email"],
                address=address_of(context.request),
                now=timezone.now(),
            )
        email: str = super().clean_email()
        return email


class NewPasswordForm(RefusableForm, allauth_forms.ResetPasswordKeyForm):
    """The form behind the link that was mailed for a forgotten password."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        plain(self)

    def clean(self) -> dict[str, Any]:
        """Change the password, so that a refusal is shown as an error of the form."""
        super().clean()
        if not self.errors:
            with self.refusable():
                # The link was mailed to the address, so its user is the owner.
                removed = identities.remove_unproven(self.user, now=timezone.now())
                adapter = get_adapter()
                for provider_id in removed:
                    adapter.notify_of_provider(self.user, provider_id, is_connected=False)
                adapter.set_password(self.user, self.cleaned_data["password1"])
        cleaned: dict[str, Any] = self.cleaned_data
        return cleaned

    def save(self) -> None:
        """Do nothing: `clean` has changed the password."""


class ProfileForm(forms.Form):
    """The name, country and home page of an account, and what other sites may show of it."""

    name = forms.CharField(label=_("Name"), max_length=254)
    country = forms.CharField(label=_("Country"), max_length=64, required=False)
    url = forms.URLField(
        label=_("Home page"), max_length=200, required=False, assume_scheme="https"
    )
    share_statistics = forms.BooleanField(
        label=_("Share my statistics"),
        required=False,
        help_text=_(
            "Everybody can see your name, country, home page, team, credit and credit per day, "
            "here and on sites that compare BOINC projects. These sites also get the hardware, "
            "operating system and credit of your computers, without names and addresses, and an "
            "id that is the same in all projects. If you withdraw your consent, they are asked to "
            "delete all of this."
        ),
    )
    show_hosts = forms.BooleanField(
        label=_("Show my computers"),
        required=False,
        help_text=_(
            "Everybody can open a page of each of your computers, with its processor, memory, "
            "operating system and credit. If you also share your statistics, your name is at your "
            "computers on the leaderboard, on their pages and in the exported statistics, and your "
            "public page {page} lists them."
        ),
    )

    receive_letters = forms.BooleanField(
        label=_("Letters by mail"),
        required=False,
        help_text=_(
            "The project may send letters to your e-mail address, once you have confirmed it: for "
            "example about results of its research. Each letter has a link that ends this."
        ),
    )

    def __init__(self, data: QueryDict | None = None, *, account: Account) -> None:
        super().__init__(data, initial={name: getattr(account, name) for name in self.base_fields})
        page = reverse("public_account", args=[account.pk])
        field = self.fields["show_hosts"]
        field.help_text = str(field.help_text).format(page=page)

    def save(self, account: Account) -> bool:
        """Store the values; return False, with an error at the home page, if it is refused."""
        profile = dict(self.cleaned_data)
        chosen = Chosen(**{name: profile.pop(name) for name in Chosen.__slots__})
        try:
            accounts.change_profile(account, profile, chosen=chosen, now=timezone.now())
        except UnconfirmedAddress as refusal:
            self.add_error("url", translated(str(refusal)))
        return self.is_valid()

    def clean_name(self) -> str:
        return _checked(account_keys.good_name, self.cleaned_data["name"])


def _checked(check: Callable[[str], str], text: str) -> str:
    try:
        return check(text)
    except AccountRefused as refusal:
        raise ValidationError(translated(str(refusal))) from refusal


class EmailForm(RefusableForm, forms.Form):
    """The form that requests another e-mail address for an account."""

    email = forms.EmailField(
        label=_("New e-mail address"), widget=forms.EmailInput(attrs={"autocomplete": "email"})
    )
    password = forms.CharField(
        label=_("Password"),
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
        help_text=_("BOINC hashes your password together with your address, so both are needed."),
    )
    requested: email_changes.Requested

    def __init__(self, *args: Any, request: HttpRequest, **kwargs: Any) -> None:
        self.request = request
        super().__init__(*args, **kwargs)

    def clean(self) -> dict[str, Any]:
        """Store the change, so that a refusal is shown as an error of the form."""
        if not self.errors:
            with self.refusable():
                self.requested = email_changes.request(
                    account=self.request.user,  # type: ignore[arg-type]  # the view needs a log-in
                    email=self.cleaned_data["email"],
                    password=self.cleaned_data["password"],
                    address=address_of(self.request),
                    now=timezone.now(),
                )
        return self.cleaned_data


class TokenForm(forms.Form):
    """The form that creates an API token."""

    name = forms.CharField(
        label=_("Name"),
        max_length=api_tokens.MAX_NAME,
        help_text=_("Where the token is used, such as “notebook”."),
    )
    scopes = forms.MultipleChoiceField(
        label=_("Scopes"),
        widget=forms.CheckboxSelectMultiple,
        help_text=_("The actions that are possible with it."),
    )
    text: str = ""

    def __init__(self, *args: Any, account: Account, **kwargs: Any) -> None:
        self.account = account
        super().__init__(*args, **kwargs)
        self.fields["scopes"].choices = [  # type: ignore[attr-defined]
            (scope, scope_label(scope)) for scope in roles.grantable_scopes(account)
        ]
        self.fields["scopes"].initial = api_tokens.default_scopes(account)

    def clean(self) -> dict[str, Any]:
        """Create the token, so that a refusal is shown as an error of the form."""
        if not self.errors:
            try:
                _token, self.text = api_tokens.create(
                    account=self.account,
                    name=self.cleaned_data["name"],
                    scopes=self.cleaned_data["scopes"],
                    now=timezone.now(),
                )
            except (api_tokens.TokenRefused, api_tokens.WrongPassword) as refusal:
                raise ValidationError(translated(str(refusal))) from refusal
        return self.cleaned_data


class KeyForm(RefusableForm, forms.Form):
    """The form that creates an account key; submitters choose what the key permits."""

    name = forms.CharField(
        label=_("Name"),
        max_length=account_keys.MAX_KEY_NAME,
        help_text=_("Where the key is used, such as “computers of the school”."),
    )
    kind = forms.TypedChoiceField(
        label=_("Use"),
        widget=forms.RadioSelect,
        coerce=lambda value: AccountKey.Kind(int(value)),
        choices=(
            (AccountKey.Kind.STRONG.value, _("attach computers")),
            (AccountKey.Kind.SUBMISSION.value, _("submit work by BOINC's web RPCs")),
        ),
        initial=AccountKey.Kind.STRONG.value,
    )
    created: AccountKey
    text: str = ""

    def __init__(self, *args: Any, account: Account, **kwargs: Any) -> None:
        self.account = account
        super().__init__(*args, **kwargs)
        if not submitters.is_submitter(account):
            # The server would refuse the submissions of such a key.
            del self.fields["kind"]

    def clean(self) -> dict[str, Any]:
        """Create the key, so that a refusal is shown as an error of the form."""
        if not self.errors:
            with self.refusable():
                self.created, self.text = account_keys.create_key(
                    account=self.account,
                    name=self.cleaned_data["name"],
                    kind=self.cleaned_data.get("kind", AccountKey.Kind.STRONG),
                    now=timezone.now(),
                )
        return self.cleaned_data


class KeyNameForm(forms.Form):
    """The form that renames an account key."""

    name = forms.CharField(label=_("Name"), max_length=account_keys.MAX_KEY_NAME)


class ErasureForm(forms.Form):
    """The form that erases an account."""

    sure = forms.BooleanField(label=_("Erase my account and my personal data permanently"))
