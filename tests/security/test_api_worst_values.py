"""Extreme values in the fields and parameters of the API never cause a 5xx.

The fields come from the schema, so that a new one is tested at once.  Values go beyond the schema's
bounds, unlike tests that are generated from it.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest
from django.utils import timezone

from daemons import transitioner
from scheduler.models import Account
from scheduler.people import submitters
from tests.faces.api_schema import operations, schema
from tests.faces.apis import ALL_SCOPES, a_token
from tests.faces.owned import everything
from tests.fuzz.mutators import JSON_VALUES
from tests.fuzz.raw import RawRequest, answer
from tests.scripted_client import a_client
from tests.security.test_bad_text import check
from tests.security.test_worst_values import check_everything_works, submit_some
from tests.security.worst import NUMBERS
from tests.work import an_app

pytestmark = [pytest.mark.django_db, pytest.mark.lengthy]

#: JSON values that Python's own encoder does not produce.
RAW = [
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b"1e999",
    b"-1e999",
    b"1" + b"0" * 5000,
    b"-0.0",
    b'"\\ud800"',
]
WORST = (
    None,
    -1,
    1e308,
    5e-324,
    2**31,
    2**63,
    10**400,
    "",
    "\0",
    [],
    {},
    [None],
    "9" * 400,
    {"": {}},
)
VALUES = [json.dumps(value).encode() for value in WORST] + RAW
#: `make test` sends only these values; `make test-story` sends all.
FEW = [b"null", b"1e308", b"[]", b"NaN", b'"\\ud800"']


def properties(says: dict[str, Any], path: tuple[str, ...] = (), depth: int = 0):
    """Yield every path to a field in a body's schema; `*` is an item of a list."""
    if name := says.get("$ref", "").rpartition("/")[2]:
        says = schema()["components"]["schemas"][name]
    if depth > 4:
        return
    for one in (*says.get("oneOf", ()), *says.get("anyOf", ()), *says.get("allOf", ())):
        yield from properties(one, path, depth + 1)
    for name, inner in says.get("properties", {}).items():
        yield (*path, name)
        yield from properties(inner, (*path, name), depth + 1)
    if isinstance(items := says.get("items"), dict):
        yield (*path, "*")
        yield from properties(items, (*path, "*"), depth + 1)


def with_value(body: Any, path: tuple[str, ...], mark: str) -> Any:
    """Return the body with a mark at a path; missing parents are created."""
    if not path:
        return mark
    first, *rest = path
    if first == "*":
        inner = body[0] if isinstance(body, list) and body else {}
        return [with_value(inner, tuple(rest), mark)]
    found = body if isinstance(body, dict) else {}
    return found | {first: with_value(found.get(first, {}), tuple(rest), mark)}


def json_operations():
    for operation in operations():
        content = operation.says.get("requestBody", {}).get("content", {})
        for kind, says in content.items():
            if "json" in kind:
                yield operation, kind, says.get("schema", {})


@pytest.fixture
def owned():
    return everything("ada", is_superuser=True)


@pytest.fixture
def token(owned):
    return (b"Authorization", b"Bearer " + a_token(owned.account, *ALL_SCOPES).encode())


MARK = "\u2603 mark"


@pytest.mark.parametrize(
    "values", [FEW, pytest.param(VALUES, marks=pytest.mark.lengthy)], ids=["few", "all"]
)
@pytest.mark.parametrize(
    ("operation", "kind", "says"),
    list(json_operations()),
    ids=lambda one: getattr(one, "name", None),
)
def test_extreme_values_in_a_json_body_cause_no_5xx(owned, token, operation, kind, says, values):
    sent = operation.body(owned)
    good = sent[0] if sent and isinstance(sent[0], dict) else {}
    headers = (token, (b"Content-Type", kind.encode()), (b"If-Match", b"*"))
    target, method = operation.url(owned).encode(), operation.method.upper().encode()
    for path in dict.fromkeys(properties(says)):
        text = json.dumps(with_value(good, path, MARK)).encode()
        for value in values:
            body = text.replace(json.dumps(MARK).encode(), value)
            check(RawRequest(method, target, headers, body))
    for value in values:
        check(RawRequest(method, target, headers, value))


@pytest.mark.parametrize("operation", list(operations()), ids=lambda one: one.name)
def test_extreme_values_in_parameters_cause_no_5xx(owned, token, operation):
    target, method = operation.url(owned), operation.method.upper().encode()
    for parameter in operation.parameters("query"):
        for value in (*NUMBERS, *(str(one) for one in JSON_VALUES if one != 10**400)):
            said = quote(value.encode("utf-8", "surrogatepass"), safe="")
            check(RawRequest(method, f"{target}?{parameter['name']}={said}".encode(), (token,)))
    template = operation.path
    for parameter in operation.parameters("path"):
        for value in NUMBERS:
            said = quote(value.encode(), safe="")
            path = template.replace(f"{{{parameter['name']}}}", said)
            for other in operation.parameters("path"):
                path = path.replace(f"{{{other['name']}}}", "1")
            check(RawRequest(method, path.encode(), (token,)))


#: The greatest and least values that a workunit may have.
EXTREMES = [
    {"rsc_fpops_est": 1, "rsc_fpops_bound": 1},
    {"rsc_fpops_est": 1e100, "rsc_fpops_bound": 1e100},
    {"rsc_memory_bound": 1e100, "rsc_disk_bound": 1e100, "rsc_bandwidth_bound": 1e100},
    {"rsc_memory_bound": 0, "rsc_disk_bound": 1},
    {"delay_bound_seconds": 1e-6},
    {"delay_bound_seconds": 36_525 * 86_400},
    {"priority": 2**31 - 1},
    {"priority": -(2**31) + 1},
    {
        "max_error_results": 2**31 - 1,
        "max_total_results": 2**31 - 1,
        "max_success_results": 2**31 - 1,
    },
]


def test_accepted_extreme_workunits_do_not_stop_submissions_or_scheduling(tmp_path):
    app = an_app()
    ada = a_client("ada@example.org")
    account = Account.objects.get(email="ada@example.org")
    submitters.allow(account, apps=[app], now=timezone.now())
    token = (b"Authorization", b"Bearer " + a_token(account).encode())
    ada.ask()
    for extreme in EXTREMES:
        body = json.dumps(
            {"app": app.name, "workunits": [{"outputs": ["out"], **extreme}]}
        ).encode()
        headers = (token, (b"Content-Type", b"application/json"))
        reply = answer(RawRequest(b"POST", b"/api/v1/workunits", headers, body))
        assert reply.fault == ""
        assert reply.status in {201, 202, 422}, reply.body
    submit_some(50)
    transitioner.run_pass(now=timezone.now(), limit=1000)
    good = a_client("good@example.org")
    good.ask()
    check_everything_works(good, tmp_path)
