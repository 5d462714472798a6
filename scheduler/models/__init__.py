"""The database tables and their constraints; methods of models use only their row."""

from __future__ import annotations

from scheduler.models.audit import AuditEntry
from scheduler.models.badges import AccountBadge, Badge, TeamBadge
from scheduler.models.files import File, FileHold, Installation, JobFile
from scheduler.models.hosts import Host, HostAppVersion, HostToken
from scheduler.models.ledger import (
    AccountAppCredit,
    AppCreditCursor,
    CreditEntry,
    HostAppCredit,
    LedgerEntry,
    ManualGrant,
    TeamAppCredit,
)
from scheduler.models.letters import Letter, LetterRecipient
from scheduler.models.logins import Invitation, LoginNetwork, ThrottleBucket
from scheduler.models.messages import (
    FileRequest,
    News,
    OutboxMessage,
    TrickleDown,
    TrickleUp,
    UsageSample,
)
from scheduler.models.people import (
    Account,
    AccountKey,
    EmailChange,
    StatisticsDeletion,
    Team,
    TeamAdministrator,
)
from scheduler.models.queues import Queue, QueueBalance, QueueSchedule, QueueSlot
from scheduler.models.samples import (
    CreditSample,
    HardwareCount,
    HostOutcomes,
    StatusSample,
    VersionOutcomes,
)
from scheduler.models.science import App, AppVersion, AppVersionFile, PlanClass, Platform
from scheduler.models.submitters import ApiToken, IdempotencyKey, Submitter, SubmitterApp
from scheduler.models.task_lists import Bundle, BundleMember
from scheduler.models.troubles import (
    AlertState,
    CheckRun,
    Heartbeat,
    Outage,
    Refusal,
    ScienceFailure,
)
from scheduler.models.work import (
    Batch,
    BatchUsage,
    Dependency,
    PurgedResults,
    PurgedWorkunits,
    Result,
    ResultFile,
    Workunit,
    WorkunitFile,
    WorkunitWakeup,
)

__all__ = [
    "Account",
    "AccountAppCredit",
    "AccountBadge",
    "AccountKey",
    "AlertState",
    "ApiToken",
    "App",
    "AppCreditCursor",
    "AppVersion",
    "AppVersionFile",
    "AuditEntry",
    "Badge",
    "Batch",
    "BatchUsage",
    "Bundle",
    "BundleMember",
    "CheckRun",
    "CreditEntry",
    "CreditSample",
    "Dependency",
    "EmailChange",
    "File",
    "FileHold",
    "FileRequest",
    "HardwareCount",
    "Heartbeat",
    "Host",
    "HostAppCredit",
    "HostAppVersion",
    "HostOutcomes",
    "HostToken",
    "IdempotencyKey",
    "Installation",
    "Invitation",
    "JobFile",
    "LedgerEntry",
    "Letter",
    "LetterRecipient",
    "LoginNetwork",
    "ManualGrant",
    "News",
    "Outage",
    "OutboxMessage",
    "PlanClass",
    "Platform",
    "PurgedResults",
    "PurgedWorkunits",
    "Queue",
    "QueueBalance",
    "QueueSchedule",
    "QueueSlot",
    "Refusal",
    "Result",
    "ResultFile",
    "ScienceFailure",
    "StatisticsDeletion",
    "StatusSample",
    "Submitter",
    "SubmitterApp",
    "Team",
    "TeamAdministrator",
    "TeamAppCredit",
    "TeamBadge",
    "ThrottleBucket",
    "TrickleDown",
    "TrickleUp",
    "UsageSample",
    "VersionOutcomes",
    "Workunit",
    "WorkunitFile",
    "WorkunitWakeup",
]
