"""Statements that return violations; the first line of each is the invariant."""
