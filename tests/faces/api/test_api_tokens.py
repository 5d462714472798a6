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


def test_the_index_says_where_everything_is(client):
    said = client.get("/api/v1/").json()
    assert said["name"] == "Manyhands"
    assert said["links"]["tokens"] == "http://testserver/api/v1/tokens"


def test_a_token_is_made_by_password_and_its_text_said_once(client, ada):
    answer = make(client, email=EMAIL, password=PASSWORD, name="laptop", scopes=["read"])
    assert answer.status_code == 201, answer.content
    text = answer.json()["token"]
    assert text.startswith("mh_")
    assert answer["Cache-Control"] == "no-store"
    listed = bearer(text).get("/api/v1/tokens").json()["results"]
    assert [one["name"] for one in listed] == ["laptop"]
    assert "token" not in listed[0]


def test_a_wrong_password_and_an_unknown_address_are_told_apart_by_nobody(client, ada):
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


def test_right_passwords_are_not_counted(client, ada):
    for _ in range(12):
        answer = make(client, email=EMAIL, password=PASSWORD, name="x", scopes=["read"])
        assert answer.status_code == 201


def test_a_token_makes_no_token_above_itself(ada):
    client = bearer(a_token(ada, "read"))
    assert make(client, name="child", scopes=["read"]).status_code == 201
    answer = make(client, name="child", scopes=["read", "submit"])
    assert answer.status_code == 403
    assert answer.json()["code"] == "token_refused"


def test_a_token_makes_no_token_that_outlives_it(ada):
    soon = timezone.now() + timedelta(hours=1)
    client = bearer(a_token(ada, "read", expire_at=soon))
    heir = make(client, name="child", scopes=["read"]).json()
    assert ApiToken.objects.get(pk=heir["id"]).expire_at == soon
    answer = make(client, name="child", scopes=["read"], expires_in_seconds=7200)
    assert answer.status_code == 403


def test_administer_is_for_staff(ada):
    refused = make(Client(), email=EMAIL, password=PASSWORD, name="x", scopes=["administer"])
    assert refused.status_code == 403
    Account.objects.filter(pk=ada.pk).update(is_superuser=True)
    assert (
        make(Client(), email=EMAIL, password=PASSWORD, name="x", scopes=["administer"]).status_code
        == 201
    )


def test_a_former_member_of_staff_cannot_use_the_scope_administer(ada):
    Account.objects.filter(pk=ada.pk).update(is_superuser=True)
    ada.refresh_from_db()
    client = bearer(a_token(ada, "read", "administer"))
    asked = {"name": "urgent"}
    assert client.post("/api/v1/queues", asked, "application/json").status_code == 201
    Account.objects.filter(pk=ada.pk).update(is_superuser=False)
    asked = {"name": "late"}
    assert client.post("/api/v1/queues", asked, "application/json").status_code == 403


def test_a_revoked_token_is_no_good_any_more(ada):
    client = bearer(a_token(ada))
    token = ApiToken.objects.get()
    assert client.delete(f"/api/v1/tokens/{token.pk}").status_code == 204
    answer = client.get("/api/v1/me")
    assert answer.status_code == 401
    assert answer["WWW-Authenticate"] == "Bearer"
    assert answer["Content-Type"] == "application/problem+json"


def test_nobody_revokes_anothers_token(ada):
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
def test_a_header_that_is_no_good_is_a_401_and_nothing_else(client, header, ada):
    answer = client.get(
        "/api/v1/me", HTTP_AUTHORIZATION=header.encode("utf-8", "surrogateescape").decode("latin-1")
    )
    assert answer.status_code == 401
    assert answer.json()["hint"]


def test_a_deactivated_accounts_token_is_no_good(ada):
    client = bearer(a_token(ada))
    Account.objects.filter(pk=ada.pk).update(is_active=False)
    assert client.get("/api/v1/me").status_code == 401


def test_me_says_who_one_is_and_what_one_may(ada, django_assert_max_num_queries):
    client = bearer(a_token(ada))
    client.get("/api/v1/me")
    with django_assert_max_num_queries(6):
        said = client.get("/api/v1/me").json()
    assert said["account"]["email"] == EMAIL
    assert said["scopes"] == ["read", "submit"]
    assert said["may_submit"] == {"all_apps": False, "apps": []}
    assert said["quota"]["max_unfinished_workunits"] is None


def test_an_unknown_field_names_the_near_miss(client):
    answer = make(client, emial=EMAIL, password="x", name="x", scopes=["read"])
    assert answer.status_code == 400
    assert answer.json()["errors"][0] == {
        "pointer": "/emial",
        "detail": "There is no field 'emial'.",
        "hint": "do you mean 'email'?",
    }


def test_an_unknown_parameter_names_the_near_miss(ada):
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
def test_a_body_that_cannot_be_kept_is_refused_with_its_reason(client, body, said):
    answer = client.post("/api/v1/tokens", body, content_type="application/json")
    assert answer.status_code == 400
    assert said in answer.json()["detail"]


def test_a_body_of_another_type_is_a_415(client):
    answer = client.post("/api/v1/tokens", b"a=b", content_type="text/plain")
    assert answer.status_code == 415
    assert answer["Content-Type"] == "application/problem+json"


def test_a_body_that_is_too_long_is_a_413(client):
    body = b'{"name": "' + b"a" * (8 * 1024 * 1024) + b'"}'
    assert client.post("/api/v1/tokens", body, content_type="application/json").status_code == 413


def test_another_method_is_a_405_that_names_those_there_are(ada):
    answer = bearer(a_token(ada)).put("/api/v1/tokens", b"{}", content_type="application/json")
    assert answer.status_code == 405
    assert answer["Allow"] == "GET, POST, HEAD, OPTIONS"


def test_no_address_is_a_404_in_json(client):
    for method in ("get", "post", "delete"):
        answer = getattr(client, method)("/api/v1/nowhere/at/all")
        assert answer.status_code == 404
        assert answer.json()["code"] == "not_found"


@pytest.mark.parametrize("number", ["99999999999999999999", "-1", "0x1", "1%00"])
def test_no_number_is_too_large_to_be_answered(ada, number):
    assert bearer(a_token(ada)).delete(f"/api/v1/tokens/{number}").status_code == 404


def test_pages_lead_forth_and_back(ada):
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
def test_a_limit_that_is_none_is_refused(ada, limit):
    assert bearer(a_token(ada)).get("/api/v1/tokens", {"limit": limit}).status_code == 400


@pytest.mark.parametrize("cursor", ["x", "PDE", "é", "PDk5OTk5OTk5OTk5OTk5OTk5OTk5"])
def test_a_forged_cursor_is_refused(ada, cursor):
    answer = bearer(a_token(ada)).get("/api/v1/tokens", {"cursor": cursor})
    assert answer.status_code == 422
    assert answer.json()["code"] == "bad_cursor"


def test_a_bug_is_a_problem_too(monkeypatch):
    def broken(**_):
        msg = "a bug"
        raise RuntimeError(msg)

    monkeypatch.setattr("scheduler.health.status.current", broken)
    answer = Client(raise_request_exception=False).get("/api/v1/status")
    assert answer.status_code == 500
    assert answer["Content-Type"] == "application/problem+json"
    assert "a bug" not in answer.content.decode()


def test_a_host_that_is_not_the_projects_is_a_problem(client):
    answer = client.get("/api/v1/status", headers={"Host": "elsewhere.example"})
    assert answer.status_code == 400
    assert answer.json()["code"] == "bad_request"


def test_without_the_database_requests_get_a_retry_time(monkeypatch):
    def away(**_):
        raise OperationalError

    monkeypatch.setattr("scheduler.health.status.current", away)
    answer = Client().get("/api/v1/status")
    assert answer.status_code == 503
    assert answer["Retry-After"] == "5"


@pytest.mark.parametrize("accepted", ["text/html", "application/xml", "*/*;q=0", "nonsense"])
def test_whatever_is_accepted_the_answer_is_json(client, accepted):
    answer = client.get("/api/v1/", headers={"Accept": accepted})
    assert answer.status_code == 200
    assert answer["Content-Type"] == "application/json"


def test_options_name_the_methods_and_head_has_no_body(ada):
    program = bearer(a_token(ada))
    answer = program.options("/api/v1/tokens")
    assert (answer.status_code, answer["Allow"]) == (204, "GET, POST, HEAD, OPTIONS")
    assert program.head("/api/v1/tokens").content == b""


def test_a_name_cannot_add_a_header(ada):
    Account.objects.filter(pk=ada.pk).update(is_superuser=True)
    ada.refresh_from_db()
    program = bearer(a_token(ada, "administer", "read"))
    sent = {"name": "q\r\nSet-Cookie: a=b"}
    answer = program.post("/api/v1/queues", sent, content_type="application/json")
    assert answer.status_code == 400
    assert not answer.cookies
