"""The API answers random requests of schemathesis as its schema describes.

``API_CASES`` is the number of cases for each operation (5), which are run twice; ``make test-api``
runs more cases, boundary values of every field, and chains of calls.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import pytest
import schemathesis
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import events, from_schema

from tests.faces.api_server import serving
from tests.faces.apis import ALL_SCOPES, a_token
from tests.faces.owned import PLACES, everything

pytestmark = pytest.mark.lengthy

CASES = int(os.environ.get("API_CASES", "5"))
#: The allowed statuses of replies to requests that are valid by the schema.
UNDERSTOOD = ["2xx", "401", "403", "404", "409", "410", "412", "416", "422", "429"]


def configuration(token: str, *, phases: list[str], parameters: dict[str, Any]):
    said: dict[str, Any] = {
        "seed": 17,
        "workers": 1,
        "headers": {"Authorization": f"Bearer {token}"},
        # Names have at most 255 characters, so most generated strings are filtered out.
        "suppress-health-check": ["filter_too_much"],
        "parameters": parameters,
        "generation": {
            "max-examples": CASES,
            "deterministic": True,
            "allow-x00": False,
            "database": "none",
            "no-shrink": True,
        },
        "checks": {"positive_data_acceptance": {"expected-statuses": UNDERSTOOD}},
        "phases": {
            name: {"enabled": name in phases}
            for name in ("examples", "coverage", "fuzzing", "stateful")
        },
    }
    return SchemathesisConfig.from_dict(said)


def tried(server, configuration) -> tuple[Counter[str], list[str]]:
    """Run the cases; return their number by operation, and the failures."""
    schema = schemathesis.openapi.from_url(f"{server}/api/v1/schema", config=configuration)
    counts: Counter[str] = Counter()
    faults: list[str] = []
    for event in from_schema(schema).execute():
        if isinstance(event, events.ScenarioFinished):
            counts[str(event.label)] += len(event.recorder.cases)
            for checks in event.recorder.checks.values():
                faults += [
                    f"{event.label}: {check.name}: {check.failure_info.failure}\n"
                    f"    {check.failure_info.code_sample}"
                    for check in checks
                    if check.failure_info is not None
                ]
        elif isinstance(event, events.NonFatalError | events.FatalError):
            faults.append(f"{event}: {getattr(event, 'value', getattr(event, 'exception', ''))}")
    return counts, faults


def phases() -> list[str]:
    return ["fuzzing"] if CASES <= 10 else ["examples", "coverage", "fuzzing", "stateful"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("place", [pytest.param("nowhere", marks=pytest.mark.lengthy), "somewhere"])
def test_every_response_to_generated_requests_conforms_to_the_schema(place):
    owned = everything("adasown", is_superuser=True)
    token = a_token(owned.account, *ALL_SCOPES)
    there = {
        f"path.{name}": find(owned)
        for (_, name), find in PLACES.items()
        if place == "somewhere" and name not in {"name", "token_id"}
    }
    with serving() as server:
        counts, faults = tried(server, configuration(token, phases=phases(), parameters=there))
    print(*faults, sep="\n")
    print(f"\nschemathesis: {sum(counts.values())} cases of {len(counts)} operations, {place}")
    assert faults == [], "\n".join(faults[:20])
