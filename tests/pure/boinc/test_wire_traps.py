"""The codec handles the traps (pitfalls of the protocol) that PROTOCOL lists."""

from __future__ import annotations

import pytest

from scheduler.boinc.wire import messages as m
from scheduler.boinc.wire import xml
from scheduler.boinc.wire.replies import decode_reply, encode_reply
from scheduler.boinc.wire.requests import decode_request, encode_request

RESULT = m.ReplyResult(name="wu_0", wu_name="wu", platform="p", version_num=1)


def said(**fields):
    return encode_reply(m.SchedulerReply(**fields)).decode()


def test_trap_02_body_is_decoded_with_any_content_type(capture):
    assert b"scheduler_request" in capture.body
    assert decode_request(capture.body).authenticator


def test_trap_06_client_state_is_read_even_with_exit_status_0(capture):
    for result in decode_request(capture.body).results:
        marker = f"<name>{result.name}</name>".encode()
        block = capture.body.partition(marker)[2].partition(b"<stderr_out>")[0]
        assert b"<state>%d</state>" % result.state in block
        assert b"<exit_status>%d</exit_status>" % result.exit_status in block


def test_trap_08_upload_url_without_the_handler_name_is_sent_as_upload_url():
    marked = m.UploadFile(name="a", max_nbytes=1, urls=("http://h/file_upload_handler",))
    other = m.UploadFile(name="b", max_nbytes=1, urls=("http://h/put",))
    written = said(uploads=(marked, other))
    assert "<url>http://h/file_upload_handler</url>" in written
    assert "<upload_url>http://h/put</upload_url>" in written


def test_trap_09_host_id_is_sent_only_when_assigned():
    assert "hostid" not in said(userid=1, host_total_credit=1)
    assert "<hostid>4711</hostid>" in said(hostid=4711)


def test_trap_10_unknown_result_can_be_acknowledged():
    assert "<result_ack>\n    <name>who?</name>\n</result_ack>" in said(result_acks=("who?",))


def test_trap_13_plan_class_is_repeated_in_the_result():
    version = m.ReplyAppVersion(app_name="a", version_num=1, platform="p", plan_class="mt")
    result = m.ReplyResult(name="wu_0", wu_name="wu", plan_class="mt")
    written = said(app_versions=(version,), results=(result,))
    assert written.count("<plan_class>mt</plan_class>") == 2
    assert "plan_class" not in said(results=(RESULT,))


def test_trap_14_code_sign_key_is_sent_only_if_set():
    assert "code_sign_key" not in said(userid=1)
    assert "<code_sign_key>\n1024\nab\n.\n</code_sign_key>\n" in said(code_sign_key="1024\nab\n.")


def test_trap_14_code_sign_key_of_a_request_is_stripped(capture):
    key = decode_request(capture.body).code_sign_key
    assert key == key.strip()
    assert (b"<code_sign_key>" in capture.body) == bool(key)


def test_trap_17_zero_or_missing_times_are_decoded_as_zero():
    request = b"<scheduler_request><result><name>a</name><final_cpu_time>0.000000</final_cpu_time>"
    (result,) = decode_request(request + b"</result></scheduler_request>").results
    assert (result.final_cpu_time, result.final_elapsed_time) == (0.0, 0.0)


def test_trap_21_allow_multiple_clients_flag_is_decoded(capture):
    flag = b"<allow_multiple_clients>1</allow_multiple_clients>" in capture.body
    assert decode_request(capture.body).allow_multiple_clients is flag


def test_trap_22_tags_in_a_message_are_escaped():
    written = said(messages=(m.Message(text="<a href='x'>y</a>", priority="notice"),))
    assert "<message priority=\"notice\">&lt;a href='x'&gt;y&lt;/a&gt;</message>" in written


def test_trap_23_empty_venue_is_sent_and_missing_venue_is_not():
    assert "<host_venue></host_venue>" in said(host_venue="")
    assert "host_venue" not in said(host_venue=None)


def test_trap_24_master_url_is_sent_unchanged():
    assert "<master_url>http://h/p/?a=1&amp;b=2</master_url>" in said(
        master_url="http://h/p/?a=1&b=2"
    )


def test_trap_25_names_are_escaped():
    written = said(user_name="Zoë <b> & co", team_name="]]> </scheduler_reply>")
    assert "<user_name>Zoë &lt;b&gt; &amp; co</user_name>" in written
    assert written.count("</scheduler_reply>") == 1


@pytest.mark.parametrize("kind", ["project_preferences", "global_preferences"])
@pytest.mark.parametrize("text", ["<a>", "</a>", "<a></b>", "</r><r>", "<!-- x", "<!DOCTYPE x>"])
def test_trap_25_unbalanced_preferences_are_refused(kind, text):
    with pytest.raises(xml.CannotEncode, match="is unbalanced"):
        said(**{kind: text})


def test_trap_25_raw_text_with_its_own_end_tag_is_refused():
    with pytest.raises(xml.CannotEncode, match="contains its end tag"):
        said(code_sign_key="x</code_sign_key><hostid>1</hostid>")


def test_trap_26_size_and_md5_of_a_download_are_sent():
    written = said(files=(m.DownloadFile(name="a", urls=("u",), nbytes=0, md5_cksum="d4"),))
    assert "<nbytes>0</nbytes>" in written
    assert "<md5_cksum>d4</md5_cksum>" in written


def test_trap_27_remaining_time_is_read_under_both_names():
    for name in ("time_remaining", "cpu_time_remaining"):
        inside = f"<ip_result><name>a</name><{name}>2.5</{name}></ip_result>"
        body = f"<scheduler_request><in_progress_results>{inside}</in_progress_results>"
        (result,) = decode_request(f"{body}</scheduler_request>".encode()).in_progress_results
        assert result.time_remaining == 2.5


def test_trap_32_result_without_stderr_is_accepted(capture):
    for result in decode_request(capture.body).results:
        if result.exit_status in {202, 203} and not result.stderr_out:
            assert result.core_client_version
            assert result.state == 6


@pytest.mark.parametrize("name", ["", "x" * 256, "é" * 128])
def test_name_over_255_bytes_or_empty_is_refused(name):
    with pytest.raises(xml.CannotEncode, match="must have 1 to 255 bytes"):
        said(result_acks=(name,))


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_number_that_is_not_finite_is_refused(number):
    with pytest.raises(xml.CannotEncode, match="is not a number"):
        said(request_delay=number)


def test_trickle_that_clients_cannot_read_is_refused():
    for text in ("x" * 256, "</trickle_down>"):
        with pytest.raises(xml.CannotEncode, match="a line over 255 bytes"):
            said(trickles=(m.TrickleDown(result_name="a", time=1, text=text),))


def test_numbers_are_written_without_exponents():
    wu = m.ReplyWorkunit(name="wu", app_name="a", rsc_fpops_bound=8.64e22, rsc_disk_bound=1e9)
    written = said(workunits=(wu,), results=(m.ReplyResult(name="r", wu_name="wu"),))
    assert "<rsc_fpops_bound>86400000000000000000000</rsc_fpops_bound>" in written
    assert "<rsc_disk_bound>1000000000</rsc_disk_bound>" in written
    assert decode_reply(written.encode()).workunits == (wu,)


def test_control_characters_are_replaced_in_replies():
    assert "<user_name>a?b</user_name>" in said(user_name="a\x00b")


def test_request_texts_with_their_own_end_tag_cannot_be_encoded():
    end = m.ReportedResult(name="a", stderr_out="x]]>\n</stderr_out>")
    with pytest.raises(xml.CannotEncode, match="end of its CDATA section"):
        encode_request(m.SchedulerRequest(results=(end,)))
    trickle = m.TrickleUp(result_name="a", text="</msg_from_host>")
    with pytest.raises(xml.CannotEncode, match="contains its end tag"):
        encode_request(m.SchedulerRequest(trickles=(trickle,)))


def test_command_line_over_65535_bytes_is_refused():
    wu = m.ReplyWorkunit(name="wu", app_name="a", command_line="x" * 65536)
    with pytest.raises(xml.CannotEncode, match="longer than 65535 bytes"):
        said(workunits=(wu,))


def test_trickle_down_without_a_header_is_ignored():
    body = b"<scheduler_reply><trickle_down>x</trickle_down></scheduler_reply>"
    assert decode_reply(body).trickles == ()
