"""Checks of project conventions that no linter has."""
