"""Every option of a project, its default and its meaning [pure]."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from urllib.parse import urlsplit

#: The maximum of `max_termination_time`: the time that a cancelled program gets to end after
#: SIGTERM.
MAX_TERMINATION_TIME = timedelta(hours=1)

_PORTS = {"http": 80, "https": 443}


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

    description: str = ""
    """Plain text about the computation and its purpose, for the front page and the API."""

    master_url: str = "http://127.0.0.1:8000/"
    """The URL that volunteers attach to; change it by `manage.py project rename-url` only."""

    former_urls: tuple[str, ...] = ()
    """Earlier URLs, by which clients that attached there still identify the project."""

    ledger: bool = True
    """Whether every move is written to the ledger; if off, timelines and `explain` report that."""

    pool_wait_url: str = ""
    """The URL where hosts of the pool wait for cancellations; empty: `api/v1/pool/wait`."""

    request_delay: timedelta = timedelta(seconds=7)
    """The minimum time between two scheduler RPCs of a client."""

    max_waiting_rpcs: int = 160
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

    bundle_lease_factor: int = 3
    """The lease of a task list is the sum of the expected run times of its members, times this."""

    stdio_storage: str = "auto"
    """Where the standard output of apps with the success rule `runner` is stored: `inline` in the
    result's row, in the first output `file`, or `auto`: in a file if it is longer than
    `stdio_inline_bytes`."""

    stdio_inline_bytes: int = 20_000
    """The maximum size of a runner's report in a result's row; at most 30000."""

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

    terms_of_use: str = ""
    """The terms of use, as plain text, which people accept before clients create an account."""

    login_providers: tuple[LoginProvider, ...] = ()
    """The OpenID Connect providers with which people can log in to the site; empty: none."""

    site_languages: tuple[str, ...] = ("en", "de")
    """The languages of the volunteers' pages; the first is for browsers that accept no other."""

    statistics_need_consent: bool = False
    """Whether a new account's statistics are exported only after its consent."""

    accounts_per_network: int = 100
    """How many accounts a network (/24 or /64) may create in a day; 0: no limit."""

    hosts_per_account: int = 500
    """How many new hosts an account may attach within 24 hours; 0: no limit."""

    staff_second_factor: bool = False
    """Whether staff needs a second factor to enter the administration and to create API tokens."""

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

    usage_kept: timedelta = timedelta(days=365)
    """How long usage samples of results are kept.  The purger archives samples that are left."""

    credit_samples_kept: timedelta = timedelta(days=400)
    """How long daily samples of credit are kept, from which pages draw credit per day."""

    purge_after: timedelta = timedelta(0)
    """How long a workunit's rows are kept after its assimilation; its files are deleted first."""

    def attached_url(self, scheme: str, host: str) -> str:
        """Return the URL of the project at which a request arrived: the current or a former one.

        `host` is the request's Host header; its port may be missing behind a proxy.

        >>> moved = ProjectConfig(master_url="https://new.org/", former_urls=("http://old.org:81/",))
        >>> moved.attached_url("http", "old.org:81"), moved.attached_url("http", "old.org")
        ('http://old.org:81/', 'http://old.org:81/')
        >>> moved.attached_url("https", "new.org"), moved.attached_url("http", "unknown.org")
        ('https://new.org/', 'https://new.org/')
        """
        if not self.former_urls:
            return self.master_url
        urls = (self.master_url, *self.former_urls)
        return next((url for url in urls if _is_at(url, scheme, host)), self.master_url)

    @property
    def upload_url(self) -> str:
        """The URL for uploads of output files.

        Clients refuse it unless it contains ``file_upload_handler`` (docs/protocol.md, trap 8).
        """
        return f"{self.master_url}upload/file_upload_handler"

    @property
    def scheduler_url(self) -> str:
        """The URL to which clients send scheduler requests."""
        return f"{self.master_url}cgi/scheduler"

    @property
    def download_url(self) -> str:
        """The URL of the folder from which clients download files."""
        return f"{self.master_url}download/"


def _is_at(url: str, scheme: str, host: str) -> bool:
    parts = urlsplit(url)
    name, separator, digits = host.lower().rpartition(":")
    if not separator or not digits.isdecimal():
        name, digits = host.lower(), ""
    port = parts.port or _PORTS[parts.scheme]
    # Numbers of thousands of digits cannot be converted.
    same_port = not digits or digits.lstrip("0") == str(port)
    return parts.scheme == scheme and parts.hostname == name.strip("[]") and same_port


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


class MailSecurity(StrEnum):
    """How the connection to the mail server is encrypted: STARTTLS, TLS from the start, or not."""

    STARTTLS = "starttls"
    IMPLICIT = "implicit"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginProvider:
    """An OpenID Connect provider with which people log in; read from `LOGIN_PROVIDERS`."""

    id: str
    """The name in URLs and in the database."""

    name: str
    """The name on pages."""

    server: str
    """The issuer's URL, below which `.well-known/openid-configuration` is, without a slash."""

    client_id: str
    """The id of this project at the provider."""

    client_secret: str = field(repr=False)
    """The secret of this project at the provider."""

    origins: tuple[str, ...] = ()
    """Further origins to which the provider's log-in redirects the browser, if any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MailConfig:
    """The mail server; read from `EMAIL_URL` by ``project/env.py``."""

    host: str
    """The server's name or address."""

    port: int
    """The server's port."""

    user: str = ""
    """The name to log in with; empty: no log-in."""

    password: str = field(default="", repr=False)
    """The password to log in with."""

    security: MailSecurity = MailSecurity.STARTTLS
    """How the connection is encrypted."""

    @property
    def authority(self) -> str:
        """Host and port in the format of a URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertConfig:
    """Where changes of the alerts are sent; read by ``project/env.py``."""

    mail: tuple[str, ...] = ()
    """The e-mail addresses of `ALERT_MAIL`."""

    webhook: str = field(default="", repr=False)
    """The URL of `ALERT_WEBHOOK`.  Its path is often a secret."""
