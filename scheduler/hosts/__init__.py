"""Volunteers' computers: recognition, denial, merging and lists of hosts."""
