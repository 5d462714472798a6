"""Imports and exports the task files and task lists of TDF2 (docs/task-lists.md)."""
