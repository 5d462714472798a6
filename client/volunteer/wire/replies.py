"""Decodes scheduler replies from XML."""

from __future__ import annotations

import re

from volunteer.wire.messages import (
    MAX_TERMINATION_SECONDS,
    TERMINATION_SECONDS,
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
from volunteer.wire.xml import Element, decode, parse, read_record, unescape


def decode_reply(body: bytes, platform: str = "", fpops: float = 1e9) -> Reply:
    """Return the scheduler reply in a response.

    `platform` is the platform of app versions for which the reply contains none. `fpops` is the
    speed of one processor in operations/s, from which a missing speed is computed. Raises
    BadXmlError if the reply is truncated or is not a scheduler reply.
    """
    root = parse(decode(body), "scheduler_reply")
    computing = root.first("global_preferences")
    preferences = root.first("project_preferences")
    venue = root.first("host_venue")
    return read_record(
        Reply,
        root,
        account=read_record(Account, root),
        is_down=root.flag("project_is_down"),
        no_cpu_apps=root.flag("no_cpu_apps") or "CPU" in root.strings("no_rsc_apps"),
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
        workunits=tuple(
            read_record(
                Workunit,
                element,
                max_termination_time=_termination_seconds(element),
                avg_ncpus=max(element.number("avg_ncpus"), 0.0),
                file_refs=_file_refs(element),
            )
            for element in root.every("workunit")
        ),
        results=tuple(
            read_record(Result, element, file_refs=_file_refs(element))
            for element in root.every("result")
        ),
        trickles=tuple(
            trickle for element in root.every("trickle_down") if (trickle := _trickle(element.text))
        ),
        trickle_up_urls=tuple(
            url for element in root.every("trickle_up_urls") for url in element.strings("url")
        ),
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
    """Return a trickle down without BOINC's tags before the text, or None if it is malformed."""
    match = _TRICKLE.match(text)
    if match is None:
        return None
    return TrickleMessage(unescape(match[1]).strip(), int(match[2]), match[3])


def _termination_seconds(element: Element) -> float:
    """Return the seconds between SIGTERM and SIGKILL of a cancelled program, at most an hour."""
    seconds = element.number("max_termination_time", TERMINATION_SECONDS)
    return min(max(seconds, 0.0), MAX_TERMINATION_SECONDS)


def _names(root: Element, kind: str) -> tuple[str, ...]:
    return tuple(element.string("name") for element in root.every(kind))


def _file_info(element: Element) -> FileInfo:
    urls = _web_urls(element, "url", "download_url")
    # A plain <url> of an output is its upload address if it names the handler (PROTOCOL 2.4).
    uploads = tuple(url for url in urls if "file_upload_handler" in url)
    return read_record(
        FileInfo,
        element,
        urls=tuple(url for url in urls if url not in uploads),
        upload_urls=_web_urls(element, "upload_url") + uploads,
        gzipped_urls=_web_urls(element, "gzipped_url"),
        nbytes=max(element.integer("nbytes"), 0),
        md5=element.string("md5_cksum").lower(),
        signature=element.string("file_signature"),
        max_nbytes=max(element.integer("max_nbytes"), 0),
        grant=element.string("xml_signature"),
    )


def _web_urls(element: Element, *names: str) -> tuple[str, ...]:
    """Return the http and https addresses in the child elements with these names."""
    return tuple(url for url in element.strings(*names) if is_web_url(url))


def _file_refs(element: Element) -> tuple[FileRef, ...]:
    return tuple(read_record(FileRef, ref) for ref in element.every("file_ref"))


def _app_version(element: Element, platform: str, fpops: float) -> AppVersion:
    avg_ncpus = max(element.number("avg_ncpus", 1.0), 0.0) or 1.0
    return read_record(
        AppVersion,
        element,
        platform=element.string("platform") or platform,
        avg_ncpus=avg_ncpus,
        flops=max(element.number("flops"), 0.0) or avg_ncpus * fpops,
        file_refs=_file_refs(element),
    )
