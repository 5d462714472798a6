"""Guesses at passwords: so many for each address and each account, then a pause.

Counts lie in Django's cache: with the memory of each web process as the cache, each counts for
itself, so that what is let through at most is these numbers times the processes.  A guess that was
right is not counted.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass

from django.core.cache import cache
from rest_framework.exceptions import APIException


@dataclass(frozen=True, slots=True)
class Guesses:
    """How many wrong guesses of one kind are let through in a window."""

    kind: str
    most: int
    window_seconds: int


class TooManyGuesses(APIException):
    """Too many wrong passwords. Hint: the message says how long to wait."""

    status_code = 429
    default_code = "throttled"

    def __init__(self, said: str, wait: int) -> None:
        """Keep how many seconds to wait, for ``Retry-After``."""
        super().__init__(said)
        self.wait = wait


OF_ADDRESS = Guesses("address", most=30, window_seconds=300)
OF_ACCOUNT = Guesses("account", most=10, window_seconds=300)


def count_guess(*, address: str, email: str) -> None:
    """Count a guess before it is looked at; raises `TooManyGuesses` (429)."""
    for guesses, said in ((OF_ADDRESS, address), (OF_ACCOUNT, email.strip().lower())):
        key = _key(guesses, said)
        # The clock of the machine: a pause is no fact of the domain.
        now = time.monotonic()
        cache.add(f"{key}.since", now, guesses.window_seconds)
        cache.add(key, 0, guesses.window_seconds)
        try:
            count = cache.incr(key)
        except ValueError:  # it ran out between the two
            continue
        if count > guesses.most:
            since = cache.get(f"{key}.since", now)
            wait = max(1, int(guesses.window_seconds - (now - since)))
            msg = (
                f"Too many wrong passwords for this {guesses.kind}. "
                f"Hint: wait {wait} seconds, and check e-mail address and password."
            )
            raise TooManyGuesses(msg, wait)


def forgive_guess(*, address: str, email: str) -> None:
    """Take a guess that was right back from the count."""
    for guesses, said in ((OF_ADDRESS, address), (OF_ACCOUNT, email.strip().lower())):
        try:
            cache.decr(_key(guesses, said))
        except ValueError:
            continue


def _key(guesses: Guesses, said: str) -> str:
    digest = hashlib.sha256(said.encode("utf-8", "replace")).hexdigest()[:32]
    return f"manyhands.guesses.{guesses.kind}.{digest}"
