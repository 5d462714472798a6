"""Every option of a project, its default and its meaning [pure]."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum


class AccountCreation(StrEnum):
    """Accounts that clients can create: all, with an invitation, or none."""

    OPEN = "open"
    INVITATION = "invitation"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectConfig:
    """What an operator may decide; read from the environment by ``project/settings.py``."""

    name: str = "Manyhands"
    """The project's name, as volunteers see it; unique among the projects of one client."""

    master_url: str = "http://127.0.0.1:8000/"
    """The URL volunteers attach to, with its closing slash; never change it (PROTOCOL trap 24)."""

    ledger: bool = True
    """Whether every move is written to the ledger; off, timelines and `explain` say so."""

    request_delay: timedelta = timedelta(seconds=7)
    """How long a client waits at least between two scheduler RPCs."""

    max_waiting_rpcs: int = 48
    """How many scheduler RPCs wait in one web process; one more is told to come again later."""

    busy_delay: timedelta = timedelta(minutes=5)
    """When one who found many waiting comes again: after half to one and a half times as long."""

    next_contact: timedelta = timedelta(0)
    """Within what time a client calls again, with or without a reason; 0: when it has one."""

    max_results_per_rpc: int = 50
    """How many results one scheduler RPC hands out at most, per CPU of the host."""

    max_results_accepted: int = 2000
    """How many reports one RPC settles; the others are not acknowledged and come again."""

    max_in_progress_per_cpu: int = 100
    """How many results a host may hold per CPU."""

    daily_quota: int = 500
    """How many results of an app version a host may be given a day, per CPU or GPU; 0: no limit."""

    max_infeasible: int = 100
    """So many hosts must be refused a result, each for a lasting reason, until it is given up."""

    refusal_counts_after: timedelta = timedelta(days=1)
    """A refusal counts once it is repeated after this; at once where no version could ever fit."""

    outage_after: timedelta = timedelta(minutes=10)
    """A silence of the web processes longer than this is an outage: deadlines move by it."""

    chance_key: str = "chance"
    """Keys every draw of lots; volunteers must not know it, and one key draws the same again."""

    fair_share: bool = False
    """Whether submitters' priorities follow the linear-bounded model instead of their wishes."""

    tail_percent: int = 90
    """How much of a batch must be over for the rest to be hurried on, if the batch asks for it."""

    import_private: bool = False
    """Whether programs are fetched from addresses of the server's own networks, too."""

    import_hosts: tuple[str, ...] = ()
    """Hosts from which programs are fetched though their addresses are of such networks."""

    import_limit: timedelta = timedelta(minutes=1)
    """How long fetching a program from its address may take in a web request."""

    webhook_hosts: tuple[str, ...] = ()
    """Hosts to which webhooks are sent although they are in the server's own networks."""

    candidates_per_page: int = 48
    """How many unsent results a claim reads first; each further page is four times as long."""

    min_client_version: int = 0
    """Oldest client served, as 10000*major + 100*minor + release; 0 serves all."""

    banned_os: str = ""
    """Computers get no work if this is found in the name and version of their system."""

    banned_cpu: str = ""
    """Computers get no work if this is found in the maker and model of their processor."""

    security_contact: tuple[str, ...] = ()
    """Contacts for reports of vulnerabilities, shown in `/.well-known/security.txt`."""

    file_hold: timedelta = timedelta(days=1)
    """How long a file that was uploaded for work is kept until a workunit refers to it."""

    account_creation: AccountCreation = AccountCreation.OPEN
    """Whether clients can create accounts: all, those with an invitation code, or none."""

    accounts_per_network: int = 100
    """How many accounts a network (/24 or /64) may create in a day; 0: no limit."""

    hosts_per_account: int = 500
    """How many new hosts an account may attach within 24 hours; 0: no limit."""

    login_throttle: bool = True
    """Whether attempts to log in are limited; off only for tests that try many passwords."""

    login_throttle_window: timedelta = timedelta(minutes=10)
    """The time over which the limits below refill."""

    login_attempts_per_network: int = 60
    """How many wrong passwords and existence queries a network (/24 or /64) may send."""

    login_attempts_per_account_and_network: int = 10
    """How many wrong passwords a network may send for one account."""

    login_attempts_per_account: int = 30
    """How many wrong passwords all networks that are new to an account may send for it in total."""

    login_network_kept: timedelta = timedelta(days=180)
    """How many days a network from which an account logged in is exempt from its limit."""

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
    """Longest scheduler request read; a longer one gets a message and a delay."""

    size_queries_per_second: int = 50
    """How many size queries of uploads one address may send each web process; 0: no limit."""

    purge_after: timedelta = timedelta(0)
    """How long a finished workunit's rows are kept once its files are deleted."""

    @property
    def upload_url(self) -> str:
        """Where clients upload output files; must contain ``file_upload_handler`` (trap 8)."""
        return f"{self.master_url}upload/file_upload_handler"

    @property
    def scheduler_url(self) -> str:
        """Where clients send scheduler requests."""
        return f"{self.master_url}cgi/scheduler"

    @property
    def download_url(self) -> str:
        """The folder below which clients download files."""
        return f"{self.master_url}download/"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    """Where downloads live if not on the disk; read from `STORAGE_URL` by ``project/env.py``."""

    bucket: str
    """The bucket's name."""

    prefix: str = ""
    """What every key in the bucket begins with, without slashes at the ends."""

    endpoint: str | None = None
    """Where the store answers; None is Amazon's."""

    public: str | None = None
    """Where clients reach the store, if that is another address than ours for it."""

    region: str = "us-east-1"
    """The store's region; it is part of every signature."""

    redirects: bool = True
    """Whether clients are sent to the store by a signed address, or get files through us."""

    writes: bool = True
    """Whether new files are put into the store; off while files are moved back to the disk."""

    expires: timedelta = timedelta(hours=1)
    """How long a signed address lets a client begin its download."""
