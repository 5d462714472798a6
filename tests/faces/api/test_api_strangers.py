"""No operation of the schema reads or changes the rows of another account."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.core.cache import cache
from django.db import transaction
from django.http import StreamingHttpResponse

from scheduler.health import status
from scheduler.models import Account
from tests.faces.api_schema import Operation, operations
from tests.faces.apis import ALL_SCOPES, Program
from tests.faces.owned import OWN_ONLY, SHARED, STAFF_ONLY, Owned, everything

pytestmark = [pytest.mark.django_db, pytest.mark.lengthy]


@pytest.fixture(autouse=True)
def nothing_kept():
    status.forget()
    cache.clear()


@pytest.fixture
def ada() -> Owned:
    return everything("adasown")


@pytest.fixture
def bob() -> Owned:
    return everything("bobsown")


def said(answer) -> str:
    content = (
        b"".join(answer.streaming_content)
        if isinstance(answer, StreamingHttpResponse)
        else answer.content
    )
    return content.decode("utf-8", "replace")


#: Operations that take a password, and ignore the token (tests/security).
BY_PASSWORD = {"read_weak_key"}


@contextmanager
def undone() -> Iterator[None]:
    """Roll back all changes of the block."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def faults_of(judge) -> list[str]:
    """Call `judge` for each operation and roll back; return the messages of failed assertions."""
    found = []
    for operation in operations():
        if operation.name in BY_PASSWORD:
            continue
        with undone():
            try:
                judge(operation)
            except AssertionError as fault:
                found.append(f"{operation.name} ({operation.method} {operation.path}): {fault}")
    return found


def test_operations_on_rows_of_another_account_return_404(ada, bob):
    program = bob.program()

    def judge(operation: Operation) -> None:
        before = ada.rows()
        answer = operation.call(program, ada)
        text = said(answer)
        assert answer.status_code < 500, text
        assert ada.rows() == before, "a stranger has changed something"
        if operation.name in STAFF_ONLY:
            assert answer.status_code == 403, text
            assert ada.mark not in text, f"a stranger was told {text}"
            return
        if operation.place in SHARED:
            if operation.method != "get":
                assert answer.status_code == 403, text
            return
        assert ada.mark not in text, f"a stranger was told {text}"
        if operation.parameters("path") and operation.name != "put_file":
            assert answer.status_code == 404, f"{answer.status_code} {text}"
            assert '"not_found"' in text, text

    assert faults_of(judge) == []


def test_no_filter_shows_rows_of_another_account(ada, bob):
    program = bob.program()

    def judge(operation: Operation) -> None:
        # The caller's own rows, with a query parameter that names a row of another account.
        about = ada if operation.place in SHARED else bob
        for name, value in operation.queries(ada).items():
            answer = operation.call(program, about, query=f"?{name}={value}")
            text = said(answer)
            assert ada.mark not in text, f"?{name}= told a stranger {text}"
            if text.startswith('{"next"'):
                assert answer.json()["results"] == [], f"?{name}="

    assert faults_of(judge) == []


def test_owner_has_access_to_their_own_rows(ada):
    """The refusals above are not caused by invalid requests."""
    program = ada.program()

    def judge(operation: Operation) -> None:
        answer = operation.call(program, ada)
        shared_write = operation.place in SHARED and operation.method != "get"
        if shared_write or operation.name in STAFF_ONLY:
            assert answer.status_code == 403, said(answer)
        else:
            refused = {400, 401, 403, 404, 405, 415}
            assert answer.status_code not in refused, f"{answer.status_code} {said(answer)}"
            said(answer)

    assert faults_of(judge) == []


def test_protected_operations_return_401_without_a_token(ada):
    def judge(operation: Operation) -> None:
        answer = operation.call(Program(), ada)
        text = said(answer)
        if operation.asks_for_a_token:
            assert answer.status_code == 401, f"{answer.status_code} {text}"
            assert answer["WWW-Authenticate"] == "Bearer"
        elif operation.name != "create_token":
            assert answer.status_code == 200, f"{answer.status_code} {text}"

    assert faults_of(judge) == []


def test_token_without_the_required_scope_returns_403(ada):
    Account.objects.filter(pk=ada.account.pk).update(is_superuser=True)
    ada.account.refresh_from_db()

    def judge(operation: Operation) -> None:
        if operation.scope is None:
            return
        program = ada.program(*(one for one in ALL_SCOPES if one not in operation.scopes))
        before = ada.rows()
        answer = operation.call(program, ada)
        text = said(answer)
        assert answer.status_code == 403, f"{answer.status_code} {text}"
        assert '"permission_denied"' in text, text
        assert operation.scope in answer.json()["detail"], text
        assert ada.rows() == before

    assert faults_of(judge) == []


def test_administrators_see_rows_of_other_accounts(ada):
    program = everything("chiefsown", is_superuser=True).program(*ALL_SCOPES)

    def judge(operation: Operation) -> None:
        if operation.method == "get" and operation.place not in {"tokens", "files", "usage"}:
            answer = operation.call(program, ada)
            text = said(answer)
            expected = 404 if operation.name in OWN_ONLY else 200
            assert answer.status_code == expected, f"{answer.status_code} {text}"

    assert faults_of(judge) == []
