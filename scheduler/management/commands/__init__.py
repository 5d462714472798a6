"""Management commands; each module has the name of its command."""
