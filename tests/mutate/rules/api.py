"""Rules of the API: whose things are whose, what tokens may, what is done once."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from tests.mutate.switching import Code, Switch, always

GUESSED = "tests/faces/api/test_api_tokens.py"
MATCHING = "tests/faces/api/test_api_matching.py"
ONCE = "tests/database/people/test_idempotency.py"
OWN_PAGES = "tests/database/people/test_own_pages.py"
STRANGERS = "tests/faces/api/test_api_strangers.py"
THROTTLE = "tests/security/test_throttle.py"


def _everybodys(rows: Any, _viewer: Any, *, beyond: Any, order: str, count: int, **_: Any) -> Any:
    return list(rows.filter(beyond).order_by(order)[:count])


def _whoever_has_the_scope(request: Any, scope: Any) -> bool:
    return request.auth is not None and getattr(request.auth, f"may_{scope}")


#: Named alone, because its neighbors part a thousand claims.
SHARES = (
    "tests/faces/api/test_api_fair_shares.py"
    "::test_who_is_forbidden_and_allowed_again_goes_on_where_his_share_stood"
)


def _with_his_row(account: Any, *, now: Any) -> bool:
    from scheduler.models import Submitter

    return Submitter.objects.filter(account=account).delete()[0] > 0


def _all_tokens(_account: Any) -> Any:
    from scheduler.models import ApiToken

    return ApiToken.objects.filter(revoked_at__isnull=True)


def _roomy(limit: str) -> Any:
    """Make one limit of the throttle so large that no test reaches it."""

    def made(original: Any) -> Any:
        def charge(attempt: Any, of: Any, subject: str, message: str) -> None:
            original(
                attempt, replace(of, attempts=10**6) if of.name == limit else of, subject, message
            )

        return charge

    return made


def _untouched_by_the_throttle(**_of: Any) -> None:
    from scheduler.people.accounts import BadLoginToken

    raise BadLoginToken


def _replayed_for_any_request(row: Any, _hash: str) -> Any:
    from scheduler.people.idempotency import Outcome

    return Outcome(row.status, row.answer, replayed=True)


RULES = (
    Switch(
        "Log-in tokens are throttled as passwords are",
        Code("scheduler.people.accounts:look_up_login_token", _untouched_by_the_throttle),
        ("tests/faces/admin/test_manager_pages.py",),
    ),
    Switch(
        "A request whose key was used is not carried out again",
        Code("scheduler.api.http.idempotent:once", lambda _request, handle: handle()),
        (ONCE,),
    ),
    Switch(
        "A key is good for one request, not for another one",
        Code("scheduler.people.idempotency:_replayed", _replayed_for_any_request),
        (ONCE,),
    ),
    Switch(
        "Published files are held before the idempotency key is claimed",
        Code("scheduler.apps.app_versions:kept", always(nullcontext())),
        ("tests/faces/api/test_api_publishing_once.py",),
    ),
    Switch(
        "Rows of another account are not visible",
        Code("scheduler.api.viewer:viewer_of", always(None)),
        (STRANGERS,),
    ),
    Switch(
        "A page of one's own has nobody else's rows",
        Code("scheduler.people.own_pages:page", _everybodys),
        (OWN_PAGES, STRANGERS),
    ),
    Switch(
        "A page of one's own is looked for in one's own batches",
        Code("scheduler.people.own_pages:SCANNED_PER_ROW", 10**3),
        (OWN_PAGES,),
    ),
    Switch(
        "An account lists and revokes only its own tokens",
        Code("scheduler.people.api_tokens:of_account", _all_tokens),
        (GUESSED, STRANGERS),
    ),
    Switch(
        "A token is good for its scopes alone",
        Code("scheduler.api.authentication:may", always(True)),
        (STRANGERS,),
    ),
    Switch(
        "A scope is effective only with the right that it needs",
        Code("scheduler.api.authentication:may", _whoever_has_the_scope),
        (GUESSED,),
    ),
    Switch(
        "A token makes no token above itself",
        Code(
            "scheduler.people.api_tokens:scopes_of",
            always(["read", "submit", "publish", "manage", "administer"]),
        ),
        (GUESSED,),
    ),
    Switch(
        "Wrong passwords from one network for one account come to an end",
        Code("scheduler.people.throttle:_charge", made=_roomy("account-network")),
        (THROTTLE, GUESSED),
    ),
    Switch(
        "Wrong passwords from one network come to an end",
        Code("scheduler.people.throttle:_charge", made=_roomy("network")),
        (THROTTLE, GUESSED),
    ),
    Switch(
        "Wrong passwords for one account from new networks come to an end",
        Code("scheduler.people.throttle:_charge", made=_roomy("account")),
        (THROTTLE,),
    ),
    Switch(
        "A network that an account logged in from is exempt from the account's limit",
        Code("scheduler.people.throttle:_has_logged_in_from", always(False)),
        (THROTTLE,),
    ),
    Switch(
        "A correct password refunds its charges",
        Code("scheduler.people.throttle:refund", always(None)),
        (THROTTLE, GUESSED),
    ),
    Switch(
        "An account that is forbidden to submit keeps its share and its clock",
        Code("scheduler.people.submitters:forbid", _with_his_row),
        (
            SHARES,
            "tests/faces/admin/test_admin.py::test_staff_forbids_submitters_whose_share_and_clock_stay",
        ),
    ),
    Switch(
        "An account without permission to submit cannot hold files",
        Code("scheduler.people.submitters:require_submitter", always(None)),
        ("tests/faces/api/test_api_files.py",),
    ),
    Switch(
        "A change is refused if the resource changed since the ETag was issued",
        Code("scheduler.sql.guarded:guarded", lambda _rows, act: act()),
        (MATCHING,),
    ),
    Switch(
        "Hints are parted from what happened",
        Code("scheduler.api.http.problems:split_hint", lambda detail, **_: {"detail": detail}),
        ("tests/faces/api/test_api_problems.py",),
    ),
)
