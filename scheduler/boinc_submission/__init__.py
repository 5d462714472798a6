"""BOINC's remote submission: web RPCs, job files, templates."""
