"""The URLs of the public pages of leaderboards and accounts."""

from __future__ import annotations

from django.urls import path

from scheduler.web.boards import public_accounts, views

urlpatterns = [
    path("accounts/<int:account_id>/", public_accounts.public_account, name="public_account"),
    path(
        "accounts/<int:account_id>/certificate/",
        public_accounts.public_certificate,
        name="public_certificate",
    ),
    path("account/certificate/", public_accounts.certificate, name="account_certificate"),
    path("leaderboards/", views.accounts, name="leaderboard_accounts"),
    path("leaderboards/computers/", views.computers, name="leaderboard_computers"),
    path("leaderboards/teams/", views.teams, name="leaderboard_teams"),
    path("statistics/computers/", views.hardware, name="hardware_statistics"),
]
