"""Scheduler replies: XML in, messages out [pure]."""

from __future__ import annotations

import re

from volunteer.wire.messages import (
    Account,
    AppVersion,
    FileInfo,
    FileRef,
    Message,
    Reply,
    Result,
    TrickleMessage,
    Workunit,
)
from volunteer.wire.web import is_web_url
from volunteer.wire.xml import Element, decode, parse, unescape


def decode_reply(body: bytes, platform: str = "", fpops: float = 1e9) -> Reply:
    """Read a scheduler reply; raises BadXmlError if it is cut off or something else.

    An app version that names no platform or speed gets ours: `platform`, `fpops` (operations/s).
    """
    root = parse(decode(body), "scheduler_reply")
    computing = root.first("global_preferences")
    preferences = root.first("project_preferences")
    venue = root.first("host_venue")
    return Reply(
        account=_account(root),
        master_url=root.string("master_url"),
        hostid=root.integer("hostid"),
        request_delay=root.number("request_delay"),
        next_rpc_delay=root.number("next_rpc_delay"),
        is_down=root.flag("project_is_down"),
        ended=root.flag("ended"),
        no_cpu_apps=root.flag("no_cpu_apps") or "CPU" in root.strings("no_rsc_apps"),
        message_ack=root.flag("message_ack"),
        code_sign_key=root.string("code_sign_key"),
        code_sign_key_signature=root.string("code_sign_key_signature"),
        global_preferences=None if computing is None else computing.text.strip(),
        project_preferences=None if preferences is None else preferences.text.strip(),
        host_venue=None if venue is None else root.string("host_venue"),
        messages=tuple(_message(found) for found in root.every("message")),
        acks=_names(root, "result_ack"),
        aborts=_names(root, "result_abort"),
        aborts_if_not_started=_names(root, "result_abort_if_not_started"),
        deleted_files=root.strings("delete_file_info"),
        files=tuple(_file_info(found) for found in root.every("file_info")),
        app_versions=tuple(
            _app_version(found, platform, fpops) for found in root.every("app_version")
        ),
        workunits=tuple(_workunit(found) for found in root.every("workunit")),
        results=tuple(_result(found) for found in root.every("result")),
        trickles=tuple(
            trickle for found in root.every("trickle_down") if (trickle := _trickle(found.text))
        ),
        trickle_up_urls=tuple(
            url for found in root.every("trickle_up_urls") for url in found.strings("url")
        ),
    )


def _account(root: Element) -> Account:
    return Account(
        project_name=root.string("project_name"),
        userid=root.integer("userid"),
        teamid=root.integer("teamid"),
        user_name=root.string("user_name"),
        team_name=root.string("team_name"),
        user_total_credit=root.number("user_total_credit"),
        user_expavg_credit=root.number("user_expavg_credit"),
        host_total_credit=root.number("host_total_credit"),
        host_expavg_credit=root.number("host_expavg_credit"),
        cross_project_id=root.string("cross_project_id"),
        email_hash=root.string("email_hash"),
    )


def _message(found: Element) -> Message:
    # A project that forgot to escape its links still has something to say: take every word.
    words = [found.text, *(child.text for child in found.children)]
    text = " ".join(" ".join(words).split())
    return Message(text, found.attributes.get("priority", "low"))


_TRICKLE = re.compile(
    r"\s*<result_name>([^<]*)</result_name>\s*<time>\s*(\d{1,18})[^<]*</time>[ \t\r]*\n?(.*)\Z",
    re.DOTALL,
)


def _trickle(text: str) -> TrickleMessage | None:
    """Read a trickle down; its text is kept as it is, without the tags of BOINC before it."""
    found = _TRICKLE.match(text)
    if found is None:
        return None
    return TrickleMessage(unescape(found[1]).strip(), int(found[2]), found[3])


def _names(root: Element, kind: str) -> tuple[str, ...]:
    return tuple(found.string("name") for found in root.every(kind))


def _file_info(found: Element) -> FileInfo:
    urls = _web_urls(found, "url", "download_url")
    # A plain <url> of an output is its upload address if it says so itself (PROTOCOL 2.4).
    uploads = tuple(url for url in urls if "file_upload_handler" in url)
    return FileInfo(
        name=found.string("name"),
        urls=tuple(url for url in urls if url not in uploads),
        upload_urls=_web_urls(found, "upload_url") + uploads,
        gzipped_urls=_web_urls(found, "gzipped_url"),
        nbytes=max(found.integer("nbytes"), 0),
        md5=found.string("md5_cksum").lower(),
        signature=found.string("file_signature"),
        executable=found.flag("executable"),
        sticky=found.flag("sticky"),
        max_nbytes=max(found.integer("max_nbytes"), 0),
        grant=found.string("xml_signature"),
        gzip_when_done=found.flag("gzip_when_done"),
    )


def _web_urls(element: Element, *names: str) -> tuple[str, ...]:
    """Return the http and https addresses; others, such as file addresses, are ignored."""
    return tuple(url for url in element.strings(*names) if is_web_url(url))


def _file_refs(found: Element) -> tuple[FileRef, ...]:
    return tuple(
        FileRef(
            file_name=ref.string("file_name"),
            open_name=ref.string("open_name"),
            main_program=ref.flag("main_program"),
            copy_file=ref.flag("copy_file"),
            optional=ref.flag("optional"),
        )
        for ref in found.every("file_ref")
    )


def _app_version(found: Element, platform: str, fpops: float) -> AppVersion:
    avg_ncpus = max(found.number("avg_ncpus", 1.0), 0.0) or 1.0
    return AppVersion(
        app_name=found.string("app_name"),
        version_num=found.integer("version_num"),
        platform=found.string("platform") or platform,
        plan_class=found.string("plan_class"),
        api_version=found.string("api_version"),
        avg_ncpus=avg_ncpus,
        flops=max(found.number("flops"), 0.0) or avg_ncpus * fpops,
        cmdline=found.string("cmdline"),
        file_refs=_file_refs(found),
        needs_network=found.flag("needs_network"),
        file_prefix=found.string("file_prefix"),
    )


def _workunit(found: Element) -> Workunit:
    return Workunit(
        name=found.string("name"),
        app_name=found.string("app_name"),
        rsc_fpops_est=found.number("rsc_fpops_est", 6.05e14),
        rsc_fpops_bound=found.number("rsc_fpops_bound", 2.4e15),
        rsc_memory_bound=found.number("rsc_memory_bound", 1e8),
        rsc_disk_bound=found.number("rsc_disk_bound", 1e9),
        command_line=found.string("command_line"),
        file_refs=_file_refs(found),
    )


def _result(found: Element) -> Result:
    return Result(
        name=found.string("name"),
        wu_name=found.string("wu_name"),
        platform=found.string("platform"),
        version_num=found.integer("version_num"),
        plan_class=found.string("plan_class"),
        report_deadline=found.number("report_deadline"),
        report_immediately=found.flag("report_immediately"),
        file_refs=_file_refs(found),
    )
