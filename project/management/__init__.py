"""Management commands of the project package."""
