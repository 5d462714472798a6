"""Listing an account's own rows reads no more pages if others have many rows."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.conf import settings
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from scheduler.models import Batch, Result, Workunit
from scheduler.people import own_pages
from tests.conftest import NOON
from tests.rows import an_account, an_app
from tests.scientists import Scientist

pytestmark = pytest.mark.django_db(transaction=True)

_FILL = """
INSERT INTO workunit
(name, app_id, batch_id, outputs, meta, created_at, min_quorum, target_nresults)
SELECT 'w_' || b.id || '_' || n, b.app_id, b.id, '[]'::jsonb, '{}'::jsonb, now(), 1, 1
FROM batch AS b CROSS JOIN generate_series(%s::integer, %s::integer) AS n
WHERE b.name LIKE %s
ORDER BY n, b.id
"""
_REPLICATE = """
INSERT INTO result (workunit_id, app_id, name, attempt, created_at)
SELECT w.id, w.app_id, w.name || '_0', 0, now()
FROM workunit AS w
WHERE NOT EXISTS (SELECT 1 FROM result AS r WHERE r.workunit_id = w.id)
ORDER BY w.id
"""


def fill(batches: str, first: int, last: int) -> None:
    """Add workunits with one result each to the batches whose names are LIKE `batches`."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(_FILL, [first, last, batches])
        cursor.execute(_REPLICATE)
        cursor.execute("SET LOCAL session_replication_role = origin")
        cursor.execute("ANALYZE workunit, result, batch, app, account")


def touched(ask: Callable[[], Any]) -> tuple[int, int]:
    """Return the number of statements that read workunits or results, and of their pages.

    The statements are planned with the options of a web process.
    """
    options = re.findall(r"-c (enable_\w+)=(\w+)", settings.WEB_PLANS)
    with transaction.atomic(), connection.cursor() as cursor:
        for option, value in options:
            cursor.execute(f"SET LOCAL {option} = {value}")
        with CaptureQueriesContext(connection) as said:
            ask()
        statements = [
            one["sql"] for one in said if re.search(r'FROM "(workunit|result)"', one["sql"])
        ]
        pages = 0
        for statement in statements:
            for _ in ("to read the catalog", "to count"):
                cursor.execute(
                    "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + statement.replace("%", "%%"), ()
                )
                (plan,) = cursor.fetchone()
            top = (json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]
            pages += int(top["Shared Hit Blocks"] + top["Shared Read Blocks"])
    return len(statements), pages


@pytest.fixture
def ada() -> Scientist:
    with connection.cursor() as cursor:
        # Otherwise the planner would count the pages of rows that earlier tests rolled back.
        cursor.execute("TRUNCATE workunit, result CASCADE")
    return Scientist(an_account("ada"))


def batches_of(account: Any, app: Any, *names: str) -> None:
    for name in names:
        Batch.objects.create(name=name, app=app, submitter=account, created_at=NOON, state=1)


def costs(one: Scientist) -> dict[str, tuple[int, int]]:
    newest = Workunit.objects.filter(batch__submitter=one.account).order_by("-pk")[45]
    latest = Result.objects.filter(workunit=newest).get()
    asked = {
        "workunits": ("workunits", {"limit": 20}),
        "workunits of an app": ("workunits", {"limit": 20, "app": "primes"}),
        "workunits unsent": ("workunits", {"limit": 20, "status": "unsent"}),
        "results": ("results", {"limit": 20}),
        "results unsent": ("results", {"limit": 20, "state": "UNSENT"}),
        "results of a workunit": ("results", {"workunit": latest.workunit_id}),
    }
    found = {}
    for what, (path, query) in asked.items():
        answer = one.get(path, query)
        assert answer.status_code == 200, answer.content
        found[what] = touched(lambda path=path, query=query: one.get(path, query))
        if cursor := parse_qs(urlsplit(answer.json()["next"] or "").query).get("cursor"):
            query |= {"cursor": cursor[0]}
            found[f"next {what}"] = touched(lambda path=path, query=query: one.get(path, query))
    return found


@pytest.mark.lengthy
def test_rows_of_other_accounts_do_not_slow_down_own_lists(ada: Scientist) -> None:
    primes, bob = an_app("primes"), an_account("bob")
    batches_of(ada.account, primes, "mine_1", "mine_2", "mine_3")
    batches_of(bob, primes, *(f"theirs_{n}" for n in range(5)))
    fill("mine%", 1, 40)
    fill("theirs%", 1, 600)
    small = costs(ada)
    fill("theirs%", 601, 10_000)
    large = costs(ada)
    for what, (statements, pages) in small.items():
        assert large[what][0] == statements <= 4, (what, small, large)
        assert large[what][1] <= pages * 1.5 + 2, (what, small, large)


def test_own_lists_are_complete_ordered_and_without_rows_of_others(ada: Scientist) -> None:
    primes, bob = an_app("primes"), an_account("bob")
    batches_of(ada.account, primes, "mine_1", "mine_2", "mine_3", "mine_and_empty")
    batches_of(bob, primes, "theirs_1")
    for first in (1, 101, 201):
        fill("mine\\__", first, first + 9)
        fill("theirs%", first, first + own_pages.SCANNED_PER_ROW * 8)
    for path, model, way in (("workunits", Workunit, ""), ("results", Result, "workunit__")):
        mine = model.objects.filter(**{f"{way}batch__submitter": ada.account})
        wanted = list(mine.order_by("-pk").values_list("pk", flat=True))
        pages, url = [], {"limit": 7}
        while True:
            page = ada.get(path, url).json()
            pages.append([one["id"] for one in page["results"]])
            if page["next"] is None:
                break
            url = {key: value[0] for key, value in parse_qs(urlsplit(page["next"]).query).items()}
        assert [pk for page in pages for pk in page] == wanted, path
        assert all(len(page) == 7 for page in pages[:-1])
        back = {key: value[0] for key, value in parse_qs(urlsplit(page["previous"]).query).items()}
        assert [one["id"] for one in ada.get(path, back).json()["results"]] == pages[-2]
