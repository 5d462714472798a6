"""Rules of the API: ownership, scopes of tokens, throttling, idempotency."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from tests.mutate.switching import Code, Switch, always

ADMINISTRATORS = "tests/database/people/test_team_administrators.py"
FOUNDERS = "tests/security/test_team_founders.py"
GUESSED = "tests/faces/api/test_api_tokens.py"
MATCHING = "tests/faces/api/test_api_matching.py"
ONCE = "tests/database/people/test_idempotency.py"
NAMES = "tests/security/test_names_in_urls.py"
OWN_PAGES = "tests/database/people/test_own_pages.py"
REFERENCES = "tests/faces/api/test_api_references.py"
STRANGERS = "tests/faces/api/test_api_strangers.py"
THROTTLE = "tests/security/test_throttle.py"


def _all_hosts(_request: Any) -> Any:
    from scheduler.models import Host

    return Host.objects.all()


def _everybodys(rows: Any, _viewer: Any, *, beyond: Any, order: str, count: int, **_: Any) -> Any:
    return list(rows.filter(beyond).order_by(order)[:count])


def _whoever_has_the_scope(request: Any, scope: Any) -> bool:
    return request.auth is not None and getattr(request.auth, f"may_{scope}")


#: A single test, because the other tests of the file are slow.
SHARES = "tests/faces/api/test_api_fair_shares.py::test_readmitted_submitter_keeps_its_share_and_logical_clock"


def _with_his_row(account: Any, *, now: Any) -> bool:
    from scheduler.models import Submitter

    return Submitter.objects.filter(account=account).delete()[0] > 0


def _all_tokens(_account: Any) -> Any:
    from scheduler.models import ApiToken

    return ApiToken.objects.filter(revoked_at__isnull=True)


def _roomy(limit: str) -> Any:
    """Make one limit of the throttle so large that no test reaches it."""

    def made(original: Any) -> Any:
        def charge(attempt: Any, of: Any, *texts: str, **options: str) -> None:
            roomy = replace(of, attempts=10**6) if of.name == limit else of
            original(attempt, roomy, *texts, **options)

        return charge

    return made


def _lock_by_id(by: Any, *others: int) -> Any:
    from scheduler.people.teams.locked_rows import lock_accounts

    return lock_accounts([by.pk, *others])


def _lock_managed(team_id: int, by: Any) -> Any:
    from scheduler.people.teams.locked_rows import lock_managed

    return lock_managed(team_id, by)


def _is_in_the_row(team: Any, account: Any) -> Any:
    return team.founder_id == account.pk


def _any_account(_team: Any, account: Any, _account_id: int) -> Any:
    return account


def _has_a_row(team: Any, account: Any) -> bool:
    from scheduler.models import TeamAdministrator

    return TeamAdministrator.objects.filter(team=team, account=account).exists()


def _untouched_by_the_throttle(**_of: Any) -> None:
    from scheduler.people.accounts import BadLoginToken

    raise BadLoginToken


def _replayed_for_any_request(row: Any, _hash: str) -> Any:
    from scheduler.people.idempotency import Outcome

    return Outcome(row.status, row.answer, replayed=True)


def _every_account(_owner: str = "") -> Any:
    from django.db.models import Q

    return Q()


RULES = (
    Switch(
        "Public pages name only accounts that are active and share their statistics",
        Code("scheduler.people.sharing:shares", _every_account),
        ("tests/security/test_public_people.py",),
    ),
    Switch(
        "Public texts need a confirmed address where the project sends mail",
        Code("scheduler.people.public_texts.confirmed_addresses:is_confirmed", always(True)),
        ("tests/security/test_public_texts.py",),
    ),
    Switch(
        "Attempts with log-in tokens are throttled like those with passwords",
        Code("scheduler.people.accounts:look_up_login_token", _untouched_by_the_throttle),
        ("tests/faces/admin/test_manager_pages.py",),
    ),
    Switch(
        "A request with a used idempotency key is not executed again",
        Code("scheduler.api.http.idempotent:once", lambda _request, handle: handle()),
        (ONCE,),
    ),
    Switch(
        "An idempotency key cannot be reused for another request",
        Code("scheduler.people.idempotency:_replayed", _replayed_for_any_request),
        (f"{ONCE}::test_another_body_with_the_same_idempotency_key_is_refused",),
    ),
    Switch(
        "Published files are held before the idempotency key is claimed",
        Code("scheduler.apps.app_versions:kept", always(nullcontext())),
        ("tests/faces/api/test_api_publishing_once.py",),
    ),
    Switch(
        "Rows of another account are not visible",
        Code("scheduler.api.viewer:viewer_of", always(None)),
        (f"{STRANGERS}::test_no_filter_shows_rows_of_another_account",),
    ),
    Switch(
        "A workunit, batch or host is named by its id or its name",
        Code("scheduler.api.names_and_ids:is_id", always(True)),
        (
            f"{REFERENCES}::test_a_workunit_is_read_by_its_name",
            f"{REFERENCES}::test_a_batch_is_read_by_its_name",
            f"{REFERENCES}::test_a_host_is_read_by_its_name",
        ),
    ),
    Switch(
        "An app or queue is named by its name or its id",
        Code("scheduler.api.names_and_ids:_name", lambda _rows, text: text),
        (
            f"{REFERENCES}::test_an_app_is_read_by_its_id",
            f"{REFERENCES}::test_a_queue_is_read_by_its_id",
        ),
    ),
    Switch(
        "A name stands only for hosts that the caller may see",
        Code("scheduler.api.viewer:seen_hosts", _all_hosts),
        (f"{NAMES}::test_name_of_a_row_of_another_account_is_answered_as_an_unknown_name",),
    ),
    Switch(
        "A page of an account's own rows has no rows of other accounts",
        Code("scheduler.people.own_pages:page", _everybodys),
        (f"{STRANGERS}::test_operations_on_rows_of_another_account_return_404",),
    ),
    Switch(
        "A page of an account's own rows is read by its batches if a scan would be long",
        Code("scheduler.people.own_pages:SCANNED_PER_ROW", 10**3),
        (OWN_PAGES,),
    ),
    Switch(
        "An account lists and revokes only its own tokens",
        Code("scheduler.people.api_tokens:of_account", _all_tokens),
        (f"{GUESSED}::test_token_of_another_account_is_neither_listed_nor_revoked",),
    ),
    Switch(
        "A token cannot be used outside of its scopes",
        Code("scheduler.api.authentication:may", always(True)),
        (f"{STRANGERS}::test_owner_has_access_to_their_own_rows",),
    ),
    Switch(
        "A scope is effective only if the account has the right that it needs",
        Code("scheduler.api.authentication:may", _whoever_has_the_scope),
        (GUESSED,),
    ),
    Switch(
        "A token cannot create a token with more scopes",
        Code(
            "scheduler.people.api_tokens:scopes_of",
            always(["read", "submit", "publish", "manage", "administer"]),
        ),
        (GUESSED,),
    ),
    Switch(
        "Wrong passwords from one network for one account are limited",
        Code("scheduler.people.throttle:_charge", made=_roomy("account-network")),
        (f"{GUESSED}::test_ten_wrong_passwords_for_an_account_are_throttled_with_a_delay",),
    ),
    Switch(
        "Wrong passwords from one network are limited",
        Code("scheduler.people.throttle:_charge", made=_roomy("network")),
        (f"{GUESSED}::test_wrong_passwords_from_one_address_for_many_accounts_are_throttled",),
    ),
    Switch(
        "Wrong passwords for one account from new networks are limited",
        Code("scheduler.people.throttle:_charge", made=_roomy("account")),
        (THROTTLE,),
    ),
    Switch(
        "Teams that one account creates are limited",
        Code("scheduler.people.throttle:_charge", made=_roomy("new-teams")),
        ("tests/security/test_team_creation.py",),
    ),
    Switch(
        "An account that was blocked while an operation waited gets no team and no foundership",
        Code("scheduler.people.teams.members:lock_active", _lock_by_id),
        ("tests/database/people/test_teams.py",),
    ),
    Switch(
        "An account that leaves its team is an administrator no more",
        Code("scheduler.people.teams.locked_rows:end_administratorship", always(None)),
        (ADMINISTRATORS,),
    ),
    Switch(
        "Only the founder of a team names and dismisses administrators",
        Code("scheduler.people.teams.administrators:lock_led", _lock_managed),
        (ADMINISTRATORS,),
    ),
    Switch(
        "A row of an administrator counts only for a member of the team",
        Code("scheduler.people.team_reads:is_administrator", _has_a_row),
        (ADMINISTRATORS,),
    ),
    Switch(
        "A founder who is not a member of the team has no rights",
        Code("scheduler.people.team_reads:is_founder", _is_in_the_row),
        (FOUNDERS,),
    ),
    Switch(
        "Staff make only active members the founder",
        Code("scheduler.people.teams.staff_changes:active_member", _any_account),
        (FOUNDERS,),
    ),
    Switch(
        "Staff do not move a founder away from other active members",
        Code("scheduler.people.teams.staff_changes:check_leaving", always(None)),
        ("tests/faces/admin/test_team_admin.py",),
    ),
    Switch(
        "A change of a team with If-Match locks the account before the team",
        Code("scheduler.api.endpoints.people.teams:MyTeam.lock_first", always(None)),
        (
            f"{MATCHING}::test_change_of_a_team_by_an_administrator_and_their_dismissal_do_not_deadlock",
        ),
    ),
    Switch(
        "A network that an account logged in from is exempt from the account's limit",
        Code("scheduler.people.throttle:_has_logged_in_from", always(False)),
        (f"{THROTTLE}::test_account_owner_can_log_in_while_many_networks_guess_passwords",),
    ),
    Switch(
        "A correct password refunds its charges",
        Code("scheduler.people.throttle:refund", always(None)),
        (f"{THROTTLE}::test_correct_passwords_are_not_throttled",),
    ),
    Switch(
        "An account that loses the permission to submit keeps its share and logical start",
        Code("scheduler.people.submitters:forbid", _with_his_row),
        (
            SHARES,
            "tests/faces/admin/test_admin.py::test_forbid_action_removes_submit_rights_but_keeps_the_share",
        ),
    ),
    Switch(
        "An account without permission to submit cannot hold files",
        Code("scheduler.people.submitters:require_submitter", always(None)),
        ("tests/faces/api/test_api_files.py",),
    ),
    Switch(
        "A change is refused if the resource changed since the ETag was issued",
        Code("scheduler.api.http.matching:_lock", always(None)),
        (f"{MATCHING}::test_one_of_two_concurrent_changes_succeeds",),
    ),
    Switch(
        "A change of a queue with If-Match locks its claims before its row",
        Code("scheduler.api.endpoints.queues:OneQueue.lock_first", always(None)),
        (f"{MATCHING}::test_change_with_if_match_and_another_change_do_not_deadlock",),
    ),
    Switch(
        "Problems have the hint in a separate field",
        Code("scheduler.api.http.problems:split_hint", lambda detail, **_: {"detail": detail}),
        ("tests/faces/api/test_api_problems.py",),
    ),
)
