"""The tables of volunteers' computers."""

from __future__ import annotations

from django.db import models


class Host(models.Model):
    """An attached computer, as described by its client (PROTOCOL 2.1).

    Speeds are in operations per second for each CPU, sizes in bytes.  After a merge, the row of the
    old host refers to the new host (`merged_into`), so that a client with the old id gets the new
    id.  The row of a host that its owner deleted refers to itself, and its client gets another row.
    """

    account = models.ForeignKey("scheduler.Account", models.PROTECT, related_name="hosts")
    merged_into = models.ForeignKey(
        "self", models.SET_NULL, null=True, blank=True, related_name="merged_from"
    )
    rpc_seqno = models.IntegerField(default=0)
    rpc_at = models.DateTimeField()
    created_at = models.DateTimeField()
    host_cpid = models.CharField(max_length=32, blank=True, default="")
    domain_name = models.CharField(max_length=254, blank=True, default="")
    last_ip_addr = models.CharField(max_length=64, blank=True, default="")
    timezone = models.IntegerField(default=0)
    platform_name = models.CharField(max_length=254, blank=True, default="")
    client_version = models.IntegerField(default=0)
    venue = models.CharField(max_length=254, blank=True, default="")

    p_ncpus = models.IntegerField(default=1)
    p_vendor = models.CharField(max_length=254, blank=True, default="")
    p_model = models.CharField(max_length=254, blank=True, default="")
    p_fpops = models.FloatField(default=1e9)
    p_iops = models.FloatField(default=1e9)
    p_membw = models.FloatField(default=1e9)
    m_nbytes = models.FloatField(default=0)
    m_cache = models.FloatField(default=0)
    m_swap = models.FloatField(default=0)
    d_total = models.FloatField(default=0)
    d_free = models.FloatField(default=0)
    os_name = models.CharField(max_length=254, blank=True, default="")
    os_version = models.CharField(max_length=254, blank=True, default="")
    n_bwup = models.FloatField(default=0)
    n_bwdown = models.FloatField(default=0)
    on_frac = models.FloatField(default=1)
    active_frac = models.FloatField(default=1)
    gpu_active_frac = models.FloatField(default=1)

    hr_class = models.IntegerField(default=0)
    max_in_progress = models.IntegerField(null=True, blank=True)
    # The owner's limits for this computer, which replace those of the preferences for the project:
    # 0 means no limit, and NULL means that the preferences apply.
    own_max_held = models.IntegerField(null=True, blank=True)
    own_max_cpus = models.IntegerField(null=True, blank=True)
    # Whether the owner hides this computer from others, although the account shows its computers.
    hidden = models.BooleanField(default=False, db_default=False)
    denied = models.BooleanField(default=False)
    total_credit = models.DecimalField(max_digits=20, decimal_places=6, default=0)
    expavg_credit = models.FloatField(default=0)
    expavg_at = models.DateTimeField(null=True, blank=True)
    turnaround_seconds = models.FloatField(default=0)
    deny_reason = models.CharField(max_length=200, blank=True, default="")
    p_features = models.TextField(blank=True, default="")
    capabilities = models.JSONField(default=dict, blank=True)
    # Outcomes of the last work requests, newest first, as returned by `boinc.translate.decision`.
    last_decisions = models.JSONField(default=list, blank=True)

    class Meta:
        db_table = "host"
        permissions = [("administer_hosts", "Can deny, admit and limit hosts")]
        indexes = [
            models.Index(fields=["account", "host_cpid"], name="find_host_by_cpid"),
            models.Index(fields=["account", "domain_name"], name="find_host_by_facts"),
            # For staff, who name a host of any account in an address.
            models.Index(fields=["domain_name", "account"], name="find_host_by_name"),
            models.Index(
                fields=["total_credit", "id"],
                condition=models.Q(merged_into__isnull=True, total_credit__gt=0),
                name="read_host_board_total",
            ),
            models.Index(
                fields=["expavg_credit", "id"],
                condition=models.Q(merged_into__isnull=True, expavg_credit__gt=0),
                name="read_host_board_recent",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.domain_name or 'host'} #{self.pk}"

    @property
    def is_deleted(self) -> bool:
        """Whether its owner deleted it."""
        return self.merged_into_id == self.pk


class HostAppVersion(models.Model):
    """Statistics of an app version on a host (BOINC's host_app_version).

    The columns `uncounted_*` are the numbers of results that were reported, failed, and were found
    to be invalid since the housekeeper last counted them (`scheduler.health.outcome_counts`).
    """

    host = models.ForeignKey(Host, models.CASCADE, related_name="app_versions")
    app_version = models.ForeignKey(
        "scheduler.AppVersion", models.CASCADE, related_name="+", db_index=False
    )
    consecutive_valid = models.IntegerField(default=0, db_default=0)
    n_valid = models.BigIntegerField(default=0, db_default=0)
    max_results_per_day = models.IntegerField(default=0, db_default=0)
    results_today = models.IntegerField(default=0, db_default=0)
    quota_day = models.DateField(null=True, blank=True)
    pfc_n = models.FloatField(default=0, db_default=0)
    pfc_avg = models.FloatField(default=0, db_default=0)
    et_n = models.FloatField(default=0, db_default=0)
    et_avg = models.FloatField(default=0, db_default=0)
    turnaround_n = models.FloatField(default=0, db_default=0)
    turnaround_avg = models.FloatField(default=0, db_default=0)
    # No index: an update of these columns must stay heap-only.
    uncounted_reports = models.IntegerField(default=0, db_default=0)
    uncounted_errors = models.IntegerField(default=0, db_default=0)
    uncounted_invalid = models.IntegerField(default=0, db_default=0)

    class Meta:
        db_table = "host_app_version"
        constraints = [
            models.UniqueConstraint(
                fields=["host", "app_version"], name="host_app_version_is_one_per_pair"
            ),
        ]

    def __str__(self) -> str:
        return f"host {self.host_id}, app version {self.app_version_id}"


class HostToken(models.Model):
    """A secret with which a host of the trusted pool uses the pool's API, stored as a hash.

    A host is enrolled in the pool while it has a token that is neither revoked nor expired.
    """

    host = models.ForeignKey(Host, models.CASCADE, related_name="tokens")
    token_hash = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField()
    expire_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_on = models.DateField(null=True, blank=True)

    class Meta:
        db_table = "host_token"

    def __str__(self) -> str:
        return f"token {self.pk} of host {self.host_id}"
