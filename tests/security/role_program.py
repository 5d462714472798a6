"""A process of one database role, for one of the functions of `PARTS`.

The test of database roles starts it with the `DATABASE_URL` of the role.
"""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import django

sys.path.insert(0, str(Path(__file__).parent.parent.parent))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
django.setup()

from allauth.account.models import EmailAddress  # noqa: E402  only after setup
from django.test import Client  # noqa: E402
from django.utils import timezone  # noqa: E402

from daemons import registry  # noqa: E402
from daemons.loop import Drive, drain  # noqa: E402
from scheduler.lifecycle import Target  # noqa: E402
from scheduler.messages import letters, unsubscribing  # noqa: E402
from scheduler.models import (  # noqa: E402
    Account,
    CheckRun,
    Heartbeat,
    Letter,
    QueueSlot,
    Workunit,
)
from scheduler.people import accounts, api_tokens  # noqa: E402
from scheduler.people.personal_data import consents  # noqa: E402
from scheduler.pool import host_tokens  # noqa: E402
from scheduler.rights import SCOPES  # noqa: E402
from scheduler.work.submission.submit import NewFile, NewOutput, NewWorkunit, submit  # noqa: E402
from scheduler.work.targets import retarget  # noqa: E402
from scheduler.work.targets.retarget import WorkTarget  # noqa: E402
from tests.faces.apis import Program  # noqa: E402
from tests.scripted_client import a_client  # noqa: E402
from tests.work import an_app  # noqa: E402

MEMBER = {"email": "ada@example.org", "password": "correct horse battery"}
READER = {"email": "reader@example.org", "password": "correct horse battery"}
#: Pages of the administration whose statements read more than rows.
DESK = (
    *("/admin/", "/admin/tables/", "/admin/run-times/", "/admin/upkeep/"),
    "/admin/scheduler/workunit/?target=any",
)


class NeverStop:
    def is_set(self) -> bool:
        return False


def publish() -> None:
    """Create an app, an account and workunits; use the API and the pages as that account."""
    now = timezone.now()
    app = an_app("sum")
    account = accounts.create_staff(**MEMBER, name="Ada", now=now)
    _, token = api_tokens.create(
        account=account, name="test", scopes=("read", "submit", "administer"), now=now
    )
    submit(
        app=app.name,
        workunits=[
            NewWorkunit(
                name=f"sum_{number}",
                input_files=(NewFile(content=f"input {number}".encode(), open_name="in"),),
                outputs=(NewOutput(open_name="out", max_nbytes=1000),),
                delay_bound=timedelta(days=1),
            )
            for number in range(2)
        ],
        now=now,
    )
    client = Client(SERVER_NAME="localhost", headers={"authorization": f"Bearer {token}"})
    digest = accounts.password_digest(**MEMBER)
    look_up = {"email_addr": MEMBER["email"], "passwd_hash": digest}
    body = {"app": "sum", "workunits": [{"name": "sum_2"}]}
    answers = [
        client.post(
            "/api/v1/workunits",
            body,
            "application/json",
            headers={"Idempotency-Key": "once"},
        ),
        client.get("/api/v1/workunits"),
        client.post(
            "/api/v1/queues",
            {
                "name": "lab",
                "trusted": True,
                # The schedule sets it, too, but only when its chore is due again.
                "max_in_progress": 2,
                "schedule": [{"at": "* 00:00", "max_in_progress": 2}],
            },
            "application/json",
        ),
        client.post("/api/v1/queues", {"name": "shared"}, "application/json"),
        client.patch(
            "/api/v1/balance",
            {"queues": [["shared"]], "max_tasks": {"* 00:00": 2}},
            "application/json",
        ),
        client.get("/"),
        Client(SERVER_NAME="localhost").get("/account/login/"),
        Client(SERVER_NAME="localhost").get("/lookup_account.php", look_up),
    ]
    assert b"<authenticator>" in answers[-1].content
    desk = Client(SERVER_NAME="localhost")
    desk.force_login(account)
    answers += [desk.get(path) for path in DESK]
    # The daemons carry out both checks.
    answers += [desk.post("/admin/upkeep/", {"check": kind}) for kind in CheckRun.Kind.values]
    refused = [answer for answer in answers if answer.status_code >= 400]
    assert not refused, [(answer.request["PATH_INFO"], answer.content) for answer in refused]
    workunit = Workunit.objects.get(name="sum_2")
    for target in (WorkTarget(Target.ACCOUNT, account.pk), WorkTarget()):
        assert retarget.retarget([workunit.pk], target, now=now).changed == 1


def compute() -> None:
    """Fetch, compute and report all results by scheduler RPCs."""
    client = a_client("bob@example.org", "bob")
    client.ask_for_work(seconds=1e6)
    assert len(client.held) == Workunit.objects.count()
    for name in list(client.held):
        client.report(name, upload=b"right")


def graph() -> None:
    """Submit a graph to the queue with a limit; hold and release a workunit of it."""
    staff = _staff()
    own = {"queue": "lab", "outputs": ["out"]}
    names = ("first", "second", "third")
    made = [{"name": name, "continuations": ["last"], **own} for name in names]
    made.append({"name": "last", **own})
    _send(staff, "post", "/workunits", {"app": "sum", "batch": "graph", "workunits": made})
    _send(staff, "post", "/workunits/hold", {"names": ["third"], "hold_code": -7})
    _send(staff, "post", "/workunits/release", {"names": ["third"]})


def pool() -> None:
    """Claim, measure and report results in the pool; change and cancel a part of the graph."""
    worker = a_client("worker@example.org", "worker")
    worker.ask()
    _, text = host_tokens.enroll(worker.hostid, now=timezone.now())
    host, staff = Program(text, SERVER_NAME="localhost"), _staff()
    listed = _send(host, "get", "/pool/results?fields=id,name").json()["results"]
    assert sorted(result["name"] for result in listed) == ["first_0", "second_0", "third_0"]
    first = min(listed, key=lambda result: result["name"])
    _send(host, "post", f"/pool/results/{first['id']}/claim")
    _send(host, "post", f"/pool/results/{first['id']}/report_usage", {"fraction_done": 0.5})
    [second] = _send(host, "post", "/pool/acquire", {"count": 2}).json()["results"]
    assert QueueSlot.objects.filter(result__isnull=False).count() == 2, "the limit of the queue"
    worker.ask()
    for name in (first["name"], second["name"]):
        worker.report(name, upload=b"right")
    last = Workunit.objects.get(name="last").pk
    third = Workunit.objects.get(name="third").pk
    for word in ("remove_continuations", "add_continuations"):
        _send(staff, "post", f"/workunits/{third}/{word}", {"ids": [last]})
    _send(staff, "get", f"/workunits/{third}/history")
    _send(staff, "post", "/workunits/cancel", {"names": ["third"]})
    _send(staff, "patch", "/queues/lab", {"max_in_progress": 1, "schedule": []})


def _staff() -> Program:
    """Return an API client of the account of `publish` with all scopes."""
    account = Account.objects.get(email=MEMBER["email"])
    now = timezone.now()
    _, token = api_tokens.create(account=account, name="staff", scopes=SCOPES, now=now)
    return Program(token, SERVER_NAME="localhost")


def _send(program: Program, method: str, path: str, body: object = None) -> Any:
    answer = program.send(method, path, body)
    assert answer.status_code < 300, (path, answer.content)
    return answer


def letter() -> None:
    """Start a letter to an account that consented."""
    now = timezone.now()
    account = accounts.create_staff(**READER, name="Reader", now=now)
    consents.change(account, receive_letters=True, source="test", now=now)
    EmailAddress.objects.filter(user=account).update(verified=True)
    draft = letters.Draft("News", "Dear all.", Letter.Recipients.ALL)
    written = letters.write(draft, author=account, now=now)
    letters.start(written.pk, seen=letters.fingerprint(written), now=now)


def unsubscribe() -> None:
    """Use the link of the letter, which the daemons have written to the outbox."""
    sent = Letter.objects.get()
    assert letters.progress(sent).copies == 1
    account = Account.objects.get(email=READER["email"])
    link = unsubscribing.link(sent.pk, account.pk)
    answer = Client(SERVER_NAME="localhost").post(urlsplit(link).path)
    assert answer.status_code == 200, answer.content
    assert letters.progress(sent).waiting == 0


def run(ahead: timedelta = timedelta(0)) -> None:
    """Run every daemon until nothing is due; each chore is due, also if it just ran."""
    Heartbeat.objects.filter(name__startswith="chore ").delete()
    for _ in range(2):
        for daemon in registry.DAEMONS:
            drive = Drive(
                clock=lambda: timezone.now() + ahead,
                stop=NeverStop(),
                limit=daemon.batch,
                pause=1.0,
            )
            drain(daemon, drive)


def purge() -> None:
    """Run every daemon as if a month had passed."""
    run(timedelta(days=30))


PARTS = {
    "publish": publish,
    "compute": compute,
    "graph": graph,
    "pool": pool,
    "letter": letter,
    "unsubscribe": unsubscribe,
    "run": run,
    "purge": purge,
}

if __name__ == "__main__":
    PARTS[sys.argv[1]]()
