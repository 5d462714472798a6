"""Makes Django views of web RPCs: XML replies, and exceptions as BOINC's errors."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import wraps
from typing import Final

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, QueryDict
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods

from scheduler.boinc.database_outages import outage_log
from scheduler.boinc.wire import web
from scheduler.people.account_keys import AccountRefused
from scheduler.people.hashing import HashQueueFull
from scheduler.people.throttle import TooManyAttempts

XML: Final = "text/xml"
#: BOINC's error number for "the project is down" (PROTOCOL 0.3).  It is also returned for throttled
#: and postponed log-ins: stock clients show the message and stop.  With ERR_RETRY (-199), BOINC's
#: Manager would repeat the request twice a second; with -206 or -136 it would report that the
#: user's input is wrong.
ERR_PROJECT_DOWN: Final = -183
ERR_GENERIC: Final = -1
ERR_NOT_FOUND: Final = -136
#: Digits of the largest id; longer numbers are no ids.
_MAX_ID_DIGITS: Final = 18


class PageRefused(Exception):
    """A page cannot answer a request. Hint: correct the parameter that the message names."""

    def __init__(self, error_num: int, message: str) -> None:
        super().__init__(message)
        self.error_num = error_num


def web_rpc(answer: Callable[[QueryDict, str, datetime], bytes]) -> Callable[..., HttpResponse]:
    """Return a Django view of a web RPC.

    `answer` is called with the parameters, the client's address and the time, and returns the body
    of the reply.  Its refusals become BOINC's error replies, with HTTP status 200.
    """

    @csrf_exempt
    @require_http_methods(["GET", "HEAD", "POST"])
    @wraps(answer)
    def view(request: HttpRequest) -> HttpResponse:
        params = request.POST if request.method == "POST" else request.GET
        try:
            return xml_response(answer(params, client_address(request), timezone.now()))
        except (AccountRefused, PageRefused) as refusal:
            return xml_response(web.encode_error(refusal.error_num, str(refusal)))
        except (TooManyAttempts, HashQueueFull) as refusal:
            return xml_response(web.encode_error(ERR_PROJECT_DOWN, str(refusal)))
        except (OperationalError, InterfaceError) as error:
            outage_log.begin(error)
            text = "The project's database is unavailable; try again."
            return xml_response(web.encode_error(ERR_PROJECT_DOWN, text))

    return view


def xml_response(body: bytes, content_type: str = XML) -> HttpResponse:
    """Return a response with its length, which clients need."""
    response = HttpResponse(body, content_type=content_type)
    response["Content-Length"] = str(len(body))
    return response


def client_address(request: HttpRequest) -> str:
    return str(request.META.get("REMOTE_ADDR", ""))


def number(params: QueryDict, name: str) -> int:
    """Return the id in a parameter; 0, which is no id, if it is missing or not a number."""
    return _number(params.get(name, ""))


def numbers(params: QueryDict, name: str, *, limit: int) -> list[int]:
    """Return at most `limit` ids of a parameter, separated by commas; other texts are ignored."""
    ids = (_number(text) for text in params.get(name, "").split(",")[: 10 * limit])
    return [each for each in ids if each][:limit]


def _number(text: str) -> int:
    text = text.strip()
    is_id = text.isascii() and text.isdecimal() and len(text) <= _MAX_ID_DIGITS
    return int(text) if is_id else 0


def is_set(params: QueryDict, name: str) -> bool:
    """Return whether a parameter is given and not 0, as BOINC's pages read flags."""
    return params.get(name, "0") not in {"", "0"}
