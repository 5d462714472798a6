"""The URLs of the public pages of leaderboards."""

from __future__ import annotations

from django.urls import path

from scheduler.web.boards import views

urlpatterns = [
    path("leaderboards/", views.accounts, name="leaderboard_accounts"),
    path("leaderboards/computers/", views.computers, name="leaderboard_computers"),
    path("leaderboards/teams/", views.teams, name="leaderboard_teams"),
]
