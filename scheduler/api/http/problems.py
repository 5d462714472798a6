"""Error responses of the API: problem+json (RFC 9457) with a code and a hint."""

from __future__ import annotations

import errno
import logging
import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404
from rest_framework import exceptions
from rest_framework.response import Response

from scheduler.apps import app_versions, apps, deliveries
from scheduler.boinc import own_preferences
from scheduler.files.download_files import FileInMotion
from scheduler.hosts import own_deletions, own_hosts, own_merges
from scheduler.people import account_keys, accounts, api_tokens, idempotency, teams
from scheduler.people.hashing import HashQueueFull
from scheduler.people.providers import identities
from scheduler.people.public_texts.confirmed_addresses import UnconfirmedAddress
from scheduler.people.quotas import QuotaExceeded
from scheduler.people.rules.ownership_statements import BadText
from scheduler.people.submitters import NotAllowed
from scheduler.people.throttle import TooManyAttempts
from scheduler.queues import balance, named_queues
from scheduler.queues.admission import QueueBusy
from scheduler.sealed_positions import BadPosition
from scheduler.storage import StoreError, UnreadablePackage
from scheduler.work.batches import BadChange, BatchNotReady
from scheduler.work.control import BadHoldCode, WorkunitsNotFound
from scheduler.work.dependencies import (
    DependencyRefused,
    TooManyDependencies,
    UnknownWorkunits,
)
from scheduler.work.rules.since import BadCursor
from scheduler.work.submission import bulk
from scheduler.work.submission.new_batches import BatchRefused
from scheduler.work.submission.rules.document_templates import BadDocuments
from scheduler.work.submission.submission_checks import (
    QueueChanged,
    SubmissionRefused,
    UnknownApp,
)
from scheduler.work.task_lists import ListRefused

log = logging.getLogger(__name__)

CONTENT_TYPE = "application/problem+json"
#: `Retry-After` of a 503: the database or the file store is unavailable, or all slots are in use.
RETRY_AFTER_SECONDS = 5
_LATER = "Hint: send the request again later."
_HINT = re.compile(r"\s*\bHint:\s*")


class Problem(exceptions.APIException):
    """An error response: a code for programs, a detail and a hint for people, and field errors.

    `retry_after` is the value of `Retry-After` in seconds; a 503 always has this header.
    """

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        hint: str = "",
        errors: list[dict[str, Any]] | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(detail, code)
        self.status_code = status
        self.body = problem(status, code, detail, hint=hint, errors=errors)
        if retry_after is None and status == HTTPStatus.SERVICE_UNAVAILABLE:
            retry_after = RETRY_AFTER_SECONDS
        self.retry_after = retry_after


#: Exceptions of operations, with the status and code of their responses.  The first matching class
#: applies.  An endpoint that needs another response converts the exception itself.
_REFUSALS: tuple[tuple[type[Exception], int, str], ...] = (
    (NotAllowed, 403, "not_allowed"),
    (PermissionDenied, 403, "not_allowed"),
    (QuotaExceeded, 403, "quota_exceeded"),
    (api_tokens.TokenRefused, 403, "token_refused"),
    (api_tokens.SecondFactorNeeded, 403, "second_factor_needed"),
    (api_tokens.WrongPassword, 401, "wrong_password"),
    (idempotency.BadKey, 400, "bad_idempotency_key"),
    (idempotency.KeyReused, 422, "idempotency_key_reused"),
    (idempotency.StillUnderWay, 409, "still_under_way"),
    (RequestDataTooBig, 413, "too_long"),
    (SuspiciousOperation, 400, "bad_request"),
    # People
    (teams.NotFounder, 403, "not_founder"),
    (teams.NotMember, 404, "not_found"),
    (teams.UnknownTeam, 404, "not_found"),
    (teams.TeamRefused, 409, "team_refused"),
    (account_keys.BadName, 422, "bad_name"),
    (account_keys.UnknownKey, 404, "not_found"),
    (account_keys.KeyRefused, 409, "key_refused"),
    (accounts.BadHomePage, 422, "bad_home_page"),
    (UnconfirmedAddress, 403, "unconfirmed_address"),
    (identities.LastLogIn, 409, "last_log_in"),
    (BadText, 422, "bad_text"),
    (own_hosts.UnknownHost, 404, "not_found"),
    (own_hosts.BadVenue, 422, "bad_venue"),
    (own_hosts.BadLimit, 422, "bad_limit"),
    (own_deletions.DeletionRefused, 409, "deletion_refused"),
    (own_merges.MergeRefused, 409, "merge_refused"),
    (own_preferences.UnknownLocation, 422, "unknown_location"),
    (own_preferences.NotStored, 404, "not_found"),
    (own_preferences.TooLong, 422, "preferences_too_long"),
    # Batches and workunits
    (ListRefused, 409, "list_refused"),
    (BatchNotReady, 409, "batch_not_ready"),
    (BadChange, 422, "bad_change"),
    (WorkunitsNotFound, 404, "not_found"),
    (BadHoldCode, 422, "bad_hold_code"),
    (BadDocuments, 422, "bad_documents"),
    (BadCursor, 422, "bad_cursor"),
    (BadPosition, 422, "bad_position"),
    # Submissions
    (FileInMotion, 409, "file_in_motion"),
    (BatchRefused, 422, "batch_refused"),
    (UnknownApp, 422, "unknown_app"),
    (bulk.CutShort, 400, "cut_short"),
    (bulk.TooManyWorkunits, 413, "too_many_workunits"),
    (bulk.NoWorkunits, 422, "no_workunits"),
    (UnknownWorkunits, 422, "unknown_workunits"),
    (TooManyDependencies, 413, "too_many_dependencies"),
    (DependencyRefused, 409, "dependency_refused"),
    (QueueChanged, 409, "queue_changed"),
    (SubmissionRefused, 422, "refused"),
    # Queues, apps and their versions
    (named_queues.QueueExists, 409, "queue_exists"),
    (named_queues.QueueInUse, 409, "queue_in_use"),
    (named_queues.UnknownQueueApp, 422, "unknown_app"),
    (named_queues.QueueOfOtherApp, 409, "queue_of_other_app"),
    (named_queues.QueueHasInfiniteDeadlines, 409, "queue_has_infinite_deadlines"),
    (QueueBusy, 409, "queue_busy"),
    (named_queues.UnknownListed, 422, "unknown_listed"),
    (named_queues.BadSchedule, 422, "bad_schedule"),
    (named_queues.QueueIsBalanced, 409, "queue_is_balanced"),
    (balance.UnknownQueue, 422, "unknown_queue"),
    (balance.RepeatedQueue, 422, "repeated_queue"),
    (apps.AppExists, 409, "app_exists"),
    (app_versions.UnknownApp, 422, "bad_app_name"),
    (app_versions.VersionExists, 409, "version_exists"),
    (UnreadablePackage, 422, "unreadable_package"),
    (app_versions.BadPackage, 422, "bad_package"),
    (app_versions.SignatureMissing, 422, "signature_missing"),
    (app_versions.BadSignature, 422, "bad_signature"),
    (app_versions.UnknownPlatform, 422, "unknown_platform"),
    (deliveries.BadSource, 422, "bad_source"),
    (deliveries.SourceFailed, 422, "source_failed"),
    (deliveries.SourceBusy, 503, "source_busy"),
)
#: Temporary failures, with the code and detail of their 503 response; an empty detail means the
#: text of the exception.
_UNAVAILABLE: tuple[tuple[type[Exception], str, str], ...] = (
    (OperationalError, "database_away", f"The database is unavailable. {_LATER}"),
    (InterfaceError, "database_away", f"The database is unavailable. {_LATER}"),
    (HashQueueFull, "too_many_log_ins", ""),
    (StoreError, "store_away", f"The file store is unavailable. {_LATER}"),
)
_FULL_DISK = {errno.ENOSPC, errno.EDQUOT}


def problem(
    status: int,
    code: str,
    detail: str,
    *,
    hint: str = "",
    errors: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """Return the body of an error response; text after ``Hint:`` in `detail` is moved to `hint`."""
    body: dict[str, Any] = {
        "type": f"urn:manyhands:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "code": code,
        **split_hint(detail, hint=hint),
    }
    if errors:
        body["errors"] = [
            error | split_hint(error["detail"], hint=error.get("hint", "")) for error in errors
        ]
    return body


def split_hint(sentence: str, *, hint: str = "") -> dict[str, str]:
    """Split a sentence into ``{detail, hint?}``; the argument `hint` replaces its hints.

    >>> split_hint("It is full. Hint: wait. Hint: or go.")
    {'detail': 'It is full.', 'hint': 'wait. or go.'}
    """
    detail, *hints = _HINT.split(sentence)
    hint = hint or " ".join(hints)
    return {"detail": detail} | ({"hint": hint} if hint else {})


def disk_full() -> Problem:
    """Return the 503 problem for a full disk."""
    return Problem(503, "disk_full", f"The server's disk is full. {_LATER}")


def answer_exception(error: Exception, context: dict[str, Any]) -> Response | None:  # noqa: ARG001  Django REST framework's signature
    """Return the response for an exception of a view, or None if the exception is a bug."""
    refusal = error if isinstance(error, Problem) else _problem_of(error)
    if refusal is None:
        return None
    answer = Response(refusal.body, status=refusal.status_code, content_type=CONTENT_TYPE)
    if header := getattr(error, "auth_header", None):
        answer["WWW-Authenticate"] = header
    if refusal.retry_after is not None:
        answer["Retry-After"] = str(refusal.retry_after)
    return answer


def _problem_of(error: Exception) -> Problem | None:
    for kind, status, code in _REFUSALS:
        if isinstance(error, kind):
            return Problem(status, code, str(error) or "This is not allowed.")
    if isinstance(error, TooManyAttempts):
        return Problem(429, "throttled", str(error), retry_after=error.seconds)
    if isinstance(error, Http404):
        return Problem(
            404, "not_found", "The resource does not exist, or it belongs to another account."
        )
    if isinstance(error, exceptions.ValidationError):
        errors = list(_faults(error.detail, ""))
        return Problem(400, "invalid", _summary(errors), errors=errors)
    if isinstance(error, exceptions.APIException):
        return Problem(error.status_code, error.default_code, str(error.detail))
    return _temporary_problem(error)


def _temporary_problem(error: Exception) -> Problem | None:
    """Return the 503 problem for a temporary failure, else None."""
    for kind, code, detail in _UNAVAILABLE:
        if isinstance(error, kind):
            refusal = Problem(503, code, detail or str(error))
            break
    else:
        if not isinstance(error, OSError) or error.errno not in _FULL_DISK:
            return None
        refusal = disk_full()
    log.warning("api_request_deferred", extra={"error": str(error).strip()})
    return refusal


def _summary(errors: list[dict[str, Any]]) -> str:
    first = errors[0] if errors else {"detail": ""}
    where = first.get("pointer", "").lstrip("/")
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"The request is not valid: {f'{where}: ' if where else ''}{first['detail']}{more}"


def _faults(detail: Any, pointer: str) -> Iterator[dict[str, Any]]:
    if isinstance(detail, dict):
        for name, inner in detail.items():
            if name in {"non_field_errors", "__all__"}:
                yield from _faults(inner, pointer)
            else:
                part = str(name).replace("~", "~0").replace("/", "~1")
                yield from _faults(inner, f"{pointer}/{part}")
    elif isinstance(detail, list | tuple) and any(isinstance(item, dict | list) for item in detail):
        for index, inner in enumerate(detail):
            yield from _faults(inner, f"{pointer}/{index}")
    elif isinstance(detail, list | tuple):
        for inner in detail:
            yield _fault(pointer, str(inner))
    else:
        yield _fault(pointer, str(detail))


def _fault(pointer: str, sentence: str) -> dict[str, Any]:
    return {"pointer": pointer, **split_hint(sentence)}
