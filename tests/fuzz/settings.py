"""Settings for fuzzing: a cheap password hasher, and throttles raised."""

from __future__ import annotations

from dataclasses import fields, replace

from project.settings import *  # noqa: F403 - what settings are made of
from project.settings import PROJECT as _PROJECT

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

#: The prefix of settings that limit attempts, here and in `ProjectConfig`.
_THROTTLES = ("LOGIN_THROTTLE_", "login_throttle_")
_UNLIMITED = 10**9

globals().update(
    {
        name: _UNLIMITED
        for name, value in list(globals().items())
        if name.startswith(_THROTTLES) and type(value) is int
    }
)
PROJECT = replace(
    _PROJECT,
    size_queries_per_second=0,
    hosts_per_account=0,
    **{
        one.name: _UNLIMITED
        for one in fields(_PROJECT)
        if one.name.startswith(_THROTTLES) and type(getattr(_PROJECT, one.name)) is int
    },
)
