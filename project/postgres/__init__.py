"""Adapts Django's PostgreSQL engine to the embedded server."""
