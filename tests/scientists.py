"""Scientists with API tokens, and their batches."""

from __future__ import annotations

from typing import Any

from django.test import Client

from scheduler.models import Account, Batch, Workunit
from scheduler.people import api_tokens
from scheduler.rights import SCOPES
from tests.conftest import NOON
from tests.faces.apis import used_today
from tests.rows import a_result, a_workunit, an_account, an_app, settled, update


class Scientist:
    """An account with an API token: all scopes for a superuser, else read and submit."""

    def __init__(self, account: Account | None = None, **fields: Any) -> None:
        self.account = account or an_account(**fields)
        _, text = api_tokens.create(
            account=self.account,
            name="test",
            scopes=SCOPES if self.account.is_superuser else ("read", "submit"),
            now=NOON,
        )
        used_today(text)
        self.token = text
        self._web = Client(headers={"Authorization": f"Bearer {text}"})

    def get(self, path: str, query: dict[str, Any] | None = None, **headers: str) -> Any:
        return self._web.get(f"/api/v1/{path}", query or {}, headers=headers)

    def content(self, path: str, query: dict[str, Any] | None = None, **headers: str) -> bytes:
        """Return the whole content of a streamed response."""
        answer = self.get(path, query, **headers)
        assert answer.status_code in {200, 206}, answer.content
        return b"".join(answer.streaming_content)

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return self._web.post(
            f"/api/v1/{path}", {} if body is None else body, "application/json", headers=headers
        )

    def patch(self, path: str, body: Any) -> Any:
        return self._web.patch(f"/api/v1/{path}", body, "application/json")


def a_batch(name: str = "b", submitter: Account | None = None, **fields: Any) -> Batch:
    fields = {"state": Batch.State.IN_PROGRESS, "created_at": NOON, "keep_outputs": True} | fields
    app = fields.pop("app", None) or an_app()
    return Batch.objects.create(name=name, app=app, submitter=submitter or an_account(), **fields)


def in_batch(batch: Batch, **fields: Any) -> Workunit:
    return a_workunit(batch.app, batch=batch, outputs_kept=batch.keep_outputs, **fields)


def done_in(batch: Batch, output: bytes = b"42", **fields: Any) -> Workunit:
    """Add an assimilated workunit to a batch, with its canonical output on disk."""
    workunit = in_batch(batch, **fields)
    result = a_result(workunit, "valid", output=output, uploaded=True)
    return settled(workunit, result, assimilate_state=2, transition_at=None)


def failed_in(batch: Batch, *, error_mask: int = 16, **fields: Any) -> Workunit:
    """Add a failed, assimilated workunit to a batch."""
    workunit = settled(in_batch(batch, **fields), assimilate_state=2, transition_at=None)
    update(workunit, error_mask=error_mask)
    return workunit
