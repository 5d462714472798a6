"""Apps and workunits for tests, written directly to the database."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from scheduler import signing, storage
from scheduler.lifecycle import Target
from scheduler.models import App, AppVersion, AppVersionFile, File, Platform, Result, Workunit

LINUX = "x86_64-pc-linux-gnu"


def an_app(name: str = "upper", *, version_num: int = 100, **fields: Any) -> App:
    """Create an app with one version for Linux: a signed script that does nothing."""
    now = timezone.now()
    platform, _new = Platform.objects.get_or_create(name=LINUX)
    rules = {"retry_same_account_after": timedelta(0)} | fields
    app, _new = App.objects.get_or_create(name=name, defaults={"created_at": now} | rules)
    version = AppVersion.objects.create(
        app=app, platform=platform, version_num=version_num, created_at=now
    )
    staged = storage.stage_bytes(f"#!/bin/sh\n# {name} {version_num}\n".encode())
    physical = f"{name}_{version_num}_{staged.digest.sha256[:12]}.sh"
    storage.publish(staged, physical)
    file = File.objects.create(
        name=physical,
        sha256=staged.digest.sha256,
        md5=staged.digest.md5,
        nbytes=staged.digest.nbytes,
        created_at=now,
    )
    AppVersionFile.objects.create(
        app_version=version,
        file=file,
        position=0,
        main_program=True,
        executable=True,
        signature=signing.sign(staged.data),
    )
    return app


def workunits(app: App, count: int, *, results: int = 1, **fields: Any) -> list[Workunit]:
    """Create workunits with `results` unsent results each, as the transitioner leaves them."""
    now: datetime = timezone.now()
    numbers = {"min_quorum": results, "target_nresults": results} | fields
    first = Workunit.objects.count()
    made = Workunit.objects.bulk_create(
        Workunit(
            name=f"{app.name}_{first + number}",
            app=app,
            outputs=[{"open_name": "out", "max_nbytes": 10_000}],
            created_at=now,
            **numbers,
        )
        for number in range(count)
    )
    Result.objects.bulk_create(
        Result(
            workunit=workunit,
            app=app,
            name=f"{workunit.name}_{attempt}",
            attempt=attempt,
            priority=workunit.priority,
            created_at=now,
            target_kind=Target.QUEUE if workunit.queue_id else Target.EVERYBODY,
            target_id=workunit.queue_id or 0,
        )
        for workunit in made
        for attempt in range(results)
    )
    return made
