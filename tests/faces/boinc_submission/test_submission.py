"""BOINC's submission interface: commands and refusals."""

from __future__ import annotations

import io
import zipfile
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from daemons import file_deleter
from scheduler import storage
from scheduler.boinc import compose
from scheduler.boinc.wire import documents
from scheduler.boinc_submission import submission_reads as queries
from scheduler.boinc_submission.reply_messages import state_words
from scheduler.dispatch.facts import AssignedResult
from scheduler.models import (
    Account,
    AccountKey,
    Batch,
    File,
    FileHold,
    Queue,
    Result,
    Submitter,
    SubmitterApp,
    Workunit,
    WorkunitFile,
)
from scheduler.people import account_keys
from scheduler.people.account_keys import key_hash
from scheduler.people.quotas import kept_output_bytes
from tests import rows
from tests.conftest import NOON
from tests.database.passes import a_pass
from tests.faces.submitters import (
    INLINE,
    INPUT,
    KEY,
    OUTPUT,
    STAGED,
    World,
    a_job,
    a_job_file,
    asked,
    get,
    inputs,
    md5,
    post,
    refusal,
    refused,
    send,
    submitted,
)
from tests.rows import a_result, a_workunit, an_app, hours, update

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(timezone, "now", lambda: NOON)
    return World()


# Submitting


def test_request_of_the_python_library_submits_a_batch() -> None:
    from tests.faces.submitters import GOLDEN

    send((GOLDEN / "submit_batch_python.req").read_bytes())
    one, two = Workunit.objects.filter(batch_id=55).order_by("id")
    assert (one.name, two.name) == ("py_1", "py_2")
    assert one.command_line == '--t 19 --mask "<a>"'
    assert (one.rsc_fpops_est, one.rsc_memory_bound) == (19e9, 1e8)
    assert (one.max_error_results, one.max_total_results, one.max_success_results) == (1, 1, 1)
    assert inputs(one) == [("in", b"line one\nline & two\n")]
    assert one.outputs == [{"open_name": "out", "max_nbytes": 1_000_000}]
    assert one.outputs_kept
    assert rows.due_at(one) == NOON
    assert one.input_files.get().file_id == two.input_files.get().file_id
    batch = Batch.objects.get(pk=55)
    assert (batch.state, batch.keep_outputs, batch.workunits_submitted) == (1, True, 2)


def test_bounds_of_the_cpp_library_apply_where_the_template_has_none(world: World) -> None:
    from tests.faces.submitters import GOLDEN

    send((GOLDEN / "submit_batch_cpp.req").read_bytes())
    workunit = Workunit.objects.get(name="condor_7.0")
    assert workunit.app_version_num == 102
    assert (workunit.rsc_disk_bound, workunit.rsc_fpops_est) == (2e9, 5e9)
    assert (workunit.rsc_fpops_bound, workunit.rsc_memory_bound) == (9e11, 1e8)
    assert workunit.delay_bound == timedelta(days=1)
    assert workunit.command_line == "--in file"
    assert inputs(workunit) == [("in", b"hello")]


def test_job_can_contain_its_own_templates_and_remote_files(world: World) -> None:
    from tests.faces.submitters import GOLDEN

    send((GOLDEN / "submit_batch_submit_api.req").read_bytes())
    workunit = Workunit.objects.get(name="api_1")
    assert (workunit.min_quorum, workunit.target_nresults, workunit.priority) == (2, 3, 9)
    assert (workunit.max_total_results, workunit.max_success_results) == (3, 3)
    assert workunit.outputs == [{"open_name": "own_out", "max_nbytes": 500}]
    elsewhere, here = workunit.input_files.order_by("position")
    assert elsewhere.file.urls == "https://data.example.org/sets/a.dat"
    assert elsewhere.file.md5 == "900150983cd24fb0d6963f7d28e17f72"
    assert elsewhere.file.nbytes == 1_048_576
    assert elsewhere.file.name.startswith("jf_900150983cd24fb0d6963f7d28e17f72_")
    assert (here.open_name, here.copy_file, here.file.urls) == ("b", True, "")
    assert workunit.batch is not None
    assert (workunit.batch.name, workunit.batch.submitter) == ("by name", world.ada)


def test_unnamed_batch_gets_a_generated_name(world: World) -> None:
    assert submitted(a_job(), batch="") == (
        "<submit_batch>\n<batch_id>1000</batch_id>\n</submit_batch>\n"
    )
    name = Batch.objects.get(pk=1000).name
    assert name.startswith("ada:remote_test:Thu, 01 Jan 2026 12:00:00 +0000:")


def test_a_remote_file_is_one_row_for_all_submitters(world: World) -> None:
    file = (
        "<input_file><mode>remote</mode><url>https://a.example/x</url><nbytes>5</nbytes>"
        f"<md5>{'a' * 32}</md5></input_file>"
    )
    submitted(f"<job>{file}</job><job>{file}</job>", batch="")
    submitted(f"<job>{file}</job>", batch="")
    assert File.objects.exclude(urls="").count() == 1
    assert WorkunitFile.objects.filter(file__urls="https://a.example/x").count() == 3


def test_constant_file_is_found_by_job_file_name_or_physical_name(world: World) -> None:
    a_job_file(world.ada, "const.dat", b"constant")
    shared = File.objects.get(job_files__name="jf_7d793037a0760186574b0282f2f435e7")
    for name, content in (("const.dat", b"constant"), (shared.name, b"world")):
        template = (
            f"<input_template><file_info><physical_name>{name}</physical_name></file_info>"
            "<workunit><file_ref><open_name>c</open_name></file_ref></workunit></input_template>"
        )
        submitted(f"<job><name>of_{name}</name>{template}</job>", batch="")
        assert inputs(Workunit.objects.get(name=f"of_{name}")) == [("c", content)]


def test_templates_can_be_read_from_the_templates_folder(world: World) -> None:
    folder = settings.VAR_DIR / "templates"
    folder.mkdir(parents=True)
    (folder / "other_in").write_text(INPUT.replace("100000000", "200000000"))
    (folder / "other_out").write_text(OUTPUT.replace("1000000", "77"))
    names = (
        "<input_template_filename>other_in</input_template_filename>"
        "<output_template_filename>other_out</output_template_filename>"
    )
    submitted(a_job("<name>named</name>"), batch=names)
    workunit = Workunit.objects.get(name="named")
    assert workunit.rsc_memory_bound == 2e8
    assert workunit.outputs == [{"open_name": "out", "max_nbytes": 77}]


def test_app_without_stored_templates_uses_template_files_named_after_it(world: World) -> None:
    an_app("bare")
    assert "template file missing. Hint: app bare" in post(
        asked("get_templates", "<app_name>bare</app_name>")
    )
    folder = settings.VAR_DIR / "templates"
    folder.mkdir(parents=True)
    (folder / "bare_in").write_text(INPUT)
    (folder / "bare_out").write_text(OUTPUT)
    assert "<batch_id>" in submitted(a_job(), batch="", app="bare")
    assert "<open_name>out</open_name>" in post(asked("get_templates", "<app_name>bare</app_name>"))


def test_input_file_with_no_delete_flag_is_held_for_100_years(world: World) -> None:
    template = INPUT.replace("<file_info>", "<file_info><no_delete/>")
    submitted(a_job(f"<name>kept</name>{template}"))
    file = Workunit.objects.get(name="kept").input_files.get().file
    hold = FileHold.objects.get(file=file)
    assert (hold.account, hold.until) == (world.ada, NOON + timedelta(days=36_500))


def test_job_can_be_targeted_to_one_account_or_host(world: World) -> None:
    host = Result.objects.get(workunit__name="wu_running").host_id
    submitted(
        a_job(f"<name>a</name><target_user>{world.bob.pk}</target_user>")
        + a_job(f"<name>h</name><target_host>{host}</target_host>")
    )
    assert Workunit.objects.get(name="a").target_account == world.bob
    assert Workunit.objects.get(name="h").target_host_id == host


def test_a_job_names_its_queue() -> None:
    queue = Queue.objects.create(name="lab", created_at=NOON)
    assert "There is no queue" in refused(a_job("<name>c</name><queue>lap</queue>"))
    submitted(a_job("<name>a</name><queue>lab</queue>") + a_job("<name>b</name>"))
    assert Workunit.objects.get(name="a").queue == queue
    assert Workunit.objects.get(name="b").queue is None


def test_number_of_statements_does_not_grow_with_the_number_of_jobs(world: World) -> None:
    def statements(count: int, name: str) -> int:
        jobs = "".join(
            f"<job><name>{name}{n}</name>{INLINE.format('x')}</job>" for n in range(count)
        )
        with CaptureQueriesContext(connection) as captured:
            assert "<batch_id>" in submitted(jobs, batch="")
        return len(captured)

    statements(1, "w")  # savepoints, and sequences that are used for the first time
    assert statements(400, "b") <= statements(2, "a") + 2


def test_local_files_are_accepted_only_from_the_shared_folder(world, settings, tmp_path) -> None:
    shared = tmp_path / "shared"
    (shared / "deep").mkdir(parents=True)
    (shared / "deep" / "a.txt").write_text("local")
    (tmp_path / "secret").write_text("secret")
    (shared / "way_out").symlink_to(tmp_path / "secret")
    job = "<job><name>l</name><input_file><mode>local</mode><source>{}</source></input_file></job>"
    assert "local files are not offered" in refused(job.format(shared / "deep" / "a.txt"))
    settings.SUBMIT_FOLDER = str(shared)
    for path in (tmp_path / "secret", "../secret", "/etc/passwd", "way_out", "deep", "no"):
        assert "in the folder that submitters share. Hint" in refused(job.format(path))
    assert "<batch_id>" in submitted(job.format("deep/a.txt"))
    assert inputs(Workunit.objects.get(name="l")) == [("in", b"local")]


@pytest.mark.parametrize(
    ("job", "why"),
    [
        ("<job></job>", "wrong # of input files for job 0: need 1, got 0"),
        (a_job() + "<job></job>", "wrong # of input files for job 1: need 1, got 0"),
        ("", "no jobs in the batch. Hint: describe at least one job."),
        (a_job("<name>a b</name>"), "'a b' is not a name for a workunit."),
        (a_job("<name>../../x</name>"), "is not a name for a workunit."),
        (a_job("<name>x</name>") * 2, "1 workunit name given more than once: x."),
        (a_job("<name>wu_done</name>"), "1 workunit name already taken: wu_done."),
        (a_job("<name>wu_bobs</name>"), "1 workunit name already taken: wu_bobs."),
        (a_job("<rsc_fpops_est>-1</rsc_fpops_est><target_host>987654</target_host>"), "987654"),
        (a_job("<input_template><workunit></input_template>"), "job 0: Line 1, &lt;workunit&gt;: "),
        (a_job("<output_template><result/></output_template>" * 2), None),
        (
            STAGED.format("jf_no"),
            "No such file: jf_no. Hint",
        ),
        (
            STAGED.format("../../etc/passwd"),
            "File name '../../etc/passwd' has a control character or one of /",
        ),
        (
            "<job><input_file><mode>sandbox</mode><source>a</source></input_file></job>",
            "unsupported file mode: sandbox. Hint: this server has no sandboxes",
        ),
        (
            "<job><input_file><mode>semilocal</mode><source>http://a/</source></input_file></job>",
            "unsupported file mode: semilocal. Hint: this server fetches no files",
        ),
        (
            "<job><input_file><mode>magic</mode></input_file></job>",
            "unsupported file mode: magic. Hint: the modes are local_staged, inline,",
        ),
        ("<job><input_file><source>a</source></input_file></job>", "unsupported file mode: none."),
        (
            "<job><input_file><mode>remote</mode><url>file:///etc/passwd</url></input_file></job>",
            "'file:///etc/passwd' is not an HTTP URL.",
        ),
        (
            "<job><input_file><mode>remote</mode><url>http://a/</url></input_file></job>",
            "a remote file needs its md5",
        ),
    ],
)
def test_invalid_job_refuses_the_whole_submission(job: str, why: str | None) -> None:
    if why is None:  # an output template without files is valid: hosts upload nothing
        assert "<batch_id>" in submitted(job)
        return
    assert why in refused(
        a_job("<name>fine</name>") + job
        if job and "job 0" not in why and "job 1" not in why
        else job
    )


def test_command_line_in_both_job_and_template_is_refused() -> None:
    template = INPUT.replace("</workunit>", "<command_line>-t</command_line></workunit>")
    why = refused(a_job(f"<command_line>-j</command_line>{template}"))
    assert why.startswith(
        "job 0: The submission has the command line '-j', and the template has '-t'."
    )


def test_second_submission_into_a_batch_is_refused() -> None:
    assert "<batch_id>55" in submitted(a_job())
    assert refused(a_job()).startswith("batch not in init state. Hint")


def test_a_concurrent_second_submission_to_a_batch_is_refused(monkeypatch) -> None:
    found = queries.find_batch

    def late(account: Account, **of: object) -> Batch | None:
        batch = found(account, **of)  # type: ignore[arg-type]
        if batch is not None:
            Batch.objects.filter(pk=batch.pk).update(state=1, workunits_submitted=5)
        return batch

    monkeypatch.setattr(queries, "find_batch", late)
    assert refused(a_job()) == "batch not in init state: another submission came first."


def test_submission_into_a_batch_of_another_app_is_refused() -> None:
    an_app("other", input_template=INPUT, output_template=OUTPUT)
    assert refused(a_job(), app="other") == "batch empty belongs to another app, not to other."


def test_submission_under_the_name_of_a_submitted_batch_is_refused() -> None:
    reply = submitted(a_job(), batch="<batch_name>first</batch_name>")
    assert reply.startswith(refusal("submit_batch", "batch first exists and is in progress", -137))
    assert "<batch_id>55" in submitted(a_job(), batch="<batch_name>empty</batch_name>")


def test_two_accounts_can_use_the_same_batch_name() -> None:
    xml = "<app_name>remote_test</app_name><batch_name>first</batch_name>"
    reply = post(asked("create_batch", xml, key="b0b" * 10))
    assert reply == "<create_batch>\n<batch_id>1000</batch_id>\n</create_batch>\n"


def test_submission_over_the_quota_of_workunits_or_bytes_is_refused(world: World) -> None:
    kept = kept_output_bytes(world.ada)
    Submitter.objects.filter(account=world.ada).update(max_unfinished_workunits=3)
    assert "2 more would exceed the limit of 3" in refused(a_job() * 2)
    Submitter.objects.filter(account=world.ada).update(
        max_unfinished_workunits=None, max_kept_bytes=kept + 10
    )
    assert f"bytes of files, and the limit is {kept + 10}" in refused(a_job(source="y" * 20))
    assert "<batch_id>" in submitted(a_job(source="z"))


def test_repeated_create_batch_updates_the_expiry_of_the_same_batch() -> None:
    again = "<app_name>remote_test</app_name><batch_name>empty</batch_name><expire_time>{}"
    for _ in range(2):
        post(asked("create_batch", again.format("1767355200.0") + "</expire_time>"))
    assert Batch.objects.get(name="empty").expire_at == hours(24)
    assert Batch.objects.filter(name="empty").count() == 1


# Permissions


def test_a_weak_key_is_refused(world: World) -> None:
    weak = account_keys.renew_weak_key(world.ada, KEY, NOON)
    assert AccountKey.objects.get(key_hash=key_hash(weak)).kind == AccountKey.Kind.WEAK
    assert post(asked("query_batches", key=weak)).startswith(
        refusal("query_batches", "bad authenticator")
    )


def test_an_account_without_permission_to_submit_is_refused_with_a_contact(world: World) -> None:
    Submitter.objects.filter(account=world.ada).delete()
    for command, inside in (
        ("query_batches", ""),
        ("create_batch", "<app_name>remote_test</app_name>"),
    ):
        reply = post(asked(command, inside))
        assert reply.startswith(refusal(command, "no submit access: ada may not submit work."))
        assert "Hint: ask the project's staff for `manage.py submitter allow ada@" in reply


def test_submit_access_is_granted_per_app(world: World) -> None:
    Submitter.objects.filter(account=world.ada).update(all_apps=False)
    SubmitterApp.objects.create(submitter_id=world.ada.pk, app=an_app("another"))
    reply = post(asked("create_batch", "<app_name>remote_test</app_name>"))
    assert "no submit access: ada may not submit work for app remote_test." in reply
    assert "app not found: no_such" in post(asked("create_batch", "<app_name>no_such</app_name>"))


MINE_BY_NUMBER = ("abort_batch", "retire_batch", "query_batch", "set_expire_time")


@pytest.mark.parametrize("command", MINE_BY_NUMBER)
def test_batch_of_another_account_gets_the_reply_of_a_missing_batch(command: str) -> None:
    theirs, none = (
        post(asked(command, f"<batch_id>{number}</batch_id>")) for number in (60, 999_999)
    )
    assert theirs == none
    assert theirs.startswith(refusal(command, "no such batch"))
    assert post(asked(command, "<batch_name>theirs</batch_name>")) == none
    assert Batch.objects.get(pk=60).state == Batch.State.IN_PROGRESS


@pytest.mark.parametrize(
    ("command", "theirs", "none"),
    [
        ("query_job", "<job_id>160</job_id>", "<job_id>161</job_id>"),
        ("query_completed_job", "<job_name>wu_bobs</job_name>", "<job_name>no</job_name>"),
    ],
)
def test_workunit_of_another_account_gets_the_reply_of_a_missing_workunit(
    command, theirs, none
) -> None:
    assert post(asked(command, theirs)) == post(asked(command, none))


def test_workunit_of_another_account_is_neither_aborted_nor_shown() -> None:
    for name in ("wu_bobs", "no_such"):
        reply = post(
            asked("abort_jobs", f"<job_name>wu_unsent</job_name><job_name>{name}</job_name>")
        )
        assert reply.startswith(refusal("abort_jobs", f"no job {name}"))
        reply = post(asked("get_templates", f"<job_name>{name}</job_name>"))
        assert reply.startswith(refusal("get_templates", f"job not found: {name}"))
        reply = post(asked("query_batch2", f"<batch_name>{name}</batch_name>"))
        assert reply.startswith(refusal("query_batch2", f"no batch named {name}"))
    assert not Workunit.objects.exclude(cancel_requested_at=None).exists()


def test_submission_into_a_batch_of_another_account_is_refused() -> None:
    assert refused(a_job(), batch="<batch_id>60</batch_id>") == "no batch 60"
    assert refused(a_job(), batch="<batch_id>61</batch_id>") == "no batch 61"


# Ends


def test_aborting_a_batch_requests_cancellation_of_its_workunits() -> None:
    post(asked("abort_batch", "<batch_id>54</batch_id>"))
    assert Batch.objects.get(pk=54).state == Batch.State.ABORTED
    asked_for = Workunit.objects.exclude(cancel_requested_at=None).values_list("name", flat=True)
    assert {"wu_running", "wu_unsent"} <= set(asked_for)
    assert "<state>3</state>" in post(asked("query_batch", "<batch_id>54</batch_id>"))


def test_abort_jobs_requests_cancellation_of_only_the_named_workunits() -> None:
    names = "<job_name>wu_running</job_name><job_name>wu_unsent</job_name>"
    for _ in range(2):
        assert "<success>1</success>" in post(asked("abort_jobs", names))
    asked_for = Workunit.objects.exclude(cancel_requested_at=None).values_list("name", flat=True)
    assert sorted(asked_for) == ["wu_running", "wu_unsent"]
    assert Batch.objects.get(pk=54).state == Batch.State.IN_PROGRESS


def test_retired_batch_is_not_listed_and_its_open_workunits_are_cancelled() -> None:
    for _ in range(2):
        assert "<success>1</success>" in post(asked("retire_batch", "<batch_id>54</batch_id>"))
    assert Batch.objects.get(pk=54).state == Batch.State.RETIRED
    assert Workunit.objects.get(name="wu_unsent").cancel_requested_at == NOON
    assert "<name>first</name>" not in post(asked("query_batches"))
    assert "<state>4</state>" in post(asked("query_batch", "<batch_id>54</batch_id>"))


def test_set_expire_time_sets_or_clears_the_expiry_of_a_batch() -> None:
    for said, at in (
        ("1767355200.5", hours(24) + timedelta(seconds=0.5)),
        ("0", None),
        ("9e99", None),
    ):
        xml = f"<batch_name>first</batch_name><expire_time>{said}</expire_time>"
        assert "<success>1</success>" in post(asked("set_expire_time", xml))
        assert Batch.objects.get(pk=54).expire_at == at


def test_batch_is_complete_when_all_its_workunits_are_finished() -> None:
    for name in ("wu_running", "wu_unsent"):
        update(Workunit.objects.get(name=name), error_mask=16)
    reply = post(asked("query_batch", "<batch_id>54</batch_id>"))
    assert "<fraction_done>1</fraction_done>" in reply
    assert "<state>2</state>" in reply
    assert f"<completion_time>{int(hours(-1).timestamp())}</completion_time>" in reply


def test_expected_completion_of_a_slow_batch_is_capped_at_100_years(world: World) -> None:
    found = queries.batch(world.ada, world.first.pk, with_cpu_time=False)
    assert found is not None
    slow = replace(found, created_at=hours(-240), total=10_000_000, done=1, failed=0)
    assert slow.expected_at(NOON).year == 2126


# Outputs


def test_one_output_is_sent_to_its_owner() -> None:
    for query in (
        {"cmd": "result_file", "result_name": "wu_done_0", "auth_str": md5(KEY + "wu_done_0")},
        {"cmd": "workunit_file", "wu_name": "wu_done", "auth_str": KEY},
    ):
        status, headers, content = get("get_output.php", file_num=0, **query)
        assert (status, content) == ("200 OK", b"the answer")
        assert headers["Content-Length"] == "10"
        assert headers["Content-Disposition"] == 'attachment; filename="wu_done_0_r501_0"'


def test_all_outputs_are_returned_as_a_zip() -> None:
    for query in (
        {"cmd": "batch_files", "batch_id": 54, "auth_str": md5(KEY + "54")},
        {"cmd": "batch_files", "batch_name": "first", "auth_str": md5(KEY + "54")},
        {"cmd": "workunit_files", "wu_id": 101, "auth_str": md5(KEY + "101")},
    ):
        status, headers, content = get("get_output.php", **query)
        assert status == "200 OK"
        assert headers["Content-Type"] == "application/zip"
        with zipfile.ZipFile(io.BytesIO(content)) as zipped:
            assert zipped.namelist() == ["wu_done_0_r501_0"]
            assert zipped.read("wu_done_0_r501_0") == b"the answer"


def test_batch_without_outputs_returns_an_empty_zip() -> None:
    _, _, content = get("get_output.php", cmd="batch_files", batch_id=55, auth_str=md5(KEY + "55"))
    with zipfile.ZipFile(io.BytesIO(content)) as zipped:
        assert zipped.namelist() == []


def test_missing_output_is_omitted_from_the_zip_and_returns_404_alone() -> None:
    storage.upload_path("wu_done_0_r501_0").unlink()
    _, _, content = get("get_output.php", cmd="batch_files", batch_id=54, auth_str=md5(KEY + "54"))
    with zipfile.ZipFile(io.BytesIO(content)) as zipped:
        assert zipped.namelist() == []
    status, _, content = get("get_output.php", cmd="workunit_file", wu_name="wu_done", auth_str=KEY)
    assert status == "404 Not Found"
    assert content.startswith(b"ERROR: no such file wu_done_0_r501_0. Hint")


BOBS = "b0b" * 10


@pytest.mark.parametrize(
    "query",
    [
        {"cmd": "result_file", "result_name": "wu_done_0", "auth_str": md5(BOBS + "wu_done_0")},
        {"cmd": "result_file", "result_name": "no_such_0", "auth_str": md5(KEY + "no_such_0")},
        {"cmd": "result_file", "result_name": "wu_done_0", "auth_str": ""},
        {"cmd": "result_file", "result_name": "wu_done_0"},
        {"cmd": "workunit_file", "wu_name": "wu_done", "auth_str": BOBS},
        {"cmd": "workunit_file", "wu_name": "wu_done' OR 1=1 --", "auth_str": KEY},
        {"cmd": "workunit_file", "wu_name": "wu_done", "auth_str": "ë"},
        {"cmd": "workunit_file", "wu_name": "wu_done\0", "auth_str": KEY},
        {"cmd": "workunit_files", "wu_id": 101, "auth_str": md5(BOBS + "101")},
        {"cmd": "workunit_files", "wu_id": 9999, "auth_str": md5(KEY + "9999")},
        {"cmd": "batch_files", "batch_id": 54, "auth_str": md5(BOBS + "54")},
        {"cmd": "batch_files", "batch_id": 60, "auth_str": md5(KEY + "60")},
        {"cmd": "batch_files", "batch_name": "theirs", "auth_str": md5(KEY + "60")},
        {"cmd": "batch_files"},
    ],
)
def test_output_of_another_account_returns_404(query: dict[str, object]) -> None:
    status, headers, content = get("get_output.php", **query)
    assert status == "404 Not Found"
    assert headers["Content-Type"] == "text/plain"
    assert content.startswith(b"ERROR: bad authenticator, or no such ")


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ({}, "bad command. Hint: the commands are result_file,"),
        ({"cmd": "../../etc/passwd"}, "bad command."),
        (
            {"cmd": "workunit_file", "wu_name": "wu_done", "auth_str": KEY, "file_num": 7},
            "bad file num: 7. Hint",
        ),
        (
            {"cmd": "workunit_file", "wu_name": "wu_done", "auth_str": KEY, "file_num": "../x"},
            "file_num is not a number: '../x'. Hint",
        ),
        (
            {"cmd": "batch_files", "batch_id": "9" * 40, "auth_str": "x"},
            "batch_id is not a number",
        ),
        (
            {"cmd": "workunit_file", "wu_name": "wu_unsent", "auth_str": KEY},
            "no canonical result for wu wu_unsent. Hint",
        ),
    ],
)
def test_invalid_output_request_returns_404_with_the_reason(
    query: dict[str, object], why: str
) -> None:
    status, _, content = get("get_output.php", **query)
    assert status == "404 Not Found"
    assert content.decode().startswith(f"ERROR: {why}")


def test_any_key_of_an_account_opens_its_outputs_until_revoked(world: World) -> None:
    further = account_keys.new_key(
        account=world.ada, name="laptop", kind=AccountKey.Kind.SUBMISSION, now=NOON
    )
    query = {"cmd": "result_file", "result_name": "wu_done_0"}
    query["auth_str"] = md5(further + "wu_done_0")
    assert get("get_output.php", **query)[0] == "200 OK"
    AccountKey.objects.filter(key_hash=key_hash(further)).update(revoked_at=NOON)
    assert get("get_output.php", **query)[0] == "404 Not Found"


# Counts and descriptions


def test_server_status_returns_job_counts() -> None:
    head = "{} /server_status.php?counts=1 HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n"
    for method in ("GET", "POST"):
        _, _, content = send(head.format(method).encode())
        assert content.decode() == documents.PROLOG + (
            "<job_counts>\n"
            "    <results_ready_to_send>1</results_ready_to_send>\n"
            "    <results_in_progress>1</results_in_progress>\n"
            "    <results_need_file_delete>0</results_need_file_delete>\n"
            "    <wus_need_validate>0</wus_need_validate>\n"
            "    <wus_need_assimilate>0</wus_need_assimilate>\n"
            "    <wus_need_file_delete>1</wus_need_file_delete>\n"
            "</job_counts>\n"
        )
    assert get("server_status.php")[0] == "302 Found"


@pytest.mark.parametrize(
    ("word", "fields", "words"),
    [
        ("unsent", {}, "Unsent"),
        ("sent", {}, "In progress"),
        ("success", {}, "Completed, waiting for validation"),
        ("valid", {}, "Completed and validated"),
        ("invalid", {}, "Completed, marked as invalid"),
        ("inconclusive", {}, "Completed, validation inconclusive"),
        ("unsendable", {}, "Couldn't send"),
        ("noreply", {}, "Timed out - no response"),
        ("unneeded", {}, "Didn't need"),
        ("unreadable", {}, "Validate error"),
        ("detached", {}, "Abandoned"),
        ("error", {"client_state": 3}, "Error while computing"),
        ("error", {"client_state": 1}, "Error while downloading"),
        ("error", {"client_state": 6}, "Aborted"),
        ("error", {"client_state": 0}, "Error"),
        ("error", {"exit_status": 202}, "Cancelled by server"),
        ("error", {"exit_status": 200}, "Not started by deadline - canceled"),
    ],
)
def test_a_result_is_described_with_boincs_states(word, fields, words) -> None:
    result = a_result(a_workunit(min_quorum=1), word)
    update(result, **fields)
    assert state_words(result) == words


def test_number_of_statements_of_queries_does_not_grow_with_workunits(
    world: World, django_assert_max_num_queries
) -> None:
    for number in range(30):
        a_result(world.a_workunit(700 + number, f"more_{number}", world.first), "unsent")
    # The first use of a key on a day is recorded by two more statements.
    post(asked("query_batches", ""))
    for command, inside, most in (
        ("query_batches", "<get_cpu_time>1</get_cpu_time>", 3),
        ("query_batch", "<batch_id>54</batch_id><get_job_details>1</get_job_details>", 5),
        ("query_batch2", "<batch_name>first</batch_name>", 4),
        ("query_job", "<job_id>101</job_id>", 5),
        ("abort_jobs", "".join(f"<job_name>more_{n}</job_name>" for n in range(30)), 7),
    ):
        with django_assert_max_num_queries(most):
            assert "<error_num>" not in post(asked(command, inside))


# The replies to hosts


def test_output_flags_of_a_template_are_sent_to_the_client() -> None:
    outputs = [
        {"open_name": "o", "max_nbytes": 9, "gzip_when_done": True, "report_immediately": True}
    ]
    given = AssignedResult(
        result_id=1,
        result_name="r_0",
        workunit_id=1,
        workunit_name="r",
        app_id=1,
        app_version_id=1,
        flops=1e9,
        report_deadline=NOON,
        command_line="",
        outputs=outputs,
        rsc_fpops_est=1,
        rsc_fpops_bound=1,
        rsc_memory_bound=1,
        rsc_disk_bound=1,
    )
    [upload] = compose._uploads([given], settings.PROJECT)
    assert upload.gzip_when_done
    facts = SimpleNamespace(platform="p", version_num=1, plan_class="")
    assert compose._result(given, SimpleNamespace(facts=facts), 0).report_immediately


def test_file_deleter_keeps_outputs_with_no_delete_flag() -> None:
    outputs = [
        {"open_name": "a", "max_nbytes": 9},
        {"open_name": "b", "max_nbytes": 9, "no_delete": True},
    ]
    workunit = a_workunit(outputs=outputs, transition_at=None)
    result = a_result(workunit, "valid", output=b"a", uploaded=True, file_delete_state=1)
    from tests.rows import an_output

    an_output(result, b"b", position=1, uploaded=True)
    a_pass(file_deleter)
    paths = [storage.upload_path(f"{result.name}_r{result.pk}_{n}") for n in (0, 1)]
    assert [path.exists() for path in paths] == [False, True]
