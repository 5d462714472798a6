"""Task lists for tests, made as a submitter makes them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from daemons import timeout_checker, transitioner
from daemons.tally import Tally
from scheduler.models import Account, App, Bundle, BundleMember, Result, Workunit
from scheduler.people import accounts
from scheduler.work.submission.facts import NewBatch, NewOutput, NewWorkunit
from scheduler.work.submission.submit import Submission, submit
from tests.work import an_app

OUTPUTS = (NewOutput(open_name="out", max_nbytes=10_000),)
#: The expected run time of a member, in seconds.
SECONDS = 100


def an_app_with_lists(**fields: Any) -> App:
    """Create an app with one version whose results go to any host, several times."""
    return an_app(**({"one_result_per": "nothing"} | fields))


def a_scientist(email: str = "scientist@example.org") -> Account:
    digest = accounts.password_digest(email=email, password="secret")
    accounts.create_account(email=email, passwd_hash=digest, name="scientist", now=timezone.now())
    return Account.objects.get(email=email)


def submitted(
    app: App,
    *labels: str | None,
    batch: NewBatch | None = None,
    submitter: Account | None = None,
    **fields: Any,
) -> Submission:
    """Submit a workunit for each label of a task list, and run the transitioner."""
    scientist = submitter or Account.objects.filter(name="scientist").first() or a_scientist()
    first = Workunit.objects.count()
    values = {
        "outputs": OUTPUTS,
        "expected_duration": timedelta(seconds=SECONDS),
        "rsc_fpops_est": SECONDS * 1e9,
    } | fields
    made = submit(
        app=app.name,
        workunits=[
            NewWorkunit(name=f"wu{first + number}", bundle=label, **values)
            for number, label in enumerate(labels)
        ],
        batch=batch or NewBatch(name=f"lists of {app.name}"),
        submitter=scientist,
        now=timezone.now(),
    )
    passes()
    return made


def passes(now: datetime | None = None) -> Tally:
    """Run the timeout checker and the transitioner once."""
    now = now or timezone.now()
    timeout_checker.run_pass(now=now, limit=1000)
    return transitioner.run_pass(now=now, limit=1000)


def state(bundle: Bundle) -> str:
    """Return the state of a list as a word; an open list that cannot be claimed is `waiting`."""
    bundle.refresh_from_db()
    word = bundle.get_state_display().lower()
    return "waiting" if word == "open" and not bundle.is_ready else word


def members(bundle: Bundle) -> list[str]:
    ids = BundleMember.objects.filter(bundle=bundle).values_list("workunit_id", flat=True)
    return list(Workunit.objects.filter(pk__in=ids).order_by("id").values_list("name", flat=True))


def expire(bundle: Bundle) -> None:
    """Let the lease of a list pass."""
    past = timezone.now() - timedelta(days=1)
    Result.objects.filter(target_id=bundle.pk, server_state=4).update(report_deadline=past)
