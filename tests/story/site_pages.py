"""The pages of the site, by the story that opens them in a browser.

A test compares these lists with the URL patterns, so that no page is forgotten; the stories fail if
they did not open a page of their lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from django.urls import reverse

#: Pages that everybody sees -> the kinds of rows whose numbers their addresses contain.
PUBLIC: Final[Mapping[str, tuple[str, ...]]] = {
    "status": (),
    "account_login": (),
    "account_signup": (),
    "account_inactive": (),
    "account_reset_password": (),
    "account_reset_password_done": (),
    "account_reset_password_from_key_done": (),
    "account_email_verification_sent": (),
    "socialaccount_login_error": (),
    "socialaccount_login_cancelled": (),
    "openid_connect_login": ("provider",),
    "teams": (),
    "team": ("team",),
    "leaderboard_accounts": (),
    "leaderboard_computers": (),
    "leaderboard_teams": (),
    "public_account": ("account",),
    "public_certificate": ("account",),
    "badge_list": (),
    "news_list": (),
    "news": ("news",),
    "project_credit": (),
    "hardware_statistics": (),
    "statistics": (),
    "show_host_detail": (),
    "user_search": (),
    "ownership": (),
    "account_finish": (),
}
#: Pages of an account that has just logged in with its password.
OWN: Final[Mapping[str, tuple[str, ...]]] = {
    "account_home": (),
    "account_computers": (),
    "account_computer": ("host",),
    "account_computer_results": ("host",),
    "account_results": (),
    "account_result": ("result",),
    "account_workunit": ("workunit",),
    "account_computing_preferences": (),
    "account_project_preferences": (),
    "account_change_email": (),
    "account_change_password": (),
    "account_keys": (),
    "account_key": ("key",),
    "account_tokens": (),
    "account_erase": (),
    "account_certificate": (),
    "account_ownership": (),
    "account_reauthenticate": (),
    "account_logout": (),
    "socialaccount_connections": (),
    "socialaccount_reauthenticate": (),
    "mfa_index": (),
    "team_create": (),
    "team_edit": ("team",),
    "team_delete": ("team",),
    "team_member": ("team", "member"),
    "team_administrator": ("team", "member"),
}
#: Pages that a story reaches by links of mails, by forms, or with a second factor.
STEPS: Final = frozenset(
    {
        "account_confirm_email",
        "account_confirm_email_change",
        "account_reset_password_from_key",
        "log_in_remove",
        "mfa_activate_totp",
        "mfa_authenticate",
        "mfa_deactivate_totp",
        "mfa_generate_recovery_codes",
        "mfa_reauthenticate",
        "mfa_view_recovery_codes",
        "socialaccount_signup",
        "unsubscribe",
    }
)
#: Pages that need a security key (`test_browser_keys`).
OF_KEYS: Final = frozenset(
    {"mfa_add_webauthn", "mfa_reauthenticate_webauthn", "mfa_remove_webauthn"}
)
#: Addresses that only receive forms, download a file or lead to another page.
NO_PAGE: Final = frozenset(
    {
        "account_cancel_email_change",
        "account_computer_delete",
        "account_computer_merge",
        "account_revoke_token",
        "account_send_confirmation",
        "mfa_download_recovery_codes",
        "openid_connect_callback",
        "set_language",
        "team_display",
        "team_foundership",
        "team_join",
        "team_leave",
        "team_resign",
    }
)
#: Query strings of pages -> further addresses that are opened.
QUERIES: Final[Mapping[str, tuple[str, ...]]] = {
    "account_computers": ("", "?show=hidden"),
    "account_project_preferences": ("?location=work",),
    "account_results": ("", "?sort=id"),
    "leaderboard_teams": ("", "?type=club"),
    "show_host_detail": ("?hostid={host}",),
    "statistics": (),
    "user_search": ("", "?search_string=ada", "?search_string=nobody"),
}


def paths(pages: Mapping[str, tuple[str, ...]], rows: Mapping[str, object]) -> list[str]:
    """Return the addresses of pages; `rows` has the number of a row of each kind."""
    return [
        reverse(name, args=[rows[kind] for kind in kinds]) + query.format(**rows)
        for name, kinds in pages.items()
        for query in QUERIES.get(name) or ("",)
    ]
