"""Throttles log-in attempts and new teams at every interface, for all processes.

Theory of operation.  An attempt is charged before the account is read and the password is checked.
Therefore, concurrent attempts are limited like sequential attempts, and the response to a refused
attempt does not depend on whether the account exists.  Three buckets are charged, in this order:

1. the bucket of the network (a /24 or /64), which is also charged for queries whether an account
   exists;
2. the bucket of the account and this network;
3. the bucket of the account and all networks from which it has not logged in recently.

Attempts from networks from which the account has logged in recently are not charged to the third
bucket, so that an attack from other networks cannot lock out the owner.  The charges are refunded
after a correct password.  Keys of buckets contain keyed hashes of networks and e-mail addresses.
The e-mail address of an attempt need not belong to an account.

`Attempt.door` is the name of the interface in the audit log, such as `lookup_account` or `admin`.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.conf import settings

from scheduler import sql
from scheduler.models import Account, LoginNetwork
from scheduler.people import audit
from scheduler.people.rules.throttle_limits import NO_NETWORK, Limit, network_of, seconds_to_wait

_DAY = timedelta(days=1)
#: Mails with a link that visitors can have sent to one address; more would be a nuisance: a
#: burst of six, then one every ten minutes.
_MAILS = Limit("mails", 6, timedelta(hours=1))
#: Teams that one account creates.  Most members create none; an empty team stays in the lists.
_TEAMS = Limit("new-teams", 5, _DAY)
#: A code of a second factor is accepted once.  It is valid for 90 seconds: the 30 of its time, and
#: `MFA_TOTP_TOLERANCE` periods before and after.
_CODE_USES = Limit("used-codes", 1, timedelta(minutes=2))


class TooManyAttempts(Exception):
    """Too many attempts were made. Hint: try again after `seconds` seconds."""

    def __init__(self, message: str, seconds: int) -> None:
        super().__init__(message)
        self.seconds = seconds


class UsedCode(ValueError):
    """The code of a second factor was used before. Hint: wait for the next one."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """An allowed attempt; `charges` maps keys of buckets to charges, which are durations."""

    door: str
    email: str
    address: str
    network: str
    now: datetime
    charges: dict[str, timedelta] = field(default_factory=dict)


def charge(*, door: str, email: str, address: str, now: datetime) -> Attempt:
    """Charge a log-in attempt to its buckets; raise `TooManyAttempts` if a bucket is full.

    Call `succeeded` after a correct password, `failed` after a wrong password, and `refund` if the
    password was not checked.
    """
    attempt = charge_query(door=door, email=email, address=address, now=now)
    config = settings.PROJECT
    if not config.login_throttle:
        return attempt
    window = config.login_throttle_window
    _charge(
        attempt,
        Limit("account-network", config.login_attempts_per_account_and_network, window),
        f"{attempt.email} {attempt.network}",
        f"Too many wrong passwords for this account from your network {attempt.network}.",
    )
    if not _has_logged_in_from(attempt):
        _charge(
            attempt,
            Limit("account", config.login_attempts_per_account, window),
            attempt.email,
            "Too many wrong passwords for this account from networks that are new to it.",
        )
    return attempt


def charge_query(*, door: str, email: str, address: str, now: datetime) -> Attempt:
    """Charge a query whether an account exists to the caller's network.

    Raises `TooManyAttempts` if the bucket is full.  Charges nothing if `login_throttle` is off.
    """
    attempt = _attempt(door, email, address, now)
    config = settings.PROJECT
    if config.login_throttle:
        _charge(
            attempt,
            Limit("network", config.login_attempts_per_network, config.login_throttle_window),
            attempt.network,
            f"Too many log-in attempts from your network {attempt.network}.",
        )
    return attempt


def charge_creation(*, email: str, address: str, now: datetime) -> Attempt:
    """Charge the creation of an account to the caller's network.

    Raises `TooManyAttempts` if the network's daily limit is reached.  Charges nothing if
    `login_throttle` is off or `accounts_per_network` is 0.
    """
    attempt = Attempt("create_account", email, address, network_of(address), now)
    config = settings.PROJECT
    if config.login_throttle and config.accounts_per_network:
        _charge(
            attempt,
            Limit("new-accounts", config.accounts_per_network, _DAY),
            attempt.network,
            f"Too many accounts were created from your network {attempt.network} today.",
        )
    return attempt


def charge_mail(
    *, door: str, email: str, address: str, of_network: bool = True, now: datetime
) -> None:
    """Charge a mail that a visitor has sent to an address, whether or not an account has it.

    With `of_network`, the mail is also charged to the caller's network, as a query is.  Raises
    `TooManyAttempts` if a limit is reached.
    """
    if of_network:
        attempt = charge_query(door=door, email=email, address=address, now=now)
    else:
        attempt = _attempt(door, email, address, now)
    if settings.PROJECT.login_throttle:
        message = f"Too many mails were requested for {attempt.email}."
        _charge(attempt, _MAILS, attempt.email, message)


def charge_team(account: Account, *, now: datetime) -> Attempt:
    """Charge the creation of a team to the account; call `refund` if the creation is refused.

    Raises `TooManyAttempts` if the account has created too many teams lately.  Charges nothing if
    `login_throttle` is off.
    """
    attempt = _attempt("create_team", account.email, audit.current_actor().address or "", now)
    if settings.PROJECT.login_throttle:
        message = (
            f"This account has created {_TEAMS.attempts} teams within a day, which is the limit."
        )
        _charge(attempt, _TEAMS, str(account.pk), message, hint="")
    return attempt


def charge_code(*, account: Account, address: str, now: datetime) -> Attempt:
    """Charge a code of a second factor to the account, from whatever network.

    Only callers with the password get here, so this limit cannot lock out the owner of an account
    whose password is secret.  Raises `TooManyAttempts`; call `failed` or `refund` afterwards.
    """
    attempt = charge_query(door="second_factor", email=account.email, address=address, now=now)
    config = settings.PROJECT
    if config.login_throttle:
        attempts = config.login_attempts_per_account_and_network
        limit = Limit("second-factor", attempts, config.login_throttle_window)
        _charge(attempt, limit, str(account.pk), "Too many wrong codes for this account.")
    return attempt


def use_code(*, account: Account, code: str, now: datetime) -> None:
    """Mark a correct code as used, for all processes; raise `UsedCode` if it was used before."""
    row = sql.fetch_one(
        "people/charge_throttle_bucket",
        {
            "key": _key(_CODE_USES, f"{account.pk} {code}"),
            "interval": _CODE_USES.interval,
            "window": _CODE_USES.window,
            "now": now,
        },
    )
    if row is not None and not row["was_allowed"]:
        raise UsedCode("This code was used before. Hint: wait for the next one.")


def succeeded(attempt: Attempt | None, account: Account, *, record: bool = True) -> None:
    """Refund the attempt and store its network; do nothing if `attempt` is None.

    With `record`, write an audit entry, at most once per hour, account and network.
    """
    if attempt is None:
        return
    refund(attempt)
    params = {"account_id": account.pk, "network": attempt.network, "now": attempt.now}
    if sql.fetch("people/remember_login_network", params) and record:
        _record(audit.Event.LOGIN_SUCCEEDED, attempt, {}, account_id=account.pk)


def failed(attempt: Attempt | None) -> None:
    """Record a failed log-in in the audit log, without refunding the charges."""
    if attempt is not None:
        _record(audit.Event.LOGIN_FAILED, attempt, {})


def refund(attempt: Attempt) -> None:
    if attempt.charges:
        sql.execute(
            "people/refund_throttle_buckets",
            {"keys": list(attempt.charges), "charges": list(attempt.charges.values())},
        )


def _attempt(door: str, email: str, address: str, now: datetime) -> Attempt:
    return Attempt(door, email.strip().lower()[:254], address, network_of(address), now)


def _charge(
    attempt: Attempt,
    limit: Limit,
    subject: str,
    message: str,
    *,
    hint: str = ", and check e-mail address and password",
) -> None:
    key = _key(limit, subject)
    row = sql.fetch_one(
        "people/charge_throttle_bucket",
        {"key": key, "interval": limit.interval, "window": limit.window, "now": attempt.now},
    )
    if row is None or row["was_allowed"]:
        attempt.charges[key] = limit.interval
        return
    if row["must_record"]:
        _record(audit.Event.LOGIN_THROTTLED, attempt, {"limit": limit.name})
    seconds = seconds_to_wait(limit, empty_at=row["empty_at"], now=attempt.now)
    msg = f"{message} Hint: wait {seconds} seconds{hint}."
    raise TooManyAttempts(msg, seconds)


def _has_logged_in_from(attempt: Attempt) -> bool:
    since = attempt.now - settings.PROJECT.login_network_kept
    return LoginNetwork.objects.filter(
        account__email=attempt.email, network=attempt.network, last_login_at__gt=since
    ).exists()


def _key(limit: Limit, subject: str) -> str:
    secret = f"throttle {settings.SECRET_KEY}".encode()
    digest = hmac.new(secret, subject.encode("utf-8", "replace"), hashlib.sha256).hexdigest()
    return f"{limit.name}:{digest[:32]}"


def _record(
    event: audit.Event,
    attempt: Attempt,
    details: Mapping[str, str],
    *,
    account_id: int | None = None,
) -> None:
    with attributed(attempt, account_id):
        audit.record(
            event,
            now=attempt.now,
            subject=audit.claimed_email(attempt.email),
            details={"door": attempt.door, **details},
        )


@contextmanager
def attributed(attempt: Attempt | None, account_id: int | None = None) -> Iterator[None]:
    """Attribute audit entries to the attempt's address, unless the current actor has a name."""
    if attempt is None or audit.current_actor().name:
        yield
        return
    # The column stores IP addresses without a zone, such as the "%eth0" of fe80::1%eth0.
    is_address = attempt.network != NO_NETWORK
    address = attempt.address.partition("%")[0] if is_address else None
    with audit.acting(
        account_id=account_id, name=audit.claimed_email(attempt.email), address=address
    ):
        yield
