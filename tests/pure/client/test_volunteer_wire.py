"""The client's codec on recorded messages of real projects and clients."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volunteer.wire import web
from volunteer.wire.messages import (
    AppVersion,
    HeldName,
    HostFacts,
    OutputReport,
    ResultReport,
    SchedulerRequest,
)
from volunteer.wire.replies import decode_reply
from volunteer.wire.requests import encode_request
from volunteer.wire.uploads import decode_upload_reply, size_query, upload_head
from volunteer.wire.xml import RAW_ELEMENTS, BadXmlError, Element, block, decode, leaf, parse

Golden = Callable[[str], bytes]


def test_first_work_reply_is_decoded_with_files_version_workunit_and_result(golden: Golden) -> None:
    reply = decode_reply(golden("first_work.resp"))
    assert (reply.hostid, reply.request_delay, reply.account.user_name) == (1000, 7.0, "Test User")
    program, first_input, first_output, *_ = reply.files
    assert program.executable
    assert program.nbytes == 1391
    assert program.signature.startswith("2529ae95")
    assert program.urls == (f"http://127.0.0.1:31580/proj/download/{program.name}",)
    assert first_input.md5 == "3328e9eae46656e6c6caa6bba8177372"
    assert first_output.urls == ()
    assert first_output.upload_urls == ("http://127.0.0.1:31580/proj_cgi/file_upload_handler",)
    assert first_output.max_nbytes == 100000
    assert first_output.grant.endswith("\n.")
    (version,) = reply.app_versions
    assert version.file_refs[0].main_program
    assert reply.workunits[0].command_line == "ok"
    assert reply.results[0].file_refs[0].slot_name == "out"
    assert reply.code_sign_key.startswith("1024\na61d8ce5")


def test_reply_is_decoded_in_any_order_of_elements(golden: Golden) -> None:
    reply = decode_reply(golden("reverse.resp"))
    assert {result.wu_name for result in reply.results} == {"wu_rev", "wu_rev2"}
    assert len(reply.app_versions) == 1


def test_minimal_app_version_gets_default_flops_and_cpu_count(golden: Golden) -> None:
    (version,) = decode_reply(golden("minimal.resp"), "ours", 5e9).app_versions
    assert (version.platform, version.flops, version.avg_ncpus) == (
        "x86_64-pc-linux-gnu",
        5e9,
        1.0,
    )


def test_workunit_may_have_a_processor_count_of_its_own(golden: Golden) -> None:
    body = golden("first_work.resp")
    (workunit, *_) = decode_reply(body).workunits
    assert workunit.avg_ncpus == 0.0
    for text, avg_ncpus in ((b"3.5", 3.5), (b"-1", 0.0), (b"many", 0.0)):
        own = body.replace(b"<workunit>", b"<workunit><avg_ncpus>" + text + b"</avg_ncpus>")
        assert decode_reply(own).workunits[0].avg_ncpus == avg_ncpus


def test_reply_keeps_raw_preferences_and_decodes_messages(golden: Golden) -> None:
    reply = decode_reply(golden("prefs.resp"))
    assert reply.project_preferences is not None
    assert "<color>red</color>" in reply.project_preferences
    assert reply.host_venue == "work"
    assert [(message.priority, message.text) for message in reply.messages] == [
        ("low", "No tasks sent"),
        ("notice", "Hello & welcome to x"),
        ("low", "low msg"),
    ]


def test_reply_without_end_tag_raises_bad_xml_error(golden: Golden) -> None:
    with pytest.raises(BadXmlError, match="end tag </scheduler_reply> is missing"):
        decode_reply(golden("noclose.resp"))


@pytest.mark.parametrize("body", [b"", b"<html>Error</html>", b"\xff\xfe", b"</scheduler_reply>"])
def test_body_that_is_not_a_scheduler_reply_raises_bad_xml_error(body: bytes) -> None:
    with pytest.raises(BadXmlError):
        decode_reply(body)


def test_acknowledgements_aborts_project_down_and_host_id_are_decoded(golden: Golden) -> None:
    assert decode_reply(golden("ack.resp")).acks == ("wu_ok1_0",)
    assert decode_reply(golden("abort.resp")).aborts
    assert decode_reply(golden("down.resp")).is_down
    assert decode_reply(golden("stale.resp")).hostid == 1003


@pytest.mark.parametrize(
    ("page", "found"),
    [
        ("master_link.resp", ("http://127.0.0.1:31580/proj_cgi/cgi",)),
        ("master_tag.resp", ("http://127.0.0.1:31582/proj_cgi/cgi",)),
        (
            "master_two.resp",
            ("http://127.0.0.1:1/none/cgi", "http://127.0.0.1:31582/proj_cgi/cgi"),
        ),
        ("master_nothing.resp", ()),
        ("master_long_line.resp", ()),
    ],
)
def test_scheduler_urls_are_found_in_a_master_page(
    golden: Golden, page: str, found: tuple[str, ...]
) -> None:
    assert web.find_scheduler_urls(golden(page)) == found


def test_account_lookup_and_project_config_replies_are_decoded(golden: Golden) -> None:
    assert web.decode_account(golden("lookup_good.resp")).key == "0123456789abcdef0123456789abcdef"
    assert web.decode_account(golden("lookup_wrong_password.resp")).error_num == -206
    config = web.decode_project_config(golden("project_config.resp"))
    assert (config.name, config.is_account_manager) == ("Proto Project", False)


def test_account_lookup_url_is_escaped_as_by_boinccmd() -> None:
    spelled = web.web_rpc_url("http://h/", "lookup_account.php", email_addr="a@b.c")
    assert spelled == "http://h/lookup_account.php?email_addr=a%40b%2Ec"


def test_password_hash_uses_the_lower_case_email_address() -> None:
    assert web.password_hash("A@b.C", "secret") == web.password_hash("a@b.c", "secret")
    assert web.password_hash("a@b.c", "") == "5d60d4e28066df254d5452f92c910092"


def as_our_version(recorded: bytes) -> bytes:
    """Replace the version numbers of the recorded client by those of our client."""
    for name, theirs, ours in (
        ("major_version", 7, 8),
        ("minor_version", 20, 0),
        ("release", 5, 0),
    ):
        tag = f"<core_client_{name}>"
        recorded = recorded.replace(f"{tag}{theirs}<".encode(), f"{tag}{ours}<".encode())
    return recorded


def test_upload_request_equals_that_of_a_boinc_client_byte_for_byte(golden: Golden) -> None:
    recorded = as_our_version(golden("upload.req"))
    head, _, content = recorded.partition(b"<data>\n")
    grant = head.partition(b"<xml_signature>")[2].partition(b"</xml_signature>")[0].decode()
    ours = upload_head(
        name="wu_ok1_0_r0",
        grant=f"\n{grant.strip()}\n   ",
        max_nbytes=100000,
        nbytes=len(content),
        md5="8798098861f5ddfc197d0783006236df",
        offset=0,
    )
    assert ours == head.lstrip(b"\n") + b"<data>\n"


def test_upload_request_without_a_grant_equals_that_of_a_boinc_client(golden: Golden) -> None:
    recorded = as_our_version(golden("upload_no_grant.req")).partition(b"<data>\n")[0]
    ours = upload_head(
        name="wu_upnosig_0_r0",
        grant="",
        max_nbytes=100000,
        nbytes=23,
        md5="65ae5d11c91ee106b86e639791844cdb",
        offset=0,
    )
    assert ours == recorded.lstrip(b"\n") + b"<data>\n"


def test_size_query_equals_that_of_a_boinc_client_byte_for_byte(golden: Golden) -> None:
    assert size_query("wu_res_0_r0") == as_our_version(golden("size_query.req")).lstrip(b"\n")
    reply = decode_upload_reply(golden("size_reply.resp"))
    assert (reply.status, reply.file_size) == (0, 0)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"<data_server_reply><status>-1</status>", -1),
        (b"<html>502</html>", None),
        (b"<status>x</status>", None),
        (b"x" * 9000 + b"<status>0</status>", None),
    ],
)
def test_upload_status_is_none_if_missing_malformed_or_too_far_into_the_reply(
    body: bytes, status: int | None
) -> None:
    assert decode_upload_reply(body).status == status


words = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\x7f"), max_size=20
).map(str.strip)
names = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True).filter(
    lambda name: name not in RAW_ELEMENTS
)
trees = st.recursive(
    st.builds(Element, name=names, text=words),
    lambda inner: st.builds(Element, name=names, children=st.lists(inner, min_size=1, max_size=4)),
    max_leaves=12,
)


def tidy(element: Element) -> Element:
    children = [tidy(child) for child in element.children]
    return Element(element.name, element.text.strip(), element.attributes, children)


def render(element: Element) -> str:
    if not element.children:
        return leaf(element.name, element.text)
    return block(element.name, "".join(render(child) for child in element.children))


@given(st.lists(trees, max_size=5))
def test_rendered_xml_tree_is_parsed_back_to_an_equal_tree(children: list[Element]) -> None:
    tree = Element("scheduler_reply", children=children)
    assert tidy(parse(render(tree) or "", "scheduler_reply")) == tidy(tree)


@given(st.text(max_size=200))
def test_parser_accepts_any_text_inside_an_element(text: str) -> None:
    root = parse(f"<a>{text}</a>", "a") if "</" not in text else Element("a")
    assert root.name == "a"


def test_deep_nesting_does_not_exhaust_the_stack() -> None:
    deep = "<b>" * 50_000
    assert parse(f"<a>{deep}</a>", "a").children[0].name == "b"


@pytest.mark.parametrize("stderr", ["", "no such file"])
def test_report_has_a_standard_error_only_if_the_program_wrote_one(stderr: str) -> None:
    report = ResultReport(
        name="r_0", exit_status=0, state=5, platform="p", version_num=1, stderr=stderr
    )
    request = SchedulerRequest("key", HostFacts("cpid", "p"), results=(report,))
    assert (b"<stderr_txt>" in encode_request(request)) is bool(stderr)


@given(stderr=st.text(max_size=200), message=words, name=words.filter(bool))
def test_request_is_parsed_back_with_any_stderr_in_a_report(
    stderr: str, message: str, name: str
) -> None:
    report = ResultReport(
        name=name,
        exit_status=3,
        state=3,
        platform="p",
        version_num=1,
        message=message,
        stderr=stderr,
        outputs=(OutputReport("out", 5, 10, "d" * 32, "http://h/u"),),
    )
    request = SchedulerRequest(
        authenticator="key",
        host=HostFacts("cpid", "p"),
        app_versions=(AppVersion("app", 1, "p"),),
        results=(report,),
        other_results=(HeldName("other", 0),),
        work_seconds=1.5,
    )
    root = parse(decode(encode_request(request)), "scheduler_request")
    assert root.number("work_req_seconds") == 1.5
    (result,) = root.every("result")
    assert result.string("name") == name
    assert result.integer("exit_status") == 3
    assert [child.name for child in result.children][-2:] == ["stderr_out", "file_info"]
    held = root.first("other_results")
    assert held is not None
    assert held.children[0].string("name") == "other"


def test_request_names_the_queues_of_the_settings() -> None:
    request = SchedulerRequest(
        authenticator="key",
        host=HostFacts("cpid", "p"),
        active_queues=("lab", "a&b"),
        ignored_queues=("rest",),
    )
    root = parse(decode(encode_request(request)), "scheduler_request")
    active = [child.text for child in root.every("active_queue")]
    assert [unescaped.replace("&amp;", "&") for unescaped in active] == ["lab", "a&b"]
    assert [child.text for child in root.every("ignored_queue")] == ["rest"]
    plain = encode_request(SchedulerRequest(authenticator="key", host=HostFacts("cpid", "p")))
    assert b"queue" not in plain
