"""Exports what is stored about an account, as JSON for its owner.

The rows of a table are read in pages, and at most the newest `MAX_ROWS` of each are exported; the
member `truncated` lists the tables that have more.  Results are not listed: they belong to the
project's work, are summed in the credit, and have no index by account.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Sequence
from datetime import datetime
from typing import Any

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import QuerySet

from scheduler.models import (
    Account,
    AccountAppCredit,
    AccountBadge,
    AccountKey,
    ApiToken,
    AuditEntry,
    Batch,
    CheckRun,
    EmailChange,
    FileHold,
    Host,
    HostAppCredit,
    JobFile,
    Letter,
    LetterRecipient,
    LoginNetwork,
    ManualGrant,
    News,
    Submitter,
    SubmitterApp,
    Team,
    TeamAdministrator,
)
from scheduler.people import audit
from scheduler.people.personal_data import sampled_credit
from scheduler.rights import SCOPES

#: Maximum number of rows of one table, and of one statement.
MAX_ROWS, _PAGE = 10_000, 1_000
#: The columns of an account that are not exported; every other column is.
_SECRETS = frozenset({"password"})
_KEY_COLUMNS = ("id", "kind", "name", "is_current", "created_at", "last_used_on", "revoked_at")
_TOKEN_COLUMNS = (
    *("id", "name", *(f"may_{scope}" for scope in SCOPES), "parent_id"),
    *("created_at", "expire_at", "revoked_at", "last_used_on"),
)
_TEAM_COLUMNS = ("id", "name", "url", "description", "country", "created_at", "requested_at")
_SUBMITTER_COLUMNS = (
    *("account_id", "all_apps", "max_unfinished_workunits", "max_kept_bytes", "share"),
    "created_at",
)
_BADGE_COLUMNS = ("id", "badge__name", "created_at")
_SAMPLE_COLUMNS = ("id", "kind", "holder_id", "day", "total_credit")
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
    truncated = []
    for name, rows, names in _tables(account):
        yield f', "{name}": ['
        is_complete = yield from _rows(rows, names)
        yield "]"
        if not is_complete:
            truncated.append(name)
    yield f', "truncated": {_json(truncated)}}}\n'


def _tables(account: Account) -> Iterator[tuple[str, QuerySet[Any], Sequence[str]]]:
    """Yield the name in the export, the rows and the columns of each table."""
    credit = ("id", "app__name", "total", "expavg")
    yield from _log_ins(account)
    hosts = [field.attname for field in Host._meta.concrete_fields]
    computers = Host.objects.filter(account=account)
    yield "computers", computers, hosts
    of_computers = HostAppCredit.objects.filter(host__in=computers.values("pk"))
    yield "computers_credit_by_app", of_computers, ("id", "host_id", *credit[1:])
    yield "credit_by_app", AccountAppCredit.objects.filter(account=account), credit
    yield "badges", AccountBadge.objects.filter(account=account), _BADGE_COLUMNS
    grants = ManualGrant.objects.filter(account=account)
    yield "credit_by_hand", grants, ("id", "entry__amount", "entry__granted_at", "reason")
    yield "credit_samples", sampled_credit.of_account(account), _SAMPLE_COLUMNS
    roles = Account.groups.through._default_manager.filter(account=account)
    yield "roles", roles, ("id", "group__name")
    rights = Account.user_permissions.through._default_manager.filter(account=account)
    yield "rights", rights, ("id", "permission__codename")
    yield "founded_teams", Team.objects.filter(founder=account), _TEAM_COLUMNS
    requests = Team.objects.filter(requested_by=account)
    yield "requested_teams", requests, ("id", "name", "requested_at")
    administered = TeamAdministrator.objects.filter(account=account)
    yield "administered_teams", administered, ("id", "team_id", "team__name", "named_at")
    yield "submitter", Submitter.objects.filter(account=account), _SUBMITTER_COLUMNS
    apps = SubmitterApp.objects.filter(submitter__account=account)
    yield "submitter_apps", apps, ("id", "app__name", "may_manage")
    files = JobFile.objects.filter(account=account)
    yield "job_files", files, ("id", "name", "file__name", "created_at")
    yield "file_holds", FileHold.objects.filter(account=account), ("id", "file__name", "until")
    yield from _writings(account)
    yield "batches", Batch.objects.filter(submitter=account), ("id", "name", "created_at")
    yield "audit_log", AuditEntry.objects.filter(account_id=account.pk), _AUDIT_COLUMNS


def _writings(account: Account) -> Iterator[tuple[str, QuerySet[Any], Sequence[str]]]:
    """Yield the tables of news, letters and requested checks, as `_tables`."""
    news = News.objects.filter(author=account)
    yield "news", news, ("id", "title", "text", "published_at", "changed_at", "withdrawn_at")
    letters = LetterRecipient.objects.filter(account=account)
    yield "letters", letters, ("id", "letter__subject", "created_at")
    written = Letter.objects.filter(author=account)
    yield "written_letters", written, ("id", "subject", "text", "created_at")
    checks = CheckRun.objects.filter(requested_by=account)
    yield "requested_checks", checks, ("id", "kind", "requested_at")


def _log_ins(account: Account) -> Iterator[tuple[str, QuerySet[Any], Sequence[str]]]:
    """Yield the tables of what opens the account."""
    yield "email_addresses", EmailAddress.objects.filter(user=account), ("id", "email", "verified")
    changes = EmailChange.objects.filter(account=account)
    yield "email_changes", changes, ("id", "email", "created_at", "expire_at")
    factors = Authenticator.objects.filter(user=account)
    yield "second_factors", factors, ("id", "type", "created_at", "last_used_at")
    identities = SocialAccount.objects.filter(user=account)
    yield "login_providers", identities, ("id", "provider", "uid", "date_joined", "last_login")
    yield "keys", AccountKey.objects.filter(account=account), _KEY_COLUMNS
    yield "api_tokens", ApiToken.objects.filter(account=account), _TOKEN_COLUMNS
    networks = LoginNetwork.objects.filter(account=account)
    yield "login_networks", networks, ("id", "network", "last_login_at")


def _rows(rows: QuerySet[Any], columns: Sequence[str]) -> Generator[str, None, bool]:
    """Yield the newest rows as JSON objects; return whether these are all rows.

    The first column is the primary key.
    """
    newest = rows.order_by("-pk").values(*columns)
    count = 0
    while page := list(newest[: min(_PAGE, MAX_ROWS - count)]):
        yield (", " if count else "") + ", ".join(map(_json, page))
        count += len(page)
        newest = newest.filter(pk__lt=page[-1][columns[0]])
        if count >= MAX_ROWS:
            return not newest.exists()
        if len(page) < _PAGE:
            break
    return True


def _json(value: object) -> str:
    return json.dumps(value, cls=DjangoJSONEncoder, ensure_ascii=False)
