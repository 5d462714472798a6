"""Manages accounts, keys, tokens, roles, quotas, log-in limits and the audit log."""
