"""`manage.py token` and `manage.py submitter`: API tokens and submission rights."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from scheduler.people import api_tokens
from scheduler.people.submitters import NotAllowed, require_manage, require_submit
from tests.rows import an_account, an_app

pytestmark = pytest.mark.django_db

EMAIL = "ada@example.org"


def say(*words: str) -> str:
    out = StringIO()
    call_command(*words, stdout=out)
    return out.getvalue()


def facts(*words: str):
    return json.loads(say(*words, "--json"))


@pytest.fixture
def ada():
    return an_account("ada")


def test_a_token_is_created_listed_and_revoked(ada):
    made = facts("token", "create", EMAIL, "--name", "laptop", "--expires-in", "90d")
    assert made["scopes"] == ["read", "submit"]
    assert api_tokens.recognize(made["token"], now=timezone.now()).account == ada
    assert "laptop" in say("token", "list", EMAIL)
    assert made["token"] not in say("token", "list", EMAIL)
    assert say("token", "revoke", EMAIL, str(made["id"])) == f"Token {made['id']} is revoked.\n"
    assert api_tokens.recognize(made["token"], now=timezone.now()) is None
    assert facts("token", "list", EMAIL)["tokens"] == []


def test_a_token_has_the_requested_scopes(ada):
    assert facts("token", "create", EMAIL, "--scope", "read")["scopes"] == ["read"]
    with pytest.raises(CommandError, match="may not give the scope 'administer'"):
        say("token", "create", EMAIL, "--scope", "administer")
    with pytest.raises(CommandError, match="no scope 'write'"):
        say("token", "create", EMAIL, "--scope", "write")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("token", "create", "bob@example.org"), "create_account"),
        (("token", "revoke", EMAIL), "The token's id is missing"),
        (("token", "revoke", EMAIL, "99"), "has no valid token 99"),
        (("submitter", "show", "bob@example.org"), "create_account"),
        (("submitter", "allow", EMAIL), "No app is named"),
        (("submitter", "allow", EMAIL, "--app", "prims"), "no app 'prims'"),
        (("submitter", "allow", EMAIL, "--all-apps", "--manage"), "cannot be used with --all-apps"),
        (
            ("submitter", "allow", EMAIL, "--all-apps", "--max-kept-bytes", "-1"),
            "not a number of 0",
        ),
    ],
)
def test_invalid_token_and_submitter_commands_are_refused_with_a_hint(ada, words, said):
    with pytest.raises(CommandError, match=said) as refused:
        say(*words)
    assert "Hint:" in str(refused.value)


def test_an_allowed_account_can_submit_until_it_is_forbidden(ada):
    primes, other = an_app("primes"), an_app("other")
    allowed = facts(
        "submitter", "allow", EMAIL, "--app", "primes", "--manage",
        "--max-unfinished-workunits", "1000",
    )  # fmt: skip
    assert allowed["apps"] == [{"name": "primes", "may_manage": True}]
    assert allowed["max_unfinished_workunits"] == 1000
    require_submit(ada, primes)
    require_manage(ada, primes)
    with pytest.raises(NotAllowed):
        require_submit(ada, other)
    assert "0 unfinished workunits of at most 1 000" in say("submitter", "show", EMAIL)
    assert "can no longer submit" in say("submitter", "forbid", EMAIL)
    assert "could not submit before" in say("submitter", "forbid", EMAIL)
    with pytest.raises(NotAllowed):
        require_submit(ada, primes)


def test_right_to_submit_for_all_apps_includes_new_apps(ada):
    say("submitter", "allow", EMAIL, "--all-apps")
    require_submit(ada, an_app("new"))
    assert "every app" in say("submitter", "show", EMAIL)
