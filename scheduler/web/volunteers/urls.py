"""The URLs of the pages of a volunteer's computers and results."""

from __future__ import annotations

from django.urls import path

from scheduler.web.volunteers import preferences, views, workunits

urlpatterns = [
    path("account/computers/", views.computers, name="account_computers"),
    path("account/computers/<int:host_id>/", views.computer, name="account_computer"),
    path(
        "account/computers/<int:host_id>/merge/",
        views.merge_computer,
        name="account_computer_merge",
    ),
    path(
        "account/computers/<int:host_id>/delete/",
        views.delete_computer,
        name="account_computer_delete",
    ),
    path(
        "account/computers/<int:host_id>/results/",
        views.computer_results,
        name="account_computer_results",
    ),
    path("account/results/", views.results, name="account_results"),
    path("account/results/<int:result_id>/", views.result, name="account_result"),
    path("account/workunits/<int:workunit_id>/", workunits.workunit, name="account_workunit"),
    path(
        "account/preferences/computing/",
        preferences.computing,
        name="account_computing_preferences",
    ),
    path("account/preferences/project/", preferences.project, name="account_project_preferences"),
]
