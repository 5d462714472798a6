"""Endpoints of the caller's own consents and team."""
