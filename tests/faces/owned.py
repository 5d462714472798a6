"""One row of everything that an account can own, for tests of all operations.

Paths have parameters: `PLACES` maps the first part of a path to the row that a parameter names.
`BODIES` has the bodies of operations that do not accept an empty one.  Everything owned contains
its owner's mark, so that tests can look for the mark in replies.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.hashers import make_password
from django.core.files.uploadedfile import SimpleUploadedFile
from django.utils import timezone

from scheduler import models
from scheduler.models import Account, AccountKey, App, Batch, Bundle, FileHold, News, Queue, Team
from scheduler.people import account_keys, submitters
from scheduler.people.accounts import password_digest
from tests.faces.apis import a_program, a_token
from tests.rows import (
    a_host,
    a_result,
    a_workunit,
    an_account,
    an_app,
    an_app_version,
    an_input,
    update,
)

#: Resources that all accounts can read, and only staff and managers of the app can write.
SHARED = frozenset(
    {
        "accounts",
        "apps",
        "app-versions",
        "badges",
        "balance",
        "computers",
        "keywords",
        "leaderboards",
        "news",
        "platforms",
        "queues",
        "statistics",
        "status",
        "teams",
    }
)

#: Operations on rows of accounts that only staff may call, as writes to shared rows.  They return
#: 403 for every row, so that strangers do not learn which rows exist.
STAFF_ONLY = frozenset({"limit_host"})

#: Operations on the caller's own rows, which return 404 for rows of other accounts also to staff.
OWN_ONLY = frozenset(
    {
        "read_my_computer",
        "change_my_computer",
        "delete_my_computer",
        "merge_my_computer",
        "read_my_computers_credit_history",
        "read_my_key",
        "change_my_key",
        "revoke_my_key",
        "read_my_result",
        "read_my_workunit",
    }
)


#: The password of the accounts, which some operations need besides the token.
PASSWORD = "correct horse"


@dataclass(frozen=True)
class Owned:
    """An account, and one row of each kind that it owns."""

    mark: str
    account: Account
    app: App
    version: Any
    queue: Queue
    batch: Batch
    workunit: Any
    result: Any
    file: Any
    hold: FileHold
    host: Any
    token: Any
    key: AccountKey
    bundle: Bundle
    team: Team
    log_in: SocialAccount
    news: News

    def program(self, *scopes: str) -> Any:
        """Return an API client with a token of this account."""
        return a_program(self.account, *scopes)

    def rows(self) -> dict[str, dict[str, Any]]:
        """Return the account's rows, read again from the database; None for deleted rows."""
        own = {
            name: value
            for name, value in vars(self).items()
            if isinstance(value, tuple(getattr(models, one) for one in models.__all__))
        }
        return {
            name: type(row).objects.filter(pk=row.pk).values().first() for name, row in own.items()
        }


def everything(mark: str, **fields: Any) -> Owned:
    """Create a submitter of this name and one row of each kind."""
    now = timezone.now()
    account = an_account(mark, **fields)
    update(
        account,
        password=make_password(password_digest(email=account.email, password=PASSWORD)),
    )
    app = an_app(f"{mark}-app", user_friendly_name=mark)
    submitters.allow(account, apps=None, now=now)
    batch = Batch.objects.create(
        name=f"{mark}-batch",
        submitter=account,
        app=app,
        state=Batch.State.IN_PROGRESS,
        created_at=now,
        keep_outputs=True,
        workunits_submitted=1,
        meta={"mark": mark},
    )
    workunit = a_workunit(
        app, name=f"{mark}-workunit", batch=batch, outputs_kept=True, meta={"mark": mark}
    )
    host = a_host(account, domain_name=f"{mark}-host")
    result = a_result(workunit, "success", host=host, output=mark.encode(), uploaded=True)
    file = an_input(workunit, mark.encode())
    a_token(account)
    # Everybody may see teams, so the name has no mark.
    team = Team.objects.create(name=f"team {account.pk}", founder=account, created_at=now)
    # Everybody may see computers whose owner shows them.
    update(account, team=team, show_hosts=True)
    return Owned(
        mark=mark,
        account=account,
        app=app,
        version=an_app_version(app, plan_class=mark),
        queue=Queue.objects.create(name=f"{mark}-queue", created_at=now),
        batch=batch,
        workunit=workunit,
        result=result,
        file=file,
        hold=FileHold.objects.create(file=file, account=account, until=now + timedelta(days=1)),
        host=host,
        token=account.api_tokens.get(),
        key=account_keys.create_key(account=account, name=f"{mark}-key", now=now)[0],
        bundle=Bundle.objects.create(batch=batch, app=app, created_at=now),
        team=team,
        log_in=SocialAccount.objects.create(user=account, provider="lab", uid=mark),
        news=News.objects.create(title=mark, text=mark, author=account, published_at=now),
    )


#: (First part of a path, parameter) -> the row that the parameter names.
PLACES: Mapping[tuple[str, str], Callable[[Owned], Any]] = {
    ("accounts", "account_id"): lambda one: one.account.pk,
    ("app-versions", "version_id"): lambda one: one.version.pk,
    ("apps", "name"): lambda one: one.app.name,
    ("batches", "batch_id"): lambda one: one.batch.pk,
    ("bundles", "bundle_id"): lambda one: one.bundle.pk,
    ("computers", "host_id"): lambda one: one.host.pk,
    ("files", "sha256"): lambda one: one.file.sha256,
    ("me", "account_id"): lambda one: one.account.pk,
    ("me", "host_id"): lambda one: one.host.pk,
    ("me", "key_id"): lambda one: one.key.pk,
    ("me", "log_in_id"): lambda one: one.log_in.pk,
    ("me", "result_id"): lambda one: one.result.pk,
    ("me", "workunit_id"): lambda one: one.workunit.pk,
    ("news", "news_id"): lambda one: one.news.pk,
    ("hosts", "host_id"): lambda one: one.host.pk,
    ("queues", "name"): lambda one: one.queue.name,
    ("results", "position"): lambda one: 0,
    ("results", "result_id"): lambda one: one.result.pk,
    ("teams", "team_id"): lambda one: one.team.pk,
    ("tokens", "token_id"): lambda one: one.token.pk,
    ("workunits", "workunit_id"): lambda one: one.workunit.pk,
}

#: Query parameter -> the row of an account that it names.
QUERIES: Mapping[str, Callable[[Owned], Any]] = {
    # A place in the lists of teams, which everybody can read; after an unknown id they are empty.
    "after": lambda _: 2**62,
    "account": lambda one: one.account.pk,
    "batch": lambda one: one.batch.pk,
    "before": lambda one: one.result.pk,
    "computer": lambda one: one.host.pk,
    "host": lambda one: one.host.pk,
    "workunit": lambda one: one.workunit.pk,
}

#: Name of an operation -> the query parameters that it requires.
REQUIRED: Mapping[str, Mapping[str, str]] = {"find_accounts": {"name": "nothing"}}

#: Name of an operation -> a valid body that refers to the owner's rows.
BODIES: Mapping[str, Callable[[Owned], Any]] = {
    "create_team": lambda one: {"name": "new"},
    "join_team": lambda one: {"team": one.team.pk},
    "change_foundership": lambda one: {"action": "request"},
    "create_app": lambda one: {"name": "new"},
    "create_queue": lambda one: {"name": "new"},
    "limit_host": lambda _: {"max_in_progress": 1},
    "change_my_computer": lambda _: {"venue": "home"},
    "merge_my_computer": lambda one: {"merged": one.host.pk},
    "create_my_key": lambda _: {"kind": "host", "name": "new", "password": PASSWORD},
    "change_my_key": lambda _: {"name": "new"},
    "revoke_my_key": lambda _: {"password": PASSWORD},
    "read_weak_key": lambda one: {"email": one.account.email, "password": "not the password"},
    "create_token": lambda one: {"name": "new", "scopes": ["read"]},
    "sign_ownership_statement": lambda _: {"text": "42"},
    "verify_ownership_statement": lambda _: {"statement": "x", "signature": "x"},
    "create_bundle": lambda one: {"batch": one.batch.pk, "workunits": [one.workunit.name]},
    "create_batch": lambda one: {"name": "new", "app": one.app.name, "after": one.batch.pk},
    "cancel_workunits": lambda one: {"ids": [one.workunit.pk]},
    "hold_workunits": lambda one: {"ids": [one.workunit.pk]},
    "release_workunits": lambda one: {"ids": [one.workunit.pk]},
    **{
        name: lambda one: {"ids": [one.workunit.pk]}
        for name in (
            "add_continuation",
            "add_continuations",
            "remove_continuation",
            "remove_continuations",
        )
    },
    "submit_from_query": lambda one: {
        "app": one.app.name,
        "batch": one.batch.pk,
        "source": {"workunits": {"id": one.workunit.pk}},
        "workunit": {"outputs": ["out"], "meta": {"from": "document.name"}},
    },
    "submit_workunits": lambda one: {
        "app": one.app.name,
        "batch": one.batch.pk,
        "workunits": [{"outputs": ["out"]}],
    },
    "publish_app_version": lambda one: {
        "version": "1.00",
        "file": SimpleUploadedFile("run.sh", b"#!/bin/sh\n"),
    },
    "query_files": lambda one: {"sha256": [one.file.sha256]},
    "put_file": lambda one: one.mark.encode(),
}


def other_digest(owned: Owned) -> str:
    """Return the digest of a content that is not stored."""
    return hashlib.sha256(b"not " + owned.mark.encode()).hexdigest()
