"""Accounts, keys, tokens, roles, quotas, the login throttle, the audit log."""
