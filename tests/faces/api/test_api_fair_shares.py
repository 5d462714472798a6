"""Two scientists submit over the API: the results sent follow their shares."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone

from daemons import transitioner
from scheduler.models import Batch, Result, Submitter
from scheduler.people import submitters
from tests.scientists import Scientist
from tests.scripted_client import a_client
from tests.work import an_app

pytestmark = pytest.mark.django_db
CLAIMS = 1000


@pytest.mark.parametrize(
    ("shares", "part"), [pytest.param((1, 1), 0.5, marks=pytest.mark.lengthy), ((1, 3), 0.25)]
)
def test_sent_results_are_divided_in_proportion_to_the_shares(settings, shares, part):
    settings.PROJECT = replace(
        settings.PROJECT, fair_share=True, daily_quota=10_000, max_promised_bytes=0
    )
    app = an_app(one_result_per="nothing", max_in_progress_per_cpu=10_000)
    scientists = [Scientist() for _ in shares]
    for one, share in zip(scientists, shares, strict=True):
        Submitter.objects.create(
            account=one.account, all_apps=True, share=share, created_at=timezone.now()
        )
    for one in scientists:
        answer = one.post(
            "workunits",
            {
                "app": app.name,
                "batch": "sweep",
                "defaults": {"outputs": ["out"], "rsc_fpops_est": 1e10},
                "workunits": [{}] * CLAIMS,
            },
        )
        assert answer.status_code == 201, answer.content
    for _ in range(4):
        transitioner.run_pass(now=timezone.now() + timedelta(seconds=1), limit=1000)
    client = a_client(ncpus=64)
    client.ask()
    while Result.objects.filter(server_state=4).count() < CLAIMS:
        assert client.ask_for_work(1e6)
    sent = Result.objects.filter(server_state=4).order_by("sent_at", "id")[:CLAIMS]
    mine = Batch.objects.get(submitter=scientists[0].account)
    ids = [result.pk for result in sent]
    got = Result.objects.filter(pk__in=ids, workunit__batch=mine).count()
    assert got / CLAIMS == pytest.approx(part, rel=0.05)


def test_readmitted_submitter_keeps_its_share_and_logical_clock(settings):
    settings.PROJECT = replace(settings.PROJECT, fair_share=True)
    app, ada, now = an_app(), Scientist(), timezone.now()
    submitters.allow(ada.account, apps=None, now=now)
    submitters.allow(ada.account, apps=[app], max_unfinished_workunits=100, now=now)
    Submitter.objects.update(share=2)
    work = {
        "app": app.name,
        "defaults": {"outputs": ["out"], "rsc_fpops_est": 1e13},
        "workunits": [{}] * 9,
    }
    assert ada.post("workunits", work).status_code == 201
    clock = Submitter.objects.get().logical_start_at
    assert clock > now + timedelta(seconds=30)

    assert submitters.forbid(ada.account, now=timezone.now())
    assert not submitters.forbid(ada.account, now=timezone.now()), "once"
    answer = ada.post("workunits", work)
    assert (answer.status_code, answer.json()["code"]) == (403, "not_allowed")
    assert "may not submit work" in answer.json()["detail"]
    answer = ada.post("files/query", {"sha256": ["0" * 64]})
    assert answer.status_code == 403
    me = ada.get("me").json()
    assert me["may_submit"] == {"all_apps": False, "apps": []}

    submitters.allow(ada.account, apps=[app], now=timezone.now())
    row = Submitter.objects.get()
    assert (row.share, row.logical_start_at) == (2, clock)
    assert ada.post("workunits", work).status_code == 201
    assert Submitter.objects.get().logical_start_at > clock + (clock - now) / 2
