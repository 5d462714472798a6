"""Defines the counters and histograms that web processes export to Prometheus.

In a web server the values are in files that its processes share (`project.monitoring`), so counts
survive the restart of a process.  Elsewhere they are in memory.  An update costs a microsecond or
two.  The values of labels are from fixed sets: no text of a request becomes a label.
"""

from __future__ import annotations

from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

#: The registry of all metrics of this module.
REGISTRY = CollectorRegistry()

#: Upper bounds of durations; seconds.
_BOUNDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class RpcOutcome(StrEnum):
    """How a scheduler RPC ended: answered, or the reason for which it was refused."""

    ANSWERED = "answered"
    UNKNOWN_KEY = "unknown_key"
    HOST_DENIED = "host_denied"
    TOO_MANY_HOSTS = "too_many_hosts"
    HOST_BUSY = "host_busy"
    CLIENT_TOO_OLD = "client_too_old"
    UNKNOWN_CODE_SIGN_KEY = "unknown_code_sign_key"
    UNREADABLE = "unreadable"
    TOO_LONG = "too_long"
    SERVER_BUSY = "server_busy"
    MAINTENANCE = "maintenance"
    DATABASE = "database"
    ERROR = "error"


class UploadOutcome(StrEnum):
    """How a request to the upload handler ended."""

    RECEIVED = "received"
    SIZE_QUERY = "size_query"
    THROTTLED = "throttled"
    STOPPED = "stopped"
    DISK_FULL = "disk_full"
    RETRY = "retry"
    ERROR = "error"
    REJECTED = "rejected"


class RequestKind(StrEnum):
    """The part of the server to which an HTTP request belongs, by its path."""

    SCHEDULER = "scheduler"
    UPLOAD = "upload"
    DOWNLOAD = "download"
    API = "api"
    ADMIN = "admin"
    WEB = "web"


#: Kinds whose duration depends on the server, not on the speed of a client's connection.
TIMED_KINDS = (RequestKind.API, RequestKind.ADMIN, RequestKind.WEB)
STATUS_CLASSES = ("2xx", "3xx", "4xx", "5xx")


# Children are created here, so that each series exists from the start with the value 0, and that
# a request does not look them up by label.

_RPCS = Counter(
    "manyhands_scheduler_rpcs",
    "Scheduler RPCs by outcome: answered, or the reason of the refusal.",
    ["outcome"],
    registry=REGISTRY,
)
RPCS = {outcome: _RPCS.labels(outcome.value) for outcome in RpcOutcome}
RPC_SECONDS = Histogram(
    "manyhands_scheduler_rpc_duration_seconds",
    "Time from the decoded request to the encoded reply of a scheduler RPC, with its wait in line.",
    buckets=_BOUNDS,
    registry=REGISTRY,
)
_WORK_REQUESTS = Counter(
    "manyhands_work_requests",
    "Scheduler RPCs that requested work, by whether at least one result was sent.",
    ["answer"],
    registry=REGISTRY,
)
WORK_REQUESTS = {
    has_work: _WORK_REQUESTS.labels("work" if has_work else "none") for has_work in (True, False)
}
WORK_REFUSALS = Counter(
    "manyhands_work_refusals",
    "Candidates that were not sent in an RPC, by the reason why they do not fit the host.",
    ["reason"],
    registry=REGISTRY,
)
RESULTS_SENT = Counter(
    "manyhands_results_sent", "Results sent in scheduler RPCs.", registry=REGISTRY
)
RESULTS_REPORTED = Counter(
    "manyhands_results_reported", "Results acknowledged in scheduler RPCs.", registry=REGISTRY
)

_UPLOADS = Counter(
    "manyhands_uploads",
    "Requests to the upload handler, by outcome.",
    ["outcome"],
    registry=REGISTRY,
)
UPLOADS = {outcome: _UPLOADS.labels(outcome.value) for outcome in UploadOutcome}
UPLOAD_BYTES = Counter(
    "manyhands_upload_bytes", "Bytes read from the bodies of uploads.", registry=REGISTRY
)

_REQUESTS = Counter(
    "manyhands_http_requests",
    "HTTP requests by the part of the server and the class of the status.",
    ["kind", "status"],
    registry=REGISTRY,
)
REQUESTS = {
    (kind, status): _REQUESTS.labels(kind.value, status)
    for kind in RequestKind
    for status in STATUS_CLASSES
}
_REQUEST_SECONDS = Histogram(
    "manyhands_http_request_duration_seconds",
    "Time to answer an HTTP request to the API, the admin or the web pages.",
    ["kind"],
    buckets=_BOUNDS,
    registry=REGISTRY,
)
REQUEST_SECONDS = {kind: _REQUEST_SECONDS.labels(kind.value) for kind in TIMED_KINDS}
DOWNLOAD_BYTES = Counter(
    "manyhands_download_bytes",
    "Bytes of downloads that web processes announced; a proxy may serve downloads itself.",
    registry=REGISTRY,
)

# Gauges of one web process, labelled with its process id.

POOL_SIZE = Gauge(
    "manyhands_database_pool_connections",
    "Open connections in the database pool of a web process.",
    multiprocess_mode="liveall",
    registry=REGISTRY,
)
POOL_IDLE = Gauge(
    "manyhands_database_pool_idle_connections",
    "Connections in the database pool of a web process that are not in use.",
    multiprocess_mode="liveall",
    registry=REGISTRY,
)
POOL_MAX = Gauge(
    "manyhands_database_pool_max_connections",
    "Maximum number of connections in the database pool of a web process (DATABASE_POOL).",
    multiprocess_mode="liveall",
    registry=REGISTRY,
)
POOL_WAITING = Gauge(
    "manyhands_database_pool_waiting_requests",
    "Threads of a web process that wait for a database connection.",
    multiprocess_mode="liveall",
    registry=REGISTRY,
)
MEMORY_BYTES = Gauge(
    "manyhands_web_resident_memory_bytes",
    "Resident memory of a web process.",
    multiprocess_mode="liveall",
    registry=REGISTRY,
)
OPEN_FILES = Gauge(
    "manyhands_web_open_files",
    "Open file descriptors of a web process.",
    multiprocess_mode="liveall",
    registry=REGISTRY,
)
CPU_SECONDS = Counter(
    "manyhands_web_cpu_seconds", "CPU time of all web processes.", registry=REGISTRY
)
