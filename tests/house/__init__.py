"""The rules of the house that no linter has."""
