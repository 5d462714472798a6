"""The URLs of the public pages of leaderboards, accounts and badges."""

from __future__ import annotations

from django.urls import path

from scheduler.web.boards import badges, public_accounts, views

urlpatterns = [
    path("accounts/<int:account_id>/", public_accounts.public_account, name="public_account"),
    path(
        "accounts/<int:account_id>/certificate/",
        public_accounts.public_certificate,
        name="public_certificate",
    ),
    path("account/certificate/", public_accounts.certificate, name="account_certificate"),
    path("badges/", badges.badge_list, name="badge_list"),
    path("badges/<int:badge_id>.svg", badges.badge_image, name="badge_image"),
    path("leaderboards/", views.accounts, name="leaderboard_accounts"),
    path("leaderboards/computers/", views.computers, name="leaderboard_computers"),
    path("leaderboards/teams/", views.teams, name="leaderboard_teams"),
    path("statistics/credit/", views.project_credit, name="project_credit"),
    path("statistics/computers/", views.hardware, name="hardware_statistics"),
]
