"""Files over the API: uploads before a submission, and holds."""

from __future__ import annotations

import gzip
import hashlib
from datetime import timedelta

import pytest

from scheduler import storage
from scheduler.files import unused_files
from scheduler.models import File, FileHold, Submitter
from scheduler.people import api_tokens
from tests.conftest import NOON
from tests.rows import an_account

CONTENT = b"2\n3\n5\n"
DIGEST = hashlib.sha256(CONTENT).hexdigest()


class Caller:
    def __init__(self, client, account):
        scopes = ["read", "submit"]
        _, token = api_tokens.create(account=account, name="t", scopes=scopes, now=NOON)
        self._client, self._headers = client, {"Authorization": f"Bearer {token}"}

    def put(self, content=CONTENT, digest="", query="", **headers):
        digest = digest or hashlib.sha256(content).hexdigest()
        return self._client.generic(
            "PUT",
            f"/api/v1/files/{digest}{query}",
            content,
            content_type="application/octet-stream",
            headers=self._headers | headers,
        )

    def get(self, path):
        return self._client.get(f"/api/v1/{path}", headers=self._headers)

    def delete(self, digest):
        return self._client.delete(f"/api/v1/files/{digest}", headers=self._headers)

    def ask(self, *digests):
        return self._client.post(
            "/api/v1/files/query",
            {"sha256": digests},
            content_type="application/json",
            headers=self._headers,
        )

    def known(self, *digests):
        answer = self.ask(*digests)
        assert answer.status_code == 200, answer.content
        return answer.json()["known"]


@pytest.fixture
def ada():
    return a_submitter("ada")


def a_submitter(name, **limits):
    account = an_account(name)
    Submitter.objects.create(account=account, all_apps=True, created_at=NOON, **limits)
    return account


@pytest.fixture
def caller(client, ada):
    return Caller(client, ada)


@pytest.fixture
def bob(client):
    return Caller(client, a_submitter("bob"))


@pytest.mark.django_db
def test_identical_content_is_stored_once_with_one_hold_per_account(caller, bob):
    first, again, others = caller.put(query="?name=primes.txt"), caller.put(), bob.put()
    assert [one.status_code for one in (first, again, others)] == [201, 200, 200]
    file = File.objects.get()
    assert file.name.startswith(f"primes_{DIGEST[:16]}_")
    assert storage.download_path(file.name).read_bytes() == CONTENT
    assert first.json()["name"] == again.json()["name"] == file.name
    assert (first.json()["sha256"], first.json()["nbytes"]) == (DIGEST, len(CONTENT))
    assert FileHold.objects.count() == 2


@pytest.mark.django_db
def test_file_query_lists_stored_files_and_creates_holds_for_the_caller(caller, bob):
    caller.put()
    assert bob.known(DIGEST, "0" * 64) == [DIGEST]
    caller.delete(DIGEST)
    assert [one["sha256"] for one in bob.get("files").json()["results"]] == [DIGEST]
    assert bob.get(f"files/{DIGEST}").json()["nbytes"] == len(CONTENT)


@pytest.mark.django_db
def test_file_held_only_by_another_account_returns_404(caller, bob):
    caller.put()
    assert bob.get("files").json()["results"] == []
    assert bob.get(f"files/{DIGEST}").status_code == 404
    assert bob.delete(DIGEST).status_code == 404
    assert caller.get(f"files/{DIGEST}").status_code == 200


@pytest.mark.django_db
def test_file_with_a_wrong_digest_is_refused_and_nothing_is_stored(caller, settings):
    answer = caller.put(digest="0" * 64)
    assert (answer.status_code, answer.json()["code"]) == (422, "digest_differs")
    assert DIGEST in answer.json()["detail"]
    assert not File.objects.exists()
    assert not [path for path in (settings.VAR_DIR / "download").rglob("*") if path.is_file()]


@pytest.mark.django_db
def test_file_without_content_length_returns_411(caller):
    answer = caller.put(**{"Content-Length": "", "Transfer-Encoding": "chunked"})
    assert (answer.status_code, answer.json()["code"]) == (411, "length_required")


@pytest.mark.django_db
def test_file_is_marked_for_deletion_when_its_last_hold_is_deleted(caller, bob):
    caller.put()
    bob.put()
    assert caller.delete(DIGEST).status_code == 204
    assert File.objects.get().doomed_at is None
    assert bob.delete(DIGEST).status_code == 204
    assert File.objects.get().doomed_at is not None
    assert caller.known(DIGEST) == []


@pytest.mark.django_db
def test_expired_hold_is_deleted_and_its_file_marked_for_deletion(caller):
    caller.put()
    hold = FileHold.objects.get()
    unused_files.drop_past_holds(hold.until - timedelta(seconds=1), 100)
    assert FileHold.objects.exists()
    unused_files.drop_past_holds(hold.until + timedelta(seconds=1), 100)
    assert File.objects.get().doomed_at is not None


@pytest.mark.django_db
def test_file_above_the_byte_quota_is_refused(caller, ada):
    Submitter.objects.filter(account=ada).update(max_kept_bytes=10)
    assert caller.put().status_code == 201
    answer = caller.put(b"x" * 5)
    assert (answer.status_code, answer.json()["code"]) == (403, "quota_exceeded")
    assert "the limit is 10" in answer.json()["detail"]
    assert File.objects.count() == 1
    assert caller.put(b"x" * 4).status_code == 201


@pytest.mark.django_db
def test_decompression_stops_when_the_disk_is_full(caller, monkeypatch):
    content = bytes(10_000_000)
    packed = gzip.compress(content)
    reads = []

    def has_room_for(nbytes):
        reads.append(nbytes)
        return nbytes == len(packed) or len(reads) < 5

    monkeypatch.setattr(storage, "has_room_for", has_room_for)
    digest = hashlib.sha256(content).hexdigest()
    answer = caller.put(packed, digest, **{"Content-Encoding": "gzip"})
    assert (answer.status_code, answer.json()["code"]) == (503, "disk_full")
    assert sum(reads) < len(content) / 2
    assert not File.objects.exists()


@pytest.mark.django_db
def test_an_account_without_permission_cannot_store_files(caller, client):
    caller.put()
    volunteer = Caller(client, an_account("vera"))
    sent = volunteer.put(b"7\n" * 1000)
    assert (sent.status_code, sent.json()["code"]) == (403, "not_allowed")
    assert "submitter allow" in sent.json()["hint"]
    assert volunteer.ask(DIGEST).status_code == 403
    assert File.objects.count() == FileHold.objects.count() == 1
