"""Pure functions that decide which results a host receives."""
