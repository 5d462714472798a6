"""Our replies, one golden file per kind, compared byte for byte."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scheduler.boinc.wire import messages as m
from scheduler.boinc.wire import web
from scheduler.boinc.wire.replies import decode_reply, encode_reply

REPLIES = Path(__file__).parents[2] / "golden" / "replies"
REWRITE = os.environ.get("MANYHANDS_REWRITE_GOLDEN") == "1"

BLOCK = "\n".join([("0123456789abcdef" * 4)] * 4) + "\n."
KEY = "1024\n" + "\n".join([("fedcba9876543210" * 4)] * 8) + "\n."
HOME = "http://127.0.0.1:8000/"
UPLOAD_URL = HOME + "upload/file_upload_handler"


def reply(**said):
    """Return a reply with the fields that every known host gets, and these fields."""
    return m.SchedulerReply(
        **{
            "scheduler_version": 713,
            "dont_use_dcf": True,
            "master_url": HOME,
            "request_delay": 7,
            "project_name": "Manyhands",
            "userid": 5,
            "user_name": "Zoë & <friends>",
            "user_total_credit": 12.5,
            "user_expavg_credit": 0.1,
            "user_create_time": 1700000000,
            "email_hash": "5d60d4e28066df254d5452f92c910092",
            "cross_project_id": "929127fc8a3dbdd47561337fcf78fa96",
            "external_cpid": "a265230b13bff6d80d52a917277f79ae",
            "project_preferences": "<resource_share>100</resource_share>",
            "host_total_credit": 10,
            "host_expavg_credit": 2e-7,
            "host_venue": "",
            "host_create_time": 1700000001,
            "teamid": 0,
            "team_name": "",
            "gui_urls": (m.GuiUrl(name="Home", description="The project's page", url=HOME),),
        }
        | said
    )


def work(number):
    """Return the parts of a reply for one workunit: its files, workunit and result."""
    wu, result = f"primes_{number}", f"primes_{number}_0"
    return {
        "files": (
            m.DownloadFile(
                name=f"{wu}.in",
                urls=(f"{HOME}download/1a7/{wu}.in",),
                nbytes=19,
                md5_cksum="3328e9eae46656e6c6caa6bba8177372",
            ),
        ),
        "workunits": (
            m.ReplyWorkunit(
                name=wu,
                app_name="mersenne",
                version_num=100,
                rsc_fpops_est=1e10,
                rsc_fpops_bound=8.64e15,
                rsc_memory_bound=5e8,
                rsc_disk_bound=1e9,
                command_line="--from 2 --to '<100>'",
                file_refs=(m.FileRef(file_name=f"{wu}.in", open_name="in"),),
            ),
        ),
        "uploads": (
            m.UploadFile(
                name=f"{result}_r9_0",
                max_nbytes=1000000,
                urls=(UPLOAD_URL,),
                xml_signature=BLOCK,
            ),
        ),
        "results": (
            m.ReplyResult(
                name=result,
                wu_name=wu,
                report_deadline=1795372597,
                platform="x86_64-pc-linux-gnu",
                version_num=100,
                plan_class="mt",
                report_immediately=True,
                file_refs=(m.FileRef(file_name=f"{result}_r9_0", open_name="out"),),
            ),
        ),
    }


APP = {
    "apps": (m.ReplyApp(name="mersenne", user_friendly_name="Mersenne primes"),),
    "app_versions": (
        m.ReplyAppVersion(
            app_name="mersenne",
            version_num=100,
            platform="x86_64-pc-linux-gnu",
            plan_class="mt",
            api_version="8.2.0",
            avg_ncpus=2,
            flops=2.5e9,
            coprocs=(m.CoprocUsage(type="NVIDIA", count=0.5),),
            file_refs=(m.FileRef(file_name="mersenne_100.py", main_program=True),),
        ),
    ),
}
APP_FILE = m.DownloadFile(
    name="mersenne_100.py",
    urls=(f"{HOME}download/2b/mersenne_100.py", "http://mirror.example/mersenne_100.py"),
    nbytes=1391,
    md5_cksum="e3017a6d07e2f228ffc6ddce39077fd2",
    file_signature=BLOCK,
    executable=True,
)
FIRST = work(1)

KINDS = {
    "no_work": reply(messages=(m.Message(text="No tasks sent"),)),
    "work": reply(**{**FIRST, **APP, "files": (APP_FILE, *FIRST["files"])}),
    "resend": reply(messages=(m.Message(text="Resent lost task primes_1_0"),), **FIRST),
    "acks": reply(result_acks=("primes_1_0", "unknown & <odd>")),
    "aborts": reply(
        result_aborts=("primes_2_0",), result_aborts_if_not_started=("primes_3_0", "primes_4_1")
    ),
    "bad_key": m.SchedulerReply(
        scheduler_version=713,
        dont_use_dcf=True,
        master_url=HOME,
        request_delay=3600,
        messages=(
            m.Message(
                text="Invalid or missing account key.  To fix, remove and add this project.",
                priority="notice",
            ),
        ),
        project_name="Manyhands",
    ),
    "project_down": m.SchedulerReply(
        scheduler_version=713,
        master_url=HOME,
        request_delay=3600,
        messages=(m.Message(text="Project is temporarily shut down for maintenance"),),
        project_is_down=True,
        project_name="Manyhands",
    ),
    "hostid_assigned": reply(hostid=4711, code_sign_key=KEY),
    "messages": reply(
        messages=(
            m.Message(text='See <a href="x">news</a> & more', priority="notice"),
            m.Message(text="Not sent: needs 4000 MB RAM"),
        ),
        next_rpc_delay=86400,
    ),
    "code_sign_key_rotation": reply(code_sign_key=KEY, code_sign_key_signature=BLOCK),
    "trickles": reply(
        message_ack=True,
        trickles=(m.TrickleDown(result_name="primes_1_0", time=12345, text="<hello>x</hello>"),),
    ),
    "delete_file_info": reply(delete_file_infos=("big_table.dat",)),
    "preferences": reply(
        host_venue="work",
        global_preferences='<mod_time>1</mod_time>\n<venue name="work">\n</venue>',
    ),
    "asks_of_the_host": reply(
        no_rsc_apps=("NVIDIA", "ATI"),
        send_full_workload=True,
        send_time_stats_log=1795199318,
        send_job_log=1795199318,
    ),
}

WEB = {
    "project_config": web.encode_project_config(
        web.ProjectConfig(
            name="Manyhands",
            master_url=HOME,
            web_rpc_url_base=HOME,
            min_client_version=70200,
            platforms=(
                web.Platform(
                    platform_name="x86_64-pc-linux-gnu", user_friendly_name="Linux & friends"
                ),
                web.Platform(platform_name="windows_x86_64", plan_class="cuda"),
            ),
            terms_of_use="Be <kind>.",
        )
    ),
    "account_out": web.encode_account_out("0123456789abcdef0123456789abcdef"),
    "account_exists": web.encode_account_out(None),
    "error": web.encode_error(-206, "bad password <for a & b>"),
}


@pytest.mark.parametrize("kind", [*KINDS, *WEB])
def test_reply_equals_its_golden_file_byte_for_byte(kind):
    written = encode_reply(KINDS[kind]) if kind in KINDS else WEB[kind]
    path = REPLIES / f"{kind}.xml"
    if REWRITE:
        path.write_bytes(written)
    assert written == path.read_bytes()


def test_every_golden_reply_file_is_tested():
    assert {path.stem for path in REPLIES.iterdir()} == {*KINDS, *WEB}


@pytest.mark.parametrize("kind", KINDS)
def test_golden_reply_decodes_to_the_encoded_message(kind):
    assert decode_reply((REPLIES / f"{kind}.xml").read_bytes()) == KINDS[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_reply_starts_and_ends_with_its_tag_and_has_short_lines(kind):
    written = encode_reply(KINDS[kind])
    assert written.startswith(b"<scheduler_reply>\n")
    assert written.endswith(b"\n</scheduler_reply>\n")
    assert max(len(line) for line in written.splitlines()) < 256
