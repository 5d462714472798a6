"""Reads: rows in, facts or plain dicts out."""
