"""Creates the rows and files that fuzzed requests refer to, in a new project."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

#: The number of hosts that send requests.
N_HOSTS = 4


@dataclass(frozen=True, slots=True)
class World:
    """Names, ids and secrets of existing rows, so that requests pass the first checks."""

    email: str
    passwd_hash: str
    keys: list[str]
    host_ids: list[int]
    result_names: list[str]
    uploads: list[tuple[str, int, str]]
    """Name, `max_nbytes` and grant of output files that can be uploaded."""
    tokens: list[str]
    admin_cookie: str
    downloads: list[str]
    templates: list[str]
    paths: list[str] = field(default_factory=list)
    """Addresses of the API, with ids of things that exist."""

    @classmethod
    def read(cls, path: Path) -> World:
        return cls(**json.loads(path.read_text()))


def make(path: Path) -> None:  # noqa: PLR0915 - one thing after the other
    """Create all rows in the project of the current settings; write a `World` as JSON to `path`."""
    from django.test import Client
    from django.test.utils import setup_test_environment
    from django.utils import timezone

    from daemons import transitioner
    from scheduler import signing, storage
    from scheduler.models import Batch, File, Result, Workunit
    from scheduler.people import account_keys, accounts, submitters
    from scheduler.work.submission.submit import NewBatch, NewFile, NewOutput, NewWorkunit, submit
    from tests.faces.apis import a_token
    from tests.faces.submitters import INPUT, OUTPUT
    from tests.scripted_client import a_client
    from tests.work import an_app

    setup_test_environment()
    now = timezone.now()
    app = an_app("fuzzed", credit_rule="adaptive", validator="bitwise")
    # The name in captures of submitters.
    remote = an_app("remote_test", input_template=INPUT, output_template=OUTPUT)
    staff = accounts.create_staff(email="root@example.org", password="secret", now=now)
    clients = [a_client("ada@example.org", f"host{number}") for number in range(N_HOSTS)]
    ada = account_keys.find_account_by_key(clients[0].key).account
    submitters.allow(ada, apps=[app, remote], may_manage=True, now=now)
    outputs = (NewOutput(open_name="out", max_nbytes=10_000),)
    inputs = (NewFile(open_name="in", content=b"an input"),)
    work = [NewWorkunit(input_files=inputs, outputs=outputs) for _ in range(400)]
    submit(app="fuzzed", batch=NewBatch(name="a batch"), submitter=ada, workunits=work, now=now)
    transitioner.run_pass(now=now, limit=1000)
    names: list[str] = []
    for client in clients:
        client.ask()
        names += client.ask_for_work(100_000)
    uploads = []
    for result in Result.objects.filter(name__in=names).order_by("id"):
        name = f"{result.name}_r{result.pk}_0"
        uploads.append((name, 10_000, signing.upload_grant(name, 10_000)))
    browser = Client()
    browser.force_login(staff)
    batch, workunit = Batch.objects.get(), Workunit.objects.order_by("id").first()
    file = File.objects.order_by("-id").first()
    things: dict[str, Any] = {
        "batch_id": batch.pk,
        "workunit_id": workunit.pk,
        "result_id": Result.objects.order_by("id").first().pk,
        "host_id": clients[0].hostid,
        "name": "fuzzed",
        "sha256": file.sha256,
        "position": 0,
        "version_id": app.versions.first().pk,
    }
    made = World(
        email="ada@example.org",
        passwd_hash=accounts.password_digest(email="ada@example.org", password="secret"),
        keys=[clients[0].key],
        host_ids=[client.hostid for client in clients],
        result_names=names,
        uploads=uploads,
        tokens=[a_token(ada) for _ in range(3)],
        admin_cookie=browser.cookies["sessionid"].value,
        downloads=[
            f"/download/{storage.fan_out(one.name)}/{one.name}" for one in File.objects.all()[:5]
        ],
        templates=[INPUT, OUTPUT, f"<output_template>{OUTPUT}</output_template>"],
        paths=_paths(things),
    )
    path.write_text(json.dumps(asdict(made)))


def _paths(things: dict[str, Any]) -> list[str]:
    """Return `METHOD /path` of every operation of the API."""
    from tests.faces.api_schema import operations

    found = []
    for operation in operations():
        path = operation.path
        for name, value in things.items():
            path = path.replace(f"{{{name}}}", str(value))
        queries = "&".join(f"{one['name']}=1" for one in operation.parameters("query"))
        # If the fuzzer revoked its own tokens, all later requests would be unauthenticated.
        if not (operation.method == "delete" and "tokens" in path):
            found.append(f"{operation.method.upper()} {path}{'?' if queries else ''}{queries}")
    return found


if __name__ == "__main__":
    import django

    django.setup()
    make(Path(sys.argv[1]))
