"""Measures submission over HTTP as a stream of NDJSON lines."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator

from django.utils import timezone

from bench import backlog
from bench.figures import BenchError, Figure
from bench.show import Show
from bench.stage import Stage, Stopwatch
from scheduler.models import Account
from scheduler.people import accounts, api_tokens

SECTION = 2
EMAIL = "scientist@example.org"
#: The size of the input file that belongs to a single workunit; bytes.
UNIQUE_INPUT_BYTES = 300


def over_http(count: int, stage: Stage, show: Show) -> Iterator[Figure]:
    """Measure submissions with a shared input, then with one input per workunit."""
    stage.serve()
    headers = {"Authorization": f"Bearer {_token()}", "Content-Type": "application/x-ndjson"}
    for key, what, number in (
        ("submit_http", "submit over HTTP: inputs shared", 2 * count),
        ("submit_http_own", "submit over HTTP: a new input each", count),
    ):
        backlog.forget()
        body = b"".join(_lines(number, own=key != "submit_http"))
        watch = Stopwatch(stage)
        with show.bar(what, number) as advance, watch:
            _post(stage.port, body, headers, number)
            advance(number)
        yield Figure(
            key=key,
            section=SECTION,
            what=what,
            unit="workunits/s",
            value=number / watch.seconds,
            count=number,
            seconds=watch.seconds,
            cpu_ms=watch.cpu_ms(number),
            notes=(f"{len(body) / number:.0f} bytes of NDJSON a workunit, one request",),
        )


def _token() -> str:
    account = Account.objects.filter(email=EMAIL).first()
    if account is None:
        account = accounts.create_staff(email=EMAIL, password=EMAIL)
    _, text = api_tokens.create(
        account=account, name="bench", scopes=["submit"], now=timezone.now()
    )
    return text


def _lines(number: int, *, own: bool) -> Iterator[bytes]:
    shared = {"open_name": "in", "content": backlog.SHARED_INPUT.decode()}
    defaults = {"outputs": ["out"], "min_quorum": 2, "input_files": [] if own else [shared]}
    yield json.dumps({"app": backlog.APP, "defaults": defaults}).encode() + b"\n"
    for place in range(number):
        workunit: dict[str, object] = {"command_line": f"--number {place}"}
        if own:
            content = f"input {place} of {number}\n".ljust(UNIQUE_INPUT_BYTES, "x")
            workunit["input_files"] = [{"open_name": "in", "content": content}]
        yield json.dumps(workunit).encode() + b"\n"


def _post(port: int, body: bytes, headers: dict[str, str], number: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    try:
        connection.request("POST", "/api/v1/workunits", body=body, headers=headers)
        response = connection.getresponse()
        content = response.read()
    finally:
        connection.close()
    if response.status != http.HTTPStatus.CREATED or json.loads(content)["count"] != number:
        raise BenchError(
            f"The submission over HTTP returned status {response.status}: {content[:300]!r}."
        )
