"""Deviations in requests: some are accepted, the others raise an error."""

from __future__ import annotations

import contextlib
import random
import time
from pathlib import Path

import pytest

from scheduler.boinc.wire import xml
from scheduler.boinc.wire.requests import decode_request

CAPTURED = Path(__file__).parents[2] / "golden" / "captured"
REPORT = (CAPTURED / "02_exits").glob("*POST*_cgi.req")


def request(inside):
    inside = inside if isinstance(inside, bytes) else inside.encode()
    return decode_request(b"<scheduler_request>\n" + inside + b"</scheduler_request>\n")


def result(stderr, name=b"a"):
    return (
        b"<result><name>" + name + b"</name><state>5</state>\n<stderr_out>\n"
        b"<core_client_version>7.20.5</core_client_version>\n<![CDATA[\n"
        + stderr
        + b"\n]]>\n</stderr_out>\n</result>\n"
    )


def test_elements_are_accepted_in_any_order():
    said = request("<app_versions></app_versions><rpc_seqno>3</rpc_seqno><hostid>7</hostid>")
    assert (said.hostid, said.rpc_seqno) == (7, 3)


def test_unknown_elements_are_ignored_with_their_content():
    said = request("<new><hostid>9</hostid><x/><y a='b'>1</y></new><hostid>7</hostid><!-- <a> -->")
    assert said.hostid == 7


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("1e10", 1e10),
        ("  12.5", 12.5),
        ("3 seconds", 3.0),
        (".5", 0.5),
        ("", 0.0),
        ("nan", 0.0),
        ("inf", 1e10),
        ("-1e999", 0.0),
        ("1_0", 1.0),
        ("9" * 5000, 1e10),
    ],
)
def test_numbers_are_parsed_like_in_c(written, read):
    assert request(f"<cpu_req_secs>{written}</cpu_req_secs>").cpu_req_secs == read


@pytest.mark.parametrize(
    ("written", "read"),
    [("7", 7), ("-7", 0), (" 7.9 ", 7), ("99999999999", 2**31 - 1), ("x", 0), ("1_1", 1)],
)
def test_integers_are_limited_to_their_range(written, read):
    assert request(f"<rpc_seqno>{written}</rpc_seqno>").rpc_seqno == read


@pytest.mark.parametrize(
    ("written", "read"), [("<sandbox/>", True), ("<sandbox>1</sandbox>", True), ("", False)]
)
def test_flag_is_true_if_empty_or_nonzero(written, read):
    assert request(written).sandbox is read
    assert request("<sandbox>0</sandbox>").sandbox is False


def test_unsigned_windows_exit_code_is_stored_as_a_signed_32_bit_number():
    (reported,) = request(
        "<result><name>a</name><exit_status>3221225477</exit_status></result>"
    ).results
    assert reported.exit_status == -1073741819


def test_long_name_is_truncated_to_255_bytes():
    (other,) = request(
        f"<other_results><other_result><name>{'é' * 300}</name></other_result></other_results>"
    ).other_results
    assert other.name == "é" * 127


def test_results_and_files_without_a_name_are_ignored():
    assert request("<result><state>5</state></result><result/>").results == ()
    assert request("<file_info><nbytes>5</nbytes></file_info>").sticky_files == ()


def test_empty_app_version_keeps_its_position():
    said = request("<app_versions><app_version/><app_version>\n</app_version></app_versions>")
    assert len(said.app_versions) == 2


def test_bytes_escaped_one_by_one_are_decoded_as_utf_8():
    host = request("<host_info><domain_name>Zo&#195;&#171;</domain_name></host_info>").host_info
    assert host.domain_name == "Zoë"


def test_unescaped_ampersand_or_less_than_sign_is_text():
    host = request("<host_info><p_model>A & B < C &amp; D</p_model></host_info>").host_info
    assert host.p_model == "A & B < C & D"


def test_invalid_character_references_are_replaced():
    text = "&#0;&#55296;&#9999999;&#x1;"
    said = request(f"<client_brand>{text}</client_brand>")
    assert said.client_brand.encode().decode() == said.client_brand
    assert "\0" not in said.client_brand


@pytest.mark.parametrize(
    "printed",
    [
        b"\xff\xfe broken \xc3",
        b"an end: ]]> and more",
        b"</result><result><name>b</name>",
        b"</stderr_out> said the app",
        b"<stderr_out>",
        b"<!DOCTYPE x [<!ENTITY y 'z'>]>",
        b"&lt; &unknown; & <",
        b"</scheduler_request>",
    ],
)
def test_output_of_an_app_is_never_parsed_as_xml(printed):
    said = request(result(printed) + result(b"fine", b"b") + b"<hostid>7</hostid>")
    assert [each.name for each in said.results] == ["a", "b"]
    assert said.results[0].stderr_out == printed.decode("utf-8", "replace")
    assert (said.results[1].stderr_out, said.hostid) == ("fine", 7)


def test_control_characters_are_replaced():
    (reported,) = request(result(b"a\x00b\x1b[1mc\td\x0b")).results
    assert reported.stderr_out == "a?b?[1mc\td?"


def test_long_stderr_is_truncated_to_its_end():
    (reported,) = request(result(b"x" * 100_000 + b"the end")).results
    assert len(reported.stderr_out) == 65536
    assert reported.stderr_out.endswith("xthe end")


def test_stderr_without_a_cdata_section_is_read_as_text():
    (reported,) = request(
        "<result><name>a</name><stderr_out>a &lt; b</stderr_out></result>"
    ).results
    assert reported.stderr_out == "a < b"


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", "There is no <scheduler_request> in the request."),
        (b"<html>hello</html>", "There is no <scheduler_request> in the request."),
        ("<scheduler_request/>".encode("utf-16"), "There is no <scheduler_request>"),
        (b"<scheduler_request><hostid>1</hostid>", "ends before </scheduler_request>"),
        (b"<scheduler_request><result></scheduler_request>", "<result> is not closed"),
        (b"<scheduler_request><code_sign_key>1024", "ends before </code_sign_key>"),
        (b"<scheduler_request><result><stderr_out><![CDATA[ x", "ends before </stderr_out>"),
        (b"<scheduler_request><!-- x", "is not closed by -->"),
        (b"<scheduler_request><a><![CDATA[ x", "is not closed by ]]>"),
        (b"<!DOCTYPE x><scheduler_request></scheduler_request>", "is not accepted"),
        (b"<scheduler_request><!ENTITY a 'b'></scheduler_request>", "is not accepted"),
        (b"<scheduler_request>" + b"<a>" * 40, "nested deeper than 32"),
    ],
)
def test_malformed_request_is_refused_with_a_short_message(body, sentence):
    with pytest.raises(xml.BadXml) as refusal:
        decode_request(body)
    assert sentence in str(refusal.value)
    assert len(str(refusal.value)) < 200


def test_request_with_too_many_elements_is_refused():
    with pytest.raises(xml.BadXml, match="more than 400000 elements"):
        request("<a/>" * 400_001)


def test_request_over_the_size_limit_is_refused_without_parsing():
    with pytest.raises(xml.BadXml, match="is longer than"):
        decode_request(b" " * (xml.MAX_BYTES + 1))


def test_entities_are_never_expanded():
    assert request("<client_brand>&lol;</client_brand>").client_brand == "&lol;"


@pytest.mark.parametrize(
    "piece",
    [
        b"<",
        b"<a ",
        b"<a>",
        b"</",
        b"&#1",
        b"<![CDATA[",
        b"<result><name>a</name><stderr_out><![CDATA[</stderr_out></result>",
        b"<result><name>a</name><stderr_out>\n<![CDATA[\n]]></result>",
        b"<a>" + b" " * 50,
    ],
)
def test_decoding_time_of_a_repetitive_body_is_bounded(piece):
    body = b"<scheduler_request>" + piece * (1_000_000 // len(piece))
    started = time.perf_counter()
    with contextlib.suppress(xml.BadXml):
        decode_request(body)
    assert time.perf_counter() - started < 5


def test_damaged_requests_are_decoded_or_refused():
    chance = random.Random(2)
    bodies = [path.read_bytes().partition(b"\n\n")[2] for path in REPORT]
    alphabet = [b"<", b">", b"/", b"&", b"]]>", b"\x00", b"\xff", b"9", b"</result>", b"<a>", b""]
    read = refused = 0
    for _ in range(1500):
        body = bytearray(chance.choice(bodies))
        for _ in range(chance.choice((1, 1, 2, 8))):
            where = chance.randrange(len(body))
            body[where : where + chance.choice((0, 1, 30))] = chance.choice(alphabet)
        try:
            decode_request(bytes(body))
        except xml.BadXml:
            refused += 1
        else:
            read += 1
    assert read > 100
    assert refused > 100


def test_coprocessors_get_the_type_names_used_in_replies():
    opencl = "<coproc_opencl><name>T4</name><vendor_id>4318</vendor_id></coproc_opencl>"
    said = request(
        "<coprocs><coproc_cuda><count>2</count><name>T4</name><drvVersion>53510</drvVersion>"
        f"<req_secs>60</req_secs>{opencl}</coproc_cuda><coproc_ati><count>1</count></coproc_ati>"
        "<coproc_intel_gpu><count>1</count></coproc_intel_gpu><unknown><count>1</count></unknown>"
        "<coproc><type>fpga</type><count>3</count></coproc></coprocs>"
    )
    assert [(each.type, each.count) for each in said.coprocs] == [
        ("NVIDIA", 2),
        ("ATI", 1),
        ("intel_gpu", 1),
        ("fpga", 3),
    ]
    cuda = said.coprocs[0]
    assert (cuda.driver_version, cuda.req_secs, cuda.opencl.vendor_id) == (53510, 60.0, 4318)


def test_character_references_above_255_are_unicode_characters():
    text = "&#x20ac;&#8364; &#233; &#x1F600;&#10;&#55296;&#x110000;&#300;&#1;"
    said = request(f"<client_brand>{text}x</client_brand>")
    assert said.client_brand == "€€ é 😀\n\ufffd\ufffdĬ?x"


def test_empty_containers_decode_to_empty_lists():
    said = request("<other_results/><app_versions>\n</app_versions><coprocs/><alt_platform/>")
    assert (said.other_results, said.app_versions, said.coprocs) == ((), (), ())
    assert said.alt_platforms == ()
    assert request("<alt_platform><x>1</x></alt_platform>").alt_platforms == ()
    assert request("<host_info>none</host_info>").host_info == request("").host_info
