"""Run times that a submitter estimates cannot make requests of volunteers fail."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from scheduler.dispatch.rules import bundle_offers
from scheduler.models import HostAppVersion, Result
from tests.lists import an_app_with_lists, submitted
from tests.scripted_client import a_client

ENORMOUS = {"expected_duration": None, "rsc_fpops_est": 1e99, "rsc_fpops_bound": 1e100}

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(
    "fields",
    [
        {"expected_duration": timedelta(days=36_525)},
        ENORMOUS,
    ],
)
def test_lease_of_a_list_with_enormous_run_times_has_a_maximum(fields: dict[str, Any]):
    submitted(an_app_with_lists(), *["a"] * 40, **fields)
    client = a_client()
    client.ask()
    assert len(client.ask_for_work()) == 40
    leases = {result.report_deadline - result.sent_at for result in Result.objects.all()}
    assert leases == {bundle_offers.MAX_LEASE}


@pytest.mark.parametrize("label", [None, "a"])
def test_lost_result_with_an_enormous_run_time_is_sent_again(label: str | None):
    submitted(an_app_with_lists(), label, **ENORMOUS)
    client = a_client()
    client.ask()
    assert client.ask_for_work() == ["wu0_0"]
    client.held = []
    assert client.ask_for_work() == ["wu0_0"]


def test_retry_with_an_enormous_run_time_is_judged_for_a_reliable_host():
    app = an_app_with_lists(reliable_max_turnaround=timedelta(hours=1))
    submitted(app, None, **ENORMOUS)
    Result.objects.update(reliable_until=timezone.now() + timedelta(hours=1))
    client = a_client()
    client.ask()
    HostAppVersion.objects.update_or_create(
        host_id=client.hostid,
        app_version=app.versions.get(),
        defaults={"consecutive_valid": 20, "turnaround_n": 20, "turnaround_avg": 60},
    )
    assert client.ask_for_work() == ["wu0_0"]
    result = Result.objects.select_related("workunit").get()
    assert result.report_deadline - result.sent_at == result.workunit.delay_bound
