"""Recognizes, denies, merges and lists hosts, the computers of volunteers."""
