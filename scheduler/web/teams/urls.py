"""The URLs of the pages of teams."""

from __future__ import annotations

from django.urls import path

from scheduler.web.teams import administrators, own_team, views

urlpatterns = [
    path("teams/", views.team_list, name="teams"),
    path("teams/new/", own_team.create, name="team_create"),
    path("teams/<int:team_id>/", views.team, name="team"),
    path("teams/<int:team_id>/edit/", own_team.edit, name="team_edit"),
    path("teams/<int:team_id>/join/", own_team.join, name="team_join"),
    path("teams/<int:team_id>/leave/", own_team.leave, name="team_leave"),
    path("teams/<int:team_id>/delete/", own_team.delete, name="team_delete"),
    path("teams/<int:team_id>/foundership/", own_team.foundership, name="team_foundership"),
    path("teams/<int:team_id>/resign/", administrators.resign, name="team_resign"),
    path("teams/<int:team_id>/members/<int:account_id>/", own_team.member, name="team_member"),
    path(
        "teams/<int:team_id>/members/<int:account_id>/administrator/",
        administrators.administrator,
        name="team_administrator",
    ),
    path("team_display.php", views.team_display, name="team_display"),
]
