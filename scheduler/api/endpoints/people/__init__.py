"""Endpoints of the caller's own consents, team, computers and results."""
