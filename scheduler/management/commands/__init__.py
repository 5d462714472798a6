"""Management commands; each module is named as its command."""
