"""All addresses under `/api/v1/`, collected from the modules of endpoints.

Each module of endpoints exports `urlpatterns`, and has one line here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import scheduler.api.converters  # noqa: F401  registers the converters
from scheduler.api.endpoints import (
    app_versions,
    apps,
    batches,
    cancelling,
    files,
    hosts,
    index,
    me,
    outputs,
    platforms,
    project,
    publishing,
    queues,
    results,
    tokens,
    usage,
    weak_key,
    workunits,
)

if TYPE_CHECKING:
    from django.urls import URLPattern

urlpatterns: list[URLPattern] = [
    *index.urlpatterns,
    *app_versions.urlpatterns,
    *apps.urlpatterns,
    *batches.urlpatterns,
    *cancelling.urlpatterns,
    *files.urlpatterns,
    *hosts.urlpatterns,
    *me.urlpatterns,
    *outputs.urlpatterns,
    *platforms.urlpatterns,
    *project.urlpatterns,
    *publishing.urlpatterns,
    *queues.urlpatterns,
    *results.urlpatterns,
    *tokens.urlpatterns,
    *usage.urlpatterns,
    *weak_key.urlpatterns,
    *workunits.urlpatterns,
    *index.dead_ends,
]
