"""Django views of the volunteers' face: BOINC's web RPCs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import wraps

from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, QueryDict
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods

from scheduler.boinc.database_outages import outage_log
from scheduler.boinc.wire import web
from scheduler.config import AccountCreation
from scheduler.dispatch import candidates
from scheduler.people import accounts
from scheduler.people.account_keys import AccountRefused
from scheduler.people.hashing import HashQueueFull
from scheduler.people.throttle import TooManyAttempts

XML = "text/xml"
#: BOINC's error number for "the project is down" (PROTOCOL 0.3).  It is also returned for throttled
#: and postponed log-ins: stock clients show the message and stop.  With ERR_RETRY (-199), BOINC's
#: Manager would repeat the request twice a second; with -206 or -136 it would report that the
#: user's input is wrong.
ERR_PROJECT_DOWN = -183


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
    return _xml(
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
            )
        )
    )


def _web_rpc(answer: Callable[[QueryDict, str, datetime], bytes]) -> Callable[..., HttpResponse]:
    """Return a Django view of a web RPC.

    `answer` is called with the parameters, the client's address and the time, and returns the body
    of the reply.  Exceptions of `people.accounts` become BOINC's error replies, with HTTP status
    200.
    """

    @csrf_exempt
    @require_http_methods(["GET", "HEAD", "POST"])
    @wraps(answer)
    def view(request: HttpRequest) -> HttpResponse:
        params = request.POST if request.method == "POST" else request.GET
        try:
            return _xml(answer(params, _address(request), timezone.now()))
        except AccountRefused as refusal:
            return _xml(web.encode_error(refusal.error_num, str(refusal)))
        except (TooManyAttempts, HashQueueFull) as refusal:
            return _xml(web.encode_error(ERR_PROJECT_DOWN, str(refusal)))
        except (OperationalError, InterfaceError) as error:
            outage_log.begin(error)
            text = "The project's database is unavailable; try again."
            return _xml(web.encode_error(ERR_PROJECT_DOWN, text))

    return view


@_web_rpc
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


@_web_rpc
def create_account(params: QueryDict, address: str, now: datetime) -> bytes:
    """Create an account, or log in to it if it exists with this password (PROTOCOL 1.4)."""
    account = accounts.create_account(
        email=params.get("email_addr", ""),
        passwd_hash=params.get("passwd_hash", ""),
        name=params.get("user_name", ""),
        team_name=params.get("team_name", ""),
        invite_code=params.get("invite_code", ""),
        address=address,
        now=now,
    )
    return web.encode_account_out(account.key)


@_web_rpc
def login_token_lookup(params: QueryDict, address: str, now: datetime) -> bytes:
    """Refuse every log-in token of BOINC's installer (PROTOCOL 1.4).

    This server issues no such tokens.  The reply does not reveal whether the account exists.
    """
    accounts.look_up_login_token(user_id=params.get("user_id", ""), address=address, now=now)


def _xml(body: bytes) -> HttpResponse:
    response = HttpResponse(body, content_type=XML)
    response["Content-Length"] = str(len(body))
    return response


def _address(request: HttpRequest) -> str:
    return str(request.META.get("REMOTE_ADDR", ""))
