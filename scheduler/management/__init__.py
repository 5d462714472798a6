"""Management commands for staff, and what they share."""
