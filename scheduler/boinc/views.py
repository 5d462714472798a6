"""HTTP in and out of the volunteers' face, nothing else."""

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

from scheduler.boinc import absence, scheduler_rpc
from scheduler.boinc.wire import web
from scheduler.config import AccountCreation
from scheduler.dispatch import candidates
from scheduler.people import accounts

XML = "text/xml"
#: BOINC's error number for "the project is down" (PROTOCOL 0.3).  It also answers throttled and
#: postponed log-ins: stock clients show the message and stop.  ERR_RETRY (-199) would make BOINC's
#: Manager repeat the request twice a second, and -206 or -136 would blame the user's input.
ERR_PROJECT_DOWN = -183


@csrf_exempt
@require_http_methods(["POST", "GET"])
def scheduler(request: HttpRequest) -> HttpResponse:
    """Answer one scheduler RPC; every answer that can be read is HTTP 200 (PROTOCOL 2.6)."""
    length = request.META.get("CONTENT_LENGTH") or "0"
    return _xml(scheduler_rpc.reply(length, request.read, _address(request)))


@require_http_methods(["GET", "HEAD", "POST"])
@csrf_exempt
def get_project_config(_request: HttpRequest) -> HttpResponse:
    """Say what a client's manager wants to know before attaching (PROTOCOL 1.2)."""
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
    """Make a view of a function from parameters, address and time to a reply's body.

    Refusals of `people.accounts` become BOINC's errors, in HTTP 200.
    """

    @csrf_exempt
    @require_http_methods(["GET", "HEAD", "POST"])
    @wraps(answer)
    def view(request: HttpRequest) -> HttpResponse:
        asked = request.POST if request.method == "POST" else request.GET
        try:
            return _xml(answer(asked, _address(request), timezone.now()))
        except accounts.AccountRefused as refusal:
            return _xml(web.encode_error(refusal.error_num, str(refusal)))
        except (accounts.TooManyAttempts, accounts.HashQueueFull) as refusal:
            return _xml(web.encode_error(ERR_PROJECT_DOWN, str(refusal)))
        except (OperationalError, InterfaceError) as error:
            return _down(error)

    return view


@_web_rpc
def lookup_account(asked: QueryDict, address: str, now: datetime) -> bytes:
    """Log in: return the account's key for e-mail and password hash (PROTOCOL 1.3)."""
    found = accounts.look_up(
        email=asked.get("email_addr", ""),
        passwd_hash=asked.get("passwd_hash"),
        address=address,
        now=now,
    )
    return web.encode_account_out(found.key if found else None)


@_web_rpc
def create_account(asked: QueryDict, address: str, now: datetime) -> bytes:
    """Create an account, or log in to it if it exists with this password (PROTOCOL 1.4)."""
    made = accounts.create_account(
        email=asked.get("email_addr", ""),
        passwd_hash=asked.get("passwd_hash", ""),
        name=asked.get("user_name", ""),
        team_name=asked.get("team_name", ""),
        invite_code=asked.get("invite_code", ""),
        address=address,
        now=now,
    )
    return web.encode_account_out(made.key)


@_web_rpc
def login_token_lookup(asked: QueryDict, address: str, now: datetime) -> bytes:
    """Answer a client that has a log-in token of BOINC's installer (PROTOCOL 1.4): always refused.

    The reply and its cost do not depend on the account.
    """
    accounts.look_up_login_token(user_id=asked.get("user_id", ""), address=address, now=now)


def _down(error: Exception) -> HttpResponse:
    absence.of_the_database.begins(error)
    return _xml(web.encode_error(ERR_PROJECT_DOWN, "The project's database is away; try again."))


def _xml(body: bytes) -> HttpResponse:
    response = HttpResponse(body, content_type=XML)
    response["Content-Length"] = str(len(body))
    return response


def _address(request: HttpRequest) -> str:
    return str(request.META.get("REMOTE_ADDR", ""))
