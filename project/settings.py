"""Defines Django's settings, which `env.py` reads from the environment."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from csp import constants as csp

from project import disk_reserve, env, folders, keys, logging
from project.embedded_postgres import EmbeddedPostgres
from project.upkeep import addresses
from scheduler.config import AlertConfig, ProjectConfig

BASE_DIR = Path(__file__).resolve().parent.parent

# Folders and files

#: The umask of new files.  With 0027, other users have no access, and the group may read files.  A
#: proxy that serves downloads belongs to this group.
FILE_UMASK = env.umask("FILE_UMASK", 0o027)
folders.restrict_new_files(FILE_UMASK)
VAR_DIR = env.folder("VAR_DIR", BASE_DIR / "var")
KEYS_DIR = VAR_DIR / "keys"
#: The object store of downloads.  If it is None, downloads are in VAR_DIR (docs/files.md).
STORAGE = env.store_url("STORAGE_URL")
UPLOAD_FSYNC = env.boolean("UPLOAD_FSYNC", default=False)
SUBMIT_FOLDER = env.text("SUBMIT_FOLDER", "")
SECRET_KEY = env.text("SECRET_KEY", "") or keys.secret_key(KEYS_DIR)

# The options of the project

#: The addresses that `project rename-url` recorded; MASTER_URL may be set to an earlier one.
_addresses = addresses.recorded(VAR_DIR)
PROJECT = ProjectConfig(
    name=env.text("PROJECT_NAME", "Manyhands"),
    description=env.file_text("PROJECT_DESCRIPTION_FILE"),
    master_url=(
        _master_url := addresses.current(
            _addresses, env.web_url("MASTER_URL", "http://127.0.0.1:8000/")
        )
    ),
    former_urls=addresses.former(_addresses, _master_url),
    command_apps=env.boolean("COMMAND_APPS", default=False),
    # A project with an https address is public, so its signing key is kept on another machine.
    online_signing=env.boolean("ONLINE_SIGNING", default=not _master_url.startswith("https:")),
    ledger=env.boolean("LEDGER", default=True),
    pool_wait_url=env.text("POOL_WAIT_URL", ""),
    request_delay=timedelta(seconds=env.integer("REQUEST_DELAY", 7, at_most=86_400)),
    max_waiting_rpcs=env.integer("MAX_WAITING_RPCS", 160, at_least=1),
    busy_delay=timedelta(seconds=env.integer("BUSY_DELAY", 300, at_least=1, at_most=86_400)),
    next_contact=timedelta(seconds=env.integer("NEXT_CONTACT", 0, at_most=2_592_000)),
    purge_after=timedelta(seconds=env.integer("PURGE_AFTER", 0)),
    usage_kept=timedelta(days=env.integer("USAGE_KEPT_DAYS", 365, at_least=1, at_most=36_500)),
    credit_samples_kept=timedelta(
        days=env.integer("CREDIT_SAMPLES_KEPT_DAYS", 400, at_least=1, at_most=36_500)
    ),
    file_hold=timedelta(seconds=env.integer("FILE_HOLD_SECONDS", 86_400, at_least=60)),
    account_creation=env.account_creation("ACCOUNT_CREATION"),
    terms_of_use=env.file_text("TERMS_OF_USE_FILE"),
    login_providers=env.login_providers("LOGIN_PROVIDERS"),
    site_languages=env.languages("SITE_LANGUAGES", ("en", "de")),
    statistics_need_consent=env.boolean("STATISTICS_NEED_CONSENT", default=False),
    accounts_per_network=env.integer("ACCOUNTS_PER_NETWORK", 100),
    hosts_per_account=env.integer("HOSTS_PER_ACCOUNT", 500),
    login_throttle=env.boolean("LOGIN_THROTTLE", default=True),
    login_throttle_window=timedelta(
        seconds=env.integer("LOGIN_THROTTLE_WINDOW", 600, at_least=1, at_most=86_400)
    ),
    login_attempts_per_network=env.integer("LOGIN_THROTTLE_NETWORK", 60, at_least=1),
    login_attempts_per_account_and_network=env.integer(
        "LOGIN_THROTTLE_ACCOUNT_NETWORK", 10, at_least=1
    ),
    login_attempts_per_account=env.integer("LOGIN_THROTTLE_ACCOUNT", 30, at_least=1),
    login_network_kept=timedelta(days=env.integer("LOGIN_THROTTLE_KNOWN_DAYS", 180, at_most=3650)),
    max_waiting_hashes=env.integer("MAX_WAITING_HASHES", 12, at_least=1),
    min_client_version=env.integer("MIN_CLIENT_VERSION", 0),
    banned_os=env.pattern("BANNED_OS"),
    banned_cpu=env.pattern("BANNED_CPU"),
    size_queries_per_second=env.integer("SIZE_QUERIES_PER_SECOND", 50),
    max_results_per_rpc=env.integer("MAX_RESULTS_PER_RPC", 50, at_least=1),
    max_in_progress_per_cpu=env.integer("MAX_IN_PROGRESS_PER_CPU", 100, at_least=1),
    daily_quota=env.integer("DAILY_QUOTA", 500),
    bundle_lease_factor=env.integer("BUNDLE_LEASE_FACTOR", 3, at_least=1),
    stdio_storage=env.choice("STDIO_STORAGE", "auto", among={"inline", "file", "auto"}),
    stdio_inline_bytes=env.integer("STDIO_INLINE_BYTES", 20_000, at_least=1, at_most=30_000),
    max_infeasible=env.integer("MAX_INFEASIBLE", 100, at_least=1),
    refusal_counts_after=timedelta(
        seconds=env.integer("REFUSAL_COUNTS_AFTER", 86_400, at_most=2_592_000)
    ),
    outage_after=timedelta(seconds=env.integer("OUTAGE_AFTER", 600, at_least=60)),
    # Where log-ins are only possible from this machine or a lab's network, a password is enough.
    staff_second_factor=env.boolean(
        "STAFF_SECOND_FACTOR", default=_master_url.startswith("https:")
    ),
    chance_key=env.text("CHANCE_KEY", "") or SECRET_KEY,
    fair_share=env.boolean("FAIR_SHARE", default=False),
    tail_percent=env.integer("TAIL_PERCENT", 90, at_least=1, at_most=99),
    max_output_bytes=env.integer(
        "MAX_OUTPUT_BYTES", 1_073_741_824, at_least=1, at_most=1_099_511_627_776
    ),
    max_promised_bytes=env.integer(
        "MAX_PROMISED_BYTES", 536_870_912_000, at_most=1_125_899_906_842_624
    ),
    rsync_sources=env.boolean("RSYNC_SOURCES", default=False),
    import_private=env.boolean("IMPORT_PRIVATE", default=False),
    import_hosts=tuple(word.lower() for word in env.words("IMPORT_HOSTS", [])),
    security_contact=env.contacts("SECURITY_CONTACT"),
    webhook_hosts=tuple(word.lower() for word in env.words("WEBHOOK_HOSTS", [])),
    import_limit=timedelta(seconds=env.integer("IMPORT_LIMIT", 60, at_least=1, at_most=3600)),
)

# Science: plug-ins and their confinement (docs/plug-ins.md)

PLUGINS = env.plugins("PLUGINS")
#: The Unix socket of the science service.  If it is empty, each daemon starts its own workers.
SCIENCE_SOCKET = env.text("SCIENCE_SOCKET", "")
SCIENCE_CONFINEMENT = env.choice(
    "SCIENCE_CONFINEMENT", "auto", among={"auto", "bubblewrap", "landlock", "none"}
)
SCIENCE_MEMORY_MB = env.integer("SCIENCE_MEMORY_MB", 4096, at_least=64)
SCIENCE_FILE_MB = env.integer("SCIENCE_FILE_MB", 1024, at_least=1)
SCIENCE_PROCESSES = env.integer("SCIENCE_PROCESSES", 64, at_least=1)
SCIENCE_CPU_SECONDS = env.integer("SCIENCE_CPU_SECONDS", 86_400, at_least=1)

# Web requests

DEBUG = env.boolean("DEBUG", default=False)
_master = urlsplit(PROJECT.master_url)
_former = [urlsplit(url) for url in PROJECT.former_urls]
ALLOWED_HOSTS = env.words(
    "ALLOWED_HOSTS",
    [
        str(_master.hostname),
        *(str(url.hostname) for url in _former),
        "localhost",
        "127.0.0.1",
        "[::1]",
    ],
)
TRUSTED_PROXIES = env.networks("TRUSTED_PROXIES")
METRICS_TOKEN = env.secret("METRICS_TOKEN", min_length=20)
METRICS_WITHOUT_TOKEN = env.boolean("METRICS_WITHOUT_TOKEN", default=False)
#: The maximum number of slow senders, and of slow readers, in one web process; above it the slowest
#: connections are cut. A slow client occupies one of the 64 threads that `serve` or a unit starts.
MAX_SLOW_CLIENTS = env.integer("MAX_SLOW_CLIENTS", 28, at_least=1)
# A proxy terminates TLS; `project.wsgi` drops this header unless a trusted proxy sent it.
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
# A project may be served by HTTPS under an http MASTER_URL, and under its former addresses.
CSRF_TRUSTED_ORIGINS = [
    f"https://{_master.hostname}",
    *(f"{url.scheme}://{url.netloc}" for url in (_master, *_former)),
]
if _master.scheme == "https":
    SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = True

# The database: the server of DATABASE_URL, or the embedded one

#: Maximum size of a process's connection pool; 0 (for commands) means one connection per thread.
DATABASE_POOL = env.integer("DATABASE_POOL", 0, at_most=1000)


#: The planner options of web processes (docs/decisions/0007): statements are planned once, with
#: index scans and nested loops, even while a table is empty.
WEB_PLANS = (
    "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c enable_hashjoin=off"
    " -c enable_mergejoin=off -c jit=off"
)
#: The planner options of other processes: index scans are preferred to full scans of tables without
#: statistics, whatever the server's cost settings; options in DATABASE_URL have precedence.
PLANS = "-c random_page_cost=1.1 -c jit=off"


#: Timeouts that detect an unresponsive database (frozen, or its network is cut): seconds for
#: connecting and for TCP keepalives, milliseconds for the acknowledgement of sent data.  Options in
#: DATABASE_URL have precedence.
TIMEOUTS = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}


def _embedded() -> dict[str, Any]:
    server = EmbeddedPostgres(VAR_DIR).conninfo()
    return {
        "NAME": server["dbname"],
        "USER": server["user"],
        "PASSWORD": server["password"],
        "HOST": server["host"],
        "PORT": server["port"],
        "OPTIONS": {},
        "EMBEDDED": str(VAR_DIR),
    }


def _database() -> dict[str, Any]:
    chosen = env.database_url("DATABASE_URL") or _embedded()
    # If no connection is available, the caller gets an error after 5 seconds.
    pool = {"min_size": 1, "max_size": DATABASE_POOL, "timeout": 5} if DATABASE_POOL else False
    # psycopg's own prepared statements would cause those of `scheduler.sql.prepared` to be dropped.
    options: dict[str, Any] = {"server_side_binding": True, "prepare_threshold": None, "pool": pool}
    from_url = chosen["OPTIONS"].get("options", "")
    plans = f"{from_url} {WEB_PLANS}" if DATABASE_POOL else f"{PLANS} {from_url}"
    options["options"] = plans.strip()
    return {
        "ENGINE": "project.postgres",
        **chosen,
        "CONN_MAX_AGE": 0 if DATABASE_POOL else None,
        "CONN_HEALTH_CHECKS": not DATABASE_POOL,
        "OPTIONS": {**TIMEOUTS, **chosen["OPTIONS"], **options},
    }


DATABASES = {"default": _database()}

#: Uploads and submissions are refused if fewer bytes than this would stay free in VAR_DIR. If the
#: database is on the same disk, the default includes max_wal_size, for its write-ahead log.
MIN_FREE_BYTES = env.integer(
    "MIN_FREE_BYTES",
    disk_reserve.default(VAR_DIR, DATABASES["default"]),
    at_least=1_000_000,
    at_most=1_125_899_906_842_624,
)
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

#: Whether a trigger in the database refuses moves that are not in the law.
GUARD_TRIGGER = env.boolean("GUARD_TRIGGER", default=False)

# Installed apps

INSTALLED_APPS = [
    "project",
    "scheduler.app_config.SchedulerConfig",
    "daemons",
    # Only project.urls imports the admin pages, so daemons and commands start 25 % faster.
    "django.contrib.admin.apps.SimpleAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.humanize",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "allauth",
    "scheduler.app_config.EmailAddressesConfig",
    "scheduler.app_config.SecondFactorConfig",
    "scheduler.app_config.LoginProvidersConfig",
    "rest_framework",
    "django_filters",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    # Only for its static files, htmx: no middleware, which would run for requests of clients, too.
    "django_htmx",
]

MIDDLEWARE = [
    "project.middleware.RefuseNul",
    "project.middleware.AuditTrail",
    "project.middleware.PagePolicy",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "scheduler.web.languages.LanguageMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "scheduler.web.refusals.RefusalMiddleware",
]

#: The faces for people, with templates and static files beside their views.
FACES = (BASE_DIR / "scheduler" / "web", BASE_DIR / "scheduler" / "admin")

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [face / "templates" for face in (*FACES, BASE_DIR / "scheduler" / "api")],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "scheduler.web.frame.project",
            ],
            "libraries": {"desk_times": "scheduler.admin.shown.time_filters"},
        },
    },
]

# The web

ROOT_URLCONF = "project.urls"
WSGI_APPLICATION = "project.wsgi.application"
APPEND_SLASH = False  # BOINC clients do not follow a redirect of a POST
DATA_UPLOAD_MAX_MEMORY_SIZE = PROJECT.max_request_bytes
#: A form of the administration has at most 100 programs and their signatures; other views discard
#: files.
DATA_UPLOAD_MAX_NUMBER_FILES = 250
#: A view whose form has files calls `form_uploads.accept_uploads`.
FILE_UPLOAD_HANDLERS = ["scheduler.files.form_uploads.DiscardUploads"]
STATIC_URL = "static/"
STATICFILES_DIRS = [face / "static" for face in (*FACES, BASE_DIR / "scheduler" / "api")]
WHITENOISE_USE_FINDERS = True

_PROVIDER_ORIGINS = [
    origin
    for provider in PROJECT.login_providers
    for origin in ("{0.scheme}://{0.netloc}".format(urlsplit(provider.server)), *provider.origins)
]
#: Pages may load files of this server, and nothing inline without a nonce.
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [csp.NONE],
        "script-src": [csp.SELF],
        "style-src": [csp.SELF, csp.NONCE],
        "img-src": [csp.SELF],
        "font-src": [csp.SELF],
        "connect-src": [csp.SELF],
        # Browsers check the redirect to a provider, too, which follows the form to log in with it.
        "form-action": [csp.SELF, *_PROVIDER_ORIGINS],
        "base-uri": [csp.NONE],
        "frame-ancestors": [csp.NONE],
    }
}

REST_FRAMEWORK: dict[str, Any] = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["scheduler.api.authentication.BearerToken"],
    "DEFAULT_PERMISSION_CLASSES": ["scheduler.api.authentication.NeedsScope"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["scheduler.api.http.parsers.StrictJson"],
    "DEFAULT_PAGINATION_CLASS": "scheduler.api.http.paging.ById",
    "DEFAULT_FILTER_BACKENDS": ["django_filters.rest_framework.DjangoFilterBackend"],
    "DEFAULT_SCHEMA_CLASS": "scheduler.api.schema.Schema",
    "EXCEPTION_HANDLER": "scheduler.api.http.problems.answer_exception",
    "URL_FORMAT_OVERRIDE": None,  # `format` is a parameter of this API
    "COERCE_DECIMAL_TO_STRING": False,
}
_ID = {"type": "integer", "format": "int64", "minimum": 0, "maximum": 2**63 - 1}
_NAME = {"type": "string", "minLength": 1, "maxLength": 254}
_ID_OR_NAME = {
    "anyOf": [_ID, _NAME],
    "description": "The id or the name; digits are always an id.",
}
_NAME_OR_ID = {**_NAME, "description": "The name, or the id if no name equals it."}
SPECTACULAR_SETTINGS: dict[str, Any] = {
    "TITLE": "Manyhands",
    "DESCRIPTION": (
        "Submit work, watch its progress, download its outputs.  Errors are problem+json: 400 for a"
        " request that does not match this schema, 422 for a valid request that cannot be carried"
        " out, 404 for an object that does not exist or belongs to another account."
    ),
    "POSTPROCESSING_HOOKS": [],  # enums are inlined
    "PATH_CONVERTER_OVERRIDES": {  # scheduler/api/converters.py
        "id": _ID,
        "name": _NAME,
        "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
        **dict.fromkeys(("workunit", "batch", "host"), _ID_OR_NAME),
        **dict.fromkeys(("app", "queue"), _NAME_OR_ID),
    },
    "VERSION": "1",
    "TAGS": [
        {"name": "project", "description": "Index, status and totals of the project; public."},
        {"name": "tokens", "description": "Tokens, scopes, rights and quota."},
        {"name": "apps", "description": "Apps, their versions, and platforms."},
        {"name": "batches", "description": "Groups of workunits."},
        {"name": "workunits", "description": "Workunits: submit, read and cancel them."},
        {"name": "results", "description": "Results of workunits, with their output files."},
        {"name": "files", "description": "Input files, identified by their SHA-256."},
        {"name": "news", "description": "News of the project; public."},
        {"name": "usage", "description": "Computing time and credit."},
        {"name": "hosts", "description": "The volunteers' computers."},
        {"name": "teams", "description": "Teams of volunteers, and their members."},
        {"name": "accounts", "description": "Accounts that share their statistics; public."},
        {"name": "badges", "description": "Badges of the project; public."},
        {"name": "keywords", "description": "BOINC's keywords: fields of science, and places."},
        {"name": "leaderboards", "description": "Accounts, computers and teams by credit; public."},
        {"name": "bundles", "description": "Task lists: workunits that one host gets as a unit."},
        {"name": "balance", "description": "A maximum that several queues share."},
        {"name": "queues", "description": "Queues of workunits, each with a limit and an order."},
        {"name": "pool", "description": "The trusted pool: a lab's own hosts claim work."},
    ],
    "OAS_VERSION": "3.1.1",
    "SORT_OPERATION_PARAMETERS": False,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_SETTINGS": {"deepLinking": True, "validatorUrl": None},
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
}

# People

AUTH_USER_MODEL = "scheduler.Account"
AUTHENTICATION_BACKENDS = ["scheduler.people.accounts.MasterPasswordBackend"]
PASSWORD_HASHERS = [
    "project.hashers.ScryptPasswordHasher",
    "project.hashers.PBKDF2PasswordHasher",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
# The language of everything but the pages for people, whose language is that of the visitor.
LANGUAGE_CODE = "en"
USE_I18N = True
LANGUAGES = [("en", "English"), ("de", "Deutsch")]
LOCALE_PATHS = [BASE_DIR / "scheduler" / "web" / "locale"]
LANGUAGE_COOKIE_NAME = "language"
DATETIME_FORMAT = "Y-m-d H:i:s"
TIME_ZONE = "UTC"
USE_TZ = True

# Log-in on the web, by django-allauth (docs/decisions/0037)

LOGIN_URL, LOGIN_REDIRECT_URL = "account_login", "account_home"
ACCOUNT_ADAPTER = "scheduler.web.accounts.adapter.AccountAdapter"
ACCOUNT_USER_MODEL_USERNAME_FIELD = None
ACCOUNT_LOGIN_METHODS = {"email"}
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*", "password2*"]
# As for accounts that clients create: the account works before its address is confirmed.
ACCOUNT_EMAIL_VERIFICATION = "optional"
ACCOUNT_EMAIL_CONFIRMATION_EXPIRE_DAYS = 3
ACCOUNT_EMAIL_NOTIFICATIONS = True
ACCOUNT_SESSION_REMEMBER = True
ACCOUNT_REAUTHENTICATION_METHODS = ("password", "mfa")
# `people.throttle` and the queue of password hashes limit attempts, for all processes together.
ACCOUNT_RATE_LIMITS = False
ACCOUNT_FORMS = {
    "login": "scheduler.web.accounts.forms.LogInForm",
    "signup": "scheduler.web.accounts.forms.SignUpForm",
    "change_password": "scheduler.web.accounts.forms.ChangePasswordForm",
    "reauthenticate": "scheduler.web.accounts.forms.ReauthenticateForm",
    "reset_password": "scheduler.web.accounts.forms.ResetPasswordForm",
    "reset_password_from_key": "scheduler.web.accounts.forms.NewPasswordForm",
}
PASSWORD_RESET_TIMEOUT = 86_400
MFA_ADAPTER = "scheduler.web.accounts.second_factor.SecondFactorAdapter"
#: Codes of the period before and after are accepted, too, as RFC 6238 (5.2) recommends: a code may
#: be typed at the end of its 30 seconds, and clocks differ.
MFA_TOTP_TOLERANCE = 1


def _offers_security_keys() -> bool:
    """Return whether browsers use security keys at `MASTER_URL`: https and a name, or localhost."""
    host = str(_master.hostname)
    is_name = ":" not in host and not host.replace(".", "").isdecimal()
    return host == "localhost" or (_master.scheme == "https" and is_name)


MFA_SUPPORTED_TYPES = ["totp", "recovery_codes", *["webauthn"] * _offers_security_keys()]
MFA_FORMS = {
    "authenticate": "scheduler.web.accounts.second_factor.CodeForm",
    "reauthenticate": "scheduler.web.accounts.second_factor.ReauthenticateForm",
    "activate_totp": "scheduler.web.accounts.second_factor.EnrolForm",
    "add_webauthn": "scheduler.web.accounts.security_keys.AddKeyForm",
    "authenticate_webauthn": "scheduler.web.accounts.security_keys.KeyForm",
    "reauthenticate_webauthn": "scheduler.web.accounts.security_keys.ReauthenticateKeyForm",
}

# Log-in with OpenID Connect; never joined to an account by its e-mail address alone
SOCIALACCOUNT_ADAPTER = "scheduler.web.accounts.openid.ProviderAdapter"
SOCIALACCOUNT_AUTO_SIGNUP = False
SOCIALACCOUNT_REAUTHENTICATION_REQUIRED = True
SOCIALACCOUNT_EMAIL_AUTHENTICATION = False
SOCIALACCOUNT_FORMS = {"signup": "scheduler.web.accounts.providers.SignUpForm"}

# Daemons by Celery, for several machines

CELERY_BROKER_URL = env.broker_url("CELERY_BROKER_URL", "redis://127.0.0.1:6379/0")

# Mail, and where alerts are sent

#: The mail server; None means that the project sends no mail.
MAIL = env.mail_url("EMAIL_URL")
MAIL_FROM = env.mail_sender("MAIL_FROM", host=_master.hostname)
ALERTS = AlertConfig(
    mail=env.mail_addresses("ALERT_MAIL"),
    webhook=env.webhook_url("ALERT_WEBHOOK", private_hosts=PROJECT.webhook_hosts),
)
# Mail of Django and of its packages goes through the outbox, too.
EMAIL_BACKEND = "project.mail_backend.OutboxBackend"
DEFAULT_FROM_EMAIL = SERVER_EMAIL = MAIL_FROM

# Logs

LOG_FORMAT = env.choice("LOG_FORMAT", "text", among={"text", "json"})
LOG_LEVEL = env.choice("LOG_LEVEL", "INFO", among={"DEBUG", "INFO", "WARNING", "ERROR"})
#: File to which audit entries are appended as lines of JSON; None writes them to the common log.
AUDIT_LOG = env.text("AUDIT_LOG", "") or None
#: Days for which entries of the audit log are kept in the database.
AUDIT_KEPT_DAYS = env.integer("AUDIT_KEPT_DAYS", 365, at_least=1, at_most=36_500)
LOGGING = logging.configuration(LOG_FORMAT, level=LOG_LEVEL, audit_log=AUDIT_LOG)
