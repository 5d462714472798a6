"""The admin pages of queues: settings, schedule, slots and the list's figures."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from scheduler.lifecycle import Target
from scheduler.models import App, AuditEntry, Queue, QueueSlot
from scheduler.people import accounts
from scheduler.queues import balance, named_queues
from tests.rows import a_host, a_result, a_workunit, an_app

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin() -> Client:
    chief = accounts.create_staff(
        email="chief@example.org", password="a first password", name="Chief", now=timezone.now()
    )
    client = Client()
    client.force_login(chief)
    return client


def send(admin: Client, url: str, **changes: Any) -> Any:
    """Send the form of a page as a browser would, with some changes."""
    form = admin.get(url).context["adminform"].form
    values = {name: form[name].value() for name in form.fields}
    data = {name: v for name, v in values.items() if v is not None and v is not False}
    return admin.post(url, data | changes)


def page_of(queue: Queue) -> str:
    return reverse("admin:scheduler_queue_change", args=[queue.pk])


ADD = "admin:scheduler_queue_add"


def test_a_queue_is_added_with_its_slots_and_schedule(admin: Client) -> None:
    host = a_host()
    answer = send(
        admin,
        reverse(ADD),
        name="lane",
        order="fifo",
        max_in_progress=3,
        allowed_hosts=f"[{host.pk}]",
        schedule="* 07:00 50\n\n1 18:30 none",
    )
    assert answer.status_code == 302
    queue = Queue.objects.get()
    assert (queue.order, queue.allowed_hosts, queue.priority_group) == ("fifo", [host.pk], 0)
    assert [str(entry) for entry in named_queues.entries_of(queue)] == ["* 07:00", "1 18:30"]
    assert QueueSlot.objects.count() == 3


def test_a_limit_is_changed_with_its_slots(admin: Client) -> None:
    queue = named_queues.create(name="lane", max_in_progress=3, now=timezone.now())
    page = admin.get(page_of(queue)).content.decode()
    assert "0 unsent, 0 in progress" in page
    assert send(admin, page_of(queue), max_in_progress=1).status_code == 302
    assert QueueSlot.objects.count() == 1
    assert send(admin, page_of(queue), max_in_progress="").status_code == 302
    assert Queue.objects.get().max_in_progress is None
    assert not QueueSlot.objects.exists()


def test_an_unchanged_form_keeps_the_schedule(admin: Client) -> None:
    queue = named_queues.create(name="lane", now=timezone.now())
    send(admin, page_of(queue), schedule="* 07:00 50")
    Queue.objects.update(scheduled_at=timezone.now())
    send(admin, page_of(queue), priority_group=7)
    queue.refresh_from_db()
    assert queue.priority_group == 7
    assert queue.scheduled_at is not None
    assert [str(entry) for entry in named_queues.entries_of(queue)] == ["* 07:00"]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"schedule": "* 7:00 50"}, "is not a time of a schedule"),
        ({"schedule": "* 07:00"}, "is not an entry of a schedule"),
        ({"schedule": "* 07:00 5\n* 07:00 6"}, "more than once"),
        ({"time_zone": "Mars"}, "is not a time zone"),
        ({"allowed_hosts": "[999]"}, "allowed_hosts has no host 999"),
        ({"denied_accounts": '{"a": 1}'}, "is not a list of ids"),
        ({"max_in_progress": 100_001}, "queue_limit_is_in_range"),
        ({"max_new_per_host": 0}, "queue_ramp_limits_are_positive"),
        ({"name": ""}, "This field is required"),
    ],
)
def test_bad_values_are_refused_on_the_page(
    admin: Client, changes: dict[str, Any], text: str
) -> None:
    answer = send(admin, reverse(ADD), **({"name": "lane"} | changes))
    assert answer.status_code == 200
    assert text in answer.content.decode()
    assert not Queue.objects.exists()


def test_the_audit_log_names_who_changed_a_queue_on_its_page(admin: Client) -> None:
    send(admin, reverse(ADD), name="lane", order="fifo")
    send(admin, page_of(Queue.objects.get()), max_in_progress=2)
    entries = AuditEntry.objects.filter(event__startswith="queue_").order_by("pk")
    assert [(e.event, e.actor) for e in entries] == [
        ("queue_created", "chief@example.org"),
        ("queue_changed", "chief@example.org"),
    ]
    assert entries[1].details == {"max_in_progress": 2}


def test_the_limit_of_a_balanced_queue_is_not_changed_on_its_page(admin: Client) -> None:
    queue = named_queues.create(name="lane", now=timezone.now())
    balance.change(queues=[["lane"]], max_tasks={"* 00:00": 4}, now=timezone.now())
    answer = send(admin, page_of(queue), max_in_progress=2)
    assert "The balance sets the limit of queue lane" in answer.content.decode()
    assert send(admin, page_of(queue), order="fifo").status_code == 302
    queue.refresh_from_db()
    assert (queue.max_in_progress, queue.order) == (4, "fifo")


# The list

LIST = "admin:scheduler_queue_changelist"


def work(queue: Queue, *words: str, app: App | None = None, created_at: datetime) -> None:
    """Create a workunit of a queue, with a result in each of these states."""
    workunit = a_workunit(app, queue=queue, created_at=created_at)
    for word in words:
        a_result(workunit, word, target_kind=Target.QUEUE, target_id=queue.pk)


def cells(html: str) -> list[tuple[str, str, str]]:
    """Return the cells of waiting results, results in progress and the oldest work, by row."""
    columns = [
        re.findall(rf'<td class="field-{name}[^"]*">(.*?)</td>', html)
        for name in ("waiting", "in_progress", "oldest")
    ]
    return list(zip(*columns, strict=True))


def test_the_list_shows_the_figures_of_each_queue(admin: Client) -> None:
    now = timezone.now()
    app, other = an_app(), an_app()
    named_queues.create(name="empty", now=now)
    done, busy = (named_queues.create(name=name, now=now) for name in ("done", "busy"))
    two_days_ago = now - timedelta(days=2, hours=1)
    # The oldest workunit has no unsent result, and the next one is of the app with the higher id.
    work(busy, "sent", app=app, created_at=now - timedelta(days=9))
    work(busy, "unsent", "sent", app=other, created_at=two_days_ago)
    work(busy, "unsent", "unsent", app=app, created_at=now - timedelta(hours=3))
    work(done, "sent", "success", "inactive", app=app, created_at=now - timedelta(days=5))
    a_result(a_workunit(app, created_at=now - timedelta(days=7)), "unsent")
    html = admin.get(reverse(LIST)).content.decode()
    # The newest queue is the first.
    assert html.index(">busy</a>") < html.index(">done</a>") < html.index(">empty</a>")
    exact = f"{two_days_ago:%Y-%m-%d %H:%M:%S} UTC"
    iso = two_days_ago.isoformat(timespec="seconds")
    assert cells(html) == [
        ("3", "2", f'<time datetime="{iso}" title="{exact}">2 d ago</time>'),
        ("0", "1", "–"),
        ("0", "0", "–"),
    ]


def test_the_list_counts_a_limited_number_of_results(
    admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = timezone.now()
    lane = named_queues.create(name="lane", now=now)
    for _ in range(3):
        work(lane, "unsent", "sent", created_at=now)
    monkeypatch.setattr(named_queues, "MAX_DEPTH", 4)
    assert cells(admin.get(reverse(LIST)).content.decode())[0][:2] == ("3", "3")
    monkeypatch.setattr(named_queues, "MAX_DEPTH", 3)
    assert cells(admin.get(reverse(LIST)).content.decode())[0][:2] == ("3+", "3+")
    # All queues of the page together.
    monkeypatch.setattr(named_queues, "MAX_SUM_OF_DEPTHS", 5)
    named_queues.create(name="other", now=now)
    rows = cells(admin.get(reverse(LIST)).content.decode())
    assert [row[:2] for row in rows] == [("0", "0"), ("2+", "2+")]


def test_the_list_takes_as_many_statements_for_20_queues_as_for_one(admin: Client) -> None:
    now = timezone.now()

    def statements() -> int:
        with CaptureQueriesContext(connection) as captured:
            html = admin.get(reverse(LIST)).content.decode()
        assert set(cells(html)) == {("1", "1", cells(html)[0][2])}
        return len(captured)

    work(named_queues.create(name="lane", now=now), "unsent", "sent", created_at=now)
    statements()  # the first visit reads tables that are cached
    of_one = statements()
    for number in range(19):
        work(named_queues.create(name=f"q{number}", now=now), "unsent", "sent", created_at=now)
    assert statements() == of_one
    assert Queue.objects.count() == 20


def test_the_list_without_queues_is_shown(admin: Client) -> None:
    response = admin.get(reverse(LIST))
    assert response.status_code == 200
    assert "0 queues" in response.content.decode()
