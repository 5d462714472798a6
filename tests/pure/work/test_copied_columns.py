"""Statements that copy workunits copy every column, except the listed ones."""

from __future__ import annotations

import re

from scheduler import sql
from scheduler.models import Workunit

#: Columns of a workunit's progress, which a copy does not have.
OF_ITS_LIFE = {
    "app_version_id",
    "assimilate_after",
    "assimilate_state",
    "cancel_reason",
    "cancel_requested_at",
    "canonical_credit",
    "canonical_result_id",
    "dependency_failed_at",
    "error_mask",
    "file_delete_after",
    "file_delete_state",
    "finished_at",
    "hard_to_send_at",
    "hold_code",
    "hr_class",
    "lease_token",
    "lease_until",
    "need_validate",
    "past_inputs",
    "retried_as",
    "transition_at",
    "revalidate_requested_at",
    "unsendable_at",
    "validate_after",
}
#: Set by the submission of each new workunit.
OF_ITS_SUBMISSION = {
    "id",
    "name",
    "app_id",
    "batch_id",
    "bundle_id",
    "queue_id",
    "output_bytes",
    "outputs_kept",
    "pending_dependency_count",
    "release_state",
    "waits_for_batch",
    "has_parents",
    "has_children",
    "created_at",
}
#: Times, targets and groups, which copies by a generator do not have.
NOT_OF_A_TEMPLATE = {
    "broadcast",
    "end_before",
    "is_group",
    "start_after",
    "start_before",
    "target_account_id",
    "target_host_id",
    "target_team_id",
}

COLUMNS = {field.column for field in Workunit._meta.concrete_fields}


def test_retry_copies_every_column_except_the_state_of_the_failed_workunit() -> None:
    listed = re.search(
        r"INSERT INTO workunit \((.*?)\)", sql.load("work/retry_workunits"), re.DOTALL
    )
    copied = set(re.findall(r"\w+", listed[1]))
    assert copied == COLUMNS - OF_ITS_LIFE
    assert OF_ITS_LIFE < COLUMNS


def test_template_provides_every_column_shared_by_its_copies() -> None:
    left_out = OF_ITS_LIFE | OF_ITS_SUBMISSION | NOT_OF_A_TEMPLATE
    text = sql.load("read_template", "daemons.sql")
    given = set(re.findall(r"'(\w+)', (?:extract\(epoch FROM )?w\.\1\b", text))
    assert given == COLUMNS - left_out
    assert left_out < COLUMNS
    assert "'queue', q.name" in text
