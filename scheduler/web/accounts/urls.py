"""The URLs of the account pages.

allauth's pages for several e-mail addresses and for codes by mail are left out on purpose: an
address changes only together with the password's hash (`people.email_changes`).
"""

from __future__ import annotations

from allauth.account import views as allauth_views
from allauth.mfa.base import views as base
from allauth.mfa.recovery_codes import views as recovery_codes
from allauth.mfa.totp import views as totp
from django.urls import path, re_path
from django.views.generic import RedirectView

from scheduler.messages import unsubscribing
from scheduler.web.accounts import (
    keys,
    ownership,
    provider_steps,
    providers,
    security_keys,
    unsubscription,
    views,
)

_own = views.attributed

urlpatterns = [
    path("account", RedirectView.as_view(pattern_name="account_home")),
    path("account/", views.home, name="account_home"),
    # Log-in and sign-up
    path("account/login/", allauth_views.login, name="account_login"),
    path("account/logout/", allauth_views.logout, name="account_logout"),
    path("account/inactive/", allauth_views.account_inactive, name="account_inactive"),
    path("account/signup/", allauth_views.signup, name="account_signup"),
    path(
        "account/reauthenticate/", _own(allauth_views.reauthenticate), name="account_reauthenticate"
    ),
    # Log-in with other sites
    path("account/log-ins/", providers.connections, name="socialaccount_connections"),
    path("account/log-ins/<int:identity_id>/remove/", providers.disconnect, name="log_in_remove"),
    path("account/log-ins/again/", providers.log_in_again, name="socialaccount_reauthenticate"),
    path("account/log-ins/new/", providers.sign_up, name="socialaccount_signup"),
    path("account/log-ins/error/", providers.failed, name="socialaccount_login_error"),
    path("account/log-ins/cancelled/", providers.cancelled, name="socialaccount_login_cancelled"),
    path("account/with/<slug:provider_id>/", provider_steps.log_in, name="openid_connect_login"),
    path(
        "account/with/<slug:provider_id>/callback/",
        provider_steps.callback,
        name="openid_connect_callback",
    ),
    # The second factor
    path("account/two-factor/", views.proven(base.index), name="mfa_index"),
    path("account/two-factor/authenticate/", base.authenticate, name="mfa_authenticate"),
    path("account/two-factor/reauthenticate/", base.reauthenticate, name="mfa_reauthenticate"),
    path(
        "account/two-factor/totp/activate/",
        views.proven(totp.activate_totp),
        name="mfa_activate_totp",
    ),
    path(
        "account/two-factor/totp/deactivate/",
        views.proven(totp.deactivate_totp),
        name="mfa_deactivate_totp",
    ),
    path(
        "account/two-factor/keys/add/",
        views.proven(security_keys.AddKeyView.as_view()),
        name="mfa_add_webauthn",
    ),
    path(
        "account/two-factor/keys/<int:pk>/remove/",
        views.proven(security_keys.RemoveKeyView.as_view()),
        name="mfa_remove_webauthn",
    ),
    path(
        "account/two-factor/keys/reauthenticate/",
        security_keys.ReauthenticateKeyView.as_view(),
        name="mfa_reauthenticate_webauthn",
    ),
    path(
        "account/two-factor/recovery-codes/",
        views.proven(recovery_codes.view_recovery_codes),
        name="mfa_view_recovery_codes",
    ),
    path(
        "account/two-factor/recovery-codes/generate/",
        views.proven(recovery_codes.generate_recovery_codes),
        name="mfa_generate_recovery_codes",
    ),
    path(
        "account/two-factor/recovery-codes/download/",
        views.proven(recovery_codes.download_recovery_codes),
        name="mfa_download_recovery_codes",
    ),
    # Passwords
    path("account/password/", views.change_password, name="account_change_password"),
    path("account/password/reset/", views.reset_password, name="account_reset_password"),
    path(
        "account/password/reset/sent/",
        allauth_views.password_reset_done,
        name="account_reset_password_done",
    ),
    re_path(
        r"^account/password/reset/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>[-0-9A-Za-z]+)/\Z",
        allauth_views.password_reset_from_key,
        name="account_reset_password_from_key",
    ),
    path(
        "account/password/reset/done/",
        allauth_views.password_reset_from_key_done,
        name="account_reset_password_from_key_done",
    ),
    # E-mail addresses
    path("account/email/", views.change_email, name="account_change_email"),
    path("account/email/cancel/", views.cancel_email_change, name="account_cancel_email_change"),
    path(
        "account/email/new/<str:token>/",
        views.confirm_email_change,
        name="account_confirm_email_change",
    ),
    path("account/email/send/", views.send_confirmation, name="account_send_confirmation"),
    path(
        "account/email/sent/",
        allauth_views.email_verification_sent,
        name="account_email_verification_sent",
    ),
    re_path(
        r"^account/email/confirm/(?P<key>[-:\w]+)/\Z",
        allauth_views.confirm_email,
        name="account_confirm_email",
    ),
    # Keys, tokens and data
    path("account/keys/", keys.keys, name="account_keys"),
    path("account/keys/<int:key_id>/", keys.key, name="account_key"),
    path("account/tokens/", views.tokens, name="account_tokens"),
    path("account/tokens/<int:token_id>/revoke/", views.revoke_token, name="account_revoke_token"),
    path("account/data/", views.export, name="account_export"),
    path("account/erase/", views.erase, name="account_erase"),
    # Letters
    path(f"{unsubscribing.PATH}<str:token>/", unsubscription.unsubscribe, name="unsubscribe"),
    # Proofs of ownership
    path("account/ownership/", ownership.prove, name="account_ownership"),
    path("ownership/", ownership.verify, name="ownership"),
    path("ownership/key.pem", ownership.public_key, name="ownership_key"),
]
