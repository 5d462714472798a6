"""Stores, reads and deletes the files of the project in VAR_DIR or an S3 store.

All files are under ``settings.VAR_DIR``::

    download/<fan>/<name>        files for clients, immutable once published
    download/<fan>/.<x>.staged   copied from a path, not yet published
    upload/<fan>/<name>          a finished upload, which does not change
    upload/<fan>/.<name>.part    an upload in progress
    upload/<fan>/.<name>.digest  its digest, if the file system has no extended attributes
    results/<app>/...            outputs that the assimilator keeps
    templates/<name>             BOINC's templates, added by staff
    archive/YYYY-MM-DD.jsonl.gz  rows that the purger removed from the database
    project-id                   the identifier of the project, which is also in the database
    workshop/                    packages that are being unpacked, to be published
    spool/                       temporary files without a name
    stats/<name>                 the daily export for statistics sites
    run/<daemon>.alive           touched by the daemon every few seconds
    run/metrics/<server>/        counters of the processes of a web server (project.monitoring)
    run/backup.lock              locked by a backup, which holds the deletion of files
    run/deletions.lock           shared by the processes that delete files
    <name>.json                  notices for all processes, such as the maintenance

Downloads may be in an S3-compatible store instead (``settings.STORAGE``), under keys that equal
these paths; all other files are always on the disk.

Two rules protect the files against crashes and concurrent processes.  A name that clients may
request is created only by an atomic rename or link of a complete file.  (A new input is written
under its final name, because no client has the name before its row is committed.)  The path of a
partial upload is renamed or removed only by the process that has locked the file.
"""

from __future__ import annotations

from scheduler.storage.app_files.app_trees import VersionFolder as VersionFolder
from scheduler.storage.app_files.app_trees import find_plan_classes as find_plan_classes
from scheduler.storage.app_files.app_trees import read_plan_classes as read_plan_classes
from scheduler.storage.app_files.app_trees import version_folders as version_folders
from scheduler.storage.app_files.archives import MAX_PACKAGE_BYTES as MAX_PACKAGE_BYTES
from scheduler.storage.app_files.archives import UnreadablePackage as UnreadablePackage
from scheduler.storage.app_files.launcher import ARCHIVE_NAME as ARCHIVE_NAME
from scheduler.storage.app_files.launcher import launcher as launcher
from scheduler.storage.app_files.packages import Source as Source
from scheduler.storage.app_files.packages import begins_with as begins_with
from scheduler.storage.app_files.packages import first_line_ends_with as first_line_ends_with
from scheduler.storage.app_files.packages import open_package as open_package
from scheduler.storage.app_files.packages import published as published
from scheduler.storage.app_files.packages import published_chunks as published_chunks
from scheduler.storage.app_files.packages import read_key_text as read_key_text
from scheduler.storage.app_files.packages import read_signatures as read_signatures
from scheduler.storage.app_files.packages import received as received
from scheduler.storage.app_files.packages import stage_program as stage_program
from scheduler.storage.app_files.packages import with_texts as with_texts
from scheduler.storage.app_files.packages import workshop as workshop
from scheduler.storage.app_files.packages import write_prepared as write_prepared
from scheduler.storage.app_files.packages import zip_prepared as zip_prepared
from scheduler.storage.archive import append_archive as append_archive
from scheduler.storage.archive import archive_days as archive_days
from scheduler.storage.archive import archive_sizes as archive_sizes
from scheduler.storage.archive import read_archive as read_archive
from scheduler.storage.bundles import BUNDLES as BUNDLES
from scheduler.storage.bundles import Bundle as Bundle
from scheduler.storage.bundles import Shortened as Shortened
from scheduler.storage.bundles import gathered as gathered
from scheduler.storage.bundles import member_name as member_name
from scheduler.storage.bundles import spooled as spooled
from scheduler.storage.deleting import BackupRuns as BackupRuns
from scheduler.storage.deleting import DeletionsHeld as DeletionsHeld
from scheduler.storage.deleting import are_deletions_held as are_deletions_held
from scheduler.storage.deleting import deletions_allowed as deletions_allowed
from scheduler.storage.deleting import deletions_held as deletions_held
from scheduler.storage.digests import DIGEST_ATTRIBUTE as DIGEST_ATTRIBUTE
from scheduler.storage.digests import Digest as Digest
from scheduler.storage.disk import NotRegularFile as NotRegularFile
from scheduler.storage.downloads import FileNameTaken as FileNameTaken
from scheduler.storage.downloads import Staged as Staged
from scheduler.storage.downloads import delete_downloads as delete_downloads
from scheduler.storage.downloads import discard as discard
from scheduler.storage.downloads import download_digest as download_digest
from scheduler.storage.downloads import download_sizes as download_sizes
from scheduler.storage.downloads import download_start as download_start
from scheduler.storage.downloads import open_download as open_download
from scheduler.storage.downloads import publish as publish
from scheduler.storage.downloads import publish_all as publish_all
from scheduler.storage.downloads import stage_bytes as stage_bytes
from scheduler.storage.downloads import stage_file as stage_file
from scheduler.storage.downloads import sync_downloads as sync_downloads
from scheduler.storage.kept_outputs import change_result as change_result
from scheduler.storage.kept_outputs import keep_result as keep_result
from scheduler.storage.kept_outputs import result_digest as result_digest
from scheduler.storage.kept_outputs import result_exists as result_exists
from scheduler.storage.kept_outputs import sync_results as sync_results
from scheduler.storage.kept_outputs import write_result as write_result
from scheduler.storage.leftovers import OldFile as OldFile
from scheduler.storage.leftovers import delete_old_files as delete_old_files
from scheduler.storage.leftovers import old_downloads as old_downloads
from scheduler.storage.leftovers import old_uploads as old_uploads
from scheduler.storage.names import BadFileName as BadFileName
from scheduler.storage.names import check_name as check_name
from scheduler.storage.names import download_path as download_path
from scheduler.storage.names import download_url_path as download_url_path
from scheduler.storage.names import fan_out as fan_out
from scheduler.storage.names import upload_file as upload_file
from scheduler.storage.names import upload_path as upload_path
from scheduler.storage.notices import notice as notice
from scheduler.storage.notices import put_notice as put_notice
from scheduler.storage.notices import show_life as show_life
from scheduler.storage.notices import signs_of_life as signs_of_life
from scheduler.storage.owner import INCOMPLETE_RESTORE as INCOMPLETE_RESTORE
from scheduler.storage.owner import OWNER_FILE as OWNER_FILE
from scheduler.storage.owner import record_owner as record_owner
from scheduler.storage.owner import unusable_folders as unusable_folders
from scheduler.storage.remote import Store as Store
from scheduler.storage.remote import StoreAway as StoreAway
from scheduler.storage.remote import Stored as Stored
from scheduler.storage.remote import StoreDamaged as StoreDamaged
from scheduler.storage.remote import StoreError as StoreError
from scheduler.storage.remote import store as store
from scheduler.storage.shared import NotShared as NotShared
from scheduler.storage.shared import shared_file as shared_file
from scheduler.storage.statistics import STATISTICS_FILES as STATISTICS_FILES
from scheduler.storage.statistics import StatisticsFile as StatisticsFile
from scheduler.storage.statistics import open_statistics as open_statistics
from scheduler.storage.statistics import statistics_folder as statistics_folder
from scheduler.storage.statistics import written_statistics as written_statistics
from scheduler.storage.task_trees import BadTree as BadTree
from scheduler.storage.task_trees import TaskFile as TaskFile
from scheduler.storage.task_trees import TreeWriter as TreeWriter
from scheduler.storage.task_trees import read_tree as read_tree
from scheduler.storage.templates import read_template as read_template
from scheduler.storage.templates import template_names as template_names
from scheduler.storage.uploads import DigestMismatch as DigestMismatch
from scheduler.storage.uploads import Upload as Upload
from scheduler.storage.uploads import UploadFinished as UploadFinished
from scheduler.storage.uploads import UploadGap as UploadGap
from scheduler.storage.uploads import UploadLocked as UploadLocked
from scheduler.storage.uploads import UploadSize as UploadSize
from scheduler.storage.uploads import begin_upload as begin_upload
from scheduler.storage.uploads import delete_uploads as delete_uploads
from scheduler.storage.uploads import finished_uploads as finished_uploads
from scheduler.storage.uploads import free_nbytes as free_nbytes
from scheduler.storage.uploads import has_room_for as has_room_for
from scheduler.storage.uploads import open_upload as open_upload
from scheduler.storage.uploads import put_upload as put_upload
from scheduler.storage.uploads import upload_digest as upload_digest
from scheduler.storage.uploads import upload_size as upload_size
from scheduler.storage.uploads import uploads_stopped as uploads_stopped
