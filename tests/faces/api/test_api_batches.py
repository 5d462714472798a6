"""Batches over the API: progress, outputs and ownership."""

from __future__ import annotations

import base64
import io
import json
import tarfile
import zipfile
import zlib
from datetime import timedelta

import pytest

from scheduler import storage
from scheduler.models import Batch, ResultFile, ScienceFailure, Workunit
from scheduler.people import submitters
from tests.conftest import NOON
from tests.rows import a_result, an_account, an_app, an_app_version, an_output, update
from tests.scientists import Scientist, a_batch, done_in, failed_in, in_batch

pytestmark = pytest.mark.django_db


@pytest.fixture
def eve() -> Scientist:
    return Scientist()


# Progress


def test_batch_shows_the_number_of_workunits_in_each_status(eve):
    batch = a_batch(submitter=eve.account, purged_done=3, purged_failed=1)
    a_result(in_batch(batch))
    in_batch(batch, release_state=1, pending_dependency_count=1)
    a_result(in_batch(batch), "sent")
    waits = in_batch(batch)
    a_result(waits, "success")
    a_result(waits, "sent")
    done_in(batch)
    failed_in(batch)
    reply = eve.get(f"batches/{batch.pk}").json()
    assert reply["progress"] == {
        "total": 10,
        "waiting": 1,
        "unsent": 1,
        "in_progress": 1,
        "validating": 1,
        "done": 4,
        "failed": 2,
        "fraction_done": 0.6,
    }
    assert (reply["state"], reply["cost"]["results"]) == ("in_progress", 4)


def test_progress_takes_one_statement_and_returns_304_if_unchanged(
    eve, django_assert_max_num_queries
):
    batch = a_batch(submitter=eve.account)
    done_in(batch)
    with django_assert_max_num_queries(4):  # token, its use, batch, counts
        told = eve.get(f"batches/{batch.pk}/progress")
    assert told.json()["done"] == 1
    again = eve.get(f"batches/{batch.pk}/progress", None, **{"If-None-Match": told["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    in_batch(batch)
    changed = eve.get(f"batches/{batch.pk}/progress", None, **{"If-None-Match": told["ETag"]})
    assert changed.json()["total"] == 2


def test_listing_batches_takes_a_constant_number_of_statements(eve, django_assert_max_num_queries):
    for number in range(12):
        done_in(a_batch(f"b{number}", eve.account))
    with django_assert_max_num_queries(5):
        reply = eve.get("batches", {"limit": 10}).json()
    assert [one["name"] for one in reply["results"]] == [f"b{n}" for n in range(11, 1, -1)]
    following = reply["next"].partition("/api/v1/")[2]
    assert [one["name"] for one in eve.get(following).json()["results"]] == ["b1", "b0"]


def test_batches_can_be_filtered_by_name_state_app_and_meta(eve):
    first = a_batch("one", eve.account, meta={"site": 3, "run": "x"})
    a_batch("two", eve.account, state=Batch.State.COMPLETE)

    def names(**query):
        return [one["name"] for one in eve.get("batches", query).json()["results"]]

    assert names(name="one") == ["one"]
    assert names(state="complete") == ["two"]
    assert names(app=first.app.name) == ["one"]
    assert names(meta='{"site": 3}') == ["one"]
    assert names(meta='{"site": 4}') == []


@pytest.mark.parametrize(
    ("path", "query", "said"),
    [
        ("batches", {"sate": "complete"}, "There is no parameter 'sate'"),
        ("batches", {"state": "finished"}, "Select a valid choice"),
        ("batches", {"meta": "[1]"}, "This is not a JSON object"),
        ("batches", {"limit": "5000"}, "a whole number from 1 to 1000"),
        ("workunits", {"status": "over"}, "Select a valid choice"),
        ("workunits", {"status": ""}, "This is empty"),
        ("workunits", {"batch": ""}, "This is empty"),
        ("results", {"state": "OVER"}, "Select a valid choice"),
    ],
)
def test_unknown_or_invalid_query_parameter_returns_400(eve, path, query, said):
    answer = eve.get(path, query)
    assert answer.status_code == 400
    assert answer["Content-Type"] == "application/problem+json"
    assert said in answer.json()["errors"][0]["detail"]


# Ownership


def test_batches_of_another_account_are_visible_only_to_administrators(eve):
    batch = a_batch(submitter=an_account())
    workunit = done_in(batch)
    result = workunit.results.get()
    paths = (
        f"batches/{batch.pk}",
        f"batches/{batch.pk}/progress",
        f"batches/{batch.pk}/outputs",
        f"workunits/{workunit.pk}",
        f"workunits/{workunit.pk}/timeline",
        f"results/{result.pk}",
        f"results/{result.pk}/outputs/0",
    )
    assert {eve.get(path).status_code for path in paths} == {404}
    assert [eve.get(path).json()["results"] for path in ("batches", "workunits", "results")] == [
        [],
        [],
        [],
    ]
    staff = Scientist(is_superuser=True)
    assert {staff.get(path).status_code for path in paths[:2] + paths[3:6]} == {200}
    assert staff.content(paths[6]) == b"42"
    assert b"MANIFEST" in staff.content(paths[2])


# Outputs


def manifest_of(data: bytes) -> list[dict]:
    return [json.loads(line) for line in data.decode().splitlines()]


def test_outputs_are_returned_as_a_tar_that_ends_with_a_manifest(eve):
    batch = a_batch(submitter=eve.account)
    first, second = done_in(batch, b"one", meta={"n": 1}), done_in(batch, b"two" * 1000)
    failed = failed_in(batch)
    in_batch(batch)
    data = b"".join(eve.get(f"batches/{batch.pk}/outputs").streaming_content)
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        assert tar.getnames() == [f"{first.name}/out", f"{second.name}/out", "MANIFEST.ndjson"]
        assert tar.extractfile(f"{second.name}/out").read() == b"two" * 1000
        manifest = manifest_of(tar.extractfile("MANIFEST.ndjson").read())
    assert [line.get("status") for line in manifest] == ["done", "done", "failed", None]
    assert manifest[0]["meta"] == {"n": 1}
    assert manifest[0]["outputs"][0]["nbytes"] == 3
    assert manifest[2] | {"errors": ["CANCELLED"], "name": failed.name} == manifest[2]


def test_outputs_are_returned_as_a_zip_on_request(eve):
    batch = a_batch(submitter=eve.account)
    first = done_in(batch, b"one")
    data = b"".join(eve.get(f"batches/{batch.pk}/outputs", {"format": "zip"}).streaming_content)
    with zipfile.ZipFile(io.BytesIO(data)) as found:
        assert found.testzip() is None
        assert found.namelist() == [f"{first.name}/out", "MANIFEST.ndjson"]
        assert found.read(f"{first.name}/out") == b"one"


def ndjson(eve, batch, **query) -> list[dict]:
    answer = eve.get(f"batches/{batch.pk}/outputs", {"format": "ndjson", **query})
    assert answer.status_code == 200, answer.content
    return manifest_of(b"".join(answer.streaming_content))


def test_outputs_with_a_cursor_include_only_later_workunits(eve):
    batch = a_batch(submitter=eve.account)
    before = done_in(batch)
    [one, end] = ndjson(eve, batch)
    assert one["name"] == before.name
    after = done_in(batch)
    # A workunit that is assimilated after the cursor was issued is listed then.
    update(after, finished_at=None)
    update(after, assimilate_state=2, finished_at=None)
    told = ndjson(eve, batch, since=end["cursor"])
    assert [line.get("name") for line in told] == [after.name, None]
    assert ndjson(eve, batch, since=told[-1]["cursor"])[:-1] == []


def test_cursor_of_another_batch_or_invalid_cursor_returns_422(eve):
    batch, other = a_batch(submitter=eve.account), a_batch("c", eve.account)
    cursor = ndjson(eve, batch)[-1]["cursor"]
    nested = base64.urlsafe_b64encode(zlib.compress(b"[" * 90_000, 9)).decode()
    for query in ({"since": cursor}, {"since": "nonsense"}, {"since": nested}):
        answer = eve.get(f"batches/{other.pk}/outputs", query)
        assert (answer.status_code, answer.json()["code"]) == (422, "bad_cursor")


def test_outputs_with_the_same_archive_name_get_different_member_names(eve):
    batch = a_batch(submitter=eve.account)
    asked = [{"open_name": name, "max_nbytes": 9} for name in ("a:b", "a_b")]
    first = done_in(batch, b"1", outputs=asked).canonical_result.output_files.get()
    second = storage.upload_path("second_1")
    second.parent.mkdir(parents=True, exist_ok=True)
    second.write_bytes(b"2")
    ResultFile.objects.create(
        result=first.result, position=1, name=second.name, nbytes=1, sha256="0" * 64
    )
    [line, _] = ndjson(eve, batch)
    members = [output["member"] for output in line["outputs"]]
    assert members == [f"{line['name']}/a_b", f"{line['name']}/1_a_b"]
    archive = eve.content(f"batches/{batch.pk}/outputs", {"format": "tar"})
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        assert tar.getnames() == [*members, "MANIFEST.ndjson"]


def test_outputs_can_be_limited_to_one_workunit_by_name_or_id(eve):
    batch = a_batch(submitter=eve.account)
    done_in(batch)
    wanted = done_in(batch)
    for said in (wanted.name, str(wanted.pk)):
        assert [line.get("name") for line in ndjson(eve, batch, workunit=said)] == [
            wanted.name,
            None,
        ]
    assert eve.get(f"batches/{batch.pk}/outputs", {"workunit": "x"}).status_code == 404


def test_manifest_marks_missing_and_truncated_output_files(eve):
    batch = a_batch(submitter=eve.account)
    for _ in range(3):
        done_in(batch, b"data")
    gone, short, _ = ResultFile.objects.order_by("id")
    storage.upload_path(gone.name).unlink()
    storage.upload_path(short.name).write_bytes(b"d")
    for form in ("tar", "zip"):
        answer = eve.get(f"batches/{batch.pk}/outputs", {"format": form})
        data = io.BytesIO(b"".join(answer.streaming_content))
        if form == "tar":
            with tarfile.open(fileobj=data) as tar:
                manifest = manifest_of(tar.extractfile("MANIFEST.ndjson").read())
                assert len(tar.getnames()) == 3
        else:
            with zipfile.ZipFile(data) as found:
                manifest = manifest_of(found.read("MANIFEST.ndjson"))
        assert [line["outputs"][0].get("missing", False) for line in manifest[:-1]] == [
            True,
            False,
            False,
        ]
        assert [line["outputs"][0].get("damaged", False) for line in manifest[:-1]] == [
            False,
            True,
            False,
        ]


@pytest.mark.lengthy
@pytest.mark.parametrize("form", ["tar", "zip"])
def test_ten_thousand_outputs_take_one_statement_per_page_and_are_in_order(
    eve, form, django_assert_max_num_queries
):
    batch = a_batch(submitter=eve.account)
    one = done_in(batch, b"x")
    many = 9_999
    _copies(one, many)
    with django_assert_max_num_queries(4 + 1 + many // 1000):
        answer = eve.get(f"batches/{batch.pk}/outputs", {"format": form})
        data = io.BytesIO(b"".join(answer.streaming_content))
    if form == "tar":
        with tarfile.open(fileobj=data) as tar:
            names = tar.getnames()
    else:
        with zipfile.ZipFile(data) as found:
            names = found.namelist()
    assert len(names) == 10_000 + 1
    assert names[-1] == "MANIFEST.ndjson"
    assert names[0] == f"{one.name}/out"


def _copies(workunit, number: int) -> None:
    """Add `number` copies of a workunit, whose outputs are the same file."""
    from django.db import connection

    with connection.cursor() as cursor:
        # Ignore statements of triggers and foreign keys, which were planned for empty tables.
        cursor.execute("DISCARD PLANS")
        cursor.execute(
            """
            INSERT INTO workunit (name, app_id, batch_id, outputs, meta, created_at, min_quorum)
            SELECT %s || '_' || i, app_id, batch_id, outputs, meta, created_at, 1
            FROM workunit, generate_series(1, %s) AS i WHERE id = %s
            """,
            [workunit.name, number, workunit.pk],
        )
        cursor.execute(
            """
            INSERT INTO result (workunit_id, app_id, name, attempt, created_at)
            SELECT id, app_id, name || '_0', 0, created_at FROM workunit WHERE batch_id = %s
            AND id <> %s
            """,
            [workunit.batch_id, workunit.pk],
        )
        cursor.execute(
            """
            INSERT INTO result_file (result_id, position, name, nbytes, md5, sha256)
            SELECT r.id, 0, f.name, f.nbytes, f.md5, f.sha256
            FROM result AS r, result_file AS f
            WHERE f.result_id = %s AND r.id <> %s
            """,
            [workunit.canonical_result_id, workunit.canonical_result_id],
        )
        # With statistics of empty tables the planner would choose a nested loop.
        cursor.execute("ANALYZE workunit, result")
        cursor.execute(
            """
            UPDATE workunit SET canonical_result_id = r.id FROM result AS r
            WHERE r.workunit_id = workunit.id AND workunit.batch_id = %s
            """,
            [workunit.batch_id],
        )


# Workunits and results


def test_workunits_can_be_filtered_by_batch_status_meta_and_name(eve):
    batch = a_batch(submitter=eve.account)
    first = done_in(batch, meta={"site": 3, "note": "x"})
    second = failed_in(batch)

    def names(**query):
        return [one["name"] for one in eve.get("workunits", query).json()["results"]]

    assert names(batch=batch.pk) == [second.name, first.name]
    assert names(status="done") == [first.name]
    assert names(status="unsent") == []
    assert names(meta='{"site": 3}') == [first.name]
    assert names(name=second.name) == [second.name]
    [failed] = eve.get("workunits", {"status": "failed"}).json()["results"]
    assert failed["errors"] == ["CANCELLED"]


def test_workunit_shows_its_results_and_timeline(eve, django_assert_max_num_queries):
    batch = a_batch(submitter=eve.account)
    workunit = done_in(batch)
    with django_assert_max_num_queries(6):
        reply = eve.get(f"workunits/{workunit.pk}").json()
    [result] = reply["results"]
    assert result["state"] == "OVER/SUCCESS"
    assert reply["delay_bound_seconds"] == timedelta(days=7).total_seconds()
    assert reply["created_at"].endswith("Z")
    with django_assert_max_num_queries(14):
        story = eve.get(f"workunits/{workunit.pk}/timeline").json()
    assert f"has its answer: {result['name']} is canonical" in story["reasons"]


def test_result_shows_its_stderr_and_serves_its_output_files(eve):
    workunit = done_in(a_batch(submitter=eve.account), b"0123456789")
    result = workunit.results.get()
    update(result, stderr="so it goes")
    reply = eve.get(f"results/{result.pk}").json()
    assert (reply["stderr"], reply["outputs"][0]["open_name"]) == ("so it goes", "out")
    assert "stderr" not in eve.get("results", {"workunit": workunit.pk}).json()["results"][0]
    whole = eve.get(f"results/{result.pk}/outputs/0")
    assert b"".join(whole.streaming_content) == b"0123456789"
    assert whole["ETag"] == f'"{reply["outputs"][0]["sha256"]}"'
    part = eve.get(f"results/{result.pk}/outputs/0", None, Range="bytes=2-4")
    assert (part.status_code, part["Content-Range"]) == (206, "bytes 2-4/10")
    assert b"".join(part.streaming_content) == b"234"
    assert eve.get(f"results/{result.pk}/outputs/0", None, Range="bytes=50-").status_code == 416
    known = eve.get(f"results/{result.pk}/outputs/0", None, **{"If-None-Match": whole["ETag"]})
    assert known.status_code == 304
    assert eve.get(f"results/{result.pk}/outputs/7").status_code == 404


def test_deleted_output_file_returns_410(eve):
    workunit = done_in(a_batch(submitter=eve.account))
    result = workunit.results.get()
    an_output(result, b"never came", position=1)
    answer = eve.get(f"results/{result.pk}/outputs/1")
    assert (answer.status_code, answer.json()["code"]) == (410, "file_gone")


def test_progress_rate_is_measured_over_the_last_five_minutes(eve):
    from scheduler.work.progress import progress_of

    batch = a_batch(submitter=eve.account)
    for _ in range(3):
        update(done_in(batch), finished_at=NOON + timedelta(minutes=58))
    for _ in range(6):
        in_batch(batch)
    found = progress_of([batch], now=NOON + timedelta(hours=1))[batch.pk]
    assert found.rate_per_second == pytest.approx(3 / 300)
    assert found.seconds_left == pytest.approx(600)


# Operations on batches


@pytest.fixture
def rights(eve):
    submitters.allow(eve.account, apps=None, now=NOON)


@pytest.mark.usefixtures("rights")
def test_batch_can_be_created_changed_aborted_and_retired(eve):
    app = an_app()
    made = eve.post("batches", {"app": app.name, "name": "sweep", "meta": {"n": 1}})
    reply = made.json()
    assert (made.status_code, reply["name"], reply["state"]) == (201, "sweep", "init")
    assert reply["keep_outputs"] is True
    assert made["Location"].endswith(f"/api/v1/batches/{reply['id']}")
    path = f"batches/{reply['id']}"
    changed = eve.patch(path, {"meta": {"n": 2}, "accelerate_tail": True}).json()
    assert (changed["meta"], changed["accelerate_tail"]) == ({"n": 2}, True)
    in_batch(Batch.objects.get())
    early = eve.post(f"{path}/retire")
    assert (early.status_code, early.json()["code"]) == (409, "batch_not_ready")
    assert early.json()["hint"] == "wait for its end, or abort it."
    done = eve.post(f"{path}/abort", {"reason": "enough"})
    assert done.json() == {"cancelled": 1, "already": 0, "finished": 0}
    assert eve.post(f"{path}/abort").json() == {"cancelled": 0, "already": 1, "finished": 0}
    assert eve.post(f"{path}/retire").json() == {"let_go": 1}
    assert eve.post(f"{path}/abort").status_code == 409
    assert eve.post(f"{path}/retry").status_code == 409
    assert eve.get(path).json()["state"] == "retired"


@pytest.mark.usefixtures("rights")
def test_batch_can_only_follow_a_batch_of_the_same_account(eve):
    app, others = an_app(), a_batch("theirs")
    first = eve.post("batches", {"app": app.name}).json()
    second = eve.post("batches", {"app": app.name, "after": first["id"]}).json()
    assert second["after"] == first["id"]
    refused = eve.post("batches", {"app": app.name, "after": others.pk})
    assert (refused.status_code, refused.json()["code"]) == (422, "batch_refused")
    assert "There is no batch" in refused.json()["detail"]


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"app": "nowhere"}, 422, "There is no such app"),
        ({"app": "here", "colour": 1}, 400, "There is no field 'colour'"),
        ({"app": "here", "expire_at": "2020-01-01T00:00:00Z"}, 422, "expire"),
        ({"app": "here", "name": "taken"}, 422, "already"),
        (
            {"app": "here", "expires_in_seconds": 5, "expire_at": "2090-01-01T00:00:00Z"},
            422,
            "both",
        ),
    ],
)
@pytest.mark.usefixtures("rights")
def test_invalid_batch_is_refused(eve, body, status, said):
    an_app("here")
    a_batch("taken", eve.account)
    answer = eve.post("batches", body)
    assert (answer.status_code, said in answer.json()["detail"]) == (status, True), answer.json()
    assert Batch.objects.count() == 1


def test_an_account_without_permission_cannot_create_or_retry_batches(eve):
    batch = a_batch(submitter=eve.account)
    assert eve.post("batches", {"app": batch.app.name}).status_code == 403
    assert eve.post(f"batches/{batch.pk}/retry").status_code == 403


@pytest.mark.usefixtures("rights")
def test_retry_resubmits_failed_workunits(eve):
    batch = a_batch(submitter=eve.account)
    failed = failed_in(batch, error_mask=2)
    stopped = failed_in(batch)
    reply = eve.post(f"batches/{batch.pk}/retry").json()
    assert reply == {
        "count": 1,
        "cancelled": 1,
        "inputs_gone": 0,
        "names_taken": 0,
        "refused_by_queue": 0,
    }
    named = eve.post(f"batches/{batch.pk}/retry", {"workunits": [stopped.name]}).json()
    assert named["count"] == 1
    wrong = eve.post(f"batches/{batch.pk}/retry", {"workunits": ["nobody"]})
    assert (wrong.status_code, wrong.json()["code"]) == (422, "workunits_not_found")
    names = {one["name"] for one in eve.get("workunits", {"status": "unsent"}).json()["results"]}
    assert names == {f"{failed.name}.2", f"{stopped.name}.2"}


def test_cancellation_applies_to_all_named_workunits_or_to_none(eve):
    batch, others = a_batch(submitter=eve.account), a_batch("theirs")
    mine, done, theirs = in_batch(batch), done_in(batch), in_batch(others)
    refused = eve.post("workunits/cancel", {"names": [mine.name, theirs.name]})
    assert (refused.status_code, theirs.name in refused.json()["detail"]) == (404, True)
    assert Workunit.objects.filter(cancel_requested_at=None).count() == 3
    told = eve.post("workunits/cancel", {"names": [mine.name], "ids": [done.pk], "reason": "no"})
    assert told.json() == {"cancelled": 1, "already": 0, "finished": 1}
    mine.refresh_from_db()
    assert mine.cancel_reason == "no"
    again = eve.post(f"workunits/{mine.pk}/cancel").json()
    assert again == {"cancelled": 0, "already": 1, "finished": 0}
    assert eve.post(f"workunits/{theirs.pk}/cancel").status_code == 404
    assert eve.post("workunits/cancel", {"batch": batch.pk}).json()["finished"] == 1
    for nothing in ({}, {"ids": [], "reason": "x"}, {"ids": [1], "batch": 1}):
        assert eve.post("workunits/cancel", nothing).status_code == 422


@pytest.mark.usefixtures("rights")
def test_changes_to_a_batch_of_another_account_return_404(eve):
    batch = a_batch()
    failed_in(batch)
    assert eve.patch(f"batches/{batch.pk}", {"name": "mine"}).status_code == 404
    for what in ("abort", "retire", "retry"):
        assert eve.post(f"batches/{batch.pk}/{what}").status_code == 404
    assert eve.post("workunits/cancel", {"batch": batch.pk}).status_code == 404
    batch.refresh_from_db()
    assert (batch.name, batch.state) == ("b", Batch.State.IN_PROGRESS)


def test_retry_above_the_workunit_quota_is_refused(eve):
    submitters.allow(eve.account, apps=None, max_unfinished_workunits=1, now=NOON)
    batch = a_batch(submitter=eve.account)
    for _ in range(2):
        failed_in(batch, error_mask=2)
    refused = eve.post(f"batches/{batch.pk}/retry")
    assert (refused.status_code, refused.json()["code"]) == (403, "quota_exceeded")
    assert Workunit.objects.count() == 2


# Usage


def test_usage_is_grouped_by_day_app_or_batch(eve, django_assert_max_num_queries):
    first, second = a_batch("one", eve.account), a_batch("two", eve.account)
    done_in(a_batch("theirs"))
    for batch in (first, first, second):
        done_in(batch)

    def told(**query):
        days = {"since": "2026-01-01", "until": "2026-01-02"}
        with django_assert_max_num_queries(3):
            return eve.get("usage", days | query).json()["usage"]

    [day] = told()
    assert (day["day"], day["workunits"], day["results"], day["app"]) == ("2026-01-01", 3, 3, None)
    assert day["cpu_seconds"] == 3 * 2900
    apps = {one["app"]: one["workunits"] for one in told(by="app")}
    assert apps == {first.app.name: 2, second.app.name: 1}
    names = [(one["batch"], one["name"], one["workunits"]) for one in told(by="batch")]
    assert names == [(first.pk, "one", 2), (second.pk, "two", 1)]
    assert told(until="2026-01-01") == []
    assert eve.get("usage", {"by": "moon"}).status_code == 400
    no_days = eve.get("usage", {"since": "2026-01-03", "until": "2026-01-02"})
    assert (no_days.status_code, no_days.json()["code"]) == (422, "no_days")
    assert eve.get("usage").json()["by"] == "day"


# Errors


def test_troubles_show_the_last_error_and_parked_science_failures(eve):
    batch = a_batch(submitter=eve.account)
    path = f"batches/{batch.pk}/troubles"
    assert eve.get(path).json() == {
        "last_error": None,
        "parked": 0,
        "sentences": [],
        "waits": [],
    }
    workunit = in_batch(batch)
    failed = a_result(workunit, "error", exit_status=17, stderr="ValueError: bad\n")
    ScienceFailure.objects.create(
        stage=ScienceFailure.Stage.VALIDATE,
        subject_id=workunit.pk,
        app=workunit.app,
        failures=5,
        error="Traceback\nKeyError: 'x'\n",
        failed_at=NOON,
        parked_at=NOON,
    )
    reply = eve.get(path).json()
    assert reply["last_error"] == {
        "result": failed.name,
        "exit_status": 17,
        "host": f"host {failed.host_id}",
        "at": "2026-01-01T11:00:00Z",
        "stderr_tail": ["ValueError: bad"],
    }
    assert reply["parked"] == 1
    assert "exit status 17" in reply["sentences"][0]
    assert "KeyError: 'x'" in reply["sentences"][1]


def test_troubles_show_why_unsent_workunits_wait(eve):
    batch = a_batch(submitter=eve.account)
    an_app_version(batch.app)
    a_result(in_batch(batch))
    (wait,) = eve.get(f"batches/{batch.pk}/troubles").json()["waits"]
    assert (wait["cause"], wait["workunits"]) == ("no_host", 1)
    assert "none has contacted the project in the last 30 days" in wait["sentence"]
