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
    """Create a token, by default with the scopes read and submit; return its text."""
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
    """Use a token once, so that requests in the test do not record its first use of the day."""
    with audit.acting(address="127.0.0.1"):
        api_tokens.recognize(text, now=timezone.now())


class Program(Client):
    """A test client that sends a token and JSON."""

    def __init__(self, text: str = "", **defaults: Any) -> None:
        headers = {"Authorization": f"Bearer {text}"} if text else {}
        super().__init__(headers=headers, **defaults)

    def send(self, method: str, path: str, body: Any = None, **extra: Any) -> Any:
        """Send a body as JSON to a path below ``/api/v1``; return the response."""
        call = getattr(self, method)
        if body is None:
            return call(f"/api/v1{path}", **extra)
        return call(f"/api/v1{path}", body, content_type="application/json", **extra)


def a_program(account: Account, *scopes: str) -> Program:
    """Return an API client with a new token of an account."""
    return Program(a_token(account, *scopes))
