"""Statements used by daemons only, one per file."""
