"""Decodes scheduler replies from XML [pure]."""

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
    """Read a scheduler reply; raises BadXmlError if it is truncated or not a reply.

    `platform` and `fpops` (operations/s) are the defaults of app versions without them.
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
        messages=tuple(_message(element) for element in root.every("message")),
        acks=_names(root, "result_ack"),
        aborts=_names(root, "result_abort"),
        aborts_if_not_started=_names(root, "result_abort_if_not_started"),
        deleted_files=root.strings("delete_file_info"),
        files=tuple(_file_info(element) for element in root.every("file_info")),
        app_versions=tuple(
            _app_version(element, platform, fpops) for element in root.every("app_version")
        ),
        workunits=tuple(_workunit(element) for element in root.every("workunit")),
        results=tuple(_result(element) for element in root.every("result")),
        trickles=tuple(
            trickle for element in root.every("trickle_down") if (trickle := _trickle(element.text))
        ),
        trickle_up_urls=tuple(
            url for element in root.every("trickle_up_urls") for url in element.strings("url")
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


def _message(element: Element) -> Message:
    # If the project did not escape its HTML, the text of the child elements is included.
    words = [element.text, *(child.text for child in element.children)]
    text = " ".join(" ".join(words).split())
    return Message(text, element.attributes.get("priority", "low"))


_TRICKLE = re.compile(
    r"\s*<result_name>([^<]*)</result_name>\s*<time>\s*(\d{1,18})[^<]*</time>[ \t\r]*\n?(.*)\Z",
    re.DOTALL,
)


def _trickle(text: str) -> TrickleMessage | None:
    """Read a trickle down; its text is unchanged, without BOINC's tags before it."""
    match = _TRICKLE.match(text)
    if match is None:
        return None
    return TrickleMessage(unescape(match[1]).strip(), int(match[2]), match[3])


def _names(root: Element, kind: str) -> tuple[str, ...]:
    return tuple(element.string("name") for element in root.every(kind))


def _file_info(element: Element) -> FileInfo:
    urls = _web_urls(element, "url", "download_url")
    # A plain <url> of an output is its upload address if it names the handler (PROTOCOL 2.4).
    uploads = tuple(url for url in urls if "file_upload_handler" in url)
    return FileInfo(
        name=element.string("name"),
        urls=tuple(url for url in urls if url not in uploads),
        upload_urls=_web_urls(element, "upload_url") + uploads,
        gzipped_urls=_web_urls(element, "gzipped_url"),
        nbytes=max(element.integer("nbytes"), 0),
        md5=element.string("md5_cksum").lower(),
        signature=element.string("file_signature"),
        executable=element.flag("executable"),
        sticky=element.flag("sticky"),
        max_nbytes=max(element.integer("max_nbytes"), 0),
        grant=element.string("xml_signature"),
        gzip_when_done=element.flag("gzip_when_done"),
    )


def _web_urls(element: Element, *names: str) -> tuple[str, ...]:
    """Return the http and https addresses; others, such as file addresses, are ignored."""
    return tuple(url for url in element.strings(*names) if is_web_url(url))


def _file_refs(element: Element) -> tuple[FileRef, ...]:
    return tuple(
        FileRef(
            file_name=ref.string("file_name"),
            open_name=ref.string("open_name"),
            main_program=ref.flag("main_program"),
            copy_file=ref.flag("copy_file"),
            optional=ref.flag("optional"),
        )
        for ref in element.every("file_ref")
    )


def _app_version(element: Element, platform: str, fpops: float) -> AppVersion:
    avg_ncpus = max(element.number("avg_ncpus", 1.0), 0.0) or 1.0
    return AppVersion(
        app_name=element.string("app_name"),
        version_num=element.integer("version_num"),
        platform=element.string("platform") or platform,
        plan_class=element.string("plan_class"),
        api_version=element.string("api_version"),
        avg_ncpus=avg_ncpus,
        flops=max(element.number("flops"), 0.0) or avg_ncpus * fpops,
        cmdline=element.string("cmdline"),
        file_refs=_file_refs(element),
        needs_network=element.flag("needs_network"),
        file_prefix=element.string("file_prefix"),
    )


def _workunit(element: Element) -> Workunit:
    return Workunit(
        name=element.string("name"),
        app_name=element.string("app_name"),
        rsc_fpops_est=element.number("rsc_fpops_est", 6.05e14),
        rsc_fpops_bound=element.number("rsc_fpops_bound", 2.4e15),
        rsc_memory_bound=element.number("rsc_memory_bound", 1e8),
        rsc_disk_bound=element.number("rsc_disk_bound", 1e9),
        command_line=element.string("command_line"),
        file_refs=_file_refs(element),
    )


def _result(element: Element) -> Result:
    return Result(
        name=element.string("name"),
        wu_name=element.string("wu_name"),
        platform=element.string("platform"),
        version_num=element.integer("version_num"),
        plan_class=element.string("plan_class"),
        report_deadline=element.number("report_deadline"),
        report_immediately=element.flag("report_immediately"),
        file_refs=_file_refs(element),
    )
