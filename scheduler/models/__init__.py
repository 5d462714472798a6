"""Tables and their constraints; no method leaves its row."""

from __future__ import annotations

from scheduler.models.files import File
from scheduler.models.hosts import Host, HostAppVersion
from scheduler.models.ledger import CreditEntry, LedgerEntry
from scheduler.models.people import Account, AccountKey, Team
from scheduler.models.science import App, AppVersion, AppVersionFile, Platform
from scheduler.models.work import (
    Batch,
    Queue,
    Result,
    ResultFile,
    Workunit,
    WorkunitFile,
)

__all__ = [
    "Account",
    "AccountKey",
    "App",
    "AppVersion",
    "AppVersionFile",
    "Batch",
    "CreditEntry",
    "File",
    "Host",
    "HostAppVersion",
    "LedgerEntry",
    "Platform",
    "Queue",
    "Result",
    "ResultFile",
    "Team",
    "Workunit",
    "WorkunitFile",
]
