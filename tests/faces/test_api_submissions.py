"""Submitting over the API: documents and streams, all or none."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json

import pytest

from scheduler import storage
from scheduler.models import Batch, File, FileHold, Workunit, WorkunitFile
from scheduler.operations import api_tokens
from tests.conftest import NOON
from tests.rows import an_account, an_app, an_app_version

LINES = "application/x-ndjson"
OUT = {"outputs": ["out"]}


@pytest.fixture
def app():
    app = an_app("sieve")
    an_app_version(app)
    return app


@pytest.fixture
def ada():
    return an_account("ada", is_staff=True)


def token_of(account, **rights):
    rights = {"may_submit": True, "may_read": True} | rights
    return api_tokens.create(account=account, name="t", scopes=["read", "submit"], now=NOON)[1]


@pytest.fixture
def post(client, ada):
    return poster(client, token_of(ada))


def poster(client, token):
    def post(body, kind="application/json", **headers):
        if kind == LINES and not isinstance(body, bytes):
            body = b"".join(json.dumps(line).encode() + b"\n" for line in body)
        data = body if isinstance(body, bytes) else json.dumps(body)
        return client.generic(
            "POST",
            "/api/v1/workunits",
            data,
            content_type=kind,
            headers={"Authorization": f"Bearer {token}", **headers},
        )

    return post


def rows():
    return list(
        Workunit.objects.order_by("id").values_list("name", "command_line", "min_quorum", "meta")
    )


@pytest.mark.django_db
@pytest.mark.usefixtures("app")
class TestWhatIsMade:
    def test_a_document_is_submitted_into_a_batch_that_is_made(self, app, ada, post):
        answer = post(
            {
                "app": "sieve",
                "defaults": {**OUT, "min_quorum": 2},
                "workunits": [
                    {"name": "one", "command_line": "--from 3"},
                    {"name": "two", "min_quorum": 1, "meta": {"k": [1, "ü"]}},
                ],
            }
        )
        assert answer.status_code == 201, answer.content
        batch = Batch.objects.get()
        assert answer.json() == {
            "batch": {"id": batch.pk, "name": batch.name},
            "count": 2,
            "first_name": "one",
            "last_name": "two",
            "warnings": [],
        }
        assert rows() == [("one", "--from 3", 2, {}), ("two", "", 1, {"k": [1, "ü"]})]
        assert (batch.submitter, batch.app, batch.keep_outputs) == (ada, app, True)
        assert batch.workunits_submitted == 2
        assert set(Workunit.objects.values_list("outputs_kept", "batch")) == {(True, batch.pk)}

    def test_lines_make_the_same(self, post):
        lines = [{"app": "sieve", "batch": "b", "defaults": OUT}, {"name": "a"}, {"name": "b"}]
        answer = post(lines, LINES)
        assert answer.status_code == 201, answer.content
        assert [name for name, *_ in rows()] == ["a", "b"]

    def test_packed_lines_make_the_same(self, post):
        body = b'{"app": "sieve", "defaults": {"outputs": ["out"]}}\n{"name": "a"}\n{"name": "b"}'
        answer = post(gzip.compress(body), LINES, **{"Content-Encoding": "gzip"})
        assert answer.json()["count"] == 2

    def test_contents_come_as_text_in_base64_or_by_digest(self, post):
        digest = hashlib.sha256(b"known").hexdigest()
        first = [
            {"app": "sieve", "defaults": OUT},
            {"input_files": [{"open_name": "in", "content": "known"}]},
            {
                "input_files": [
                    {"open_name": "in", "content_base64": base64.b64encode(b"\0x").decode()}
                ]
            },
        ]
        assert post(first, LINES).status_code == 201
        again = {
            "app": "sieve",
            "defaults": OUT,
            "workunits": [{"input_files": [{"open_name": "in", "sha256": digest}]}],
        }
        assert post(again).status_code == 201
        files = [
            ref.file for ref in WorkunitFile.objects.select_related("file").order_by("workunit")
        ]
        assert [storage.download_path(f.name).read_bytes() for f in files] == [
            b"known",
            b"\0x",
            b"known",
        ]
        assert files[0] == files[2]
        assert not FileHold.objects.exists()

    def test_what_the_app_says_of_workunits_holds_below_all(self, app, post):
        app.workunit_defaults = {"min_quorum": 3, "outputs": ["out"], "delay_bound_seconds": 60}
        app.save()
        assert post({"app": "sieve", "workunits": [{}, {"min_quorum": 2}]}).status_code == 201
        assert [quorum for _, _, quorum, _ in rows()] == [3, 2]


@pytest.mark.django_db
@pytest.mark.usefixtures("app")
class TestWhatIsRefused:
    def test_all_faults_are_told_with_their_lines_and_nothing_is_kept(self, post):
        lines = [
            {"app": "sieve", "defaults": OUT},
            {"input_files": [{"open_name": "in", "content": "x"}]},
            {"min_quorum": "two"},
            {"min_quorum": 3, "target_nresults": 2},
            {"nane": "x"},
            {"input_files": [{"open_name": "in", "path": "/etc/passwd"}]},
        ]
        body = b"".join(json.dumps(line).encode() + b"\n" for line in lines) + b"{no\n"
        answer = post(body, LINES)
        assert answer.status_code == 422
        said = answer.json()
        assert sorted((e["line"], e["pointer"]) for e in said["errors"]) == [
            (3, "/min_quorum"),
            (4, ""),
            (5, "/nane"),
            (6, "/input_files/0/path"),
            (7, ""),
        ]
        assert not Workunit.objects.exists()
        assert not Batch.objects.exists()
        assert not FileHold.objects.exists()
        assert not File.objects.filter(doomed_at=None).exists()
