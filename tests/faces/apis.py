"""API clients of accounts, with their tokens."""

from __future__ import annotations

from typing import Any

from django.test import Client
from django.utils import timezone

from scheduler.models import Account
from scheduler.people import api_tokens, audit
from scheduler.rights import SCOPES

ALL_SCOPES = SCOPES


def a_token(account: Account, *scopes: str, **fields: Any) -> str:
    """The text of a token, good for reading and submitting unless scopes are named."""
    _, text = api_tokens.create(
        account=account,
        name="t",
        scopes=scopes or ("read", "submit"),
        now=timezone.now(),
        **fields,
    )
    used_today(text)
    return text


def used_today(text: str) -> None:
    """Use a token once, so that no request of the test pays for recording its first use."""
    with audit.acting(address="127.0.0.1"):
        api_tokens.recognize(text, now=timezone.now())


class Program(Client):
    """A client that shows a token, sends JSON, and reads it."""

    def __init__(self, text: str = "", **defaults: Any) -> None:
        headers = {"Authorization": f"Bearer {text}"} if text else {}
        super().__init__(headers=headers, **defaults)

    def send(self, method: str, path: str, body: Any = None, **extra: Any) -> Any:
        """Send a body as JSON; `path` begins after ``/api/v1``."""
        call = getattr(self, method)
        if body is None:
            return call(f"/api/v1{path}", **extra)
        return call(f"/api/v1{path}", body, content_type="application/json", **extra)


def a_program(account: Account, *scopes: str) -> Program:
    """An API client with a token of an account."""
    return Program(a_token(account, *scopes))
