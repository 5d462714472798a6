"""The scientist's SDK: submit work to a Manyhands project and fetch its results.

>>> from scientist import Project, as_completed
>>> project = Project("http://127.0.0.1:8000/", token)              # doctest: +SKIP
>>> for future in as_completed(project.map("primes", ["1 30", "31 60"])):  # doctest: +SKIP
...     print(future.name, future.result())
"""

from __future__ import annotations

from scientist.batches import Batch
from scientist.drafts import DraftBatch
from scientist.errors import (
    BatchFailed,
    Conflict,
    Damaged,
    Invalid,
    NotAllowed,
    NotFoundError,
    NotLoggedIn,
    ProblemError,
    QuotaError,
    ScientistError,
    ServerFault,
    TokenRefused,
    Unreachable,
    UsageError,
    WorkunitFailed,
)
from scientist.futures import Futures, WorkunitFuture, as_completed, wait
from scientist.models import (
    AppInfo,
    AppVersionInfo,
    BatchInfo,
    Cost,
    ManifestEntry,
    Output,
    Progress,
    ResultInfo,
    WorkunitInfo,
)
from scientist.project import Project

__version__ = "0.1.0"

__all__ = [
    "AppInfo",
    "AppVersionInfo",
    "Batch",
    "BatchFailed",
    "BatchInfo",
    "Conflict",
    "Cost",
    "Damaged",
    "DraftBatch",
    "Futures",
    "Invalid",
    "ManifestEntry",
    "NotAllowed",
    "NotFoundError",
    "NotLoggedIn",
    "Output",
    "ProblemError",
    "Progress",
    "Project",
    "QuotaError",
    "ResultInfo",
    "ScientistError",
    "ServerFault",
    "TokenRefused",
    "Unreachable",
    "UsageError",
    "WorkunitFailed",
    "WorkunitFuture",
    "WorkunitInfo",
    "as_completed",
    "wait",
]
