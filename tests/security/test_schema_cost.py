"""Anonymous requests for the schema of the API cannot occupy the server."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
import yaml
from django.test import Client

from scheduler.api import documentation

SCHEMA = "/api/v1/schema"


@pytest.fixture
def generated(monkeypatch) -> list[object]:
    """The requests for which the schema was generated, in a process that has no schema yet."""
    requests: list[object] = []
    made = documentation.Schema.generator_class.get_schema

    def get_schema(self, request=None, *, public=False):
        requests.append(request)
        return made(self, request, public=public)

    monkeypatch.setattr(documentation.Schema.generator_class, "get_schema", get_schema)
    monkeypatch.setattr(documentation.Schema, "_texts", {})
    return requests


def get(accept: str, query: str = "") -> tuple[int, bytes]:
    answer = Client().get(SCHEMA + query, headers={"Accept": accept})
    return answer.status_code, answer.content


def test_schema_is_generated_once_for_any_number_of_simultaneous_requests(generated):
    with ThreadPoolExecutor(4) as threads:
        queries = [f"?version={number}" for number in range(4)]
        answers = list(threads.map(lambda query: get("application/yaml", query), queries))
    assert {status for status, _ in answers} == {200}
    assert len({content for _, content in answers}) == 1
    assert len(generated) == 1


def test_schema_in_each_format_is_generated_once(generated):
    written = {}
    for kind in ("application/json", "application/yaml", "application/vnd.oai.openapi+json") * 2:
        status, written[kind] = get(kind)
        assert status == 200
    assert len(generated) == 2
    document = json.loads(written["application/json"])
    assert document == yaml.load(written["application/yaml"], yaml.CSafeLoader)
    assert document["info"]["version"] == "1"
