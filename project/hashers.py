"""Limits Django's password hashers by the queue of `scheduler.people.hashing`."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import hashers

from scheduler.people import hashing


class ScryptPasswordHasher(hashers.ScryptPasswordHasher):
    """Hashes passwords with scrypt, which needs 16 MB of memory.

    The C library keeps this memory for each thread that has hashed a password.  Without the queue,
    the threads of a web process would need 1 GB, and any visitor could cause that by creating
    accounts.
    """

    def encode(self, *args: Any, **kwargs: Any) -> str:
        """Hash a password, after the passwords queued before it; raises `HashQueueFull`."""
        return hashing.in_queue(
            lambda: str(super(ScryptPasswordHasher, self).encode(*args, **kwargs))
        )


class PBKDF2PasswordHasher(hashers.PBKDF2PasswordHasher):
    """Hashes passwords with PBKDF2, for imported accounts whose passwords were hashed so."""

    def encode(self, *args: Any, **kwargs: Any) -> str:
        """Hash a password, after the passwords queued before it; raises `HashQueueFull`."""
        return hashing.in_queue(
            lambda: str(super(PBKDF2PasswordHasher, self).encode(*args, **kwargs))
        )
