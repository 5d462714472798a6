"""URLs of BOINC's web RPCs; `project.routing` routes clients' other requests."""

from __future__ import annotations

from django.urls import path

from scheduler.boinc import views
from scheduler.boinc.pages import news_feeds, project, shown_accounts, shown_teams

urlpatterns = [
    path("get_project_config.php", views.get_project_config, name="get_project_config"),
    path("lookup_account.php", views.lookup_account, name="lookup_account"),
    path("create_account.php", views.create_account, name="create_account"),
    path("login_token_lookup.php", views.login_token_lookup, name="login_token_lookup"),
    path("am_get_info.php", shown_accounts.am_get_info, name="am_get_info"),
    path("am_set_info.php", shown_accounts.am_set_info, name="am_set_info"),
    path("am_set_host_info.php", shown_accounts.am_set_host_info, name="am_set_host_info"),
    path("show_user.php", shown_accounts.show_user, name="show_user"),
    path("team_lookup.php", shown_teams.team_lookup, name="team_lookup"),
    path("team_email_list.php", shown_teams.team_email_list, name="team_email_list"),
    path("server_status.php", project.server_status, name="server_status"),
    path("apps.php", project.apps, name="apps"),
    path("notices.php", news_feeds.notices, name="notices"),
    path("rss_main.php", news_feeds.rss_main, name="rss_main"),
]
