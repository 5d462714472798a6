"""The identities at other sites with which people log in to their accounts."""
