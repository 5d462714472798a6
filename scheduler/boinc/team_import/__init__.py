"""Imports BOINC-wide teams, which exist on all projects.

`team_imports.import_teams` reads BOINC's file `boinc_teams.xml`, which the operator has fetched.
"""
