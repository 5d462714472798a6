"""Backs up, restores and upgrades a project, and changes its public address."""
