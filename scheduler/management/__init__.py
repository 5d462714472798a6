"""Management commands for staff, and modules that the commands share."""
