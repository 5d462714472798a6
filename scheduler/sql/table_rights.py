"""Lists the rights of each database role on each table.

The roles are those of docs/database.md: `web` serves requests, `daemons` runs the passes, and
`science` reads work and results for analyses.  The owner of the tables runs the migrations.  A
table without a row here gets no right, and a test fails until its row exists.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

#: The letters of `TABLES`.
PRIVILEGES = {"S": "SELECT", "I": "INSERT", "U": "UPDATE", "D": "DELETE"}
#: Rights that no role has on any table; only the owner has them.
OWNERS_PRIVILEGES = ("TRUNCATE", "REFERENCES", "TRIGGER")
#: The roles that get rights, in the order of the columns of `TABLES`.
ROLES = ("web", "daemons", "science")

#: The privileges of web, daemons and science for each table, one letter each.
TABLES: Mapping[str, tuple[str, str, str]] = {
    # Work
    "batch": ("SIUD", "SIU", "S"),
    "batch_usage": ("SID", "SIU", "S"),
    "bundle": ("SIUD", "SIUD", "S"),
    "bundle_member": ("SIUD", "SIUD", "S"),
    "dependency": ("SIUD", "SIUD", "S"),
    "ledger_entry": ("SI", "SI", "S"),
    "purged_results": ("S", "SIU", "S"),
    "purged_workunits": ("S", "SIU", "S"),
    "queue": ("SIUD", "SU", "S"),
    "queue_balance": ("SIUD", "S", "S"),
    "queue_schedule": ("SIUD", "S", "S"),
    "queue_slot": ("SIUD", "SIUD", ""),
    "refusal": ("SIUD", "SIUD", ""),
    "result": ("SIUD", "SIUD", "S"),
    "result_file": ("SIUD", "SID", "S"),
    "science_failure": ("SIUD", "SIUD", "S"),
    "usage_sample": ("SID", "SIUD", "S"),
    "workunit": ("SIUD", "SIUD", "S"),
    "workunit_file": ("SIUD", "SIUD", "S"),
    "workunit_wakeup": ("SI", "SID", ""),
    # Files
    "file": ("SIU", "SIUD", "S"),
    "file_hold": ("SIUD", "SIUD", ""),
    "file_request": ("SIUD", "SIUD", ""),
    "job_file": ("SIUD", "SIUD", ""),
    # Apps
    "app": ("SIUD", "SU", "S"),
    "app_version": ("SIUD", "SU", "S"),
    "app_version_file": ("SIUD", "S", "S"),
    "plan_class": ("SIUD", "S", "S"),
    "platform": ("SIUD", "S", "S"),
    # Hosts and messages
    "host": ("SIUD", "SU", "S"),
    "host_app_version": ("SIUD", "SIUD", "S"),
    "host_app_credit": ("SIUD", "SIU", "S"),
    "host_token": ("SIUD", "S", ""),
    "letter": ("SIU", "SU", ""),
    "letter_recipient": ("SD", "SI", ""),
    "news": ("SIU", "", ""),
    "outbox_message": ("SIUD", "SIUD", ""),
    "trickle_down": ("SIUD", "SIUD", ""),
    "trickle_up": ("SIUD", "SUD", "S"),
    # People
    "account": ("SIUD", "SU", "S"),
    "account_app_credit": ("SIUD", "SIU", "S"),
    "account_badge": ("SID", "SID", ""),
    "account_groups": ("SID", "S", ""),
    "account_key": ("SIUD", "", ""),
    "account_user_permissions": ("SID", "S", ""),
    "account_emailaddress": ("SIUD", "S", ""),
    "account_emailconfirmation": ("SD", "", ""),
    "api_token": ("SIUD", "", ""),
    "app_credit_cursor": ("SIU", "SIU", ""),
    "badge": ("SIUD", "SU", ""),
    "credit_entry": ("SIU", "SI", "S"),
    "credit_sample": ("SIUD", "SID", ""),
    "email_change": ("SIUD", "SUD", ""),
    "idempotency_key": ("SIUD", "SUD", ""),
    "invitation": ("SIUD", "", ""),
    "login_network": ("SIUD", "SUD", ""),
    "manual_grant": ("SIU", "S", ""),
    "mfa_authenticator": ("SIUD", "", ""),
    "socialaccount_socialaccount": ("SIUD", "", ""),
    # Not used: providers are in the settings, and their tokens are not kept.  Deleting an account
    # of a provider deletes its tokens.
    "socialaccount_socialapp": ("", "", ""),
    "socialaccount_socialtoken": ("SD", "", ""),
    "statistics_deletion": ("SID", "SUD", ""),
    "submitter": ("SIUD", "SIU", ""),
    "submitter_app": ("SIUD", "S", ""),
    "team": ("SIUD", "SU", "S"),
    "team_administrator": ("SID", "S", "S"),
    "team_app_credit": ("SD", "SIU", "S"),
    "team_badge": ("SID", "SID", ""),
    "throttle_bucket": ("SIUD", "SUD", ""),
    # The installation
    "alert_state": ("S", "SIUD", ""),
    "audit_entry": ("SI", "SIUD", ""),
    "check_run": ("SIU", "SIUD", ""),
    "hardware_count": ("S", "SID", "S"),
    "heartbeat": ("SIU", "SIUD", ""),
    "host_outcomes": ("S", "SIUD", ""),
    "installation": ("S", "S", ""),
    "outage": ("SIU", "SIU", "S"),
    "status_sample": ("S", "SID", "S"),
    "version_outcomes": ("S", "SIUD", ""),
    # Django's own
    "auth_group": ("SIUD", "S", ""),
    "auth_group_permissions": ("SIUD", "S", ""),
    "auth_permission": ("S", "S", ""),
    "django_admin_log": ("SI", "", ""),
    "django_content_type": ("S", "S", ""),
    "django_migrations": ("S", "S", ""),
    "django_session": ("SIUD", "", ""),
}

_CREDIT = ("total_credit", "expavg_credit", "expavg_at")
#: Columns of science that no plug-in or password can be learnt from.
_PUBLIC_ACCOUNT = ("id", "name", "country", "team_id", "created_at", *_CREDIT)
_ACCOUNT_OF_DAEMONS = (
    *_PUBLIC_ACCOUNT,
    *("last_login", "is_superuser", "email", "url", "cross_project_id", "venue"),
    *("global_prefs", "global_prefs_mod_time", "project_prefs"),
    *("share_statistics", "show_hosts", "receive_letters", "terms_accepted_at"),
    *("is_staff", "is_active"),
)
_APP_OF_SCIENCE = (
    *("id", "name", "user_friendly_name", "deprecated", "beta", "kind", "success_rule"),
    *("workunit_defaults", "validator", "assimilator", "target_nresults", "n_size_classes"),
    *("size_bounds", "total_credit", "credit_rule", "credit_per_workunit", "created_at"),
)
_HOST_OF_SCIENCE = (
    *("id", "account_id", "rpc_at", "created_at", "platform_name", "client_version"),
    *("p_ncpus", "p_vendor", "p_model", "p_fpops", "p_iops", "m_nbytes", "d_total", "d_free"),
    *("os_name", "os_version", "on_frac", "active_frac", "hr_class", "max_in_progress", "denied"),
    *("turnaround_seconds", *_CREDIT),
)

#: The columns to which a privilege is limited, by role, table and letter.
COLUMNS: Mapping[tuple[str, str, str], tuple[str, ...]] = {
    # Merged computers pass their entries on; amounts never change.
    ("web", "credit_entry", "U"): ("host_id",),
    ("web", "manual_grant", "U"): ("reason",),
    # Set to NULL when the account is deleted.
    ("web", "check_run", "U"): ("requested_by_id",),
    ("daemons", "account", "S"): _ACCOUNT_OF_DAEMONS,
    ("daemons", "account", "U"): _CREDIT,
    # An invariant reads `id` and `primary`.
    ("daemons", "account_emailaddress", "S"): ("id", "user_id", "email", "verified", "primary"),
    # Which hosts are enrolled, without the hashes of their tokens.
    ("daemons", "host_token", "S"): ("host_id", "created_at", "expire_at", "revoked_at"),
    ("daemons", "letter", "U"): ("ended_at", "account_cursor", "copies"),
    ("daemons", "badge", "U"): ("account_count", "team_count"),
    ("daemons", "team", "U"): _CREDIT,
    ("daemons", "host", "U"): (*_CREDIT, "turnaround_seconds"),
    # Rows are locked before they are deleted, which needs an UPDATE right on some column.
    ("daemons", "audit_entry", "U"): ("id",),
    ("daemons", "bundle_member", "U"): ("id",),
    ("daemons", "dependency", "U"): ("id",),
    ("daemons", "idempotency_key", "U"): ("id",),
    ("daemons", "login_network", "U"): ("id",),
    ("daemons", "refusal", "U"): ("id",),
    ("daemons", "statistics_deletion", "U"): ("id",),
    ("daemons", "throttle_bucket", "U"): ("id",),
    ("daemons", "trickle_down", "U"): ("id",),
    ("daemons", "usage_sample", "U"): ("id",),
    ("daemons", "idempotency_key", "S"): ("id", "created_at"),
    ("science", "account", "S"): _PUBLIC_ACCOUNT,
    ("science", "app", "S"): _APP_OF_SCIENCE,
    ("science", "host", "S"): _HOST_OF_SCIENCE,
}

#: Sequences that statements name; other keys are identity columns, which need no right.
SEQUENCES: Mapping[str, tuple[str, ...]] = {
    "file_id_seq": ("web", "daemons"),
    "workunit_id_seq": ("web", "daemons"),
}
#: Functions that run with the owner's rights.
FUNCTIONS: Mapping[str, tuple[str, ...]] = {
    "create_ledger_day(date)": ("daemons",),
    "drop_ledger_day(date)": ("daemons",),
}


@dataclass(frozen=True, slots=True)
class Right:
    """A privilege on a table, or on some of its columns."""

    table: str
    privilege: str
    columns: tuple[str, ...] = ()


def rights_of(role: str) -> list[Right]:
    """Return the rights of a role, by table and privilege."""
    place = ROLES.index(role)
    return [
        Right(table, PRIVILEGES[letter], COLUMNS.get((role, table, letter), ()))
        for table, letters in sorted(TABLES.items())
        for letter in letters[place]
    ]
