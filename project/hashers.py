"""How passwords are hashed: with scrypt, by one thread of each process."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.contrib.auth import hashers

_ONE = ThreadPoolExecutor(1, thread_name_prefix="scrypt")


class ScryptPasswordHasher(hashers.ScryptPasswordHasher):
    """Django's own, which takes 16 MB for each password that it hashes.

    The C library keeps them for each thread that ever did so: all threads of a web process would
    need 130 MB, and anybody may make them do it, by creating accounts.
    """

    def encode(self, *args: Any, **kwargs: Any) -> str:
        """Hash one password, when those before it are done."""
        return str(_ONE.submit(super().encode, *args, **kwargs).result())
