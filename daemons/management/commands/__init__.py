"""Management commands that run the daemons, and tools for science code."""
