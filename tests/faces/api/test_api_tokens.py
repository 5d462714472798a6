"""The API's index, tokens, the caller's account, and refusals."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import OperationalError
from django.test import Client
from django.utils import timezone

from scheduler.models import Account, ApiToken
from scheduler.people import accounts
from tests.faces.apis import a_token
from tests.rows import an_account

pytestmark = pytest.mark.django_db

EMAIL, PASSWORD = "ada@example.org", "a first password"


@pytest.fixture
def ada() -> Account:
    digest = accounts.password_digest(email=EMAIL, password=PASSWORD)
    made = accounts.create_account(
        email=EMAIL, passwd_hash=digest, name="Ada", by_staff=True, now=timezone.now()
    )
    return made.account


def bearer(text: str) -> Client:
    return Client(headers={"Authorization": f"Bearer {text}"})


def make(client: Client, **body):
    return client.post("/api/v1/tokens", body, content_type="application/json")


def test_index_returns_links_to_the_resources(client):
    reply = client.get("/api/v1/").json()
    assert reply["name"] == "Manyhands"
    assert reply["links"]["tokens"] == "http://testserver/api/v1/tokens"


def test_token_is_created_with_a_password_and_its_text_is_shown_only_once(client, ada):
    answer = make(client, email=EMAIL, password=PASSWORD, name="laptop", scopes=["read"])
    assert answer.status_code == 201, answer.content
    text = answer.json()["token"]
    assert text.startswith("mh_")
    assert answer["Cache-Control"] == "no-store"
    listed = bearer(text).get("/api/v1/tokens").json()["results"]
    assert [one["name"] for one in listed] == ["laptop"]
    assert "token" not in listed[0]


def test_wrong_password_and_unknown_email_return_the_same_error(client, ada):
    wrong = make(client, email=EMAIL, password="no", name="x", scopes=["read"])
    unknown = make(client, email="bob@example.org", password="no", name="x", scopes=["read"])
    assert wrong.status_code == unknown.status_code == 401
    assert wrong.json() == unknown.json()


def test_ten_wrong_passwords_for_an_account_are_throttled_with_a_delay(client, ada):
    for _ in range(10):
        assert (
            make(client, email=EMAIL, password="no", name="x", scopes=["read"]).status_code == 401
        )
    answer = make(client, email=EMAIL, password=PASSWORD, name="x", scopes=["read"])
    assert answer.status_code == 429
    assert 0 < int(answer["Retry-After"]) <= 60
    assert "wait" in answer.json()["hint"]


def test_wrong_passwords_from_one_address_for_many_accounts_are_throttled(client):
    for number in range(60):
        make(client, email=f"a{number}@example.org", password="no", name="x", scopes=["read"])
    answer = make(client, email="other@example.org", password="no", name="x", scopes=["read"])
    assert answer.status_code == 429
    assert "your network 127.0.0.0/24" in answer.json()["detail"]


def test_correct_passwords_are_not_throttled(client, ada):
    for _ in range(12):
        answer = make(client, email=EMAIL, password=PASSWORD, name="x", scopes=["read"])
        assert answer.status_code == 201


def test_token_cannot_create_a_token_with_more_scopes(ada):
    client = bearer(a_token(ada, "read"))
    assert make(client, name="child", scopes=["read"]).status_code == 201
    answer = make(client, name="child", scopes=["read", "submit"])
    assert answer.status_code == 403
    assert answer.json()["code"] == "token_refused"


def test_token_cannot_create_a_token_that_expires_later(ada):
    soon = timezone.now() + timedelta(hours=1)
    client = bearer(a_token(ada, "read", expire_at=soon))
    heir = make(client, name="child", scopes=["read"]).json()
    assert ApiToken.objects.get(pk=heir["id"]).expire_at == soon
    answer = make(client, name="child", scopes=["read"], expires_in_seconds=7200)
    assert answer.status_code == 403


def test_only_staff_can_create_tokens_with_the_scope_administer(ada):
    refused = make(Client(), email=EMAIL, password=PASSWORD, name="x", scopes=["administer"])
    assert refused.status_code == 403
    Account.objects.filter(pk=ada.pk).update(is_superuser=True)
    assert (
        make(Client(), email=EMAIL, password=PASSWORD, name="x", scopes=["administer"]).status_code
        == 201
    )


def test_former_staff_member_cannot_use_the_scope_administer(ada):
    Account.objects.filter(pk=ada.pk).update(is_superuser=True)
    ada.refresh_from_db()
    client = bearer(a_token(ada, "read", "administer"))
    asked = {"name": "urgent"}
    assert client.post("/api/v1/queues", asked, "application/json").status_code == 201
    Account.objects.filter(pk=ada.pk).update(is_superuser=False)
    asked = {"name": "late"}
    assert client.post("/api/v1/queues", asked, "application/json").status_code == 403


def test_revoked_token_returns_401(ada):
    client = bearer(a_token(ada))
    token = ApiToken.objects.get()
    assert client.delete(f"/api/v1/tokens/{token.pk}").status_code == 204
    answer = client.get("/api/v1/me")
    assert answer.status_code == 401
    assert answer["WWW-Authenticate"] == "Bearer"
    assert answer["Content-Type"] == "application/problem+json"


def test_token_of_another_account_is_neither_listed_nor_revoked(ada):
    a_token(ada)
    token = ApiToken.objects.get()
    other = bearer(a_token(an_account()))
    assert other.delete(f"/api/v1/tokens/{token.pk}").status_code == 404
    listed = [one["id"] for one in other.get("/api/v1/tokens").json()["results"]]
    assert len(listed) == 1
    assert token.pk not in listed, "nor sees it"
    token.refresh_from_db()
    assert token.revoked_at is None


@pytest.mark.parametrize(
    "header",
    [
        "Bearer",
        "Bearer ",
        "Bearer mh_x y",
        "Bearer mh_\udcff",
        "Bearer mh_é",
        "Bearer " + "mh_" + "a" * 10_000,
        "Basic YTpi",
        "Token mh_x",
        "mh_x",
        "Bearer mh_\x00",
    ],
)
def test_invalid_authorization_header_returns_401(client, header, ada):
    answer = client.get(
        "/api/v1/me", HTTP_AUTHORIZATION=header.encode("utf-8", "surrogateescape").decode("latin-1")
    )
    assert answer.status_code == 401
    assert answer.json()["hint"]


def test_token_of_a_deactivated_account_returns_401(ada):
    client = bearer(a_token(ada))
    Account.objects.filter(pk=ada.pk).update(is_active=False)
    assert client.get("/api/v1/me").status_code == 401


def test_me_returns_the_account_scopes_permissions_and_quota(ada, django_assert_max_num_queries):
    client = bearer(a_token(ada))
    client.get("/api/v1/me")
    with django_assert_max_num_queries(6):
        reply = client.get("/api/v1/me").json()
    assert reply["account"]["email"] == EMAIL
    assert reply["scopes"] == ["read", "submit"]
    assert reply["may_submit"] == {"all_apps": False, "apps": []}
    assert reply["quota"]["max_unfinished_workunits"] is None


def test_unknown_field_returns_400_and_suggests_a_similar_field(client):
    answer = make(client, emial=EMAIL, password="x", name="x", scopes=["read"])
    assert answer.status_code == 400
    assert answer.json()["errors"][0] == {
        "pointer": "/emial",
        "detail": "There is no field 'emial'.",
        "hint": "do you mean 'email'?",
    }


def test_unknown_parameter_returns_400_and_suggests_a_similar_parameter(ada):
    answer = bearer(a_token(ada)).get("/api/v1/tokens?limti=3")
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["hint"] == "do you mean 'limit'?"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not UTF-8"),
        (b'{"name": "\\u0000"}', "NUL"),
        (b'{"name": "\\ud800"}', "NUL character or a lone surrogate"),
        (b'{"name": NaN}', "NaN"),
        (b'{"name": 1e400}', "the number 1e400 is too large"),
        (b"[" * 100_000, "nested too deeply"),
        (b"9" * 10_000, "not JSON"),
    ],
)
def test_invalid_json_body_returns_400_with_the_reason(client, body, said):
    answer = client.post("/api/v1/tokens", body, content_type="application/json")
    assert answer.status_code == 400
    assert said in answer.json()["detail"]


def test_unsupported_content_type_returns_415(client):
    answer = client.post("/api/v1/tokens", b"a=b", content_type="text/plain")
    assert answer.status_code == 415
    assert answer["Content-Type"] == "application/problem+json"


def test_too_long_body_returns_413(client):
    body = b'{"name": "' + b"a" * (8 * 1024 * 1024) + b'"}'
    assert client.post("/api/v1/tokens", body, content_type="application/json").status_code == 413


def test_unsupported_method_returns_405_with_the_allowed_methods(ada):
    answer = bearer(a_token(ada)).put("/api/v1/tokens", b"{}", content_type="application/json")
    assert answer.status_code == 405
    assert answer["Allow"] == "GET, POST, HEAD, OPTIONS"


def test_unknown_path_returns_404_as_json(client):
    for method in ("get", "post", "delete"):
        answer = getattr(client, method)("/api/v1/nowhere/at/all")
        assert answer.status_code == 404
        assert answer.json()["code"] == "not_found"


@pytest.mark.parametrize("number", ["99999999999999999999", "-1", "0x1", "1%00"])
def test_too_large_or_malformed_token_id_returns_404(ada, number):
    assert bearer(a_token(ada)).delete(f"/api/v1/tokens/{number}").status_code == 404


def test_pages_link_to_the_next_and_previous_page(ada):
    for _ in range(4):
        text = a_token(ada)
    client = bearer(text)
    first = client.get("/api/v1/tokens?limit=2").json()
    assert first["previous"] is None
    second = client.get(first["next"]).json()
    assert second["next"] is None
    ids = [one["id"] for one in first["results"] + second["results"]]
    assert ids == sorted(ids, reverse=True)
    assert client.get(second["previous"]).json()["results"] == first["results"]


@pytest.mark.parametrize("limit", ["0", "-1", "1001", "ten", "", "1e3", "１"])
def test_invalid_page_limit_returns_400(ada, limit):
    assert bearer(a_token(ada)).get("/api/v1/tokens", {"limit": limit}).status_code == 400


@pytest.mark.parametrize("cursor", ["x", "PDE", "é", "PDk5OTk5OTk5OTk5OTk5OTk5OTk5"])
def test_forged_cursor_returns_422(ada, cursor):
    answer = bearer(a_token(ada)).get("/api/v1/tokens", {"cursor": cursor})
    assert answer.status_code == 422
    assert answer.json()["code"] == "bad_cursor"


def test_unexpected_exception_returns_a_500_problem_without_its_text(monkeypatch):
    def broken(**_):
        msg = "a bug"
        raise RuntimeError(msg)

    monkeypatch.setattr("scheduler.health.status.current", broken)
    answer = Client(raise_request_exception=False).get("/api/v1/status")
    assert answer.status_code == 500
    assert answer["Content-Type"] == "application/problem+json"
    assert "a bug" not in answer.content.decode()


def test_unknown_host_header_returns_400(client):
    answer = client.get("/api/v1/status", headers={"Host": "elsewhere.example"})
    assert answer.status_code == 400
    assert answer.json()["code"] == "bad_request"


def test_database_outage_returns_503_with_retry_after(monkeypatch):
    def away(**_):
        raise OperationalError

    monkeypatch.setattr("scheduler.health.status.current", away)
    answer = Client().get("/api/v1/status")
    assert answer.status_code == 503
    assert answer["Retry-After"] == "5"


@pytest.mark.parametrize("accepted", ["text/html", "application/xml", "*/*;q=0", "nonsense"])
def test_response_is_json_for_any_accept_header(client, accepted):
    answer = client.get("/api/v1/", headers={"Accept": accepted})
    assert answer.status_code == 200
    assert answer["Content-Type"] == "application/json"


def test_options_returns_the_allowed_methods_and_head_has_no_body(ada):
    program = bearer(a_token(ada))
    answer = program.options("/api/v1/tokens")
    assert (answer.status_code, answer["Allow"]) == (204, "GET, POST, HEAD, OPTIONS")
    assert program.head("/api/v1/tokens").content == b""


def test_name_with_line_breaks_returns_400_and_adds_no_header(ada):
    Account.objects.filter(pk=ada.pk).update(is_superuser=True)
    ada.refresh_from_db()
    program = bearer(a_token(ada, "administer", "read"))
    sent = {"name": "q\r\nSet-Cookie: a=b"}
    answer = program.post("/api/v1/queues", sent, content_type="application/json")
    assert answer.status_code == 400
    assert not answer.cookies
