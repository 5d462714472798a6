"""Connects allauth's pages to the operations of `scheduler.people`."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, ClassVar, cast
from urllib.parse import urljoin

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.app_settings import REAUTHENTICATION_TIMEOUT
from allauth.account.authentication import get_authentication_records
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from scheduler.config import AccountCreation
from scheduler.messages import outbox
from scheduler.messages.rules.mail_rules import BadMail
from scheduler.models import Account
from scheduler.people import accounts, audit, email_changes, second_factors, throttle
from scheduler.people.providers import identities
from scheduler.people.throttle import TooManyAttempts

if TYPE_CHECKING:
    from allauth.account.models import EmailAddress, EmailConfirmationHMAC
    from django.contrib.auth.base_user import AbstractBaseUser
    from django.contrib.auth.models import AnonymousUser

log = logging.getLogger(__name__)

#: The backend that stores mail for the mail server of `EMAIL_URL`.
_OUTBOX = "project.mail_backend.OutboxBackend"
#: The templates whose mails are not charged when they are sent.
_NOT_CHARGED = frozenset(
    {
        # The page has charged them, and shows a refusal.
        "account/email/email_change",
        "account/email/email_confirmation",
        "account/email/password_reset_key",
        "account/email/unknown_account",
        # Notices to the owner: an attacker could suppress them by filling the bucket.
        "account/email/email_change_warning",
        "account/email/password_changed",
        "account/email/password_reset",
        "mfa/email/recovery_codes_generated",
        "mfa/email/totp_activated",
        "mfa/email/totp_deactivated",
        "mfa/email/webauthn_added",
        "mfa/email/webauthn_removed",
        "socialaccount/email/account_connected",
        "socialaccount/email/account_disconnected",
    }
)


class AccountAdapter(DefaultAccountAdapter):
    """Changes accounts by our operations, and makes links from `MASTER_URL`.

    allauth's own code would store passwords and addresses by itself, and take the host of a link
    from the request, which the sender of the request chooses.
    """

    error_messages: ClassVar[dict[str, Any]] = {
        **DefaultAccountAdapter.error_messages,
        "email_password_mismatch": _(
            "No account has this e-mail address and password. Hint: check both, or reset the "
            "password."
        ),
        "incorrect_password": _("The password is wrong. Hint: check it."),
        "enter_current_password": _("The current password is wrong. Hint: check it."),
        "invalid_password_reset": _("The link was used or has expired. Hint: request another one."),
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:  # noqa: ARG002  allauth's signature
        return settings.PROJECT.account_creation is not AccountCreation.CLOSED

    def set_password(self, user: Account, password: str) -> None:
        """Change the password, and revoke what was created with the former one.

        Attached computers keep their keys; the page on which the owner changes the password can
        revoke them, too.  Audit entries name the owner, whom a link to their mailbox identifies.
        """
        audit.identify(user)
        accounts.change_password(
            account=user,
            passwd_hash=accounts.password_digest(email=user.email, password=password),
            now=timezone.now(),
        )

    def confirm_email(self, request: HttpRequest, email_address: EmailAddress) -> bool:
        """Mark the address as confirmed, by its owner, whom the link identifies."""
        audit.identify(email_address.user)
        confirmed = email_changes.confirm_address(email_address, now=timezone.now())
        if confirmed:
            self.add_message(request, messages.SUCCESS, "account/messages/email_confirmed.txt")
        return confirmed

    def send_mail(self, template_prefix: str, email: str, context: dict[str, Any]) -> None:
        """Send a mail made from the templates `<template_prefix>_subject.txt` and `_message.txt`.

        A mail that the limit of the address or the outbox refuses is dropped and logged, so that
        the page is the same.  Nothing is sent if the project sends no mail.
        """
        if not sends_mail():
            return
        project = settings.PROJECT
        context = {
            **context,
            "email": email,
            "project": project,
            "site": project.master_url,
            "signup_url": absolute(reverse("account_signup")),
        }
        message = self.render_mail(template_prefix, email, context)
        try:
            if template_prefix not in _NOT_CHARGED:
                # Not to the network: many people may sign up from one classroom.
                throttle.charge_mail(
                    door="mail",
                    email=email,
                    address=self.get_client_ip(self.request),
                    of_network=False,
                    now=timezone.now(),
                )
            message.send()
        except TooManyAttempts:
            _log_dropped(template_prefix, "too many mails to this address")
        except BadMail:
            _log_dropped(template_prefix, "refused by the outbox")

    def notify_of_provider(self, account: Account, provider_id: str, *, is_connected: bool) -> None:
        """Send a mail to the owner after a log-in of a provider was connected or removed."""
        names = {each.id: each.name for each in settings.PROJECT.login_providers}
        template = "account_connected" if is_connected else "account_disconnected"
        self.send_notification_mail(
            f"socialaccount/email/{template}",
            account,
            {"provider": names.get(provider_id, provider_id)},
        )

    def format_email_subject(self, subject: str) -> str:
        return f"{settings.PROJECT.name}: {subject}"

    def get_reset_password_from_key_url(self, key: str) -> str:
        """Return the absolute URL of the link to reset a password."""
        uid, _dash, token = key.partition("-")
        arguments = {"uidb36": uid, "key": token}
        return absolute(reverse("account_reset_password_from_key", kwargs=arguments))

    def get_email_confirmation_url(
        self,
        request: HttpRequest,  # noqa: ARG002
        emailconfirmation: EmailConfirmationHMAC,
    ) -> str:
        """Return the absolute URL of the link to confirm an address."""
        return absolute(reverse("account_confirm_email", args=[emailconfirmation.key]))

    def get_email_verification_redirect_url(self, email_address: EmailAddress) -> str:  # noqa: ARG002
        return reverse("account_home")

    def get_password_change_redirect_url(self, request: HttpRequest) -> str:  # noqa: ARG002
        return reverse("account_home")

    def get_reauthentication_methods(
        self, user: AbstractBaseUser | AnonymousUser
    ) -> list[dict[str, Any]]:
        """Return the pages that ask again; only for the second factor if the account has one."""
        methods: list[dict[str, Any]] = super().get_reauthentication_methods(user)
        if isinstance(user, Account) and second_factors.has_one(user):
            return [method for method in methods if method["id"].startswith("mfa_")]
        if isinstance(user, Account) and not methods and identities.can_log_in_with_provider(user):
            url = reverse("socialaccount_reauthenticate")
            return [{"id": "provider", "description": _("Log in again"), "url": url}]
        return methods

    def is_reauthentication_required(self, *, app: str, **kwargs: Any) -> bool:
        """Return False within five minutes of a log-in; allauth counts only a repeated proof.

        With a second factor, the log-in must have asked for it.
        """
        user = cast("Account", self.request.user)  # allauth asks for sessions with a user only
        # An account without a password is opened by a provider.
        first = "password" if user.has_usable_password() else "socialaccount"
        needed = "mfa" if second_factors.has_one(user) else first
        for record in get_authentication_records(self.request, user):
            age = time.time() - record["at"]
            if record["method"] == needed and 0 <= age < REAUTHENTICATION_TIMEOUT:
                return False
        return bool(super().is_reauthentication_required(app=app, **kwargs))

    def get_logout_redirect_url(self, request: HttpRequest) -> str:  # noqa: ARG002
        return reverse("status")

    def get_client_ip(self, request: HttpRequest) -> str:
        """Return the client's address, which `project.proxies` has checked."""
        return str(request.META.get("REMOTE_ADDR", "")) or "unknown"


def _log_dropped(template: str, reason: str) -> None:
    """Log a mail that is not sent, without its recipient."""
    log.warning("mail_dropped", extra={"template": template, "reason": reason})


def sends_mail() -> bool:
    """Return whether mail of these pages is sent; the backend of tests needs no mail server."""
    return settings.EMAIL_BACKEND != _OUTBOX or outbox.sends_mail()


def absolute(path: str) -> str:
    """Return the absolute URL of a path of this site."""
    return urljoin(settings.PROJECT.master_url, path)
