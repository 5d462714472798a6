"""The URLs under `/api/v1/`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.urls import path, re_path
from django.utils.module_loading import import_string

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
from scheduler.api.endpoints.bulk import holding, query_submissions
from scheduler.api.endpoints.people import (
    badges,
    consents,
    credit_history,
    keywords,
    leaderboards,
    log_ins,
    news,
    own_computers,
    own_keys,
    own_results,
    own_workunits,
    ownership,
    preferences,
    public_accounts,
    public_computers,
    public_teams,
    teams,
)
from scheduler.api.endpoints.task_lists import bundles
from scheduler.api.pool import endpoints as pool

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http import HttpRequest
    from django.http.response import HttpResponseBase


def _documentation(name: str) -> Callable[[HttpRequest], HttpResponseBase]:
    """Return a view that imports `scheduler.api.documentation` when it is called."""

    def view(request: HttpRequest) -> HttpResponseBase:
        answer: HttpResponseBase = import_string(f"scheduler.api.documentation.{name}")(request)
        return answer

    return view


urlpatterns = [
    path("", index.Index.as_view(), name="api_index"),
    path("schema", _documentation("schema"), name="api_schema"),
    path("docs", _documentation("swagger")),
    path("redoc", _documentation("redoc")),
    path("accounts", public_accounts.Accounts.as_view()),
    path("accounts/<id:account_id>", public_accounts.OneAccount.as_view()),
    path("accounts/<id:account_id>/certificate", public_accounts.AccountCertificate.as_view()),
    path("app-versions/<id:version_id>", app_versions.OneVersion.as_view()),
    path("accounts/<id:account_id>/credit-history", credit_history.AccountCreditHistory.as_view()),
    path("apps", apps.Apps.as_view()),
    path("apps/<app:name>", apps.OneApp.as_view()),
    path("apps/<app:name>/statistics", usage.AppStatistics.as_view()),
    path("apps/<app:name>/versions", publishing.Versions.as_view()),
    path("badges", badges.Badges.as_view()),
    path("batches", batches.Batches.as_view()),
    path("batches/<batch:batch_id>", batches.OneBatch.as_view()),
    path("batches/<batch:batch_id>/abort", batches.BatchAbort.as_view()),
    path("batches/<batch:batch_id>/graph", batches.BatchGraph.as_view()),
    path("batches/<batch:batch_id>/outputs", outputs.BatchOutputs.as_view()),
    path("batches/<batch:batch_id>/progress", batches.BatchProgress.as_view()),
    path("batches/<batch:batch_id>/retire", batches.BatchRetire.as_view()),
    path("batches/<batch:batch_id>/retry", batches.BatchRetry.as_view()),
    path("batches/<batch:batch_id>/statistics", usage.BatchStatistics.as_view()),
    path("batches/<batch:batch_id>/troubles", batches.BatchTroubles.as_view()),
    path("bundles", bundles.Bundles.as_view()),
    path("bundles/<id:bundle_id>", bundles.OneBundle.as_view()),
    path("computers/<id:host_id>", public_computers.PublicComputer.as_view()),
    path(
        "computers/<id:host_id>/credit-history",
        credit_history.PublicComputerCreditHistory.as_view(),
    ),
    path("files", files.Files.as_view()),
    path("files/query", files.FileQuery.as_view()),
    path("files/<sha256:sha256>", files.OneFile.as_view()),
    path("hosts", hosts.Hosts.as_view()),
    path("hosts/<host:host_id>", hosts.OneHost.as_view()),
    path("keywords", keywords.Keywords.as_view()),
    path("leaderboards/accounts", leaderboards.AccountBoard.as_view()),
    path("leaderboards/computers", leaderboards.ComputerBoard.as_view()),
    path("leaderboards/teams", leaderboards.TeamBoard.as_view()),
    path("me", me.Me.as_view()),
    path("me/certificate", public_accounts.MyCertificate.as_view()),
    path("me/consents", consents.Consents.as_view()),
    path("me/computers", own_computers.MyComputers.as_view()),
    path("me/computers/<id:host_id>", own_computers.MyComputer.as_view()),
    path(
        "me/computers/<id:host_id>/credit-history", credit_history.ComputerCreditHistory.as_view()
    ),
    path("me/computers/<id:host_id>/merge", own_computers.MergeMyComputer.as_view()),
    path("me/credit-grants", credit_history.MyCreditGrants.as_view()),
    path("me/credit-history", credit_history.MyCreditHistory.as_view()),
    path("me/keys", own_keys.MyKeys.as_view()),
    path("me/keys/<id:key_id>", own_keys.MyKey.as_view()),
    path("me/keys/<id:key_id>/revoke", own_keys.RevokeMyKey.as_view()),
    path("me/log-ins", log_ins.MyLogIns.as_view()),
    path("me/log-ins/<id:log_in_id>", log_ins.MyLogIn.as_view()),
    path("me/ownership-statements", ownership.OwnershipStatements.as_view()),
    path("me/preferences/computing", preferences.ComputingPreferences.as_view()),
    path("me/preferences/project", preferences.ProjectPreferences.as_view()),
    path("me/results", own_results.MyResults.as_view()),
    path("me/results/<id:result_id>", own_results.MyResult.as_view()),
    path("me/team", teams.MyTeam.as_view()),
    path("me/team/administrators/<id:account_id>", teams.OneAdministrator.as_view()),
    path("me/team/delete", teams.DeleteTeam.as_view()),
    path("me/team/foundership", teams.TeamFoundership.as_view()),
    path("me/team/join", teams.JoinTeam.as_view()),
    path("me/team/members/<id:account_id>", teams.TeamMember.as_view()),
    path("me/workunits/<id:workunit_id>", own_workunits.MyWorkunit.as_view()),
    path("news", news.NewsList.as_view()),
    path("news/<id:news_id>", news.OneNews.as_view()),
    path("ownership-verifications", ownership.OwnershipVerifications.as_view()),
    path("platforms", platforms.Platforms.as_view()),
    path("pool", pool.Pool.as_view()),
    path("pool/acquire", pool.Acquire.as_view()),
    path("pool/claimed", pool.ClaimedResults.as_view()),
    path("pool/results", pool.AvailableResults.as_view()),
    path("pool/results/<id:result_id>/claim", pool.Claim.as_view()),
    path("pool/results/<id:result_id>/report_cpu_utilization", pool.ReportOneValue.as_view()),
    path("pool/results/<id:result_id>/report_gpu_usage", pool.ReportOneValue.as_view()),
    path("pool/results/<id:result_id>/report_memory_usage", pool.ReportOneValue.as_view()),
    path("pool/results/<id:result_id>/report_usage", pool.ReportUsage.as_view()),
    path("pool/wait", pool.Wait.as_view()),
    path("queues", queues.Queues.as_view()),
    path("balance", queues.Balance.as_view()),
    path("queues/<queue:name>", queues.OneQueue.as_view()),
    path("results", results.Results.as_view()),
    path("results/<id:result_id>", results.OneResult.as_view()),
    path("results/<id:result_id>/outputs/<id:position>", outputs.ResultOutput.as_view()),
    path("statistics", project.Statistics.as_view()),
    path("statistics/computers", project.ComputerStatistics.as_view()),
    path("statistics/credit", credit_history.ProjectCreditHistory.as_view()),
    path("statistics/files", project.StatisticsFiles.as_view()),
    path("status", project.StatusNow.as_view()),
    path("teams", public_teams.Teams.as_view()),
    path("teams/<id:team_id>", public_teams.TeamById.as_view()),
    path("teams/<id:team_id>/credit-history", credit_history.TeamCreditHistory.as_view()),
    path("teams/<id:team_id>/members", public_teams.TeamMembers.as_view()),
    path("tokens", tokens.Tokens.as_view()),
    path("tokens/<id:token_id>", tokens.OneToken.as_view()),
    path("usage", usage.Usage.as_view()),
    path("weak-key", weak_key.WeakKey.as_view()),
    path("workunits", workunits.Workunits.as_view()),
    path("workunits/cancel", cancelling.CancelWorkunits.as_view()),
    path("workunits/from-query", query_submissions.QuerySubmissions.as_view()),
    path("workunits/hold", holding.HoldWorkunits.as_view()),
    path("workunits/release", holding.ReleaseWorkunits.as_view()),
    path("workunits/<workunit:workunit_id>", workunits.OneWorkunit.as_view()),
    path("workunits/<workunit:workunit_id>/add_continuation", workunits.AddContinuation.as_view()),
    path(
        "workunits/<workunit:workunit_id>/add_continuations", workunits.AddContinuations.as_view()
    ),
    path("workunits/<workunit:workunit_id>/cancel", cancelling.CancelWorkunit.as_view()),
    path(
        "workunits/<workunit:workunit_id>/current_history",
        workunits.WorkunitCurrentHistory.as_view(),
    ),
    # The names that Eve's specification has for the current attempt and for all attempts.
    path(
        "workunits/<workunit:workunit_id>/execution_data",
        workunits.WorkunitCurrentHistory.as_view(schema=None),
    ),
    path(
        "workunits/<workunit:workunit_id>/execution_history",
        workunits.WorkunitHistory.as_view(schema=None),
    ),
    path(
        "workunits/<workunit:workunit_id>/execution_info",
        workunits.WorkunitCurrentHistory.as_view(schema=None),
    ),
    path("workunits/<workunit:workunit_id>/history", workunits.WorkunitHistory.as_view()),
    path(
        "workunits/<workunit:workunit_id>/remove_continuation",
        workunits.RemoveContinuation.as_view(),
    ),
    path(
        "workunits/<workunit:workunit_id>/remove_continuations",
        workunits.RemoveContinuations.as_view(),
    ),
    path("workunits/<workunit:workunit_id>/rounds", workunits.WorkunitRounds.as_view()),
    path("workunits/<workunit:workunit_id>/statistics", workunits.WorkunitStatistics.as_view()),
    path("workunits/<workunit:workunit_id>/timeline", workunits.WorkunitTimeline.as_view()),
    re_path("", index.UnknownAddress.as_view()),
]
