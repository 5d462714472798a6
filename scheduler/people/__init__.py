"""Accounts, keys, tokens, roles, quotas, the log-in throttle and the audit log."""
