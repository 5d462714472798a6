"""The database tables and their constraints; methods of models use only their row."""

from __future__ import annotations

from scheduler.models.audit import AuditEntry
from scheduler.models.files import File, FileHold, Installation, JobFile
from scheduler.models.hosts import Host, HostAppVersion
from scheduler.models.ledger import AccountAppCredit, CreditEntry, LedgerEntry
from scheduler.models.logins import Invitation, LoginNetwork, ThrottleBucket
from scheduler.models.messages import FileRequest, TrickleDown, TrickleUp, UsageSample
from scheduler.models.people import Account, AccountKey, Team
from scheduler.models.science import App, AppVersion, AppVersionFile, PlanClass, Platform
from scheduler.models.submitters import ApiToken, IdempotencyKey, Submitter, SubmitterApp
from scheduler.models.troubles import Heartbeat, Outage, Refusal, ScienceFailure
from scheduler.models.work import (
    Batch,
    BatchUsage,
    PurgedResults,
    PurgedWorkunits,
    Queue,
    Result,
    ResultFile,
    Workunit,
    WorkunitFile,
)

__all__ = [
    "Account",
    "AccountAppCredit",
    "AccountKey",
    "ApiToken",
    "App",
    "AppVersion",
    "AppVersionFile",
    "AuditEntry",
    "Batch",
    "BatchUsage",
    "CreditEntry",
    "File",
    "FileHold",
    "FileRequest",
    "Heartbeat",
    "Host",
    "HostAppVersion",
    "IdempotencyKey",
    "Installation",
    "Invitation",
    "JobFile",
    "LedgerEntry",
    "LoginNetwork",
    "Outage",
    "PlanClass",
    "Platform",
    "PurgedResults",
    "PurgedWorkunits",
    "Queue",
    "Refusal",
    "Result",
    "ResultFile",
    "ScienceFailure",
    "Submitter",
    "SubmitterApp",
    "Team",
    "ThrottleBucket",
    "TrickleDown",
    "TrickleUp",
    "UsageSample",
    "Workunit",
    "WorkunitFile",
]
