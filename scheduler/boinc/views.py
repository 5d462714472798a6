"""Django views of the volunteers' face: BOINC's web RPCs."""

from __future__ import annotations

from datetime import datetime

from django.conf import settings
from django.http import HttpRequest, HttpResponse, QueryDict
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods

from scheduler.boinc.pages.web_rpc import web_rpc, xml_response
from scheduler.boinc.wire import web
from scheduler.config import AccountCreation
from scheduler.dispatch import candidates
from scheduler.people import accounts


@require_http_methods(["GET", "HEAD", "POST"])
@csrf_exempt
def get_project_config(_request: HttpRequest) -> HttpResponse:
    """Return the data that clients read before they attach to the project (PROTOCOL 1.2)."""
    config = settings.PROJECT
    by_invitation = config.account_creation is AccountCreation.INVITATION
    platforms = tuple(
        web.Platform(platform_name=name, user_friendly_name=friendly, plan_class=plan_class)
        for name, friendly, plan_class in candidates.platforms()
    )
    return xml_response(
        web.encode_project_config(
            web.ProjectConfig(
                name=config.name,
                master_url=config.master_url,
                web_rpc_url_base=config.master_url,
                account_creation_disabled=config.account_creation is AccountCreation.CLOSED,
                # Stock clients cannot send an invitation's code (PROTOCOL 1.4).
                client_account_creation_disabled=by_invitation,
                invite_code_required=by_invitation,
                min_client_version=config.min_client_version,
                platforms=platforms,
                terms_of_use=config.terms_of_use,
            )
        )
    )


@web_rpc
def lookup_account(params: QueryDict, address: str, now: datetime) -> bytes:
    """Return the key of the account with this e-mail address and password hash (PROTOCOL 1.3).

    Without a password hash, only check that the account exists.
    """
    account = accounts.look_up(
        email=params.get("email_addr", ""),
        passwd_hash=params.get("passwd_hash"),
        address=address,
        now=now,
    )
    return web.encode_account_out(account.key if account else None)


@web_rpc
def create_account(params: QueryDict, address: str, now: datetime) -> bytes:
    """Create an account, or log in to it if it exists with this password (PROTOCOL 1.4)."""
    account = accounts.create_account(
        email=params.get("email_addr", ""),
        passwd_hash=params.get("passwd_hash", ""),
        name=params.get("user_name", ""),
        team_name=params.get("team_name", ""),
        invite_code=params.get("invite_code", ""),
        terms_accepted_in=_terms_accepted_in(params),
        address=address,
        now=now,
    )
    return web.encode_account_out(account.key)


def _terms_accepted_in(params: QueryDict) -> str | None:
    """Return the program in which the terms of use were accepted, or None if they were not."""
    if params.get("consent_flag", "0") in {"", "0"}:
        return None
    return params.get("source", "") or "a client"


@web_rpc
def login_token_lookup(params: QueryDict, address: str, now: datetime) -> bytes:
    """Refuse every log-in token of BOINC's installer (PROTOCOL 1.4).

    This server issues no such tokens.  The reply does not reveal whether the account exists.
    """
    accounts.look_up_login_token(user_id=params.get("user_id", ""), address=address, now=now)
