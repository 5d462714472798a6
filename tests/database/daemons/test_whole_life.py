"""Workunits from submission to archive, with hosts that lie, fail or disappear."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal
from random import Random

import pytest
from django.db.models import Sum
from django.utils import timezone

from daemons import registry
from daemons.loop import Drive, drain
from scheduler import storage
from scheduler.health.invariants import invariants
from scheduler.models import Account, AppVersionFile, CreditEntry, File, Result, Workunit
from scheduler.work.submission.submit import NewFile, NewOutput, NewWorkunit, submit
from tests.scripted_client import a_client
from tests.work import an_app

pytestmark = pytest.mark.django_db

WORKUNITS = 8


class NeverStop:
    def is_set(self):
        return False


def let_daemons_work(ahead):
    """Run every daemon until nothing is due, with its clock `ahead` of the clients' clock."""
    for daemon in registry.DAEMONS:
        drive = Drive(
            clock=lambda: timezone.now() + ahead, stop=NeverStop(), limit=daemon.batch, pause=1.0
        )
        drain(daemon, drive)


def violations(ahead):
    now = timezone.now() + ahead
    return [(one.name, found) for one in invariants() if (found := one.find(now))]


@pytest.mark.lengthy
@pytest.mark.parametrize("seed", range(2))
def test_every_workunit_is_finished_and_purged_despite_faulty_hosts(seed, settings):
    chance = Random(seed)
    app = an_app("sum")
    submit(
        app=app.name,
        workunits=[
            NewWorkunit(
                name=f"sum_{number}",
                input_files=(NewFile(content=f"input {number // 2}".encode(), open_name="in"),),
                outputs=(NewOutput(open_name="out", max_nbytes=1000),),
                min_quorum=2,
                target_nresults=2,
                max_error_results=4,
                max_total_results=12,
                max_success_results=6,
                delay_bound=timedelta(days=1),
            )
            for number in range(WORKUNITS)
        ],
        now=timezone.now(),
    )
    clients = [
        a_client(f"{name}@example.org", name) for name in ("ada", "bob", "cyd", "dan", "eve")
    ]
    ahead = timedelta(0)
    for _ in range(60):
        let_daemons_work(ahead)
        assert violations(ahead) == []
        if not Workunit.objects.exists():
            break
        for client in clients:
            a_turn(client, chance)
        if chance.random() < 0.2:
            ahead += timedelta(hours=13)
    assert not Workunit.objects.exists()
    assert not Result.objects.exists()
    assert not File.objects.exclude(pk__in=AppVersionFile.objects.values("file")).exists()
    the_books_agree()
    every_answer_is_filed(settings)


def a_turn(client, chance):
    """Request work and report some results: right, wrong, failed or without output."""
    client.ask_for_work(seconds=30.0)
    for name in list(client.held):
        mood = chance.random()
        if mood < 0.55:
            client.report(name, upload=b"right")
        elif mood < 0.65:
            client.report(name, upload=f"wrong {name}".encode())
        elif mood < 0.72:
            client.report(name, upload=None, state=3, exit_status=1)
        elif mood < 0.76:
            client.report(name, upload=None)


def the_books_agree():
    paid = CreditEntry.objects.aggregate(total=Sum("amount"))["total"] or Decimal(0)
    assert paid > 0
    assert sum(account.total_credit for account in Account.objects.all()) == paid


def every_answer_is_filed(settings):
    paths = sorted((settings.VAR_DIR / "archive").iterdir())
    archived = [json.loads(line) for path in paths for line in storage.read_archive(path)]
    assert sorted(line["workunit"]["name"] for line in archived) == sorted(
        f"sum_{number}" for number in range(WORKUNITS)
    )
    for line in archived:
        folder = settings.VAR_DIR / "results/sum" / line["workunit"]["name"]
        if line["workunit"]["errors"]:
            assert (folder / "FAILED.json").exists()
        else:
            assert (folder / "out").read_bytes() == b"right"
        assert {result["server_state"] for result in line["results"]} == {"OVER"}
        assert {result["file_delete_state"] for result in line["results"]} == {"DONE"}
        assert line["timeline"]
    left = [p for p in (settings.VAR_DIR / "upload").rglob("*") if p.is_file()]
    assert left == []
