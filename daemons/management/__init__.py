"""Management commands that run daemons and test validators."""
