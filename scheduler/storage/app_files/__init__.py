"""Reads packages, archives and app trees, and returns the launcher."""
