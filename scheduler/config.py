"""Every option of a project, its default and its meaning [pure]."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum


class AccountCreation(StrEnum):
    """Whether clients can create accounts: always, only with an invitation code, or never."""

    OPEN = "open"
    INVITATION = "invitation"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectConfig:
    """The options of a project; read from the environment by ``project/settings.py``."""

    name: str = "Manyhands"
    """The project's name, as volunteers see it; unique among the projects of one client."""

    master_url: str = "http://127.0.0.1:8000/"
    """The URL that volunteers attach to, with a final slash; never change it (PROTOCOL trap 24)."""

    ledger: bool = True
    """Whether every move is written to the ledger; if off, timelines and `explain` report that."""

    request_delay: timedelta = timedelta(seconds=7)
    """The minimum time between two scheduler RPCs of a client."""

    max_waiting_rpcs: int = 48
    """The maximum number of waiting RPCs in one web process; further RPCs get `BUSY_DELAY`."""

    busy_delay: timedelta = timedelta(minutes=5)
    """The delay that a client gets if too many RPCs wait, randomized by a factor of 0.5 to 1.5."""

    next_contact: timedelta = timedelta(0)
    """The maximum time between two RPCs of a client, even if it needs nothing; 0: no maximum."""

    max_results_per_rpc: int = 50
    """The maximum number of results that one scheduler RPC sends, per CPU of the host."""

    max_results_accepted: int = 2000
    """The maximum number of reports per RPC; clients send further reports again."""

    max_in_progress_per_cpu: int = 100
    """The maximum number of results in progress on a host, per CPU."""

    daily_quota: int = 500
    """The maximum number of results of an app version per host, day and CPU or GPU; 0: no limit."""

    max_infeasible: int = 100
    """A result is given up when this number of hosts was refused the result for lasting reasons."""

    refusal_counts_after: timedelta = timedelta(days=1)
    """The time after which a repeated refusal is confirmed, so that it counts.

    It is confirmed at once if no app version can ever fit the host.
    """

    outage_after: timedelta = timedelta(minutes=10)
    """A longer gap between heartbeats of the web server is an outage, which extends deadlines."""

    chance_key: str = "chance"
    """The secret key of all pseudorandom choices; the same key gives the same choices."""

    fair_share: bool = False
    """Whether submitters' priorities follow the linear-bounded model, not their own settings."""

    tail_percent: int = 90
    """A batch with `accelerate_tail` is accelerated when this percentage of it is finished."""

    import_private: bool = False
    """Whether programs are also fetched from addresses in the server's own networks."""

    import_hosts: tuple[str, ...] = ()
    """Hosts from which programs are fetched although they are in the server's own networks."""

    import_limit: timedelta = timedelta(minutes=1)
    """The maximum time for fetching a program from its address in a web request."""

    webhook_hosts: tuple[str, ...] = ()
    """Hosts to which webhooks are sent although they are in the server's own networks."""

    candidates_per_page: int = 48
    """How many unsent results a claim reads first; each further page is four times as long."""

    min_client_version: int = 0
    """The oldest client that is served, as 10000*major + 100*minor + release; 0 serves all."""

    banned_os: str = ""
    """A regular expression; hosts whose OS name and version match it get no work."""

    banned_cpu: str = ""
    """A regular expression; hosts whose CPU vendor and model match it get no work."""

    security_contact: tuple[str, ...] = ()
    """Contacts for reports of vulnerabilities, shown in `/.well-known/security.txt`."""

    file_hold: timedelta = timedelta(days=1)
    """How long an uploaded input file is kept if no workunit refers to it."""

    account_creation: AccountCreation = AccountCreation.OPEN
    """Which clients can create accounts: all, only clients with an invitation code, or none."""

    accounts_per_network: int = 100
    """How many accounts a network (/24 or /64) may create in a day; 0: no limit."""

    hosts_per_account: int = 500
    """How many new hosts an account may attach within 24 hours; 0: no limit."""

    login_throttle: bool = True
    """Whether attempts to log in are limited; off only for tests that try many passwords."""

    login_throttle_window: timedelta = timedelta(minutes=10)
    """The time in which the login limits refill."""

    login_attempts_per_network: int = 60
    """How many wrong passwords and existence queries a network (/24 or /64) may send."""

    login_attempts_per_account_and_network: int = 10
    """How many wrong passwords a network may send for one account."""

    login_attempts_per_account: int = 30
    """How many wrong passwords all networks that are new to an account may send for it in total."""

    login_network_kept: timedelta = timedelta(days=180)
    """For how many days after a login its network is exempt from the limit per account."""

    max_waiting_hashes: int = 12
    """How many passwords may wait to be hashed in one web process; more are refused at once."""

    max_output_bytes: int = 1_073_741_824
    """The largest output, in bytes, that a workunit may declare; nginx limits uploads as well."""

    max_promised_bytes: int = 536_870_912_000
    """How many bytes of outputs a host's results in progress may declare together; 0: no limit."""

    rsync_sources: bool = False
    """Whether programs may also be fetched from rsync servers."""

    command_apps: bool = False
    """Whether apps of kind `command` are served: the commands that hosts run are not signed."""

    online_signing: bool = True
    """Whether the server signs published files, with a private key in its own folder."""

    max_request_bytes: int = 32 * 1024 * 1024
    """The maximum size of a scheduler request; a longer request gets a message and a delay."""

    size_queries_per_second: int = 50
    """How many upload size queries per second an address may send to a web process; 0: no limit."""

    purge_after: timedelta = timedelta(0)
    """How long a finished workunit's rows are kept once its files are deleted."""

    @property
    def upload_url(self) -> str:
        """The URL for uploads of output files; it must contain ``file_upload_handler`` (trap 8)."""
        return f"{self.master_url}upload/file_upload_handler"

    @property
    def scheduler_url(self) -> str:
        """The URL to which clients send scheduler requests."""
        return f"{self.master_url}cgi/scheduler"

    @property
    def download_url(self) -> str:
        """The URL of the folder from which clients download files."""
        return f"{self.master_url}download/"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    """The S3-compatible store of downloads; read from `STORAGE_URL` by ``project/env.py``."""

    bucket: str
    """The bucket's name."""

    prefix: str = ""
    """The prefix of every key in the bucket, without slashes at the ends."""

    endpoint: str | None = None
    """The URL of the store's API; None for Amazon S3."""

    public: str | None = None
    """The URL of the store for clients, if it differs from `endpoint`."""

    region: str = "us-east-1"
    """The store's region; it is part of every signature."""

    redirects: bool = True
    """Whether the server redirects clients to signed URLs of the store or sends files itself."""

    writes: bool = True
    """Whether new files are put into the store; off while files are moved back to the disk."""

    expires: timedelta = timedelta(hours=1)
    """The lifetime of a signed URL: a client must begin the download within this time."""
