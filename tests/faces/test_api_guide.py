"""The guide to the API does what it says: its examples are typed into a shell."""

from __future__ import annotations

import json
import os
import re
import subprocess

import pytest
from django.utils import timezone

from scheduler.operations import accounts, submitters
from tests.faces.api_server import serving
from tests.faces.apis import a_token
from tests.house.tracked import read
from tests.rows import an_app, an_app_version

EMAIL, PASSWORD = "ada@example.org", "a first password"


def examples() -> list[tuple[str, str]]:
    """What is typed, and what is answered; ``...`` stands for anything."""
    found = []
    for block in re.findall(r"^```bash\n(.*?)^```$", read("docs/api.md"), re.DOTALL | re.MULTILINE):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            typed = re.match(r"(?:.*\\\n)*.*\n", part)
            assert typed
            found.append((typed[0].strip(), part[typed.end() :].strip()))
    return found


def is_as_said(answer: str, said: str) -> bool:
    pattern = ".*".join(map(re.escape, said.split("...")))
    return re.fullmatch(pattern + r"\s*", answer, re.DOTALL) is not None


@pytest.mark.needs("bash", "curl")
@pytest.mark.django_db(transaction=True)
def test_the_examples_answer_what_the_guide_says():
    now = timezone.now()
    digest = accounts.password_digest(email=EMAIL, password=PASSWORD)
    ada = accounts.create_account(
        email=EMAIL, passwd_hash=digest, name="Ada", by_staff=True, now=now
    ).account
    an_app_version(an_app("primes"))
    submitters.allow(ada, apps=None, now=now)
    with serving() as url:
        environment = os.environ | {"URL": url, "TOKEN": a_token(ada)}
        for typed, said in examples():
            done = subprocess.run(
                ["bash", "-c", typed],
                env=environment,
                capture_output=True,
                text=True,
                timeout=30,
                check=False,
            )
            assert is_as_said(done.stdout, said), f"{typed}\n{done.stdout}\n{done.stderr}\n{said}"


def test_every_refusal_that_the_guide_names_is_in_the_schema():
    schema = read("docs/reference/openapi.yaml")
    rows = re.findall(r"^\| ([0-9, ]+) \|", read("docs/api.md"), re.MULTILINE)
    statuses = [status for row in rows for status in row.split(", ")]
    assert len(statuses) == 11
    assert all(f"'{status}'" in schema for status in statuses), json.dumps(statuses)
