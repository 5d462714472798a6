"""Builds the parts of a reply that make a client transfer or delete files."""

from __future__ import annotations

from datetime import datetime, timedelta

from scheduler import signing, storage
from scheduler.boinc.wire import messages
from scheduler.config import ProjectConfig
from scheduler.messages.facts import FileMoves, FileToGet

#: BOINC's name of an app without files.  A client does not run its results, but uploads their
#: outputs.
FILE_MOVER = "file_mover"
_VERSION = 100
#: The time from a reply to the deadline of an upload.
_DELAY_BOUND = timedelta(days=30)


def file_moves_part(
    moves: FileMoves, *, platform: str, config: ProjectConfig, now: datetime
) -> dict[str, tuple[object, ...]]:
    """Return the elements to append to each field of a reply, by the name of the field.

    For each file to upload, the reply contains a result whose app version has no files and whose
    output is this file.  BOINC's clients treat such a result as finished and upload its output,
    which is on the host already.
    """
    deadline = (now + _DELAY_BOUND).timestamp()
    gets = moves.gets
    return {
        "apps": (messages.ReplyApp(name=FILE_MOVER),) if gets else (),
        "app_versions": (
            (
                messages.ReplyAppVersion(
                    app_name=FILE_MOVER, version_num=_VERSION, platform=platform
                ),
            )
            if gets
            else ()
        ),
        "files": tuple(
            messages.DownloadFile(
                name=put.name,
                urls=(config.master_url + storage.download_url_path(put.name),),
                nbytes=put.nbytes,
                md5_cksum=put.md5,
                sticky=True,
            )
            for put in moves.puts
        ),
        "uploads": tuple(_upload(get.name, config) for get in gets),
        "workunits": tuple(
            messages.ReplyWorkunit(name=get.result_name, app_name=FILE_MOVER, version_num=_VERSION)
            for get in gets
        ),
        "results": tuple(_result(get, platform, deadline) for get in gets),
        "delete_file_infos": moves.deletes,
    }


def _upload(name: str, config: ProjectConfig) -> messages.UploadFile:
    return messages.UploadFile(
        name=name,
        urls=(config.upload_url,),
        max_nbytes=config.max_output_bytes,
        xml_signature=signing.upload_grant(name, config.max_output_bytes),
        sticky=True,
    )


def _result(get: FileToGet, platform: str, deadline: float) -> messages.ReplyResult:
    return messages.ReplyResult(
        name=get.result_name,
        wu_name=get.result_name,
        report_deadline=deadline,
        platform=platform,
        version_num=_VERSION,
        file_refs=(messages.FileRef(file_name=get.name),),
    )
