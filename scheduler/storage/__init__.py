"""Storage: the room of files; no other part of the server opens one.

All files are under ``settings.VAR_DIR``::

    download/<fan>/<name>        files for clients, immutable once published
    download/<fan>/.<x>.staged   copied from a path, not yet published
    upload/<fan>/<name>          a finished upload, never written again
    upload/<fan>/.<name>.part    an upload in progress
    upload/<fan>/.<name>.digest  its digest, if the file system has no extended attributes
    results/<app>/...            outputs that the assimilator keeps
    templates/<name>             BOINC's templates, put there by staff
    archive/YYYY-MM-DD.jsonl.gz  rows that the purger removed from the database
    project-id                   the identifier of the project, which is also in the database
    workshop/                    packages that are being unpacked, to be published

Downloads may be in an S3-compatible store instead (``settings.STORAGE``), under keys that equal
these paths; all other files are always on the disk.

Two rules make this safe for crashes and concurrent processes.  A name that may be requested appears
only by an atomic rename or link of a complete file.  (A new input is written under its final name,
because no client has the name before its row is committed.)  The path of a partial upload is
renamed or removed only by the process that holds its lock.
"""

from __future__ import annotations

from scheduler.storage.app_files.app_trees import (
    VersionFolder,
    find_plan_classes,
    read_plan_classes,
    version_folders,
)
from scheduler.storage.app_files.archives import MAX_BYTES as MAX_PACKAGE_BYTES
from scheduler.storage.app_files.archives import UnreadablePackage
from scheduler.storage.app_files.launcher import ARCHIVE_NAME, launcher
from scheduler.storage.app_files.packages import (
    Source,
    begins_with,
    first_line_ends_with,
    open_package,
    published,
    read_key_text,
    read_signatures,
    received,
    stage_program,
    with_texts,
    workshop,
    write_prepared,
)
from scheduler.storage.archive import append_archive, archive_days, archive_sizes, read_archive
from scheduler.storage.bundles import KINDS as BUNDLES
from scheduler.storage.bundles import Bundle, Shortened, gathered, member_name, spooled
from scheduler.storage.digests import DIGEST_ATTRIBUTE, Digest
from scheduler.storage.downloads import (
    FileNameTaken,
    Staged,
    delete_downloads,
    discard,
    download_digest,
    download_sizes,
    download_start,
    open_download,
    publish,
    publish_all,
    stage_bytes,
    stage_file,
    sync_downloads,
)
from scheduler.storage.leftovers import OldFile, delete_old_files, old_downloads, old_uploads
from scheduler.storage.names import (
    BadFileName,
    check_name,
    download_path,
    download_url_path,
    fan_out,
    upload_path,
)
from scheduler.storage.notices import notice, put_notice, signs_of_life
from scheduler.storage.owner import record_owner
from scheduler.storage.remote import Store, StoreAway, Stored, StoreDamaged, StoreError, store
from scheduler.storage.results import (
    change_result,
    keep_result,
    result_digest,
    result_exists,
    sync_results,
    write_result,
)
from scheduler.storage.shared import NotShared, shared_file
from scheduler.storage.spool import Spool
from scheduler.storage.statistics import (
    STATISTICS_FILES,
    open_statistics,
    statistics_folder,
    written_statistics,
)
from scheduler.storage.templates import read_template, template_names
from scheduler.storage.uploads import (
    DigestMismatch,
    Upload,
    UploadFinished,
    UploadGap,
    UploadLocked,
    UploadSize,
    begin_upload,
    delete_uploads,
    finished_uploads,
    has_room_for,
    open_upload,
    put_upload,
    upload_digest,
    upload_size,
    uploads_stopped,
)

__all__ = [
    "ARCHIVE_NAME",
    "BUNDLES",
    "DIGEST_ATTRIBUTE",
    "MAX_PACKAGE_BYTES",
    "STATISTICS_FILES",
    "BadFileName",
    "Bundle",
    "Digest",
    "DigestMismatch",
    "FileNameTaken",
    "NotShared",
    "OldFile",
    "Shortened",
    "Source",
    "Spool",
    "Staged",
    "Store",
    "StoreAway",
    "StoreDamaged",
    "StoreError",
    "Stored",
    "UnreadablePackage",
    "Upload",
    "UploadFinished",
    "UploadGap",
    "UploadLocked",
    "UploadSize",
    "VersionFolder",
    "append_archive",
    "archive_days",
    "archive_sizes",
    "begin_upload",
    "begins_with",
    "change_result",
    "check_name",
    "delete_downloads",
    "delete_old_files",
    "delete_uploads",
    "discard",
    "download_digest",
    "download_path",
    "download_sizes",
    "download_start",
    "download_url_path",
    "fan_out",
    "find_plan_classes",
    "finished_uploads",
    "first_line_ends_with",
    "gathered",
    "has_room_for",
    "keep_result",
    "launcher",
    "member_name",
    "notice",
    "old_downloads",
    "old_uploads",
    "open_download",
    "open_package",
    "open_statistics",
    "open_upload",
    "publish",
    "publish_all",
    "published",
    "put_notice",
    "put_upload",
    "read_archive",
    "read_key_text",
    "read_plan_classes",
    "read_signatures",
    "read_template",
    "received",
    "record_owner",
    "result_digest",
    "result_exists",
    "shared_file",
    "signs_of_life",
    "spooled",
    "stage_bytes",
    "stage_file",
    "stage_program",
    "statistics_folder",
    "store",
    "sync_downloads",
    "sync_results",
    "template_names",
    "upload_digest",
    "upload_path",
    "upload_size",
    "uploads_stopped",
    "version_folders",
    "with_texts",
    "workshop",
    "write_prepared",
    "write_result",
    "written_statistics",
]
