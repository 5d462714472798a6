"""Formats values for the pages of the admin."""
