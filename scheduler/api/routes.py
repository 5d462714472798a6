"""The URLs under `/api/v1/`."""

from __future__ import annotations

from typing import Any

from django.urls import path, re_path
from drf_spectacular.views import SpectacularAPIView

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

_OPEN: dict[str, Any] = {"authentication_classes": [], "permission_classes": []}

urlpatterns = [
    path("", index.Index.as_view(), name="api_index"),
    path("schema", SpectacularAPIView.as_view(**_OPEN), name="api_schema"),
    path("docs", index.Swagger.as_view(url_name="api_schema", **_OPEN)),
    path("redoc", index.Redoc.as_view(url_name="api_schema", **_OPEN)),
    path("app-versions/<id:version_id>", app_versions.OneVersion.as_view()),
    path("apps", apps.Apps.as_view()),
    path("apps/<name:name>", apps.OneApp.as_view()),
    path("apps/<name:name>/versions", publishing.Versions.as_view()),
    path("batches", batches.Batches.as_view()),
    path("batches/<id:batch_id>", batches.OneBatch.as_view()),
    path("batches/<id:batch_id>/abort", batches.BatchAbort.as_view()),
    path("batches/<id:batch_id>/outputs", outputs.BatchOutputs.as_view()),
    path("batches/<id:batch_id>/progress", batches.BatchProgress.as_view()),
    path("batches/<id:batch_id>/retire", batches.BatchRetire.as_view()),
    path("batches/<id:batch_id>/retry", batches.BatchRetry.as_view()),
    path("batches/<id:batch_id>/troubles", batches.BatchTroubles.as_view()),
    path("files", files.Files.as_view()),
    path("files/query", files.FileQuery.as_view()),
    path("files/<sha256:sha256>", files.OneFile.as_view()),
    path("hosts", hosts.Hosts.as_view()),
    path("hosts/<id:host_id>", hosts.OneHost.as_view()),
    path("me", me.Me.as_view()),
    path("platforms", platforms.Platforms.as_view()),
    path("queues", queues.Queues.as_view()),
    path("queues/<name:name>", queues.OneQueue.as_view()),
    path("results", results.Results.as_view()),
    path("results/<id:result_id>", results.OneResult.as_view()),
    path("results/<id:result_id>/outputs/<id:position>", outputs.ResultOutput.as_view()),
    path("statistics", project.Statistics.as_view()),
    path("status", project.StatusNow.as_view()),
    path("tokens", tokens.Tokens.as_view()),
    path("tokens/<id:token_id>", tokens.OneToken.as_view()),
    path("usage", usage.Usage.as_view()),
    path("weak-key", weak_key.WeakKey.as_view()),
    path("workunits", workunits.Workunits.as_view()),
    path("workunits/cancel", cancelling.CancelWorkunits.as_view()),
    path("workunits/<id:workunit_id>", workunits.OneWorkunit.as_view()),
    path("workunits/<id:workunit_id>/cancel", cancelling.CancelWorkunit.as_view()),
    path("workunits/<id:workunit_id>/timeline", workunits.WorkunitTimeline.as_view()),
    re_path("", index.UnknownAddress.as_view()),
]
