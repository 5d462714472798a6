"""Captured scheduler requests of real clients are decoded without loss."""

from __future__ import annotations

import re
from pathlib import Path

from scheduler.boinc.wire.requests import decode_request, encode_request

CAPTURED = Path(__file__).parents[2] / "golden" / "captured"


def leaves(name, text):
    """Return the contents of all `<name>` elements in `text`, without using the codec."""
    return re.findall(f"<{name}>([^<]*)</{name}>", text)


def blocks(name, text):
    return re.findall(f"<{name}>(.*?)</{name}>", text, re.DOTALL)


def first(name, text, otherwise=""):
    return next(iter(leaves(name, text)), otherwise)


def plain(capture):
    """Return the body of a request without the standard error of apps."""
    return re.sub("<stderr_out>.*?</stderr_out>", "", capture.body.decode(), flags=re.DOTALL)


def top(capture):
    """Return the body without nested parts that use the same element names."""
    text = plain(capture)
    for part in ("result", "msg_from_host", "app_versions", "other_results", "coprocs"):
        text = re.sub(f"<{part}>.*?</{part}>", "", text, flags=re.DOTALL)
    return re.sub(r"\n<file_info>.*?</file_info>", "", text, flags=re.DOTALL)


def test_number_of_captures_by_kind():
    kinds = [path.name.split("_", 1)[1] for path in CAPTURED.glob("*/*.req")]
    assert sum(kind.startswith("POST") and kind.endswith("_cgi.req") for kind in kinds) == 233
    assert sum(kind.endswith("file_upload_handler.req") for kind in kinds) == 60
    assert sum(kind.startswith("GET") for kind in kinds) == 129


def test_identity_of_the_client_is_decoded(capture):
    text, request = top(capture), decode_request(capture.body)
    assert request.authenticator == first("authenticator", text)
    assert request.hostid == int(first("hostid", text))
    assert request.rpc_seqno == int(first("rpc_seqno", text))
    assert request.cross_project_id == first("cross_project_id", text)
    agent = re.search(rb"BOINC client \((\S+) (\d+)\.(\d+)\.(\d+)\)", capture.head)
    major, minor, release = (int(number) for number in agent.groups()[1:])
    assert request.client_version == 10000 * major + 100 * minor + release
    if request.is_anonymous:
        assert capture.scenario.startswith("10")
    else:
        assert request.platform_name == agent[1].decode()
    keys = blocks("code_sign_key", text)
    assert request.code_sign_key == (keys[0].strip() if keys else "")


def test_requested_work_is_decoded(capture):
    text, request = top(capture), decode_request(capture.body)
    for name in ("work_req_seconds", "cpu_req_secs", "cpu_req_instances", "estimated_delay"):
        assert getattr(request, name) == float(first(name, text))
    for name in ("dont_send_work", "allow_multiple_clients", "sandbox"):
        assert getattr(request, name) is (first(name, text) == "1")
    for name in ("resource_share_fraction", "rrs_fraction", "prrs_fraction"):
        assert getattr(request, name) == float(first(name, text))


def test_facts_of_the_host_are_decoded(capture):
    text, host = top(capture), decode_request(capture.body).host_info
    for name in ("domain_name", "ip_addr", "host_cpid", "p_vendor", "p_model", "p_features"):
        assert getattr(host, name) == first(name, text), name
    for name in ("os_name", "os_version", "virtualbox_version", "docker_version"):
        assert getattr(host, name) == first(name, text), name
    for name in ("timezone", "p_ncpus", "n_usable_coprocs"):
        assert getattr(host, name) == int(first(name, text)), name
    for name in ("p_fpops", "p_iops", "p_membw", "m_nbytes", "m_cache", "d_total", "d_free"):
        assert getattr(host, name) == float(first(name, text)), name


def test_usage_of_the_host_is_decoded(capture):
    text, request = top(capture), decode_request(capture.body)
    for name in ("on_frac", "connected_frac", "active_frac", "gpu_active_frac", "now"):
        assert getattr(request.time_stats, name) == float(first(name, text)), name
    for name in ("bwup", "bwdown", "avg_up", "avg_time_down"):
        assert getattr(request.net_stats, name) == float(first(name, text)), name
    for name in ("d_boinc_used_total", "d_boinc_used_project", "d_project_share"):
        assert getattr(request.disk_usage, name) == float(first(name, text)), name


def test_preferences_are_decoded(capture):
    text, request = top(capture), decode_request(capture.body)
    (working,) = blocks("working_global_preferences", text)
    assert request.working_global_preferences == working.strip()
    for name in ("mod_time", "work_buf_min_days", "work_buf_additional_days", "max_ncpus_pct"):
        assert getattr(request.preferences, name) == float(first(name, working)), name
    for name in ("disk_max_used_gb", "disk_max_used_pct", "disk_min_free_gb", "cpu_usage_limit"):
        assert getattr(request.preferences, name) == float(first(name, working)), name
    for name in ("ram_max_used_busy_pct", "ram_max_used_idle_pct"):
        assert getattr(request.preferences, name) == float(first(name, working)), name
    rest = text.replace(working, "")
    rest = rest.replace("<working_global_preferences></working_global_preferences>", "")
    master = blocks("global_preferences", rest)
    assert request.global_preferences == (master[0].strip() if master else "")
    assert request.global_preferences_mod_time == (
        float(first("mod_time", master[0])) if master else 0
    )


def test_reported_results_are_decoded(capture):
    request = decode_request(capture.body)
    reported = blocks("result", plain(capture))
    assert [result.name for result in request.results] == [first("name", b) for b in reported]
    for result, block in zip(request.results, reported, strict=True):
        assert result.exit_status == int(first("exit_status", block))
        assert result.state == int(first("state", block))
        assert result.platform == first("platform", block)
        assert result.version_num == int(first("version_num", block))
        assert result.app_version_num == int(first("app_version_num", block))
        assert result.plan_class == first("plan_class", block)
        assert result.final_cpu_time == float(first("final_cpu_time", block))
        assert result.final_elapsed_time == float(first("final_elapsed_time", block))
        assert result.final_peak_disk_usage == float(first("final_peak_disk_usage", block, 0))
        files = blocks("file_info", block)
        assert [file.name for file in result.file_infos] == [first("name", f) for f in files]
        assert [file.md5_cksum for file in result.file_infos] == [
            first("md5_cksum", f) for f in files
        ]
        assert [file.nbytes for file in result.file_infos] == [
            float(first("nbytes", f)) for f in files
        ]
        assert [file.error_msg for file in result.file_infos] == [
            first("error_msg", f).strip() for f in files
        ]


def test_standard_error_of_apps_is_decoded(capture):
    request = decode_request(capture.body)
    printed = blocks("stderr_out", capture.body.decode())
    assert len(printed) == len(request.results)
    for result, raw in zip(request.results, printed, strict=True):
        assert result.core_client_version == first("core_client_version", raw)
        section = re.search(r"<!\[CDATA\[\n(.*)\n\]\]>\n", raw, re.DOTALL)
        assert result.stderr_out == (section[1] if section else "")


def test_other_lists_of_the_host_are_decoded(capture):
    text, request = plain(capture), decode_request(capture.body)
    (versions,) = blocks("app_versions", text)
    assert [
        (version.app_name, version.version_num, version.plan_class, version.flops)
        for version in request.app_versions
    ] == [
        (first("app_name", b), int(first("version_num", b)), first("plan_class", b), flops(b))
        for b in blocks("app_version", versions)
    ]
    (others,) = blocks("other_results", text)
    assert [(r.name, r.app_version, r.plan_class) for r in request.other_results] == [
        (first("name", b), int(first("app_version", b)), first("plan_class", b))
        for b in blocks("other_result", others)
    ]
    assert all(r.app_version < len(request.app_versions) for r in request.other_results)
    running = blocks("ip_result", text)
    assert [(r.name, r.time_remaining) for r in request.in_progress_results] == [
        (first("name", b), float(first("time_remaining", b))) for b in running
    ]
    coprocs = blocks("coproc", text.partition("<app_versions>")[0])
    assert [(c.type, c.count, c.req_secs) for c in request.coprocs] == [
        (first("type", b), int(first("count", b)), float(first("req_secs", b))) for b in coprocs
    ]
    reported = [f for b in blocks("result", text) for f in blocks("file_info", b)]
    sticky = [b for b in blocks("file_info", text) if b not in reported]
    assert [(f.name, f.nbytes, f.status) for f in request.sticky_files] == [
        (first("name", b), float(first("nbytes", b)), int(first("status", b))) for b in sticky
    ]


def flops(block):
    return float(first("flops", block))


def test_trickles_are_decoded(capture):
    text, request = plain(capture), decode_request(capture.body)
    raw = blocks("msg_from_host", text)
    assert [t.result_name for t in request.trickles] == [first("result_name", b) for b in raw]
    assert [t.time for t in request.trickles] == [int(first("time", b)) for b in raw]
    assert [t.variety for t in request.trickles] == [first("variety", b) for b in raw]
    assert [t.text for t in request.trickles] == [b.partition("</time>")[2].strip() for b in raw]


def test_encoding_a_decoded_request_keeps_its_values(capture):
    request = decode_request(capture.body)
    assert decode_request(encode_request(request)) == request


def test_captures_contain_every_part_of_a_request():
    requests = [decode_request(path.read_bytes()) for path in CAPTURED.glob("*/*POST*_cgi.req")]
    assert sum(len(request.results) for request in requests) == 83
    assert sum(len(request.other_results) for request in requests) == 141
    assert sum(len(request.app_versions) for request in requests) == 362
    assert sum(len(request.trickles) for request in requests) == 9
    assert sum(len(request.sticky_files) for request in requests) == 4
    assert sum(len(request.in_progress_results) for request in requests) == 10
    assert sum(len(request.coprocs) for request in requests) == 51
    assert {r.exit_status for request in requests for r in request.results} >= {
        0,
        3,
        11,
        197,
        202,
        203,
        -186,
    }
