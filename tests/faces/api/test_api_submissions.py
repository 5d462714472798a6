"""Submitting over the API: documents and streams, all or none."""

from __future__ import annotations

import base64
import errno
import gzip
import hashlib
import io
import json
import tempfile
import threading
from datetime import UTC, datetime

import orjson
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from scheduler import storage
from scheduler.lifecycle import ReleaseState
from scheduler.models import (
    App,
    Batch,
    File,
    FileHold,
    IdempotencyKey,
    Submitter,
    SubmitterApp,
    Workunit,
    WorkunitFile,
)
from scheduler.people import api_tokens
from scheduler.work.submission import bulk
from tests.conftest import NOON
from tests.rows import a_host, a_workunit, an_account, an_app, an_app_version
from tests.scientists import Scientist, a_batch, done_in

LINES = "application/x-ndjson"
OUT = {"outputs": ["out"]}
CONTENT = {"open_name": "in", "content": "1"}


@pytest.fixture
def app():
    app = an_app("sieve")
    an_app_version(app)
    return app


@pytest.fixture
def ada():
    return an_account("ada", is_superuser=True)


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
    def test_json_document_creates_a_batch_with_its_workunits(self, app, ada, post):
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
            "batch": {"id": batch.pk, "name": batch.name, "workunits_before": 0},
            "count": 2,
            "first_name": "one",
            "last_name": "two",
            "warnings": [],
        }
        assert rows() == [("one", "--from 3", 2, {}), ("two", "", 1, {"k": [1, "ü"]})]
        assert (batch.submitter, batch.app, batch.keep_outputs) == (ada, app, True)
        assert batch.workunits_submitted == 2
        assert set(Workunit.objects.values_list("outputs_kept", "batch")) == {(True, batch.pk)}

    def test_submission_to_a_batch_id_returns_the_previous_number_of_workunits(self, post):
        first = post({"app": "sieve", "workunits": [OUT, OUT]}).json()["batch"]
        again = post({"app": "sieve", "batch": first["id"], "workunits": [OUT]}).json()
        assert again["batch"] == {**first, "workunits_before": 2}
        # The batch was found by its id.
        assert again["warnings"] == []

    def test_ndjson_lines_create_workunits(self, post):
        lines = [{"app": "sieve", "batch": "b", "defaults": OUT}, {"name": "a"}, {"name": "b"}]
        answer = post(lines, LINES)
        assert answer.status_code == 201, answer.content
        assert [name for name, *_ in rows()] == ["a", "b"]

    def test_gzipped_ndjson_lines_create_workunits(self, post):
        body = b'{"app": "sieve", "defaults": {"outputs": ["out"]}}\n{"name": "a"}\n{"name": "b"}'
        answer = post(gzip.compress(body), LINES, **{"Content-Encoding": "gzip"})
        assert answer.json()["count"] == 2

    def test_input_files_can_be_given_as_text_base64_or_digest(self, post):
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

    def test_defaults_of_the_app_have_the_lowest_precedence(self, app, post):
        app.workunit_defaults = {"min_quorum": 3, "outputs": ["out"], "delay_bound_seconds": 60}
        app.save()
        assert post({"app": "sieve", "workunits": [{}, {"min_quorum": 2}]}).status_code == 201
        assert [quorum for _, _, quorum, _ in rows()] == [3, 2]


@pytest.mark.django_db
@pytest.mark.usefixtures("app")
class TestWhatIsRefused:
    def test_all_errors_are_reported_with_line_numbers_and_nothing_is_stored(self, post):
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
        reply = answer.json()
        assert sorted((e["line"], e["pointer"]) for e in reply["errors"]) == [
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

    @pytest.mark.parametrize(
        ("head", "pointer"),
        [
            ([], ""),
            ({"app": 3}, "/app"),
            ({"app": "sieve", "bach": 1}, ""),
            ({"app": "sieve", "batch": {"nmae": "x"}}, "/batch/nmae"),
            ({"app": "sieve", "batch": {"priority": "high"}}, "/batch/priority"),
            ({"app": "sieve", "batch": "\u0000"}, "/batch"),
            ({"app": "sieve", "defaults": []}, "/defaults"),
            (
                {"app": "sieve", "defaults": {"delay_bound_seconds": "3d"}},
                "/defaults/delay_bound_seconds",
            ),
        ],
    )
    def test_invalid_first_line_of_a_stream_returns_422(self, post, head, pointer):
        answer = post([head, {}], LINES)
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["pointer"] == pointer
        assert answer.json()["hint"]

    @pytest.mark.parametrize("name", ["delay_bound", "delay_bound_second", "deadline"])
    def test_wrong_name_of_the_delay_bound_is_refused_with_the_right_name(self, post, name):
        answer = post([{"app": "sieve"}, {name: 3600}], LINES)
        assert answer.status_code == 422
        [error] = answer.json()["errors"]
        assert (error["line"], error["pointer"]) == (2, f"/{name}")
        assert error["hint"] == "did you mean 'delay_bound_seconds'?"

    @pytest.mark.parametrize(
        ("body", "kind", "status", "code"),
        [
            (b"\n", LINES, 400, "parse_error"),
            (b"{no\n", LINES, 400, "parse_error"),
            (b"{no", "application/json", 400, "parse_error"),
            (b'{"app": "sieve"}', "application/json", 400, "invalid"),
            (b'{"app": "sieve"}\n', LINES, 422, "no_workunits"),
            (b'{"app": "sieve", "workunits": []}', "application/json", 422, "no_workunits"),
            (b'{"app": "seive"}\n{}', LINES, 422, "unknown_app"),
            (b'{"app": "sieve", "batch": 999}\n{}', LINES, 422, "batch_refused"),
            (b"app=sieve", "application/x-www-form-urlencoded", 415, "unsupported_media_type"),
            (b'{"app": "sieve"}\n{}\n{"count": 2}\n', LINES, 400, "cut_short"),
            (b'{"app": "sieve"}\n{"count": 1}\n{}\n', LINES, 400, "cut_short"),
        ],
    )
    def test_invalid_submission_body_is_refused(self, post, body, kind, status, code):
        answer = post(body, kind)
        assert (answer.status_code, answer.json()["code"]) == (status, code), answer.content
        assert "hint" in answer.json() or answer.json()["errors"]
        assert not Workunit.objects.exists()

    def test_duplicate_and_existing_workunit_names_are_refused(self, app, post):
        a_workunit(app, name="old")
        twice = post([{"app": "sieve", "defaults": OUT}, {"name": "x"}, {"name": "x"}], LINES)
        assert (twice.status_code, twice.json()["errors"][0]["line"]) == (422, 3)
        taken = post([{"app": "sieve", "defaults": OUT}, {"name": "new"}, {"name": "old"}], LINES)
        assert (taken.status_code, taken.json()["code"]) == (409, "names_taken")
        assert taken.json()["errors"] == [{"detail": "The name 'old' is taken."}]
        assert [name for name, *_ in rows()] == ["old"]
        assert not Batch.objects.exists()

    def test_missing_files_are_reported_with_lines(self, post):
        wants = {"input_files": [{"open_name": "in", "sha256": "0" * 64}]}
        answer = post([{"app": "sieve", "defaults": OUT}, {}, wants], LINES)
        (error,) = answer.json()["errors"]
        assert (error["line"], error["pointer"]) == (3, "/input_files/0")
        assert "0" * 64 in error["detail"]

    def test_truncated_stream_is_refused_and_creates_no_workunits(self, ada, post, client):
        body = b'{"app": "sieve", "defaults": {"outputs": ["out"]}}\n{"name": "a"}\n'
        headers = {
            "Authorization": f"Bearer {token_of(ada)}",
            "Transfer-Encoding": "chunked",
            "Content-Length": "",
        }

        def in_chunks(sent):
            more = {"content_type": LINES, "headers": headers, "wsgi.input": io.BytesIO(sent)}
            return client.generic("POST", "/api/v1/workunits", b"-", **more)

        whole = body + b'{"count": 1}\n'
        packed = gzip.compress(body)[:-9]
        answer = post(packed, LINES, **{"Content-Encoding": "gzip"})
        assert (answer.status_code, answer.json()["code"]) == (400, "cut_short")
        answer = in_chunks(body)
        assert (answer.status_code, answer.json()["code"]) == (400, "cut_short")
        assert "count" in answer.json()["hint"]
        assert not Workunit.objects.exists()
        assert in_chunks(whole).status_code == 201

    def test_first_hundred_errors_are_listed_and_all_are_counted(self, post):
        answer = post([{"app": "sieve", "defaults": OUT}, *[{"min_quorum": 0}] * 1500], LINES)
        assert len(answer.json()["errors"]) == 100
        assert "faults in 1500 workunits" in answer.json()["detail"]

    def test_too_long_line_returns_413(self, post, monkeypatch):
        monkeypatch.setattr("scheduler.api.endpoints.submissions.MAX_LINE_BYTES", 100)
        answer = post([{"app": "sieve"}, {"command_line": "x" * 200}], LINES)
        assert (answer.status_code, answer.json()["code"]) == (413, "line_too_long")

    def test_too_long_body_returns_413(self, post, monkeypatch):
        monkeypatch.setattr("scheduler.api.endpoints.submissions.MAX_STREAM_BYTES", 100)
        packed = gzip.compress(b" " * 10_000)
        for body, headers in ((b" " * 200, {}), (packed, {"Content-Encoding": "gzip"})):
            answer = post(body, LINES, **headers)
            assert (answer.status_code, answer.json()["code"]) == (413, "too_long")

    def test_full_disk_returns_503_with_retry_after_and_nothing_is_stored(self, post, monkeypatch):
        def write(_spool, _line):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(tempfile.SpooledTemporaryFile, "write", write)
        answer = post({"app": "sieve", "workunits": [{"input_files": [CONTENT]}]})
        assert (answer.status_code, answer.json()["code"]) == (503, "disk_full")
        assert int(answer["Retry-After"]) > 0
        assert not FileHold.objects.exists()
        assert File.objects.get().doomed_at is not None

    def test_a_stalled_client_does_not_block_other_submissions(
        self, ada, post, client, monkeypatch
    ):
        monkeypatch.setattr("scheduler.api.endpoints.submissions.SLOT_TIMEOUT_SECONDS", 0.0)
        monkeypatch.setattr(
            "scheduler.api.endpoints.submissions._slots", threading.BoundedSemaphore(1)
        )
        meanwhile = []

        class Stalled(io.BytesIO):
            def read(self, size=-1):
                meanwhile.append(post([{"app": "sieve"}, OUT], LINES).status_code)
                return super().read(size)

        body = json.dumps({"app": "sieve", "workunits": [OUT]}).encode()
        answer = client.generic(
            "POST",
            "/api/v1/workunits",
            body,
            content_type="application/json",
            headers={"Authorization": f"Bearer {token_of(ada)}"},
            **{"wsgi.input": Stalled(body)},
        )
        assert (answer.status_code, set(meanwhile)) == (201, {201})
        monkeypatch.setattr(
            "scheduler.api.endpoints.submissions._open_slots", threading.Semaphore(0)
        )
        assert post([{"app": "sieve"}, OUT], LINES).json()["code"] == "busy"

    def test_submission_without_a_free_slot_returns_503_with_retry_after(self, post, monkeypatch):
        monkeypatch.setattr("scheduler.api.endpoints.submissions.SLOT_TIMEOUT_SECONDS", 0.0)
        monkeypatch.setattr("scheduler.api.endpoints.submissions._slots", threading.Semaphore(0))
        answer = post([{"app": "sieve"}, {}], LINES)
        assert (answer.status_code, answer.json()["code"]) == (503, "busy")
        assert int(answer["Retry-After"]) > 0


@pytest.mark.django_db
@pytest.mark.usefixtures("app")
class TestRightsAndQuotas:
    @pytest.fixture
    def bob(self):
        return an_account("bob")

    def test_an_account_without_permission_is_refused_before_it_takes_a_slot(
        self, client, bob, monkeypatch
    ):
        monkeypatch.setattr("scheduler.api.endpoints.submissions._slots", threading.Semaphore(0))
        answer = poster(client, token_of(bob))([{"app": "sieve"}, {}], LINES)
        assert (answer.status_code, answer.json()["code"]) == (403, "not_allowed")

    def test_account_without_permission_for_the_app_is_refused_with_a_hint(self, client, app, bob):
        post = poster(client, token_of(bob))
        assert post({"app": "sieve", "workunits": [OUT]}).status_code == 403
        submitter = Submitter.objects.create(account=bob, created_at=NOON)
        SubmitterApp.objects.create(submitter=submitter, app=an_app("another"))
        answer = post({"app": "sieve", "workunits": [OUT]})
        assert (answer.status_code, answer.json()["code"]) == (403, "not_allowed")
        assert "submitter allow bob@example.org --app sieve" in answer.json()["hint"]
        SubmitterApp.objects.create(submitter=submitter, app=app)
        assert post({"app": "sieve", "workunits": [OUT]}).status_code == 201

    def test_submission_above_the_quota_of_unfinished_workunits_is_refused(self, client, bob):
        Submitter.objects.create(
            account=bob, all_apps=True, max_unfinished_workunits=3, created_at=NOON
        )
        post = poster(client, token_of(bob))
        assert post({"app": "sieve", "workunits": [OUT] * 2}).status_code == 201
        answer = post({"app": "sieve", "workunits": [OUT] * 2})
        assert (answer.status_code, answer.json()["code"]) == (403, "quota_exceeded")
        assert (
            "has 2 unfinished workunits; 2 more would exceed the limit of 3"
            in answer.json()["detail"]
        )
        assert post({"app": "sieve", "workunits": [OUT]}).status_code == 201

    def test_submission_above_the_byte_quota_is_refused_and_its_holds_are_deleted(
        self, client, bob
    ):
        Submitter.objects.create(account=bob, all_apps=True, max_kept_bytes=5, created_at=NOON)
        post = poster(client, token_of(bob))
        big = {**OUT, "input_files": [{"open_name": "in", "content": "123456"}]}
        assert post({"app": "sieve", "workunits": [big]}).json()["code"] == "quota_exceeded"
        assert not FileHold.objects.exists()
        fits = {**OUT, "input_files": [{"open_name": "in", "content": "12345"}]}
        assert post({"app": "sieve", "workunits": [fits]}).status_code == 201

    def test_stored_bytes_are_summed_twice_per_submission_for_any_number_of_files(
        self, client, bob, monkeypatch
    ):
        monkeypatch.setattr(bulk, "_CHUNK", 1)
        Submitter.objects.create(account=bob, all_apps=True, max_kept_bytes=20, created_at=NOON)
        post = poster(client, token_of(bob))

        def added_up(texts: str) -> int:
            works = [
                {**OUT, "input_files": [{"open_name": "in", "content": text}]} for text in texts
            ]
            with CaptureQueriesContext(connection) as said:
                assert post({"app": "sieve", "workunits": works}).status_code == 201
            return sum("FROM batch" in one["sql"] and "UNION" in one["sql"] for one in said)

        # At the beginning, and after all is written.
        assert added_up("ab") == added_up("abcdefghijabcdefghij") == 2

    def test_chunk_above_the_byte_quota_refuses_the_submission_and_deletes_all_holds(
        self, client, bob, monkeypatch
    ):
        monkeypatch.setattr(bulk, "_CHUNK", 1)
        Submitter.objects.create(account=bob, all_apps=True, max_kept_bytes=5, created_at=NOON)
        post = poster(client, token_of(bob))
        works = [
            {**OUT, "input_files": [{"open_name": "in", "content": text}]}
            for text in ("ab", "ab", "cd", "e", "f")
        ]
        answer = post({"app": "sieve", "workunits": works})
        assert answer.json()["code"] == "quota_exceeded"
        assert "would keep 6 bytes of files, and the limit is 5" in answer.json()["detail"]
        assert not FileHold.objects.exists()
        assert post({"app": "sieve", "workunits": works[:4]}).status_code == 201

    def test_outputs_count_in_the_byte_quota_until_their_batch_is_retired(self, client, app, bob):
        Submitter.objects.create(account=bob, all_apps=True, max_kept_bytes=9, created_at=NOON)
        scientist, post = Scientist(bob), poster(client, token_of(bob))
        batch = a_batch("full", bob, app=app, state=Batch.State.COMPLETE)
        done_in(batch, b"0123456789")
        done_in(a_batch("others", app=app), b"0123456789")
        quota = scientist.get("me").json()["quota"]
        assert (quota["kept_bytes"], quota["kept_output_bytes"]) == (10, 10)
        inputs = {**OUT, "input_files": [{"open_name": "in", "content": "1"}]}
        for work in (OUT, inputs):
            answer = post({"app": "sieve", "workunits": [work]})
            assert (answer.status_code, answer.json()["code"]) == (403, "quota_exceeded")
            assert "retire batches" in answer.json()["hint"]
        assert scientist.post(f"batches/{batch.pk}/retire").status_code == 200
        assert scientist.get("me").json()["quota"]["kept_bytes"] == 0
        assert post({"app": "sieve", "workunits": [inputs]}).status_code == 201
        assert scientist.get("me").json()["quota"]["kept_bytes"] == 1

    def test_submission_to_a_batch_of_another_account_is_refused(self, client, bob, post):
        made = post({"app": "sieve", "batch": "mine", "workunits": [OUT]}).json()["batch"]
        Submitter.objects.create(account=bob, all_apps=True, created_at=NOON)
        answer = poster(client, token_of(bob))(
            {"app": "sieve", "batch": made["id"], "workunits": [OUT]}
        )
        assert answer.json()["code"] == "batch_refused"
        assert "There is no batch" in answer.json()["detail"]
        assert Workunit.objects.count() == 1


@pytest.mark.django_db
@pytest.mark.usefixtures("app")
class TestOneKeySaidTwice:
    BODY = {"app": "sieve", "workunits": [{"outputs": ["out"], "name": "once"}]}

    def test_repeated_request_creates_nothing_and_returns_the_same_reply(self, post):
        first = post(self.BODY, **{"Idempotency-Key": "k"})
        again = post(self.BODY, **{"Idempotency-Key": "k"})
        assert (first.status_code, again.status_code) == (201, 201)
        assert first.json() == again.json()
        assert again["Idempotent-Replay"] == "true"
        assert Workunit.objects.count() == Batch.objects.count() == 1

    def test_repeated_request_returns_the_same_reply_after_the_app_was_deprecated(self, app, post):
        first = post(self.BODY, **{"Idempotency-Key": "k"})
        app.deprecated = True
        app.save()
        again = post(self.BODY, **{"Idempotency-Key": "k"})
        assert again.json() == first.json()

    def test_repeated_request_returns_the_same_reply_after_its_expiry_time_has_passed(
        self, post, monkeypatch
    ):
        body = {**self.BODY, "batch": {"expire_at": "2126-01-01T00:00:00Z"}}
        first = post(body, **{"Idempotency-Key": "k"})
        past_it = datetime(2127, 1, 1, tzinfo=UTC)
        monkeypatch.setattr("django.utils.timezone.now", lambda: past_it)
        assert post(body).json()["code"] == "invalid"
        assert post(body, **{"Idempotency-Key": "k"}).json() == first.json()

    def test_repeated_request_is_not_parsed_and_takes_no_slot(self, post, monkeypatch):
        read, parsed = orjson.loads, []
        monkeypatch.setattr("orjson.loads", lambda text: parsed.append(text) or read(text))
        body = [{"app": "sieve"}, *[OUT] * 3000]
        first = post(body, LINES, **{"Idempotency-Key": "k"})
        assert len(parsed) > 3000
        parsed.clear()
        monkeypatch.setattr("scheduler.api.endpoints.submissions._slots", threading.Semaphore(0))
        monkeypatch.setattr("scheduler.api.endpoints.submissions.SLOT_TIMEOUT_SECONDS", 0.0)
        again = post(body, LINES, **{"Idempotency-Key": "k"})
        assert (again.status_code, again.json(), parsed) == (201, first.json(), [])
        other = post([*body, OUT], LINES, **{"Idempotency-Key": "k"})
        assert (other.json()["code"], parsed) == ("idempotency_key_reused", [])

    def test_idempotency_key_with_another_body_returns_422(self, post):
        post(self.BODY, **{"Idempotency-Key": "k"})
        other = post({"app": "sieve", "workunits": [OUT]}, **{"Idempotency-Key": "k"})
        assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")

    def test_refused_submission_does_not_use_up_its_idempotency_key(self, post):
        assert (
            post({"app": "sieve", "workunits": []}, **{"Idempotency-Key": "k"}).status_code == 422
        )
        assert not IdempotencyKey.objects.exists()
        assert post(self.BODY, **{"Idempotency-Key": "k"}).status_code == 201

    def test_gzipped_stream_is_the_same_request_as_the_plain_stream(self, post):
        body = b'{"app": "sieve"}\n{"outputs": ["out"]}\n'
        first = post(body, LINES, **{"Idempotency-Key": "k"})
        again = post(
            gzip.compress(body), LINES, **{"Idempotency-Key": "k", "Content-Encoding": "gzip"}
        )
        assert first.json() == again.json()
        assert Workunit.objects.count() == 1


@pytest.mark.django_db
@pytest.mark.usefixtures("app")
class TestOneBatchAfterAnother:
    def test_workunits_wait_for_an_unfinished_preceding_batch(self, post):
        first = post({"app": "sieve", "workunits": [OUT]}).json()["batch"]["id"]
        after = {"name": "second", "after": first, "priority": 7, "meta": {"k": 1}}
        assert post({"app": "sieve", "batch": after, "workunits": [OUT]}).status_code == 201
        waiting = Workunit.objects.get(batch__name="second")
        assert (waiting.release_state, waiting.pending_dependency_count) == (
            ReleaseState.INACTIVE,
            1,
        )
        assert (waiting.priority, waiting.batch.meta) == (7, {"k": 1})

    def test_workunits_do_not_wait_for_a_complete_preceding_batch(self, post):
        first = post({"app": "sieve", "workunits": [OUT]}).json()["batch"]["id"]
        Batch.objects.update(state=Batch.State.COMPLETE)
        post({"app": "sieve", "batch": {"after": first}, "workunits": [OUT]})
        assert set(Workunit.objects.values_list("pending_dependency_count", flat=True)) == {0}

    def test_batch_can_follow_an_aborted_batch_only_with_after_any(self, post):
        first = post({"app": "sieve", "workunits": [OUT]}).json()["batch"]["id"]
        Batch.objects.update(state=Batch.State.ABORTED)
        refused = post({"app": "sieve", "batch": {"after": first}, "workunits": [OUT]})
        assert refused.json()["code"] == "batch_refused"
        assert "was aborted" in refused.json()["detail"]
        wanted = {"after": first, "after_any": True}
        assert post({"app": "sieve", "batch": wanted, "workunits": [OUT]}).status_code == 201

    def test_submission_with_other_settings_for_an_existing_batch_is_refused(self, post):
        post({"app": "sieve", "batch": {"name": "b", "priority": 1}, "workunits": [OUT]})
        answer = post({"app": "sieve", "batch": {"name": "b", "priority": 2}, "workunits": [OUT]})
        assert "its priority is 1, not 2" in answer.json()["detail"]
        assert post({"app": "sieve", "batch": "b", "workunits": [OUT]}).status_code == 201


# Workunits that no host may be able to run


def warnings_of(post, **fields):
    told = post({"app": "sieve", "workunits": [{"outputs": ["out"], **fields}]})
    assert told.status_code == 201, told.content
    return [one for one in told.json()["warnings"] if "in the last 30 days" in one]


@pytest.mark.django_db
@pytest.mark.usefixtures("app")
def test_quorum_memory_or_disk_above_all_hosts_returns_warnings_with_numbers():
    ada = Scientist(is_superuser=True)

    def post(body):
        return ada.post("workunits", body)

    large = {"min_quorum": 1000, "rsc_memory_bound": 1e14, "rsc_disk_bound": 5e12}
    assert warnings_of(post, **large) == []
    account = an_account()
    now = timezone.now()
    a_host(account, rpc_at=now, m_nbytes=8e9, d_total=1e12)
    a_host(account, rpc_at=now, m_nbytes=16e9, d_total=5e11)
    a_host(rpc_at=now, m_nbytes=1e15, denied=True)
    assert warnings_of(post, min_quorum=1, rsc_memory_bound=16e9, rsc_disk_bound=1e12) == []
    seen = "the largest of the 2 computers that contacted the server in the last 30 days has"
    assert warnings_of(post, **large) == [
        "A quorum of 1000 needs 1000 accounts, but only computers of 1 contacted the server in the last 30 days.",
        f"rsc_memory_bound is 100000.0 GB; {seen} 16.0 GB.",
        f"rsc_disk_bound is 5000.0 GB; {seen} 1000.0 GB.",
    ]
    a_host(account, rpc_at=now, d_total=9e12, d_free=2e11)
    (said,) = warnings_of(post, rsc_disk_bound=2e12)
    assert said == (
        "rsc_disk_bound is 2000.0 GB; the largest of the 3 computers that contacted the server in "
        "the last 30 days has 1000.0 GB."
    )
    App.objects.update(one_result_per="host")
    (said,) = warnings_of(post, min_quorum=4)
    sentence = "A quorum of 4 needs 4 hosts, but only 3 contacted the server in the last 30 days."
    assert said == sentence


@pytest.mark.django_db
@pytest.mark.usefixtures("app")
def test_inputs_larger_than_the_free_disk_of_all_hosts_return_a_warning():
    ada = Scientist(is_superuser=True)

    def post(body):
        return ada.post("workunits", body)

    large = File.objects.create(
        name="large", sha256="a" * 64, md5="b" * 32, nbytes=7 * 10**9, created_at=NOON
    )
    other = File.objects.create(
        name="other", sha256="c" * 64, md5="d" * 32, nbytes=6 * 10**9, created_at=NOON
    )
    inputs = [{"open_name": file.name, "sha256": file.sha256} for file in (large, other)]
    assert warnings_of(post, input_files=inputs) == [], "nothing is known of any host"
    a_host(rpc_at=timezone.now(), d_total=5e11, d_free=12e9)
    (said,) = warnings_of(post, input_files=inputs)
    assert said == (
        "The inputs of a workunit are 13.0 GB; the only computer that contacted the server in "
        "the last 30 days has 12.0 GB."
    )
    assert warnings_of(post, input_files=inputs[:1]) == []
