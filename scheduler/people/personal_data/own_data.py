"""Exports everything that is stored about an account, as JSON for its owner.

The rows of a table are read in pages, and at most `MAX_ROWS` of each are exported.  Results are not
listed: they belong to the project's work, are summed in the credit, and have no index by account.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import QuerySet

from scheduler.models import (
    Account,
    AccountAppCredit,
    AccountKey,
    ApiToken,
    AuditEntry,
    Batch,
    EmailChange,
    Host,
    LoginNetwork,
)
from scheduler.people import audit

#: Maximum number of rows of one table, and of one statement.
MAX_ROWS, _PAGE = 10_000, 1_000
#: The columns of an account that are not exported: the hash of a secret.
_SECRETS = frozenset({"password"})
_KEY_COLUMNS = ("id", "kind", "name", "is_current", "created_at", "revoked_at")
_TOKEN_COLUMNS = ("id", "name", "created_at", "expire_at", "revoked_at", "last_used_on")
_AUDIT_COLUMNS = ("id", "at", "event", "address", "subject", "details")


def export(account: Account, *, now: datetime) -> Iterator[str]:
    """Record the export in the audit log, and return the parts of a JSON object.

    Secrets are left out: keys are on the page of keys, and tokens and passwords are stored only as
    hashes.
    """
    audit.record(audit.Event.ACCOUNT_EXPORTED, now=now, subject=account.email)
    return _parts(account, now)


def _parts(account: Account, now: datetime) -> Iterator[str]:
    columns = [
        field.attname for field in Account._meta.concrete_fields if field.attname not in _SECRETS
    ]
    yield '{"exported_at": ' + _json(now) + ', "account": '
    yield _json(Account.objects.filter(pk=account.pk).values(*columns).get())
    for name, rows, names in _tables(account):
        yield f', "{name}": ['
        first = True
        for page in _pages(rows, names):
            yield ("" if first else ", ") + ", ".join(map(_json, page))
            first = False
        yield "]"
    yield "}\n"


def _tables(account: Account) -> Iterator[tuple[str, QuerySet[Any], Sequence[str]]]:
    """Yield the name in the export, the rows and the columns of each table."""
    credit = ("id", "app__name", "total", "expavg")
    yield "email_addresses", EmailAddress.objects.filter(user=account), ("id", "email", "verified")
    changes = EmailChange.objects.filter(account=account)
    yield "email_changes", changes, ("id", "email", "created_at", "expire_at")
    factors = Authenticator.objects.filter(user=account)
    yield "second_factors", factors, ("id", "type", "created_at", "last_used_at")
    yield "keys", AccountKey.objects.filter(account=account), _KEY_COLUMNS
    yield "api_tokens", ApiToken.objects.filter(account=account), _TOKEN_COLUMNS
    networks = LoginNetwork.objects.filter(account=account)
    yield "login_networks", networks, ("id", "network", "last_login_at")
    hosts = [field.attname for field in Host._meta.concrete_fields]
    yield "computers", Host.objects.filter(account=account), hosts
    yield "credit_by_app", AccountAppCredit.objects.filter(account=account), credit
    yield "batches", Batch.objects.filter(submitter=account), ("id", "name", "created_at")
    yield "audit_log", AuditEntry.objects.filter(account_id=account.pk), _AUDIT_COLUMNS


def _pages(rows: QuerySet[Any], columns: Sequence[str]) -> Iterator[Sequence[Mapping[str, Any]]]:
    """Yield the newest rows, a page at a time, as dictionaries."""
    newest = rows.order_by("-pk").values(*columns)
    last, count = None, 0
    while count < MAX_ROWS:
        page = list((newest if last is None else newest.filter(pk__lt=last))[:_PAGE])
        if page:
            yield page
        if len(page) < _PAGE:
            return
        last, count = page[-1]["id"], count + len(page)


def _json(value: object) -> str:
    return json.dumps(value, cls=DjangoJSONEncoder, ensure_ascii=False)
